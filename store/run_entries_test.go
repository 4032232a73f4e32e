package store_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"queenmq/store"
)

// TestRunIsSortedAndCutBetweenHashes: ascending, complete, and no hash is in two blocks.
func TestRunIsSortedAndCutBetweenHashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		shape := rapid.SampledFrom([]string{"spread", "alike", "few"}).Draw(t, "shape")
		in := make([][16]byte, rapid.IntRange(0, 500).Draw(t, "n"))
		for i := range in {
			switch shape {
			case "spread":
				binary.BigEndian.PutUint64(in[i][:], rng.Uint64())
			case "alike":
				binary.BigEndian.PutUint64(in[i][8:], rng.Uint64())
			case "few":
				in[i][rng.IntN(16)] = byte(rng.IntN(3))
			}
		}
		perBlock := rapid.IntRange(1, 100).Draw(t, "per block")
		hashes, offsets, ends := store.SortRun(in, perBlock)
		if len(hashes) != len(in) || len(offsets) != len(in) {
			t.Fatalf("%d hashes and %d offsets of %d", len(hashes), len(offsets), len(in))
		}
		seen := make([]bool, len(in))
		for i, h := range hashes {
			if in[offsets[i]] != h || seen[offsets[i]] {
				t.Fatalf("place %d has offset %d, twice or of another hash", i, offsets[i])
			}
			seen[offsets[i]] = true
			if i == 0 {
				continue
			}
			if c := bytes.Compare(hashes[i-1][:], h[:]); c > 0 || c == 0 && offsets[i-1] > offsets[i] {
				t.Fatalf("place %d comes after a greater one", i)
			}
		}
		begin := int32(0)
		for i, end := range ends {
			block := hashes[begin:end]
			if n := len(slices.Compact(slices.Clone(block))); n > perBlock || n < perBlock && i < len(ends)-1 {
				t.Fatalf("a block of %d different hashes, not %d", n, perBlock)
			}
			if begin > 0 && hashes[begin-1] == hashes[begin] {
				t.Fatal("a hash is in two blocks")
			}
			begin = end
		}
		if int(begin) != len(in) {
			t.Fatalf("blocks end at %d of %d", begin, len(in))
		}
	})
}
