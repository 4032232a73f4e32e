package dedup

import "strings"

// Firsts finds the first of equal ids inside one request: the leader. Ids are
// compared byte by byte, together with queue and partition as three fields: no
// separator inside one of them can make two different messages equal.
//
// Only what passed validation is given to Lead, so a refused message never
// leads. The partition is the one the message will be written to: no partition
// and "Default" are resolved before.
//
// The zero value is ready. A Firsts is not safe for concurrent use.
type Firsts struct {
	leaders map[requestKey]int
	size    int
	ids     strings.Builder // one after another: the ids in leaders are parts of it
}

// Expect makes room for n messages, before the first.
func (f *Firsts) Expect(n int) { f.size = n }

// idsGrowMax bounds what is made for ids that may not come.
const idsGrowMax = 64 << 10

type requestKey struct{ queue, partition, id string }

// Lead says who leads the message at index i of the request: i itself, or the
// index of an earlier one it follows. A message without an id (nil) follows nobody.
func (f *Firsts) Lead(queue, partition string, id []byte, i int) (leader int, follows bool) {
	if id == nil {
		return i, false
	}
	// The key is spelled out twice so that the look-up does not copy the id.
	if leader, ok := f.leaders[requestKey{queue, partition, string(id)}]; ok {
		return leader, true
	}
	if f.leaders == nil {
		f.leaders = make(map[requestKey]int, f.size)
	}
	from := f.ids.Len()
	if from+len(id) > f.ids.Cap() {
		// As much as all of them take where they are as long as this one, within bounds.
		f.ids.Grow(min(max(len(id)*(f.size-len(f.leaders)), len(id)), len(id)+idsGrowMax))
	}
	f.ids.Write(id)
	f.leaders[requestKey{queue, partition, f.ids.String()[from:]}] = i
	return i, false
}

// SegmentFirsts finds the first of equal hashes inside one segment, where the
// queue's window is not 0. The zero value is ready; Reset keeps its memory for
// the next segment. It is not safe for concurrent use.
type SegmentFirsts struct {
	leaders map[Hash]int
}

// Lead says who leads the message at index i of the segment: i itself, or the
// index of an earlier one with the same hash. A minted message follows nobody.
func (f *SegmentFirsts) Lead(h Hash, i int) (leader int, follows bool) {
	if h.IsMinted() {
		return i, false
	}
	if leader, ok := f.leaders[h]; ok {
		return leader, true
	}
	if f.leaders == nil {
		f.leaders = make(map[Hash]int)
	}
	f.leaders[h] = i
	return i, false
}

// Reset forgets everything.
func (f *SegmentFirsts) Reset() { clear(f.leaders) }
