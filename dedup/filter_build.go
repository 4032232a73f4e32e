package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// keyedLeaf is a key and the leaf it is in.
type keyedLeaf struct {
	key  uint64
	leaf uint32
}

// builder is the scratch of building filters.
type builder struct {
	pairs  []keyedLeaf
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
		b.pairs = make([]keyedLeaf, n)
	}
	b.pairs = b.pairs[:n]
	first := uint32(0) // leaf of the block
	for i, bl := range blocks {
		for _, k := range bl.keys[at[i]:to[i]] {
			j := &b.bucket[bucket(k)]
			b.pairs[*j] = keyedLeaf{k &^ leafMask, first + uint32(k&leafMask)>>filterLeafLog}
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
	last, kept := keyedLeaf{leaf: math.MaxUint32}, 0
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
func sortPairs(p []keyedLeaf) {
	less := func(x, y keyedLeaf) bool { return x.key < y.key || x.key == y.key && x.leaf < y.leaf }
	if len(p) <= bucketKeysMany {
		for i := 1; i < len(p); i++ {
			for j := i; j > 0 && less(p[j], p[j-1]); j-- {
				p[j], p[j-1] = p[j-1], p[j]
			}
		}
		return
	}
	slices.SortFunc(p, func(x, y keyedLeaf) int {
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
