package dedup

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func keysOf(h []Hash) []uint64 {
	keys := make([]uint64, len(h))
	for i := range h {
		keys[i] = h[i].key()
	}
	return keys
}

// A sieve keeps back nearly every id it does not have, also when the next is
// due, and none of those it has.
func TestSieveIsAsPreciseAsItsBits(t *testing.T) {
	t.Parallel()
	const n = 100_000
	rng := rand.NewChaCha8([32]byte{3})
	blocks := spreadBlocks(rng, n/1000, 1000)
	s := newSieve(blocks, n)
	if got, want := s.bytes(), sieveBytes(n); got != want || want > n*sieveBitsPerID/8+200 {
		t.Errorf("it has %d bytes, planned were %d", got, want)
	}
	passed := func(want float64) {
		t.Helper()
		if got := float64(len(s.pass(keysOf(randomHashes(rng, n))))) / n; got > want {
			t.Errorf("%.4f of the ids it does not have pass, want %.4f at most", got, want)
		}
	}
	passed(0.002)
	added := keysOf(randomHashes(rng, n))
	s.addAll(added)
	passed(0.05)
	for _, b := range blocks {
		keys := slices.Clone(b.keys)
		for i := range keys {
			keys[i] &^= leafMask
		}
		if got := s.pass(slices.Clone(keys)); !slices.Equal(got, keys) {
			t.Fatalf("%d of %d ids of a block pass", len(got), len(keys))
		}
	}
	if got := s.pass(slices.Clone(added)); !slices.Equal(got, added) {
		t.Fatalf("%d of %d added ids pass", len(got), len(added))
	}
}

// What passes keeps its order, and what is between is left out.
func TestSievePassesInOrder(t *testing.T) {
	t.Parallel()
	rng := rand.NewChaCha8([32]byte{4})
	in, out := keysOf(randomHashes(rng, 50)), keysOf(randomHashes(rng, 50))
	s := newSieve(nil, 10_000)
	s.addAll(in)
	var mixed []uint64
	for i := range in {
		mixed = append(mixed, out[i], in[i])
	}
	if got := s.pass(mixed); !slices.Equal(got, in) {
		t.Errorf("%d of 50 pass, or in another order", len(got))
	}
}

// A memory makes its sieve anew when as much was added as it was made for, and has
// none where filters, or no blocks, are.
func TestSieveIsMadeAnewInTime(t *testing.T) {
	t.Parallel()
	m := born(-1, 1<<40)
	rng := rand.NewChaCha8([32]byte{5})
	off := int64(0)
	store := func(n int) {
		for _, k := range keysOf(randomHashes(rng, n)) {
			m.add(k, off, off)
			off++
		}
		m.verified = off - 1
	}
	sift := func() {
		t.Helper()
		p, ok := m.nextSieve(sieveIDsMin)
		if !ok {
			t.Fatal("no sieve is due")
		}
		m.sift(newSieve(p.blocks, p.ids), p.blocks[len(p.blocks)-1].to)
	}
	notDue := func(why string) {
		t.Helper()
		if p, ok := m.nextSieve(sieveIDsMin); ok {
			t.Errorf("%s: one of %d ids is due", why, p.ids)
		}
	}
	store(blockIDsMax)
	notDue("few ids")
	store(blockIDsMax)
	sift()
	notDue("just made")
	store(2*blockIDsMax - 1)
	notDue("as many but one were added")
	store(1)
	sift()
	if want := sieveBytes(4 * blockIDsMax); m.sieve.bytes() != want {
		t.Errorf("the second has %d bytes, want %d", m.sieve.bytes(), want)
	}
	size := m.size
	if !m.thin(0) || m.sieve != nil || m.size != size-sieveBytes(4*blockIDsMax) {
		t.Errorf("short of bytes the sieve stays, or %d of %d bytes", m.size, size)
	}
	sift()
	m.expire(off)
	if m.sieve != nil {
		t.Error("a sieve of no blocks is kept")
	}
}
