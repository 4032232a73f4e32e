package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"queenmq/store"
)

// TestRunIsSortedAndCutByKey: ascending, complete, and each entry in the block its key belongs to.
func TestRunIsSortedAndCutByKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		shape := rapid.SampledFrom([]string{"spread", "alike", "few"}).Draw(t, "shape")
		in := make([]int64, rapid.IntRange(0, 500).Draw(t, "n"))
		for i := range in {
			switch shape {
			case "spread":
				in[i] = int64(rng.Uint64())
			case "alike":
				in[i] = rng.Int64N(1 << 40)
			case "few":
				in[i] = rng.Int64N(5) - 2
			}
		}
		want := slices.Sorted(slices.Values(in))
		entries, ends := store.SortRun(in, rapid.IntRange(1, 100).Draw(t, "per block"))
		if !slices.Equal(entries, want) {
			t.Fatalf("entries %d, want %d", entries, want)
		}
		begin := int32(0)
		for i, end := range ends {
			for _, e := range entries[begin:end] {
				// Of 2^32 keys from the smallest on, each block has an equal part.
				if part := (float64(e>>32) + 1<<31) / (1 << 32) * float64(len(ends)); int(part) != i {
					t.Fatalf("entry %d is in block %d of %d", e, i, len(ends))
				}
			}
			begin = end
		}
		if int(begin) != len(in) {
			t.Fatalf("blocks end at %d of %d", begin, len(in))
		}
	})
}
