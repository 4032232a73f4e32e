package store

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestRepeatsAreNeverMissed compares with a map: of a "no" SQL makes nothing of its own.
func TestRepeatsAreNeverMissed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Uint64Range(0, rapid.SampledFrom([]uint64{3, 300, 1 << 62}).Draw(t, "of"))
		half := rapid.SampledFrom([]int{0, 8}).Draw(t, "half")
		most := rapid.SampledFrom([]int{1, 2, 200}).Draw(t, "most")
		seen, twice := map[[16]byte]bool{}, false
		draw := func(what string) (out [][16]byte) {
			for _, v := range rapid.SliceOfN(id, 0, most).Draw(t, what) {
				var h [16]byte
				binary.BigEndian.PutUint64(h[half:], v)
				twice = twice || v != 0 && seen[h]
				seen[h] = true
				out = append(out, h)
			}
			return out
		}
		s := Segment{Hashes: draw("hashes"), Withheld: draw("withheld")}
		if got := s.mayRepeat(); got != twice {
			t.Fatalf("%v, %v: an id twice is %v, said %v", s.Hashes, s.Withheld, twice, got)
		}
	})
}
