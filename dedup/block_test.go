package dedup

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// keysLike draws keys that are spread as hashes are, or not at all.
func keysLike(t *rapid.T, label string, n int) []uint64 {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, label), 1))
	base, shape := rng.Uint64(), rapid.SampledFrom([]string{"spread", "low", "high", "near", "few"}).Draw(t, label+" shape")
	keys := make([]uint64, n)
	for i := range keys {
		switch shape {
		case "spread":
			keys[i] = rng.Uint64()
		case "low":
			keys[i] = rng.Uint64() >> 50
		case "high":
			keys[i] = ^(rng.Uint64() >> 50)
		case "near":
			keys[i] = base + uint64(i)
		case "few":
			keys[i] = base + uint64(rng.IntN(1+n/4))
		}
	}
	return keys
}

func TestBlockFindsWhatItHoldsAndNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := keysLike(t, "keys", rapid.IntRange(1, 600).Draw(t, "n"))
		var h hot
		model := map[uint64]bool{}
		for i, k := range keys {
			h.add(k, int64(i), int64(i))
			model[k] = true
		}
		b := h.seal()
		ask := append(keysLike(t, "asked", 200), keys...)
		for _, k := range keys {
			ask = append(ask, k-1, k+1)
		}
		for _, k := range append(ask, 0, ^uint64(0)) {
			if b.has(k) != model[k] {
				t.Fatalf("has(%x) is %v among %d keys", k, b.has(k), len(keys))
			}
		}
		if !slices.IsSorted(b.keys) || b.span != (Span{0, int64(len(keys) - 1)}) || b.newest != int64(len(keys)-1) {
			t.Fatalf("span %v, newest %d of %d keys", b.span, b.newest, len(keys))
		}
		if len(h.keys) != 0 || cap(h.keys) != 0 {
			t.Fatal("the buffer still has what it handed off")
		}
	})
}

func TestFullBufferIsHandedOffWithoutCopy(t *testing.T) {
	t.Parallel()
	var h hot
	for i := range blockIDsMax {
		h.add(uint64(i), int64(i), 0)
	}
	first := &h.keys[0]
	if cap(h.keys) != blockIDsMax {
		t.Fatalf("doubling came to %d, not to a block of %d", cap(h.keys), blockIDsMax)
	}
	if b := h.seal(); &b.keys[0] != first {
		t.Error("the keys were copied")
	}
	h.add(1, 0, 0)
	if n := h.bytes(); n > 64 {
		t.Errorf("a buffer of one id takes %d bytes", n)
	}
	if b := h.seal(); cap(b.keys) != 1 {
		t.Errorf("a block of one id has room for %d", cap(b.keys))
	}
}

func TestBlockSizeIsPinned(t *testing.T) {
	t.Parallel()
	var h hot
	for i := range blockIDsMax {
		h.add(uint64(i), int64(i), 0)
	}
	if n := h.seal().bytes(); n != 4096*8+48+8 {
		t.Errorf("a full block is counted as %d bytes", n)
	}
}
