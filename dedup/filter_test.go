package dedup

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// spreadBlocks makes n blocks of size ids each, at consecutive offsets.
func spreadBlocks(rng *rand.ChaCha8, n, size int) []*block {
	bs := make([]*block, n)
	off := int64(0)
	for i := range bs {
		var h hot
		for range size {
			h.add(rng.Uint64()&^leafMask, off, off)
			off++
		}
		bs[i] = h.seal()
	}
	return bs
}

// missing returns a key of the blocks for which the filter does not name every
// leaf that holds it.
func missing(f *filter, blocks []*block) (uint64, bool) {
	for _, b := range blocks {
		for _, k := range b.keys {
			at := b.span(int(k & leafMask))
			if !slices.ContainsFunc(f.find([]uint64{k &^ leafMask}, nil), func(s hit) bool { return s.From <= at.From && at.To <= s.To }) {
				return k, true
			}
		}
	}
	return 0, false
}

func TestFilterNamesEveryLeafThatHoldsAKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var blocks []*block
		off := int64(0)
		var earlier []uint64
		for range rapid.IntRange(1, 40).Draw(t, "blocks") {
			var h hot
			keys := keysLike(t, "keys", rapid.IntRange(1, 700).Draw(t, "n"))
			if len(earlier) > 0 { // ids that occur in more than one block
				keys = append(keys, earlier[:rapid.IntRange(0, min(20, len(earlier))).Draw(t, "again")]...)
			}
			for _, k := range keys {
				h.add(k&^leafMask, off, off)
				off++
			}
			earlier = append(earlier, keys...)
			blocks = append(blocks, h.seal())
		}
		var b builder
		f, err := b.build(t.Context(), blocks, rapid.IntRange(0, planesMax).Draw(t, "planes"))
		if err != nil {
			t.Fatal(err)
		}
		for {
			if k, bad := missing(f, blocks); bad {
				t.Fatalf("%x is not found with %d planes", k, len(f.planes))
			}
			if len(f.planes) == 0 {
				break
			}
			f.thin(len(f.planes) - 1)
		}
		if f.ids != off || f.newest != off-1 {
			t.Fatalf("%d ids, newest %d, of %d", f.ids, f.newest, off)
		}
	})
}

func TestFilterOfManyShardsFindsAll(t *testing.T) {
	t.Parallel()
	blocks := spreadBlocks(rand.NewChaCha8([32]byte{3}), 130, blockIDsMax) // 3 shards' worth in 4
	var b builder
	f, err := b.build(t.Context(), blocks, planesMax)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.shards) != 4 {
		t.Errorf("%d shards", len(f.shards))
	}
	if k, bad := missing(f, blocks); bad {
		t.Errorf("%x is not found", k)
	}
}

// With whatever bits are left, ids/2^bits ids are named in vain, as single
// leaves or as runs of them.
func TestFilterIsAsPreciseAsItsBits(t *testing.T) {
	t.Parallel()
	rng := rand.NewChaCha8([32]byte{5})
	for _, v := range []struct{ blocks, size int }{{256, 256}, {1024, 64}} {
		blocks := spreadBlocks(rng, v.blocks, v.size)
		var b builder
		f, err := b.build(t.Context(), blocks, planesMax)
		if err != nil {
			t.Fatal(err)
		}
		const asked = 1 << 21
		for planes := planesMax; planes >= 0; planes-- {
			f.thin(planes)
			vain, widest := 0, 0
			for range asked {
				if from, to, ok := f.leaf(rng.Uint64() &^ leafMask); ok {
					vain += to - from + 1
					widest = max(widest, to-from+1)
				}
			}
			want := float64(asked) * float64(len(f.starts)) / math.Pow(2, float64(mainBits+2*planes))
			dev := float64(max(1, widest)) * (6*math.Sqrt(want) + 6)
			if float64(vain) > want+dev || float64(vain) < want-dev {
				t.Errorf("%d leaves, %d planes: %d of %d found in vain, want about %.0f", len(f.starts), planes, vain, asked, want)
			}
			if missing := max(0, int(f.leafBits)-8-2*planes); widest > 1<<missing {
				t.Errorf("%d leaves, %d planes: %d leaves were named for one", len(f.starts), planes, widest)
			}
		}
	}
}

func TestFilterCostsWhatTheFormulaSays(t *testing.T) {
	t.Parallel()
	var b builder
	blocks := spreadBlocks(rand.NewChaCha8([32]byte{9}), 64, blockIDsMax)
	for planes := range planesMax + 1 {
		f, err := b.build(t.Context(), blocks, planes)
		if err != nil {
			t.Fatal(err)
		}
		got, guess := float64(f.bytes()), float64(filterBytes(f.ids, planes))
		t.Logf("%d ids, %d bits: %.3f bytes per id", f.ids, mainBits+2*planes, got/float64(f.ids))
		if got > 1.05*guess || got < 0.9*guess {
			t.Errorf("%d planes: %.0f bytes, %.0f were reckoned with", planes, got, guess)
		}
		if max := 0.04 + 1.16*float64(mainBits+2*planes)/8; got/float64(f.ids) > max {
			t.Errorf("%d planes: %.3f bytes per id, want at most %.3f", planes, got/float64(f.ids), max)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		var blocks []*block
		off := int64(0)
		for range rapid.IntRange(1, 6).Draw(t, "blocks") {
			var h hot
			for _, k := range rapid.SliceOfN(rapid.Uint64(), 1, 50).Draw(t, "keys") {
				h.add(k&^leafMask, off, off)
				off++
			}
			blocks = append(blocks, h.seal())
		}
		var b builder
		f, err := b.build(t.Context(), blocks, planesMax)
		if err != nil {
			t.Fatal(err)
		}
		if k, bad := missing(f, blocks); bad {
			t.Fatalf("%x is not found", k)
		}
	}))
}
