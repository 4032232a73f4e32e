package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// entryOf is a key and the leaf it is in.
type entryOf struct {
	key  uint64
	leaf uint32
}

// builder is the scratch of building filters.
type builder struct {
	pairs  []entryOf
	bucket []uint32
	degree []uint8
	xor    []uint32 // of the indexes of the keys in a cell
	queue  []uint32
	order  []uint32 // keys as they were peeled …
	place  []uint32 // … and the cell each found for itself
	values []uint32
}

var errNoPlace = errors.New("BUG: the keys of a filter found no place")

// build makes a filter over blocks that are in order. It looks every key up
// again before it is content: what a filter does not find would be lost.
func (b *builder) build(ctx context.Context, blocks []*block, planes int) (*filter, error) {
	last := blocks[len(blocks)-1]
	f := &filter{leaves: leaves{to: last.to}, newest: last.newest}
	n := 0
	for _, bl := range blocks {
		n += filterLeaves(bl)
		f.ids += int64(len(bl.keys))
	}
	f.starts = make([]int64, 0, n)
	for _, bl := range blocks {
		for i := 0; i < len(bl.starts); i += 1 << filterLeafLog {
			f.starts = append(f.starts, bl.starts[i])
		}
	}
	f.leafBits = uint8(bits.Len(uint(n - 1)))
	shardBits := bits.Len64(uint64(f.ids-1) / shardIDsMax)
	f.shift = uint8(64 - shardBits)
	f.shards = make([]shard, 1<<shardBits)
	perShard := int(f.ids) >> shardBits
	cells := int(float64(perShard)*cellsPerID(perShard)*1.01)<<shardBits + 64
	f.main = make([]uint16, 0, cells)
	f.planes = make([][]byte, planes)
	for i := range f.planes {
		f.planes[i] = make([]byte, 0, (cells+3)/4)
	}
	at := make([]int, len(blocks)) // where each block's next shard begins
	for i := range f.shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b.collect(f, blocks, at, uint64(i))
		if err := b.shard(f, i); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// filterLeaves is how many leaves of a filter a block makes.
func filterLeaves(b *block) int { return (len(b.starts) + 1<<filterLeafLog - 1) >> filterLeafLog }

// collect gathers the keys with a shard's prefix, each once; where a key is in several
// leaves, the others become repeats. Equal keys are brought together by sorting,
// in buckets, because keys are spread evenly.
func (b *builder) collect(f *filter, blocks []*block, at []int, prefix uint64) {
	n := 0
	to := make([]int, len(blocks))
	for i, bl := range blocks {
		j := at[i]
		for j < len(bl.keys) && bl.keys[j]>>f.shift == prefix {
			j++
		}
		to[i], n = j, n+j-at[i]
	}
	// Buckets go by the bits below the shard's.
	bucketBits := max(0, bits.Len(uint(n))-bucketKeysLog)
	bucket := func(k uint64) uint64 { return k << (64 - f.shift) >> (64 - bucketBits) }
	b.bucket = zeroed(b.bucket, 1<<bucketBits+1)
	for i, bl := range blocks {
		for _, k := range bl.keys[at[i]:to[i]] {
			b.bucket[bucket(k)+1]++
		}
	}
	for j := 1; j < len(b.bucket); j++ {
		b.bucket[j] += b.bucket[j-1]
	}
	if cap(b.pairs) < n {
		b.pairs = make([]entryOf, n)
	}
	b.pairs = b.pairs[:n]
	first := uint32(0) // leaf of the block
	for i, bl := range blocks {
		for _, k := range bl.keys[at[i]:to[i]] {
			j := &b.bucket[bucket(k)]
			b.pairs[*j] = entryOf{k &^ leafMask, first + uint32(k&leafMask)>>filterLeafLog}
			*j++
		}
		at[i] = to[i]
		first += uint32(filterLeaves(bl))
	}
	begin := uint32(0)
	for _, end := range b.bucket[:1<<bucketBits] { // each now stands at its end
		sortPairs(b.pairs[begin:end])
		begin = end
	}
	last, kept := entryOf{leaf: math.MaxUint32}, 0
	for _, p := range b.pairs {
		switch {
		case p == last:
		case kept > 0 && p.key == b.pairs[kept-1].key:
			f.repeats = append(f.repeats, repeat(p))
		default:
			b.pairs[kept] = p
			kept++
		}
		last = p
	}
	b.pairs = b.pairs[:kept]
}

// sortPairs is sortKeys for pairs.
func sortPairs(p []entryOf) {
	less := func(x, y entryOf) bool { return x.key < y.key || x.key == y.key && x.leaf < y.leaf }
	if len(p) <= bucketKeysMany {
		for i := 1; i < len(p); i++ {
			for j := i; j > 0 && less(p[j], p[j-1]); j-- {
				p[j], p[j-1] = p[j-1], p[j]
			}
		}
		return
	}
	slices.SortFunc(p, func(x, y entryOf) int {
		if c := cmp.Compare(x.key, y.key); c != 0 {
			return c
		}
		return cmp.Compare(x.leaf, y.leaf)
	})
}

// shard finds places for the collected keys and writes the table of shard i.
func (b *builder) shard(f *filter, i int) error {
	s := &f.shards[i]
	n := len(b.pairs)
	room := cellsPerID(n)
	for try := range triesMax {
		if try > 0 && try%growEvery == 0 {
			room *= 1.03
		}
		s.size(n, room)
		s.seed = mix(uint64(try+1), f.shiftSeed(i))
		if b.peel(s) {
			return b.assign(f, s)
		}
	}
	return errNoPlace
}

// shiftSeed differs between shards.
func (f *filter) shiftSeed(i int) uint64 { return uint64(i)<<8 | uint64(f.shift) }

// size chooses the segments of a shard for n keys.
func (s *shard) size(n int, room float64) {
	seg := float64(segmentLogMin)
	if n > 64 {
		seg = math.Floor(math.Log(float64(n))/math.Log(2.91) - 0.5)
	}
	s.segment = 1 << uint(min(max(seg, segmentLogMin), segmentLogMax))
	s.segmentTop = s.segment - 1
	segments := (uint32(float64(n)*room) + s.segment - 1) / s.segment
	s.starts = max(segments, 4)*s.segment - 3*s.segment
}

// cellCount is how many cells a shard has.
func (s *shard) cellCount() int { return int(s.starts + 3*s.segment) }

// peel orders the keys so that each has a cell no later one uses.
func (b *builder) peel(s *shard) bool {
	local := *s
	local.at = 0
	n, m := len(b.pairs), s.cellCount()
	b.degree, b.xor = zeroed(b.degree, m), zeroed(b.xor, m)
	for i := range b.pairs {
		for _, c := range local.places(b.pairs[i].key) {
			if b.degree[c] == math.MaxUint8 {
				return false
			}
			b.degree[c]++
			b.xor[c] ^= uint32(i)
		}
	}
	b.queue, b.order, b.place = b.queue[:0], b.order[:0], b.place[:0]
	for c := range m {
		if b.degree[c] == 1 {
			b.queue = append(b.queue, uint32(c))
		}
	}
	for len(b.queue) > 0 {
		cell := b.queue[len(b.queue)-1]
		b.queue = b.queue[:len(b.queue)-1]
		if b.degree[cell] != 1 {
			continue
		}
		i := b.xor[cell]
		b.order, b.place = append(b.order, i), append(b.place, cell)
		for _, c := range local.places(b.pairs[i].key) {
			b.degree[c]--
			b.xor[c] ^= i
			if b.degree[c] == 1 {
				b.queue = append(b.queue, c)
			}
		}
	}
	return len(b.order) == n
}

func (s *shard) places(k uint64) [4]uint32 {
	a, b, c, d := s.cells(mix(k, s.seed))
	return [4]uint32{a, b, c, d}
}

// assign fills the cells in reverse order of the peeling, appends them to the
// filter, and looks every key up.
func (b *builder) assign(f *filter, s *shard) error {
	m := s.cellCount()
	b.values = zeroed(b.values, m)
	local := *s
	for j := len(b.order) - 1; j >= 0; j-- {
		p := &b.pairs[b.order[j]]
		h := mix(p.key, s.seed)
		x, y, z, w := local.cells(h)
		v := p.leaf<<(valueBits-mixBits-f.leafBits) | f.fingerprint(h)
		// The key's own cell is still 0, so it may be part of the sum.
		b.values[b.place[j]] = v ^ b.values[x] ^ b.values[y] ^ b.values[z] ^ b.values[w]
	}
	s.at = uint32(len(f.main))
	for len(f.main)+m > cap(f.main) {
		f.main = slices.Grow(f.main, m)
	}
	f.main = f.main[:int(s.at)+m]
	for c, v := range b.values {
		f.main[int(s.at)+c] = uint16(v >> (valueBits - mainBits))
	}
	for i := range f.planes {
		size := (len(f.main) + 3) / 4
		p := slices.Grow(f.planes[i], size-len(f.planes[i]))[:size]
		for c, v := range b.values {
			at := int(s.at) + c
			p[at>>2] |= byte(v>>(6-2*i)&3) << (at & 3 * 2)
		}
		f.planes[i] = p
	}
	for _, p := range b.pairs {
		if from, to, ok := f.leaf(p.key); !ok || int(p.leaf) < from || int(p.leaf) > to {
			return fmt.Errorf("%w: %x is in leaf %d", errNoPlace, p.key, p.leaf)
		}
	}
	return nil
}

// zeroed returns n zeros, in s if it is large enough.
func zeroed[T uint8 | uint32](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
