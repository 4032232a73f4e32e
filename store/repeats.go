package store

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// repeatTables are hash tables of mayRepeat, used again.
var repeatTables = sync.Pool{New: func() any { return new([]uint64) }}

// pooledRepeatsMax is the largest table kept for another call, in slots.
const pooledRepeatsMax = 1 << 13

// mayRepeat says whether an id may occur twice among the segment's hashes and those
// withheld. It compares hashes folded to 64 bits, so it may say yes in vain (SQL then
// looks), and no only where all differ. In SQL the same count takes some 20 µs for a
// hundred ids, under the partition's lock.
func (s *Segment) mayRepeat() bool {
	n := len(s.Hashes) + len(s.Withheld)
	if n < 2 {
		return false
	}
	size := 1 << bits.Len(uint(2*n-1))
	p := repeatTables.Get().(*[]uint64)
	if cap(*p) < size {
		*p = make([]uint64, size)
	}
	table := (*p)[:size]
	clear(table)
	if size <= pooledRepeatsMax {
		defer repeatTables.Put(p)
	}
	mask := uint64(size - 1)
	seen := func(h *[16]byte) bool {
		if *h == ([16]byte{}) { // minted
			return false
		}
		k := binary.BigEndian.Uint64(h[:8]) ^ bits.RotateLeft64(binary.BigEndian.Uint64(h[8:]), 32)
		k = max(k, 1) // 0 is an empty slot
		for i := k >> 32 & mask; ; i = (i + 1) & mask {
			switch table[i] {
			case 0:
				table[i] = k
				return false
			case k:
				return true
			}
		}
	}
	for i := range s.Hashes {
		if seen(&s.Hashes[i]) {
			return true
		}
	}
	for i := range s.Withheld {
		if seen(&s.Withheld[i]) {
			return true
		}
	}
	return false
}
