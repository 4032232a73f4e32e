package queen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queenmq/store"
)

// readState is one item of a read on its way, and its answer so far.
type readState struct {
	p      *partition // nil: refused, answer has the error
	item   ReadItem
	answer ReadAnswer
	segs   []*segment // that the answer's batches lie in
	lend   bool       // the answer's memory is taken back when it is released
}

// give takes whole batches from segs, in order, up to limit bytes; first lets
// the first one through whatever its size. It returns the bytes taken.
func (s *readState) give(segs []*segment, limit int, first bool) int {
	n := 0
	for _, seg := range segs {
		before := len(s.answer.Batches)
		var size int
		var all bool
		s.answer.Batches, size, all = seg.appendFrom(s.answer.Batches, s.item.Offset, limit-n, first)
		if len(s.answer.Batches) > before {
			s.segs = append(s.segs, seg)
			first = false
		}
		n += size
		if !all {
			break // what follows must not be given without what was left out
		}
	}
	return n
}

// Read answers one ReadAnswer per item, in order. It waits until MinBytes are
// there, an item has an error, MaxWait passed, or ctx ended. What is there
// may come from memory; that something is not there, from the database, or from
// a mark that is being watched.
func (e *Engine) Read(ctx context.Context, r ReadRequest) ([]ReadAnswer, error) {
	items := make([]readState, len(r.Items))
	look := e.catalog.lookups(len(r.Items), func(i int) QueueRef { return r.Items[i].Partition.Queue })
	for i, it := range r.Items {
		p, err := look.partition(ctx, it.Partition)
		if err == nil {
			err = e.checkEpoch(it.CurrentEpoch)
		}
		items[i] = readState{p: p, item: it, lend: true}
		if err != nil {
			items[i].p, items[i].answer = nil, noAnswer(err)
		}
	}
	r.times = 1
	held, err := e.read(ctx, items, r)
	if err != nil {
		return nil, err
	}
	out := make([]ReadAnswer, len(items))
	for i := range items {
		out[i] = items[i].answer
		if held.n > 0 {
			out[i].room = held
		}
	}
	return out, nil
}

func noAnswer(err error) ReadAnswer {
	return ReadAnswer{Err: err, LogStart: -1, HighWatermark: -1, LastStable: -1}
}

// read fills in the items' answers, and returns what they hold of the memory for
// answers, which is the caller's to give back.
func (e *Engine) read(ctx context.Context, items []readState, r ReadRequest) (held *AnswerRoom, err error) {
	held = &AnswerRoom{}
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	return held, e.readInto(ctx, items, r, held)
}

func (e *Engine) readInto(ctx context.Context, items []readState, r ReadRequest, held *AnswerRoom) error {
	e.meetIncarnation()
	bytesMax := min(r.MaxBytes, e.cfg.ReadBytesMax)
	deadline := time.Now().Add(r.MaxWait)
	for registered := (*waiter)(nil); ; {
		held.Release() // of the look before
		room := &lookRoom{held: held, of: e.answers, bytesMax: bytesMax, times: r.times}
		n, bad, err := e.look(ctx, items, room)
		room.settle(items)
		held.bytesMax = room.bytesMax
		if err != nil {
			return err
		}
		left := time.Until(deadline)
		if bad || n >= min(r.MinBytes, room.bytesMax) || left <= 0 {
			return nil
		}
		if registered == nil {
			// Register, then look again, then wait: no write slips between.
			if registered, err = e.watch(items); err != nil {
				return err
			}
			defer registered.close()
			continue
		}
		if more, err := e.await(ctx, registered.wake, left); err != nil || !more {
			return err
		}
	}
}

// checkEpoch compares a client's leader epoch with ours; −1 is not checked.
func (e *Engine) checkEpoch(epoch int32) error {
	now := e.db.Incarnation().Epoch
	switch {
	case epoch < 0 || epoch == now:
		return nil
	case epoch < now:
		return fmt.Errorf("%w: %d, the log is at %d; refresh metadata", ErrFencedEpoch, epoch, now)
	default:
		return fmt.Errorf("%w: %d, this broker knows %d", ErrUnknownEpoch, epoch, now)
	}
}

// lookRoom is the room of one look. It is taken when there is something to give, so
// that those who find nothing, which is most, keep it from nobody.
type lookRoom struct {
	held     *AnswerRoom
	of       *answerRoom
	bytesMax int // of batches; less once room was taken, where little is left
	times    int // what a byte of them takes
	granted  int
}

func (l *lookRoom) take(ctx context.Context) error {
	if l.granted > 0 {
		return nil
	}
	n, err := l.held.grant(ctx, l.of, l.times*max(l.bytesMax, 1))
	l.granted, l.bytesMax = n, min(l.bytesMax, n/l.times)
	return err
}

// settle makes what is held what the items' answers take.
func (l *lookRoom) settle(items []readState) {
	if l.granted == 0 {
		return
	}
	used := 0
	for i := range items {
		a := &items[i].answer
		given := 0
		for _, b := range a.Batches {
			given += len(b)
		}
		rows := 0
		if a.lent != nil {
			for _, r := range a.lent.rows {
				rows += len(r)
			}
		}
		used += max(given, rows)
	}
	l.held.settle(l.granted, l.times*used)
}

// look answers the items once, from memory where it can. It returns the bytes
// found and whether an item has an error.
func (e *Engine) look(ctx context.Context, items []readState, room *lookRoom) (n int, bad bool, err error) {
	epoch, now, alone := e.db.Incarnation().Epoch, time.Now(), e.brokers.alone()
	var spans []store.ReadSpan
	var asked []*readState
	for i := range items {
		s := &items[i]
		if s.p == nil {
			bad = true
			continue
		}
		s.answer.Release() // from the look before
		s.answer, s.segs = ReadAnswer{}, nil
		if last := s.item.LastFetchedEpoch; last >= 0 && last < epoch {
			d, err := e.diverging(ctx, s)
			if err != nil {
				return 0, false, err
			}
			if d != nil {
				s.answer = e.empty(s.p)
				s.answer.Diverging = d
				bad = true
				continue
			}
		}
		limit := min(s.item.MaxBytes, room.bytesMax-n)
		m := s.p.marks()
		here := m.known && m.epoch == epoch
		switch {
		case n > 0 && limit <= 0 && here:
			s.answer = e.empty(s.p)
			continue
		case here && s.item.Offset >= m.logStart && s.item.Offset < m.next && e.mayGive(s.p, alone, now):
			if err := room.take(ctx); err != nil {
				return 0, false, err
			}
			limit = min(limit, room.bytesMax-n)
			// None where the tail ends below the mark: another broker wrote on.
			if segs, _, ok := e.tail.segments(s.p.id, epoch, s.item.Offset, limit); ok && len(segs) > 0 {
				s.answer = e.empty(s.p)
				n += s.give(segs, limit, n == 0)
				e.metrics.tailReads.Inc()
				continue
			}
			if segs := e.spilled(s, epoch, limit); len(segs) > 0 {
				n += s.give(segs, limit, n == 0)
				continue
			}
		case here && s.item.Offset == m.next && e.watched(s.p, now):
			s.answer = e.empty(s.p)
			continue
		}
		if err := room.take(ctx); err != nil {
			return 0, false, err
		}
		limit = min(limit, room.bytesMax-n)
		spans = append(spans, store.ReadSpan{Partition: s.p.id, Offset: s.item.Offset, MaxBytes: limit})
		asked = append(asked, s)
	}
	if len(spans) == 0 {
		return n, bad, nil
	}
	rows, errs, err := e.readSpans(ctx, spans, max(room.bytesMax-n, 1))
	if err != nil {
		return 0, false, err
	}
	e.metrics.storeReads.Add(float64(len(spans)))
	for k, s := range asked {
		if errs != nil && errs[k] != nil {
			e.damaged(s.p, errs[k])
			s.answer = e.empty(s.p)
			s.answer.Err, bad = errs[k], true
			continue
		}
		s.p.askedAt.Store(now.UnixNano())
		got := e.take(s, rows[k], min(s.item.MaxBytes, room.bytesMax-n), n == 0)
		n += got
		bad = bad || s.answer.Err != nil
	}
	return n, bad, nil
}

// readSpans reads spans in one statement, or, where PostgreSQL cannot read what it
// stored of one of them, each in its own: errs has what is wrong with which, or is nil.
func (e *Engine) readSpans(ctx context.Context, spans []store.ReadSpan, bytesMax int) (reads []store.SpanRead, errs []error, err error) {
	reads, err = e.db.Read(ctx, spans, bytesMax)
	if err == nil {
		return reads, nil, nil
	}
	if !errors.Is(err, store.ErrCorrupted) {
		return nil, nil, storeError("read", err)
	}
	if len(spans) == 1 {
		return make([]store.SpanRead, 1), []error{storeError("read", err)}, nil
	}
	reads, errs = make([]store.SpanRead, len(spans)), make([]error, len(spans))
	for i := range spans {
		one, oneErrs, err := e.readSpans(ctx, spans[i:i+1], max(bytesMax, 1))
		if err != nil {
			return nil, nil, err
		}
		if reads[i] = one[0]; oneErrs != nil {
			errs[i] = oneErrs[0]
			continue
		}
		for _, seg := range reads[i].Segments {
			bytesMax -= len(seg.Data)
		}
	}
	return reads, errs, nil
}

// spilled is what was kept of a partition when it left the tail, as the tail would give it.
func (e *Engine) spilled(s *readState, epoch int32, limit int) []*segment {
	segs, rows, err := e.tail.spill.segments(s.p.id, epoch, s.item.Offset, limit)
	if err != nil {
		e.log.Warn("asking the database instead", "error", err)
	}
	if len(segs) == 0 {
		return nil
	}
	s.answer = e.empty(s.p)
	if s.lend {
		s.answer.lent = &lentMemory{rows: rows}
	}
	e.metrics.spillReads.Inc()
	return segs
}

// empty is the answer where nothing is given, with the marks remembered.
func (e *Engine) empty(p *partition) ReadAnswer {
	m := p.marks()
	if !m.known {
		return ReadAnswer{LogStart: -1, HighWatermark: -1, LastStable: -1}
	}
	return ReadAnswer{LogStart: m.logStart, HighWatermark: m.next, LastStable: m.next}
}

// take makes an item's answer of what the database said; it returns the bytes given.
// A segment that cannot be read is the item's error when nothing before it is left.
func (e *Engine) take(s *readState, r store.SpanRead, limit int, first bool) int {
	if !r.Found {
		e.catalog.drop(s.p.queue)
		s.answer = noAnswer(unknownQueue(s.item.Partition.Queue))
		return 0
	}
	s.p.seen(r.Incarnation, r.LogStart, r.NextOffset)
	s.answer = ReadAnswer{LogStart: r.LogStart, HighWatermark: r.NextOffset, LastStable: r.NextOffset}
	if s.item.Offset < r.LogStart || s.item.Offset > r.NextOffset {
		s.answer.Err = fmt.Errorf("%w: offset %d, the log has %d to %d", ErrOffsetOutOfRange, s.item.Offset, r.LogStart, r.NextOffset)
		return 0
	}
	segs := make([]*segment, 0, len(r.Segments))
	lent := &lentMemory{}
	for _, row := range r.Segments {
		seg, err := loadRow(row)
		if err != nil {
			e.damaged(s.p, err)
			if len(segs) == 0 {
				s.answer.Err = err
			}
			break
		}
		segs = append(segs, seg)
		if seg.end == r.NextOffset-1 {
			e.tail.add(s.p.id, r.Incarnation, seg) // the newest: others at the end find it in memory
		} else {
			lent.rows = append(lent.rows, seg.data)
		}
	}
	if s.lend {
		s.answer.lent = lent
	}
	return s.give(segs, limit, first)
}

// loadRow is loadSegment of a row that was read: nothing may look at its data any more.
func loadRow(r store.SegmentRow) (*segment, error) {
	seg, err := loadSegment(r.Base, r.End, r.Epoch, r.CreatedAt, r.Header, r.Data)
	if err != nil {
		return nil, fmt.Errorf("load segment %d of partition %d: %w", r.End, r.Partition, err)
	}
	if &seg.data[0] != &r.Data[0] {
		store.Recycle(r.Data) // it was unpacked into other memory
	}
	return seg, nil
}

// diverging tells where the client's log left ours, if it did (KIP-595): the
// epoch of its last record ended below the offset it asks for. That we know
// of no record of that epoch means nothing: compaction removes records anywhere.
func (e *Engine) diverging(ctx context.Context, s *readState) (*EpochEnd, error) {
	end, ok, err := e.epochEnd(ctx, s.p, s.item.LastFetchedEpoch)
	if err != nil {
		return nil, err
	}
	if ok && end.EndOffset < s.item.Offset {
		return &end, nil
	}
	return nil, nil //nolint:nilnil // no divergence is an answer
}
