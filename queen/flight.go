package queen

import (
	"slices"
	"sync"
	"time"

	"queenmq/dedup"
	"queenmq/store"
)

// drop marks a record as a duplicate.
func (e *entry) drop(delta int) {
	if e.dropped == nil {
		e.dropped = make([]bool, e.info.Span)
	}
	e.dropped[delta] = true
}

// out reports that the record at a delta is not to be stored.
func (e *entry) out(delta int) bool {
	return e.dropped != nil && e.dropped[delta] || e.repeated != nil && e.repeated[delta]
}

// left counts the records to be stored.
func (e *entry) left() int {
	n := int(e.info.Span)
	if e.dropped == nil && e.repeated == nil {
		return n
	}
	for delta := range n {
		if e.out(delta) {
			n--
		}
	}
	return n
}

// readIDs reads the ids of batches again that were read, or not, under another source.
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

// varintsGrow bounds how much more a message takes within a batch than alone, the
// batch's header apart: its place is a longer number.
const varintsGrow = 4

// sizeOnce is about what a segment's bytes are together, and not less: the memory is
// kept for readers, so what it does not use is lost as long. Messages are counted with a
// batch header each, and share one where they follow one another.
func (s *openSegment) sizeOnce() int {
	messages, runs, bytes := 0, 1, s.bytes
	for _, e := range s.entries {
		if e.batch != nil {
			runs++
		}
		messages += len(e.items)
		if s.bytes == 0 { // made by hand, for a transaction or a timer
			bytes += len(e.batch)
			for _, it := range e.items {
				bytes += it.size
			}
		}
	}
	return bytes - max(0, messages-runs)*(batchHeaderLen-varintsGrow)
}

// done reports that a Kafka entry has its answer.
func (e *entry) done() bool {
	select {
	case <-e.pending.done:
		return true
	default:
		return false
	}
}

// layout is a segment being laid out.
type layout struct {
	f             *flight
	batchBytesMax int
	idHeader      string
	marks         []batchMark
	hashes        [][16]byte
	ttls          []int64 // as long as hashes were when it was last needed
	uids          []store.UID
	run           []*pushItem // native messages that follow one another
}

// flushRun makes one part of the native messages collected.
func (l *layout) flushRun() {
	if len(l.run) == 0 {
		return
	}
	f := l.f
	msgs := make([]*Message, len(l.run))
	l.hashes = slices.Grow(l.hashes, len(l.run))
	for i, it := range l.run {
		msgs[i] = it.msg
		if it.uid {
			l.uids = append(l.uids, store.UID{Index: int32(len(l.hashes)), Hi: it.hi, Lo: it.lo})
		}
		l.hashes = append(l.hashes, it.hash)
	}
	before := len(f.data)
	var marks []batchMark
	f.data, marks = appendNative(f.data, msgs, time.Now(), l.batchBytesMax)
	part := store.Part{
		Size: int32(len(f.data) - before), Batches: int32(len(marks)),
		Span: int32(len(l.run)), Records: int32(len(l.run)), Producer: -1,
	}
	for _, m := range marks {
		part.MaxTimestamp = max(part.MaxTimestamp, m.MaxTimestamp)
	}
	l.marks = append(l.marks, marks...)
	f.call.Parts = append(f.call.Parts, part)
	f.kafka = append(f.kafka, nil)
	f.natives = append(f.natives, l.run...)
	l.run = l.run[:0:0]
}

// batch adds a Kafka batch: as sent, without its duplicates, or, where none of
// its records is left, as a part that only advances its producer's sequence.
func (l *layout) batch(e *entry, decompressedMax int) error {
	f := l.f
	part := store.Part{
		Sequences: e.info.Span, Producer: e.info.ProducerID,
		ProducerEpoch: int32(e.info.ProducerEpoch), BaseSequence: e.info.BaseSequence,
	}
	left := e.left()
	if left == 0 {
		part.Answered, part.Answer = true, e.first
		f.call.Parts = append(f.call.Parts, part)
		f.kafka = append(f.kafka, e)
		return nil
	}
	data, info := e.batch, e.info
	if left < int(e.info.Span) {
		var err error
		if data, info, err = dropRecords(e.batch, e.out, decompressedMax); err != nil {
			return err
		}
	}
	part.Size, part.Batches, part.Span = int32(len(data)), 1, info.Span
	part.Records, part.MaxTimestamp = int32(info.Records), info.MaxTimestamp
	f.data = append(f.data, data...)
	source := idsMinted
	if e.ids != nil {
		source = e.ids.source
		if source == idsNamedHeader {
			l.idHeader = e.ids.header
		}
	}
	l.marks = append(l.marks, kafkaMark(info, len(data), source))
	f.call.Parts = append(f.call.Parts, part)
	f.kafka = append(f.kafka, e)
	f.natives = append(f.natives, make([]*pushItem, info.Span)...)
	at := len(l.hashes)
	l.hashes = append(l.hashes, make([][16]byte, info.Span)...)
	if e.ids == nil {
		return nil
	}
	for delta, h := range e.ids.hashes {
		if !e.out(delta) {
			l.hashes[at+delta] = h
		}
	}
	for _, u := range e.ids.uids {
		if !e.out(u.delta) {
			l.uids = append(l.uids, store.UID{Index: int32(at + u.delta), Hi: u.hi, Lo: u.lo})
		}
	}
	if e.ids.ttls != nil {
		l.ttls = append(l.ttls, make([]int64, at-len(l.ttls))...)
		l.ttls = append(l.ttls, e.ids.ttls...)
	}
	return nil
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
