package store

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// runBlockHashes is how many different hashes a block of a run has: 16 + 4 bytes
// each, four rows to a page, none of them toasted.
const runBlockHashes = 90

// runEntry is a hash, in two halves that compare like its bytes, and the offset
// it was stored at, counted from its run's first.
type runEntry struct {
	hi, lo uint64
	off    int32
}

type runEntries []runEntry

func (e *runEntries) add(h [16]byte, off int32) {
	*e = append(*e, runEntry{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:]), off})
}

func (e runEntry) compare(o runEntry) int {
	return cmp.Or(cmp.Compare(e.hi, o.hi), cmp.Compare(e.lo, o.lo), cmp.Compare(e.off, o.off))
}

// sorted returns hashes and offsets in ascending order of both, and the end of
// each block: so many different hashes, equal ones together. Hashes are spread
// evenly, so entries are put into buckets by prefix first.
func (e runEntries) sorted(perBlock int) (hashes uuidArray, offsets, ends []int32) {
	const perBucket = 8
	shift := 64 - max(1, bits.Len(uint(len(e)/perBucket)))
	to := make([]int32, 1<<(64-shift)+1) // by prefix: where its next entry goes
	for i := range e {
		to[e[i].hi>>shift+1]++
	}
	for i := 1; i < len(to); i++ {
		to[i] += to[i-1]
	}
	all := make(runEntries, len(e))
	for i := range e {
		at := &to[e[i].hi>>shift]
		all[*at] = e[i]
		*at++
	}
	begin := int32(0)
	for _, end := range to[:len(to)-1] { // each now stands at its end
		slices.SortFunc(all[begin:end], runEntry.compare)
		begin = end
	}
	hashes, offsets = make(uuidArray, len(all)), make([]int32, len(all))
	different := 0
	for i, x := range all {
		if i == 0 || x.hi != all[i-1].hi || x.lo != all[i-1].lo {
			if different == perBlock {
				ends = append(ends, int32(i))
				different = 0
			}
			different++
		}
		binary.BigEndian.PutUint64(hashes[i][:8], x.hi)
		binary.BigEndian.PutUint64(hashes[i][8:], x.lo)
		offsets[i] = x.off
	}
	if len(all) > 0 {
		ends = append(ends, int32(len(all)))
	}
	return hashes, offsets, ends
}
