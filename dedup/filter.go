package dedup

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// filter stands for many blocks at a few bytes per id. Asked for a key it
// names the one leaf of a block that may hold it, or none; it may name a leaf in
// vain, and never none where there is one.
//
// It is a binary fuse filter (Graf and Lemire, 2022; four cells per key) whose
// cells hold a value instead of only a fingerprint: the exclusive or of a key's
// four cells is
//
//	23          main           8 7          planes          0
//	[ mix: eight bits ][ number of the leaf ][ mix: the rest ]
//
// The upper sixteen bits are in main, the lower eight in planes of two bits. The
// columns of such a table are independent of each other, so a plane may be dropped
// at any time, without the keys. What is left names more in vain, or, where bits of
// the leaf's number went, several leaves for one: either way SQL reads about
// ids/2^bits ids in vain per key asked for.
type filter struct {
	leaves   // of the blocks, oldest first
	newest   int64
	ids      int64
	leafBits uint8
	shift    uint8 // 64 − bits of a key that choose its shard
	shards   []shard
	main     []uint16
	planes   [][]byte
	repeats  []repeat // sorted
}

// shard is a table of its own for the keys with one prefix, so that the scratch
// of building one is small.
type shard struct {
	seed       uint64
	at         uint32 // of its first cell
	starts     uint32 // cells a key's first may be
	segment    uint32 // cells between a key's first and second, and so on; a power of two
	segmentTop uint32 // segment − 1
}

// repeat is a further leaf of a key that is in more than one.
type repeat struct {
	key  uint64
	leaf uint32
}

const (
	valueBits   = 24
	mainBits    = 16
	mixBits     = 8 // of a mix that come first: one key in 256 looks further than main
	planesMax   = (valueBits - mainBits) / 2
	leavesMax   = 1 << 14
	shardIDsMax = 1 << 18
	triesMax    = 40
	// Segments are short so that a key's four cells lie within two pages or three.
	segmentLogMin, segmentLogMax = 4, 10
	growEvery                    = 4 // failed tries after which a shard is made larger
	mixFactor                    = 0xff51afd7ed558ccd
	mixFactorTwo                 = 0xc4ceb9fe1a85ec53
)

// scratchBytes is what building a filter over n ids takes besides the result.
func scratchBytes(n int64) int64 {
	n = min(n, shardIDsMax+shardIDsMax/32) // keys are spread over the shards evenly
	return n * (16 + 4 + 4 + 6*5/4 + 4*5/4 + 4)
}

// filterBytes is about what a filter over n ids will cost.
func filterBytes(n int64, planes int) int64 {
	return n/(leafIDs<<filterLeafLog)*8 + int64(float64(n)*cellsPerID(int(min(n, shardIDsMax)))*float64(mainBits+2*planes)/8) + 4096
}

func (f *filter) bytes() int64 {
	n := int64(unsafe.Sizeof(*f)) + int64(unsafe.Sizeof(f)) +
		8*int64(cap(f.starts)) +
		int64(cap(f.shards))*int64(unsafe.Sizeof(shard{})) +
		int64(cap(f.repeats))*int64(unsafe.Sizeof(repeat{})) +
		2*int64(cap(f.main)) + int64(cap(f.planes))*int64(unsafe.Sizeof([]byte{}))
	for _, p := range f.planes {
		n += int64(cap(p))
	}
	return n
}

// find appends the span of each leaf that may hold one of the keys. It works in
// strides, places first and cells after, so that many cells are fetched at once:
// with hundreds of MB of filters nearly every one comes from main memory.
func (f *filter) find(keys []uint64, hits []hit) []hit {
	const stride = 16
	var at [stride][4]uint32
	var sum, want [stride]uint16
	for len(keys) > 0 {
		n := min(stride, len(keys))
		for i, k := range keys[:n] {
			s := &f.shards[k>>f.shift]
			h := mix(k, s.seed)
			at[i][0], at[i][1], at[i][2], at[i][3] = s.cells(h)
			want[i] = uint16(f.fingerprint(h) >> (valueBits - mainBits))
		}
		for i := range n {
			p := &at[i]
			sum[i] = f.main[p[0]] ^ f.main[p[1]] ^ f.main[p[2]] ^ f.main[p[3]]
		}
		for i, k := range keys[:n] {
			if (sum[i]^want[i])>>(mainBits-mixBits) != 0 {
				continue
			}
			if from, to, ok := f.leaf(k); ok {
				hits = append(hits, hit{k, Span{f.span(from).From, f.span(to).To}})
				hits = f.findRepeats(k, hits)
			}
		}
		keys = keys[n:]
	}
	return hits
}

func (f *filter) findRepeats(k uint64, hits []hit) []hit {
	i, _ := slices.BinarySearchFunc(f.repeats, k, func(r repeat, k uint64) int { return cmp.Compare(r.key, k) })
	for ; i < len(f.repeats) && f.repeats[i].key == k; i++ {
		hits = append(hits, hit{k, f.span(int(f.repeats[i].leaf))})
	}
	return hits
}

// leaf returns the leaves one of which may hold the key; the first one, if it
// is in several.
func (f *filter) leaf(k uint64) (from, to int, ok bool) {
	s := &f.shards[k>>f.shift]
	h := mix(k, s.seed)
	a, b, c, d := s.cells(h)
	v := uint32(f.main[a]^f.main[b]^f.main[c]^f.main[d]) << (valueBits - mainBits)
	for i, p := range f.planes {
		y := p[a>>2]>>(a&3*2) ^ p[b>>2]>>(b&3*2) ^ p[c>>2]>>(c&3*2) ^ p[d>>2]>>(d&3*2)
		v |= uint32(y&3) << (6 - 2*i)
	}
	unknown := uint32(1)<<(valueBits-mainBits-2*len(f.planes)) - 1
	number := f.numberMask()
	if (v^f.fingerprint(h))&^number&^unknown != 0 {
		return 0, 0, false
	}
	shift := valueBits - mixBits - f.leafBits
	from = int(v & number >> shift)
	to = min(int((v|unknown)&number>>shift), len(f.starts)-1)
	return from, to, from <= to
}

// numberMask is where in a value the number of the leaf is.
func (f *filter) numberMask() uint32 {
	return (1<<f.leafBits - 1) << (valueBits - mixBits - f.leafBits)
}

// fingerprint is the part of a value that is not the number of the leaf.
func (f *filter) fingerprint(h uint64) uint32 {
	return uint32(h*0x9e3779b97f4a7c15>>(64-valueBits)) &^ f.numberMask()
}

func mix(k, seed uint64) uint64 {
	h := k + seed
	h = (h ^ h>>33) * mixFactor
	h = (h ^ h>>33) * mixFactorTwo
	return h ^ h>>33
}

// cells are the four places of a key: in consecutive segments, one in each.
func (s *shard) cells(h uint64) (a, b, c, d uint32) {
	hi, _ := bits.Mul64(h, uint64(s.starts))
	first := uint32(hi)
	a = s.at + first
	b = s.at + ((first + s.segment) ^ uint32(h)&s.segmentTop)
	c = s.at + ((first + 2*s.segment) ^ uint32(h>>16)&s.segmentTop)
	d = s.at + ((first + 3*s.segment) ^ uint32(h>>32)&s.segmentTop)
	return a, b, c, d
}

// thin drops planes beyond n.
func (f *filter) thin(n int) {
	for len(f.planes) > n {
		f.planes[len(f.planes)-1] = nil
		f.planes = f.planes[:len(f.planes)-1]
	}
}

// cellsPerID is how much room n keys need to find their places soon.
func cellsPerID(n int) float64 {
	if n < 2 {
		return 2
	}
	return max(1.075, 0.77+0.305*math.Log(600_000)/math.Log(float64(n)))
}

// cellCount is how many cells a shard has.
func (s *shard) cellCount() int { return int(s.starts + 3*s.segment) }

func (s *shard) places(k uint64) [4]uint32 {
	a, b, c, d := s.cells(mix(k, s.seed))
	return [4]uint32{a, b, c, d}
}
