package queen

import (
	"slices"
	"time"

	"queenmq/store"
)

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
