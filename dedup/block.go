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
// block holds. The number of its leaf takes a key's last bits. A filter has no room
// for numbers so large: its leaves are some of a block's together.
const (
	leafIDs       = 16
	leafBits      = 16
	leafMask      = 1<<leafBits - 1
	filterLeafLog = 4 // log₂ of the leaves of a block that are one of a filter
)

// A block of a higher level is mergedBlocks of the one below. It has an index that
// says where the keys with a prefix begin, a few of them each, so that a look-up
// fetches about two lines of memory, however many ids there are.
const (
	mergedBlocks   = 4
	bucketKeysLog  = 3  // log₂ of the keys of a bucket, about
	bucketKeysMany = 32 // in a bucket of ids made to look alike: bisect, and sort otherwise
)

// key is what memory keeps of a hash: its first 48 bits. That two different ids
// share them costs one narrow probe (10^7 ids: once in 3·10^7 look-ups); it never
// costs a verdict, because memory gives none.
func (h Hash) key() uint64 { return binary.BigEndian.Uint64(h[:8]) &^ leafMask }

// Span is a run of offsets, both ends included.
type Span struct{ From, To int64 }

// block is a sealed run of ids, sorted by key, immutable.
type block struct {
	leaves
	newest int64    // creation time of the newest, Unix nanoseconds
	keys   []uint64 // sorted; each with the number of its leaf
	index  []uint32 // above level 0: by prefix, the first key with it, and their number at the end
	shift  uint8    // 64 − bits of the prefix
	level  uint8
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
	return int64(unsafe.Sizeof(*b)) + 8*int64(cap(b.keys)) + 8*int64(cap(b.starts)) + 4*int64(cap(b.index)) +
		int64(unsafe.Sizeof(b))
}

// find appends the span of each leaf that holds the key.
func (b *block) find(k uint64, hits []hit) []hit {
	for i := lowerBound(b.keys, k); i < len(b.keys) && b.keys[i]&^leafMask == k; i++ {
		hits = append(hits, hit{k, b.span(int(b.keys[i] & leafMask))})
	}
	return hits
}

// merge makes one block of consecutive ones, which have leafMask+1 leaves at most.
// Keys are spread evenly, so they are sorted by prefix in one pass.
func merge(blocks []*block) *block {
	n, leaves := 0, 0
	for _, b := range blocks {
		n, leaves = n+len(b.keys), leaves+len(b.starts)
	}
	last := blocks[len(blocks)-1]
	out := &block{newest: last.newest, level: last.level + 1, keys: make([]uint64, n)}
	out.to, out.starts = last.to, make([]int64, 0, leaves)
	prefix := max(1, bits.Len(uint(n))-1-bucketKeysLog)
	out.shift = uint8(64 - prefix)
	out.index = make([]uint32, 1<<prefix+1)
	for _, b := range blocks {
		for _, k := range b.keys {
			out.index[k>>out.shift+1]++
		}
	}
	for i := 1; i < len(out.index); i++ {
		out.index[i] += out.index[i-1]
	}
	for _, b := range blocks {
		first := uint64(len(out.starts))
		out.starts = append(out.starts, b.starts...)
		for _, k := range b.keys {
			at := &out.index[k>>out.shift]
			out.keys[*at] = k + first
			*at++
		}
	}
	// Each now stands at its end, which is where the next begins.
	copy(out.index[1:], out.index)
	out.index[0] = 0
	for i := range len(out.index) - 1 {
		sortKeys(out.keys[out.index[i]:out.index[i+1]])
	}
	return out
}

// sortKeys sorts few keys quickly, and many, of ids made to look alike, well.
func sortKeys(keys []uint64) {
	if len(keys) > bucketKeysMany {
		slices.Sort(keys)
		return
	}
	for i := 1; i < len(keys); i++ {
		for j := i; j > 0 && keys[j] < keys[j-1]; j-- {
			keys[j], keys[j-1] = keys[j-1], keys[j]
		}
	}
}

// findAll appends the spans of the leaves that hold one of the keys. It works in
// strides, places first and keys after, so that many lines of memory are fetched at once.
func (b *block) findAll(keys []uint64, hits []hit) []hit {
	if b.index == nil {
		for _, k := range keys {
			hits = b.find(k, hits)
		}
		return hits
	}
	const stride = 16
	var at, to [stride]uint32
	var first [stride]uint64
	for len(keys) > 0 {
		n := min(stride, len(keys))
		for i, k := range keys[:n] {
			p := k >> b.shift
			at[i], to[i] = b.index[p], b.index[p+1]
		}
		for i := range n {
			if at[i] < to[i] {
				first[i] = b.keys[at[i]]
			}
		}
		for i, k := range keys[:n] {
			if at[i] == to[i] || first[i]&^leafMask > k {
				continue
			}
			bucket := b.keys[at[i]:to[i]]
			j := 0
			if len(bucket) > bucketKeysMany {
				j, _ = slices.BinarySearch(bucket, k)
			}
			for ; j < len(bucket) && bucket[j]&^leafMask <= k; j++ {
				if bucket[j]&^leafMask == k {
					hits = append(hits, hit{k, b.span(int(bucket[j] & leafMask))})
				}
			}
		}
		keys = keys[n:]
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
