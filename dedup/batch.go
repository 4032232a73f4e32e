package dedup

import "bytes"

// Firsts finds the first of equal ids inside one request: the leader. Ids are
// compared byte by byte, together with queue and partition as three fields: no
// separator inside one of them can make two different messages equal. Their hashes
// only say which to compare.
//
// Only what passed validation is given to Lead, so a refused message never
// leads. The partition is the one the message will be written to: no partition
// and "Default" are resolved before.
//
// The zero value is ready; Reset keeps its memory for the next request. A Firsts is
// not safe for concurrent use.
type Firsts struct {
	leaders map[placedHash]int // number in firsts
	firsts  []firstID
	others  map[placedID]int // ids whose hash another id of their partition has: index
	places  map[[2]string]int32
	at      int32 // place of queue and partition, those of the last message
	queue   string
	part    string
}

type placedHash struct {
	h     Hash
	place int32
}

type placedID struct {
	place int32
	id    string
}

type firstID struct {
	id    []byte // the caller's
	index int
}

// Lead says who leads the message at index i of the request: i itself, or the
// index of an earlier one it follows. A message without an id (nil) follows nobody.
// h is the id's hash; the id must stay as it is until Reset.
func (f *Firsts) Lead(queue, partition string, id []byte, h Hash, i int) (leader int, follows bool) {
	if id == nil {
		return i, false
	}
	if f.leaders == nil {
		f.leaders = map[placedHash]int{}
	}
	key := placedHash{h, f.place(queue, partition)}
	n, taken := f.leaders[key]
	switch {
	case !taken:
		f.leaders[key] = len(f.firsts)
		f.firsts = append(f.firsts, firstID{id, i})
		return i, false
	case bytes.Equal(f.firsts[n].id, id):
		return f.firsts[n].index, true
	}
	if l, follows := f.others[placedID{key.place, string(id)}]; follows {
		return l, true
	}
	if f.others == nil {
		f.others = map[placedID]int{}
	}
	f.others[placedID{key.place, string(id)}] = i
	return i, false
}

// place numbers partitions. Neighbours of a request mostly share theirs.
func (f *Firsts) place(queue, partition string) int32 {
	if len(f.places) > 0 && queue == f.queue && partition == f.part {
		return f.at
	}
	if f.places == nil {
		f.places = map[[2]string]int32{}
	}
	at, known := f.places[[2]string{queue, partition}]
	if !known {
		at = int32(len(f.places))
		f.places[[2]string{queue, partition}] = at
	}
	f.at, f.queue, f.part = at, queue, partition
	return at
}

// Apart says whether all leaders of a partition have different hashes, so that
// SegmentFirsts would find nothing among them.
func (f *Firsts) Apart() bool { return len(f.others) == 0 }

// Reset forgets everything.
func (f *Firsts) Reset() {
	clear(f.leaders)
	clear(f.firsts)
	clear(f.places)
	*f = Firsts{leaders: f.leaders, firsts: f.firsts[:0], places: f.places}
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
