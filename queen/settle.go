package queen

import (
	"context"
	"fmt"
	"time"

	"queenmq/store"
)

// settle takes the database's answer to a flight. It reports false when the
// flight must go again; with call.Parts nil it must be encoded anew first.
func (w *writer) settle(f *flight, r *store.SegmentResult) bool {
	if r.Next >= 0 {
		f.p.seen(r.Epoch, r.LogStart, r.Next)
	}
	switch r.Status {
	case store.SegmentStored, store.SegmentAlready:
		w.found(f, r.Withheld)
		w.stored(f, r)
		if len(f.withheld) > 0 && r.Status == store.SegmentAlready {
			// What an earlier attempt found of these is lost with its answer; the
			// messages it stored have theirs now.
			f.call.Parts, f.unknown = nil, false
			return false
		}
		return true
	case store.SegmentEmpty:
		w.parts(f, r)
		return true
	case store.SegmentDuplicates:
		f.whole = len(f.withheld) > 0
		w.found(f, r.Withheld)
		f.dropDuplicates(r.Dups)
		w.settleDropped(f)
		w.settleFollowers(f) // while their leaders are at hand
		w.metrics.duplicates(layerLedger, len(r.Dups))
		f.call.Parts = nil
		return false
	case store.SegmentWindowChanged:
		f.changed = true
		f.unfold()
		f.call.Parts = nil
		return false
	case store.SegmentBusy:
		f.alone = true
		return false
	case store.SegmentGone:
		w.gone(f)
		return true
	default:
		panic(fmt.Sprintf("BUG: segment status %d", r.Status))
	}
}

// wakeReaders tells those who wait for what flights have written.
func (w *writer) wakeReaders(fl ...*flight) {
	for _, f := range fl {
		if f.wrote {
			w.waiters.wake(f.p.id)
			f.wrote = false
		}
	}
}

// stored completes a flight whose segment is in the log. Its readers are yet to be woken.
func (w *writer) stored(f *flight, r *store.SegmentResult) {
	// Last of all the writers are told: who has its answer reads what it wrote
	// from the same memory as everybody else.
	defer w.parts(f, r)
	if r.End < r.Base {
		return // only sequences advanced
	}
	w.learned(f, r)
	whole := true
	served, stored := 0, 0
	for i, v := range r.Verdicts {
		if v != store.PartStored {
			whole = false
			continue
		}
		served += int(f.call.Parts[i].Size)
		stored += int(f.call.Parts[i].Bytes)
	}
	w.metrics.storedBytes.WithLabelValues("served").Add(float64(served))
	w.metrics.storedBytes.WithLabelValues("row").Add(float64(stored))
	if whole && r.Status == store.SegmentStored {
		s, err := newSegment(r.Base, r.End, r.Epoch, r.CreatedAt, f.header, f.data)
		if err != nil {
			panic("BUG: a stored segment does not load: " + err.Error())
		}
		w.tail.add(f.p.id, r.Epoch, s)
	} else {
		w.tail.forget(f.p.id) // not the bytes we hold; the next reader loads them
	}
	f.wrote = true
	w.hotlist.wrote(f.p)
	w.runs.stored(f.p.id, &f.p.unsorted, len(f.call.Hashes))
	w.metrics.stored.Add(float64(r.End - r.Base + 1))
}

// parts hands each part's verdict to whoever waits for it.
func (w *writer) parts(f *flight, r *store.SegmentResult) {
	at := 0 // offset within the segment as it was sent
	for i, e := range f.kafka {
		span := int(f.call.Parts[i].Span)
		items := f.natives[at : at+span]
		at += span
		if e == nil {
			for j, it := range items {
				off := r.Offsets[i] + int64(j)
				it.settle(Queued, f.base.ID(off-r.Base), off, nil)
			}
			continue
		}
		res := Appended{BaseOffset: r.Offsets[i], LogStart: r.LogStart, CreatedAt: r.CreatedAt}
		var err error
		switch r.Verdicts[i] {
		case store.PartStored:
			if e.info.LogAppendTime {
				res.LogAppendTime = time.UnixMilli(e.info.MaxTimestamp)
			}
		case store.PartResend:
			res.CreatedAt = time.Time{}
		case store.PartOutOfOrder:
			err = fmt.Errorf("%w: producer %d sent sequence %d", ErrOutOfOrderSequence, e.info.ProducerID, e.info.BaseSequence)
		case store.PartFenced:
			err = fmt.Errorf("%w: producer %d sent epoch %d", ErrProducerFenced, e.info.ProducerID, e.info.ProducerEpoch)
		case store.PartForgotten:
			err = fmt.Errorf("%w: producer %d sent sequence %d", ErrDuplicateSequence, e.info.ProducerID, e.info.BaseSequence)
		}
		if err != nil {
			res = Appended{BaseOffset: -1, LogStart: r.LogStart}
		}
		w.complete(e, res, err)
	}
	w.settleFollowers(f)
}

// originals looks for the originals of duplicates in a partition that was
// compacted: one that is gone has no message id any more. It reports false where
// the database did not say.
func (w *writer) originals(ctx context.Context, p *partition, dups []store.Dup) bool {
	for i := range dups {
		d := &dups[i]
		if d.IDHi == 0 && d.IDLo == 0 {
			continue
		}
		rows, err := w.db.ScanSegments(ctx, p.id, d.Offset, 1, 1)
		if err != nil {
			w.log.Debug("look for an original failed", "error", err)
			return false
		}
		held := false
		if len(rows) > 0 && rows[0].Base <= d.Offset {
			var seg *segment
			if seg, err = loadRow(rows[0]); err == nil {
				err = seg.messages(d.Offset, 1, func(m StoredMessage) bool {
					held = m.Offset == d.Offset
					return false
				})
			}
			if err != nil {
				w.log.Error("the original of a duplicate cannot be read", "error", err)
			}
		}
		if !held {
			d.IDHi, d.IDLo = 0, 0
		}
	}
	return true
}

// dropDuplicates settles the native messages, and marks the records, that are stored already.
func (f *flight) dropDuplicates(dups []store.Dup) {
	for _, d := range dups {
		if it := f.natives[d.Index]; it != nil {
			it.settle(Duplicate, IDBase{Hi: d.IDHi, Lo: d.IDLo}.ID(0), d.Offset, nil)
			continue
		}
		e, delta := f.record(int(d.Index))
		if e == nil || e.ids == nil {
			panic("BUG: a duplicate verdict for a message without an id")
		}
		e.drop(delta)
		if delta == 0 {
			e.first = d.Offset
		}
	}
}

// found settles withheld messages that are stored already.
func (w *writer) found(f *flight, dups []store.Dup) {
	for _, d := range dups {
		f.withheld[d.Index].settle(Duplicate, IDBase{Hi: d.IDHi, Lo: d.IDLo}.ID(0), d.Offset, nil)
	}
	w.metrics.duplicates(layerLedger, len(dups))
}

// record finds the Kafka batch and the offset delta at a place of the segment.
func (f *flight) record(index int) (e *entry, delta int) {
	for i, p := range f.call.Parts {
		if index < int(p.Span) {
			return f.kafka[i], index
		}
		index -= int(p.Span)
	}
	return nil, 0
}

// settleDropped completes batches of which nothing is left and that have no
// sequence to advance: the answer is where the first record's original lies.
func (w *writer) settleDropped(f *flight) {
	for _, e := range f.seg.entries {
		if e.batch != nil && e.left() == 0 && e.info.ProducerID < 0 {
			w.complete(e, Appended{BaseOffset: e.first, LogStart: f.p.marks().logStart}, nil)
		}
	}
}

// unfold undoes layer 2, which was done under another window.
func (f *flight) unfold() {
	for _, e := range f.seg.entries {
		for _, it := range e.items {
			it.leader = nil
		}
	}
}

// settleFollowers gives followers their leader's outcome: a follower never
// answers queued.
func (w *writer) settleFollowers(f *flight) {
	for _, e := range f.seg.entries {
		for _, it := range e.items {
			if it.settled || it.leader == nil || !it.leader.settled {
				continue
			}
			l := it.leader.out
			status := l.Status
			if status == Queued {
				status = Duplicate
			}
			it.settle(status, l.MessageID, l.Offset, l.Err)
			if status == Duplicate {
				w.metrics.duplicates(layerFlush, 1)
			}
		}
	}
}

// fail gives every unsettled entry of a flight the same error.
func (w *writer) fail(f *flight, err error) {
	for _, e := range f.seg.entries {
		w.failEntry(e, err)
	}
}

// failEntry gives an entry, or what of it is not settled, an error.
func (w *writer) failEntry(e *entry, err error) {
	if e.batch != nil {
		w.complete(e, Appended{BaseOffset: -1, LogStart: -1}, err)
		return
	}
	for _, it := range e.items {
		if !it.settled {
			it.settle(Failed, [16]byte{}, -1, err)
		}
	}
}

// complete gives a Kafka entry its outcome and returns its bytes to the budget.
func (w *writer) complete(e *entry, res Appended, err error) {
	if e.done() {
		return
	}
	if err != nil {
		w.stumbles.failed(e.stumbler(), &e.info, err, time.Now())
	} else {
		w.stumbles.stored(e.stumbler(), &e.info)
		for _, again := range e.repeated {
			if again {
				w.metrics.duplicates(layerFlush, 1)
			}
		}
	}
	e.pending.res, e.pending.err = res, err
	w.budget.release(e.held) // first: who has its answer holds nothing
	close(e.pending.done)
}
