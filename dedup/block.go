package dedup

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// blockIDsMax is the size of a sealed block. A power of two: a buffer that grew
// to it by doubling is handed off as it is.
const blockIDsMax = 4096

// leafIDs is how many consecutive ids of a block share a leaf: what is known of
// an id's place, and so about how many SQL has to look through for one that a
// block holds. The number of its leaf takes a key's last bits.
const (
	leafIDs  = blockIDsMax >> leafBits
	leafBits = 4
	leafMask = 1<<leafBits - 1
)

// hotIDsMin is what a buffer has room for at first.
const hotIDsMin = 8

// key is what memory keeps of a hash: its first 60 bits. That two different ids
// share them costs one narrow probe (10^7 ids: once in 10^11 look-ups); it never
// costs a verdict, because memory gives none.
func (h Hash) key() uint64 { return binary.BigEndian.Uint64(h[:8]) &^ leafMask }

// Span is a run of offsets, both ends included.
type Span struct{ From, To int64 }

// block is a sealed run of ids, sorted by key, immutable.
type block struct {
	leaves
	newest int64    // creation time of the newest, Unix nanoseconds
	keys   []uint64 // sorted; each with the number of its leaf
}

// leaves are consecutive runs of offsets: where each begins, and where the last ends.
type leaves struct {
	starts []int64
	to     int64
}

func (l *leaves) span(i int) Span {
	if i+1 < len(l.starts) {
		return Span{l.starts[i], l.starts[i+1] - 1}
	}
	return Span{l.starts[i], l.to}
}

// bytes is what a block costs, its place in the ring included.
func (b *block) bytes() int64 {
	return int64(unsafe.Sizeof(*b)) + 8*int64(cap(b.keys)) + 8*int64(cap(b.starts)) + int64(unsafe.Sizeof(b))
}

// find appends the span of each leaf that holds the key.
func (b *block) find(k uint64, hits []hit) []hit {
	for i := lowerBound(b.keys, k); i < len(b.keys) && b.keys[i]&^leafMask == k; i++ {
		hits = append(hits, hit{k, b.span(int(b.keys[i] & leafMask))})
	}
	return hits
}

// lowerBound is the index of the first key not below k. It looks where a
// uniformly spread key should be, walks a little, and bisects what is left if the
// keys are not spread like that.
func lowerBound(keys []uint64, k uint64) int {
	const walk = 64
	n := len(keys)
	if n == 0 {
		return 0
	}
	hi, _ := bits.Mul64(k, uint64(n))
	i := int(hi)
	if keys[i] < k {
		for end := min(n, i+walk); i < end && keys[i] < k; {
			i++
		}
		if i < n && keys[i] < k {
			rest, _ := slices.BinarySearch(keys[i:], k)
			i += rest
		}
		return i
	}
	for end := max(0, i-walk); i > end && keys[i-1] >= k; {
		i--
	}
	if i > 0 && keys[i-1] >= k {
		i, _ = slices.BinarySearch(keys[:i], k)
	}
	return i
}

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
		seen[k>>10&63] |= 1 << (k >> leafBits & 63)
	}
	for i, k := range h.keys {
		if seen[k>>10&63]&(1<<(k>>leafBits&63)) == 0 {
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
