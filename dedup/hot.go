package dedup

import (
	"slices"
)

// hotIDsMin is what a buffer has room for at first.
const hotIDsMin = 8

// hot is the mutable end of an entry: ids in order of arrival. It grows from
// small by doubling and never beyond a block.
type hot struct {
	leaves
	oldest, newest int64
	keys           []uint64
}

// add appends one id; the caller seals before it is full.
func (h *hot) add(k uint64, offset, created int64) {
	n := len(h.keys)
	if n == 0 {
		h.oldest = created
	}
	if n%leafIDs == 0 {
		h.starts = append(h.starts, offset)
	}
	if n == cap(h.keys) { // append alone would not double
		h.keys = append(make([]uint64, 0, max(hotIDsMin, 2*n)), h.keys...)
	}
	h.keys = append(h.keys, k)
	h.to, h.newest = offset, created
}

// find appends the span of each leaf that holds one of the sorted keys. It scans
// the buffer once, however many keys are asked for.
func (h *hot) find(keys []uint64, hits []hit) []hit {
	var seen [64]uint64 // one bit per twelve bits of a key
	for _, k := range keys {
		seen[k>>(leafBits+6)&63] |= 1 << (k >> leafBits & 63)
	}
	for i, k := range h.keys {
		if seen[k>>(leafBits+6)&63]&(1<<(k>>leafBits&63)) == 0 {
			continue
		}
		if _, ok := slices.BinarySearch(keys, k); ok {
			hits = append(hits, hit{k, h.span(i / leafIDs)})
		}
	}
	return hits
}

// seal turns the buffer into a block and leaves an empty one. A full buffer is
// handed off; a part-full one is copied, so that a block never holds more than it counts.
func (h *hot) seal() *block {
	keys := h.keys
	if len(keys) < cap(keys) {
		keys = slices.Clip(slices.Clone(keys))
	}
	for i := range keys {
		keys[i] |= uint64(i / leafIDs)
	}
	slices.Sort(keys)
	b := &block{leaves: h.leaves, newest: h.newest, keys: keys}
	*h = hot{}
	return b
}

// bytes is what the buffer costs beside its place in the entry.
func (h *hot) bytes() int64 { return 8 * int64(cap(h.keys)+cap(h.starts)) }
