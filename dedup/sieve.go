package dedup

import (
	"math/bits"
	"slices"
	"unsafe"
)

// sieve says of most keys that are neither in a memory's blocks nor in its buffer
// that they are not, with one line of memory each, so that new ids, which most are,
// need no look into either. It may let a key through in vain, and never keeps one back.
//
// It is a Bloom filter split into lines of 512 bits, a bit of each word per key
// (Putze, Sanders and Singler, 2007; Lang et al., 2019). Nothing is ever taken out:
// when as much again was added as it was made for, the next is made of what is there.
type sieve struct {
	lines []sieveLine
	left  int64 // keys that may still be added before the next is due
}

type sieveLine [8]uint64

const (
	sieveIDsMin     = 2 * blockIDsMax // below it, looking into blocks is as cheap
	sieveBitsPerID  = 16              // of the keys it is made of; half as many per key when the next is due
	sieveBitsOfLine = 512
)

func sieveLines(ids int64) int64 { return max(1, ids*sieveBitsPerID/sieveBitsOfLine) }

func sieveBytes(ids int64) int64 {
	return int64(unsafe.Sizeof(sieve{})) + sieveLines(ids)*int64(unsafe.Sizeof(sieveLine{}))
}

// newSieve makes a sieve of the keys of some blocks.
func newSieve(blocks []*block, ids int64) *sieve {
	s := &sieve{lines: make([]sieveLine, sieveLines(ids)), left: ids}
	for _, b := range blocks {
		s.addAll(b.keys)
	}
	return s
}

// place is the line of a key, and six bits for each of its words.
func (s *sieve) place(k uint64) (*sieveLine, uint64) {
	k &^= leafMask
	at, _ := bits.Mul64(k, uint64(len(s.lines)))
	return &s.lines[at], mix(k, 0)
}

func (s *sieve) add(k uint64) {
	line, h := s.place(k)
	for i := range line {
		line[i] |= 1 << (h & 63)
		h >>= 6
	}
}

func (s *sieve) addAll(keys []uint64) {
	for _, k := range keys {
		s.add(k)
	}
}

// pass keeps those of the keys, in their order and place, that it may have. It does not branch on
// what it finds: the lines of many keys are fetched at once.
func (s *sieve) pass(keys []uint64) []uint64 {
	n := 0
	for _, k := range keys {
		line, h := s.place(k)
		all := line[0] >> (h & 63) & (line[1] >> (h >> 6 & 63)) & (line[2] >> (h >> 12 & 63)) & (line[3] >> (h >> 18 & 63)) &
			(line[4] >> (h >> 24 & 63)) & (line[5] >> (h >> 30 & 63)) & (line[6] >> (h >> 36 & 63)) & (line[7] >> (h >> 42 & 63))
		keys[n] = k
		n += int(all & 1)
	}
	return keys[:n]
}

func (s *sieve) bytes() int64 {
	if s == nil {
		return 0
	}
	return int64(unsafe.Sizeof(*s)) + int64(len(s.lines))*int64(unsafe.Sizeof(sieveLine{}))
}

// nextSieve plans a memory's first sieve, of idsMin ids at least, or the next.
func (m *memory) nextSieve(idsMin int64) (plan, bool) {
	if len(m.filters) > 0 || m.sieve != nil && m.sieve.left > 0 {
		return plan{}, false
	}
	p := plan{kind: toSieve}
	for _, b := range m.blocks {
		p.ids += int64(len(b.keys))
	}
	if p.ids < idsMin {
		return plan{}, false
	}
	p.blocks = slices.Clone(m.blocks)
	return p, true
}

// sift puts a new sieve in the place of the old one. What came after the blocks it
// was made of is added.
func (m *memory) sift(s *sieve, upTo int64) {
	for i := len(m.blocks) - 1; i >= 0 && m.blocks[i].to > upTo; i-- {
		s.addAll(m.blocks[i].keys)
	}
	s.addAll(m.hot.keys)
	m.dropSieve()
	m.size += s.bytes()
	m.sieve = s
}

// dropSieve gives a sieve's bytes back, if there is one.
func (m *memory) dropSieve() {
	m.size -= m.sieve.bytes()
	m.sieve = nil
}
