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
		model := map[uint64][]int64{}
		for i, k := range keys {
			k &^= leafMask
			h.add(k, int64(i), int64(i))
			model[k] = append(model[k], int64(i))
		}
		ask := append(keysLike(t, "asked", 200), keys...)
		for _, k := range keys {
			ask = append(ask, k-leafMask-1, k+leafMask+1)
		}
		check := func(what string, find func(k uint64) []hit) {
			for _, k := range append(ask, 0, ^uint64(0)) {
				k &^= leafMask
				var want []Span
				for _, off := range model[k] {
					from := off / leafIDs * leafIDs
					want = append(want, Span{from, min(from+leafIDs, int64(len(keys))) - 1})
				}
				var got []Span
				for _, at := range find(k) {
					if at.key != k {
						t.Fatalf("%s: %x is found as %x", what, k, at.key)
					}
					got = append(got, at.Span)
				}
				if got = mergeSpans(got); !slices.Equal(got, mergeSpans(want)) {
					t.Fatalf("%s: %x is found in %v among %d keys, want %v", what, k, got, len(keys), want)
				}
			}
		}
		check("hot", func(k uint64) []hit { return h.find([]uint64{k}, nil) })
		b := h.seal()
		check("sealed", func(k uint64) []hit { return b.find(k, nil) })
		var parts []*block
		for off, rest := int64(0), keys; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part") / leafIDs * leafIDs // whole leaves, as above
			if n == 0 {
				n = min(leafIDs, len(rest))
			}
			for _, k := range rest[:n] {
				h.add(k&^leafMask, off, off)
				off++
			}
			parts, rest = append(parts, h.seal()), rest[n:]
		}
		all := merge(parts)
		check("merged", func(k uint64) []hit { return all.findAll([]uint64{k}, nil) })
		slices.Sort(ask)
		at := 0
		for _, got := range all.findAll(ask, nil) { // many at once: in the order asked, each found
			for ask[at] != got.key {
				if at++; at == len(ask) {
					t.Fatalf("%x is found and was not asked for", got.key)
				}
			}
		}
		if !slices.IsSorted(all.keys) || len(all.keys) != len(keys) || all.to != b.to || all.newest != b.newest || !slices.Equal(all.starts, b.starts) {
			t.Fatalf("merged: %d keys of %d, leaves at %v, up to %d, newest %d", len(all.keys), len(keys), all.starts, all.to, all.newest)
		}
		if !slices.IsSorted(b.keys) || b.starts[0] != 0 || b.to != int64(len(keys)-1) || b.newest != int64(len(keys)-1) {
			t.Fatalf("from %d to %d, newest %d of %d keys", b.starts[0], b.to, b.newest, len(keys))
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
		h.add(uint64(i)<<leafBits, int64(i), 0)
	}
	first := &h.keys[0]
	if cap(h.keys) != blockIDsMax {
		t.Fatalf("doubling came to %d, not to a block of %d", cap(h.keys), blockIDsMax)
	}
	if b := h.seal(); &b.keys[0] != first {
		t.Error("the keys were copied")
	}
	h.add(1<<leafBits, 0, 0)
	if n := h.bytes(); n > 72 {
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
		h.add(uint64(i)<<leafBits, int64(i), 0)
	}
	if n := h.seal().bytes(); n != 4096*8+256*8+96+8 {
		t.Errorf("a full block is counted as %d bytes", n)
	}
}
