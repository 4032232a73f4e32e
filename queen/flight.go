package queen

import (
	"slices"
	"sync"
	"time"

	"queenmq/dedup"
	"queenmq/store"
)

// readIDs reads the ids of those batches anew for which the queue's source of ids was
// another one, or none, when they came.
func (f *flight) readIDs(source string, decompressedMax int, refuse func(*entry, error)) {
	for _, e := range f.seg.entries {
		if e.batch == nil || e.source == source || e.done() {
			continue
		}
		e.source, e.ids, e.dropped = source, nil, nil
		if source == DedupSourceNone {
			continue
		}
		var err error
		if e.ids, err = readRecordIDs(e.batch, e.info, source, decompressedMax); err != nil {
			refuse(e, err)
		}
	}
}

// cut takes off the entries that must wait for the next flush, and returns
// them: an id that a record of an earlier batch of this segment carries is
// judged when that one is stored, because what is dropped from a batch must
// name an original. Repeats among native messages are folded instead; inside
// one batch the first wins here.
func (f *flight) cut(window int) (rest []*entry) {
	withIDs := func(e *entry) bool { return e.ids != nil }
	for _, e := range f.seg.entries {
		e.repeated = nil
	}
	if window == 0 || !slices.ContainsFunc(f.seg.entries, withIDs) {
		return nil
	}
	records := map[dedup.Hash]bool{} // seen in batches
	natives := map[dedup.Hash]bool{}
	for i, e := range f.seg.entries {
		if e.ids != nil {
			for _, h := range e.ids.hashes {
				if !h.IsMinted() && (records[h] || natives[h]) {
					return f.split(i)
				}
			}
			for delta, h := range e.ids.hashes {
				switch {
				case h.IsMinted():
				case records[h]:
					if e.repeated == nil {
						e.repeated = make([]bool, e.info.Span)
					}
					e.repeated[delta] = true
				default:
					records[h] = true
				}
			}
			continue
		}
		for _, it := range e.items {
			if !it.settled && records[it.hash] {
				return f.split(i)
			}
		}
		for _, it := range e.items {
			if !it.settled && !it.hash.IsMinted() {
				natives[it.hash] = true
			}
		}
	}
	return nil
}

func (f *flight) split(i int) (rest []*entry) {
	rest = f.seg.entries[i:]
	f.seg.entries = f.seg.entries[:i:i]
	return rest
}

// encode lays the entries out as one segment: Kafka batches as sent, less the
// duplicates found; runs of native messages as batches of their own. Ids
// repeated among the native messages are folded first (layer 2), where there is
// a window. Native messages whose id is suspected are withheld.
func (f *flight) encode(window, batchBytesMax, decompressedMax int, suspected func(dedup.Hash) bool) error {
	if window > 0 {
		foldRepeats(f.seg.entries)
	}
	f.kafka, f.natives, f.hashes, f.withheld = f.kafka[:0], f.natives[:0], f.hashes[:0], f.withheld[:0]
	l := layout{f: f, batchBytesMax: batchBytesMax}
	f.call, f.data = store.Segment{}, make([]byte, 0, f.seg.sizeOnce())
	for _, e := range f.seg.entries {
		if e.batch == nil {
			for _, it := range e.items {
				switch {
				case it.leader != nil || it.settled:
				case suspected(it.hash) && !it.uid:
					f.withheld = append(f.withheld, it)
					f.call.Withheld = append(f.call.Withheld, it.hash)
				default:
					if l.run == nil {
						l.run = make([]*pushItem, 0, len(e.items))
					}
					l.run = append(l.run, it)
				}
			}
			continue
		}
		if e.done() {
			continue
		}
		l.flushRun()
		if err := l.batch(e, decompressedMax); err != nil {
			return err
		}
	}
	l.flushRun()
	f.header = segmentHeader{IDHeader: l.idHeader, Runs: []idRun{{Base: f.base}}, Marks: l.marks}
	if !slices.ContainsFunc(l.hashes, func(h [16]byte) bool { return h != [16]byte{} }) {
		return nil
	}
	f.call.Hashes, f.call.UIDs = l.hashes, l.uids
	if window > 0 {
		f.hashes = slices.Grow(f.hashes, len(l.hashes))
		for _, h := range l.hashes {
			f.hashes = append(f.hashes, h)
		}
	}
	if l.ttls != nil {
		f.call.TTLs = append(l.ttls, make([]int64, len(l.hashes)-len(l.ttls))...)
	}
	return nil
}

// pack puts what was laid out into the form in which it is stored. It stays so
// for every repeat of the call.
func (f *flight) pack() {
	f.packed.release()
	f.packed = packing{header: f.header.AppendTo(nil), marks: f.header.Marks, data: f.data}
	for i := range f.call.Parts {
		part := &f.call.Parts[i]
		part.Bytes = 0
		for range part.Batches {
			part.Bytes += int32(f.packed.next())
		}
	}
	f.call.Header, f.call.Data = f.packed.header, f.packed.stored()
}

// segmentFirsts keeps tables of usual size: making one anew for each flush cost
// as much as filling it.
var segmentFirsts = sync.Pool{New: func() any { return new(dedup.SegmentFirsts) }}

const pooledFirstsMax = 4096

// foldRepeats makes followers of ids that occur earlier in the same segment.
func foldRepeats(entries []*entry) {
	n, pushes, apart := 0, 0, true
	for _, e := range entries {
		if len(e.items) > 0 {
			n, pushes, apart = n+len(e.items), pushes+1, apart && e.apart
		}
		for _, it := range e.items {
			it.leader = nil
		}
	}
	if apart && pushes <= 1 {
		return // its ids were looked through when it came
	}
	firsts := segmentFirsts.Get().(*dedup.SegmentFirsts)
	if n <= pooledFirstsMax {
		defer segmentFirsts.Put(firsts)
		defer firsts.Reset()
	}
	all := make([]*pushItem, 0, n)
	for _, e := range entries {
		for _, it := range e.items {
			if it.settled {
				continue
			}
			if l, follows := firsts.Lead(it.hash, len(all)); follows {
				it.leader = all[l]
			}
			all = append(all, it)
		}
	}
}

// flight is a segment on its way to the database. Its id base stays until the
// outcome is known, however often the call is repeated.
type flight struct {
	p       *partition
	seg     *openSegment
	call    store.Segment
	header  segmentHeader // of data; the call's has the batches as they are stored
	data    []byte        // as served
	packed  packing       // its memory is the call's
	base    IDBase
	kafka   []*entry     // by part: the entry, or nil for a native part
	natives []*pushItem  // by offset within the segment; nil where a Kafka batch lies
	hashes  []dedup.Hash // those of call, as the cache takes them
	// Messages not sent because they seem to be stored: with all of them found the
	// others are stored in the same call.
	withheld []*pushItem
	rest     time.Duration // its partition gives way so long
	whole    bool          // something withheld was not stored after all: send everything
	alone    bool          // must not share a call
	probes   bool          // its call looks through a large span
	asked    bool          // the memory of ids, which answered in that mode
	mode     dedup.Mode
	span     int64 // offsets its call is to look through
	fixed    bool  // base was given: the id its message has been promised
	unknown  bool  // an attempt may have been stored
	changed  bool  // the queue's options are to be read again
	wrote    bool  // there is something new for readers
}
