package dedup

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// blockIDsMax is the size of a sealed block, and so the most ids a push must
// look through in SQL for one that a block holds. A power of two: a buffer that
// grew to it by doubling is handed off as it is.
const blockIDsMax = 4096

// hotIDsMin is what a buffer has room for at first.
const hotIDsMin = 8

// key is what memory keeps of a hash: its first half. That two different ids
// share it costs one narrow probe (10^7 ids: once in 10^12 look-ups); it never
// costs a verdict, because memory gives none.
func (h Hash) key() uint64 { return binary.BigEndian.Uint64(h[:8]) }

// Span is a run of offsets, both ends included.
type Span struct{ From, To int64 }

// block is a sealed run of ids, sorted by key, immutable.
type block struct {
	span   Span     // of the ids' offsets
	newest int64    // creation time of the newest, Unix nanoseconds
	keys   []uint64 // sorted; cap == len or the hand-off's full buffer
}

// bytes is what a block costs, its place in the ring included.
func (b *block) bytes() int64 {
	return int64(unsafe.Sizeof(*b)) + 8*int64(cap(b.keys)) + int64(unsafe.Sizeof(b))
}

// has reports whether the block holds the key.
func (b *block) has(k uint64) bool { return hasSorted(b.keys, k) }

// hasSorted looks where a uniformly spread key should be, walks a little, and
// bisects what is left if the keys are not spread like that.
func hasSorted(keys []uint64, k uint64) bool {
	const walk = 64
	n := len(keys)
	if n == 0 {
		return false
	}
	hi, _ := bits.Mul64(k, uint64(n))
	i := int(hi)
	if keys[i] < k {
		end := min(n, i+walk)
		for i < end && keys[i] < k {
			i++
		}
		if i == n || keys[i] >= k {
			return i < n && keys[i] == k
		}
		_, found := slices.BinarySearch(keys[i:], k)
		return found
	}
	end := max(0, i-walk)
	for i > end && keys[i] > k {
		i--
	}
	if keys[i] <= k || i == 0 {
		return keys[i] == k
	}
	_, found := slices.BinarySearch(keys[:i], k)
	return found
}

// hot is the mutable end of an entry: ids in order of arrival. It grows from
// small by doubling and never beyond a block.
type hot struct {
	span           Span
	oldest, newest int64
	keys           []uint64
}

// add appends one id; the caller seals before it is full.
func (h *hot) add(k uint64, offset, created int64) {
	if len(h.keys) == 0 {
		h.span.From, h.oldest = offset, created
	}
	if n := len(h.keys); n == cap(h.keys) { // append alone would not double
		h.keys = append(make([]uint64, 0, max(hotIDsMin, 2*n)), h.keys...)
	}
	h.keys = append(h.keys, k)
	h.span.To, h.newest = offset, created
}

// seal turns the buffer into a block and leaves an empty one. A full buffer is
// handed off; a part-full one is copied, so that a block never holds more than it counts.
func (h *hot) seal() *block {
	keys := h.keys
	if len(keys) < cap(keys) {
		keys = slices.Clone(keys)
		keys = slices.Clip(keys)
	}
	slices.Sort(keys)
	b := &block{span: h.span, newest: h.newest, keys: keys}
	*h = hot{}
	return b
}

// bytes is what the buffer costs beside its place in the entry.
func (h *hot) bytes() int64 { return 8 * int64(cap(h.keys)) }
