package store

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// runBlockIDs is how many entries a block of a run has on average, of 8 bytes each. Hardly
// one in ten thousand has more than the 245 that stay in line.
const runBlockIDs = 190

// runEntries are what a run consists of, in one number each: the first 32 bits of a hash,
// its key, and the offset it was stored at, counted from the run's first. They compare by
// key, then by offset. Hashes may share a key: what a run finds is confirmed in the sidecar.
type runEntries []int64

// runEntry makes an entry; off is at most a run's span, see spansRun.
func runEntry(h *[16]byte, off int64) int64 {
	return int64(binary.BigEndian.Uint32(h[:4]))<<32 | off
}

// blockOf says which of so many blocks has an entry: each has an equal part of all keys, in
// their order. runs_probe_1 says the same.
func blockOf(entry int64, blocks int) int {
	return int(((entry>>32 + 1<<31) * int64(blocks)) >> 32)
}

// sorted returns the entries in ascending order, and the end of each block, of
// about so many on average. Hashes are spread evenly, so entries are put into buckets by
// prefix first.
func (e runEntries) sorted(perBlock int) (sorted []int64, ends []int32) {
	const perBucket = 8
	shift := 64 - max(1, bits.Len(uint(len(e)/perBucket)))
	bucket := func(x int64) uint64 { return (uint64(x) ^ 1<<63) >> shift }
	to := make([]int32, 1<<(64-shift)+1) // by prefix: where its next entry goes
	for _, x := range e {
		to[bucket(x)+1]++
	}
	for i := 1; i < len(to); i++ {
		to[i] += to[i-1]
	}
	sorted = make([]int64, len(e))
	for _, x := range e {
		at := &to[bucket(x)]
		sorted[*at] = x
		*at++
	}
	begin := int32(0)
	for _, end := range to[:len(to)-1] { // each now stands at its end
		slices.Sort(sorted[begin:end])
		begin = end
	}
	ends = make([]int32, (len(sorted)+perBlock-1)/perBlock)
	for i, x := range sorted {
		ends[blockOf(x, len(ends))] = int32(i + 1)
	}
	for i := 1; i < len(ends); i++ {
		ends[i] = max(ends[i], ends[i-1]) // of one without entries
	}
	return sorted, ends
}
