package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// The bounds of timers.
const (
	TimerOpsMax          = 256 // operations of a call
	TimerKeyBytesMax     = 1024
	TimerPayloadBytesMax = 1 << 20
	TimerHorizon         = 90 * 24 * time.Hour // a timer is due within it
	TimerPageDefault     = 100
	TimerPageMax         = 1000
)

// TimerOp schedules a message for later, or cancels one.
type TimerOp struct {
	Cancel bool
	Queue  string
	Key    string // names the timer in its queue; 1–1,024 bytes, as keys are
	// Of the message to be; a schedule replaces what the key had before.
	Partition string        // empty: as for a push that names none
	ID        []byte        // transactionId; nil: the text of the message id
	Payload   []byte        // its value
	Delay     time.Duration // from now by the database's clock; negative: at once
}

// TimerStatus is what became of a TimerOp.
type TimerStatus string

// The outcomes of a TimerOp.
const (
	TimerScheduled   TimerStatus = "scheduled"
	TimerRescheduled TimerStatus = "rescheduled" // another was pending under the key
	TimerCancelled   TimerStatus = "cancelled"
	TimerAbsent      TimerStatus = "absent" // nothing to cancel: never there, or its message is stored
)

// TimerResult is what became of a TimerOp.
type TimerResult struct {
	Status TimerStatus
	// ID and MessageID are those the message will have, with a schedule.
	ID        []byte
	MessageID uuid.UUID
	// DeliverAt is when it is due: not before it, and about then. Zero with TimerAbsent.
	DeliverAt time.Time
}

// PendingTimer is a timer that has not fired.
type PendingTimer struct {
	Key       string
	Partition string // empty: none was named
	ID        []byte
	MessageID uuid.UUID
	DeliverAt time.Time
	Attempts  int    // to store its message, that failed
	LastError string // of the last of them
	Payload   []byte // of Timer only
}

// Timers schedules and cancels timers in one call, all or nothing.
func (e *Engine) Timers(ctx context.Context, ops []TimerOp) ([]TimerResult, error) {
	call, err := timerCall(ops)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	id := uuid.Must(uuid.NewV7())
	var got []store.TimerResult
	err = e.repeated(ctx, "timers", func(ctx context.Context, _ bool) (err error) {
		got, err = e.db.Timers(ctx, id, call)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.timersSet(ops)
	return timerAnswer(ops, call, got), nil
}

// Timer reads a pending timer; found is false where there is none (any more).
func (e *Engine) Timer(ctx context.Context, queue, key string) (t PendingTimer, found bool, err error) {
	if err := cmp.Or(ValidateName("queue", queue), validateKey("timer key", key)); err != nil {
		return t, false, err
	}
	r, err := e.db.Timer(ctx, queue, key)
	if errors.Is(err, store.ErrNotFound) {
		return t, false, nil
	}
	if err != nil {
		return t, false, storeError("read timer", err)
	}
	return pendingTimer(&r), true, nil
}

// ListTimers lists a queue's pending timers by key, those after a key; more says
// that there are others. A limit of 0 is TimerPageDefault, at most TimerPageMax counts.
func (e *Engine) ListTimers(ctx context.Context, queue, after string, limit int) (page []PendingTimer, more bool, err error) {
	if err := ValidateName("queue", queue); err != nil {
		return nil, false, err
	}
	if after != "" {
		if err := validateKey("after", after); err != nil {
			return nil, false, err
		}
	}
	if limit <= 0 {
		limit = TimerPageDefault
	}
	limit = min(limit, TimerPageMax)
	rows, err := e.db.ListTimers(ctx, queue, after, limit+1)
	if err != nil {
		return nil, false, storeError("list timers", err)
	}
	for i := range rows[:min(limit, len(rows))] {
		page = append(page, pendingTimer(&rows[i]))
	}
	return page, len(rows) > limit, nil
}

func pendingTimer(r *store.TimerRow) PendingTimer {
	t := PendingTimer{
		Key: r.Key, ID: r.ID, MessageID: IDBase{Hi: r.IDHi, Lo: r.IDLo}.ID(0), DeliverAt: r.DeliverAt, Attempts: r.Attempts, Payload: r.Payload,
	}
	if r.Partition != nil {
		t.Partition = *r.Partition
	}
	if r.LastError != nil {
		t.LastError = *r.LastError
	}
	return t
}

// timerCall checks operations and turns them into those of the ledger.
func timerCall(ops []TimerOp) ([]store.TimerOp, error) {
	if len(ops) > TimerOpsMax {
		return nil, fmt.Errorf("%w: %d timers, %d are allowed in a call", ErrInvalidRequest, len(ops), TimerOpsMax)
	}
	now := time.Now()
	call := make([]store.TimerOp, len(ops))
	for i := range ops {
		o := &ops[i]
		if err := o.validate(); err != nil {
			return nil, err
		}
		c := store.TimerOp{Op: "cancel", Queue: o.Queue, Key: o.Key}
		if !o.Cancel {
			base := NewIDBase(now)
			c.Op, c.IDHi, c.IDLo, c.ID, c.Payload, c.DelayMs = "schedule", base.Hi, base.Lo, o.ID, o.Payload, o.Delay.Milliseconds()
			if c.ID == nil {
				c.ID = []byte(base.ID(0).String())
			}
			if o.Partition != "" {
				c.Partition = &o.Partition
			}
		}
		call[i] = c
	}
	return call, nil
}

func (o *TimerOp) validate() error {
	if err := validateKey("timer key", o.Key); err != nil {
		return err
	}
	if o.Cancel {
		return ValidateName("queue", o.Queue)
	}
	if err := validateMessage(&Message{Queue: o.Queue, Partition: o.Partition, ID: o.ID}); err != nil {
		return err
	}
	switch {
	case len(o.Payload) > TimerPayloadBytesMax:
		return fmt.Errorf("%w: the payload of timer %q has %d bytes, %d are allowed", ErrTooLarge, o.Key, len(o.Payload), TimerPayloadBytesMax)
	case o.Delay > TimerHorizon || o.Delay < -TimerHorizon:
		return fmt.Errorf("%w: timer %q: a delay is at most %d days", ErrInvalidRequest, o.Key, TimerHorizon/(24*time.Hour))
	}
	return nil
}

func timerAnswer(ops []TimerOp, call []store.TimerOp, got []store.TimerResult) []TimerResult {
	out := make([]TimerResult, len(got))
	for i, r := range got {
		out[i] = TimerResult{Status: TimerStatus(r.Status), DeliverAt: micros(r.Deliver), ID: ops[i].ID}
		if !ops[i].Cancel {
			out[i].ID, out[i].MessageID = call[i].ID, IDBase{Hi: call[i].IDHi, Lo: call[i].IDLo}.ID(0)
		}
	}
	return out
}

// How timers are fired. Every broker looks every so often, so that one scheduled at
// another is not late by more; what this broker knows to be due it looks for then.
const (
	timersEvery     = 500 * time.Millisecond
	timersBatch     = 32               // in one call
	timersRecent    = 30 * time.Second // a look goes back this far …
	timersAllEvery  = 10 * time.Second // … and all the way this often
	timersDelayMin  = time.Second      // after a failed attempt, doubled each time
	timersDelayMax  = time.Minute
	timerReasonsMax = 500 // bytes of an error that is noted
)

// timersSet tells the firing loop of timers that are due before it looks again.
func (e *Engine) timersSet(ops []TimerOp) {
	if slices.ContainsFunc(ops, func(o TimerOp) bool { return !o.Cancel && o.Delay < timersEvery }) {
		select {
		case e.timerSet <- struct{}{}:
		default:
		}
	}
}

// fireTimers fires what is due until ctx ends.
func (e *Engine) fireTimers(ctx context.Context) {
	failed := e.failed("fire timers")
	var all time.Time // when the last look went all the way back
	for ctx.Err() == nil {
		since := timersRecent
		if time.Since(all) >= timersAllEvery {
			since, all = 0, time.Now()
		}
		wait, err := e.fireDue(ctx, since)
		if err != nil {
			if ctx.Err() == nil {
				failed(err)
			}
			wait, all = timersEvery, time.Time{}
		}
		if wait <= 0 {
			continue
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-e.timerSet:
		}
		t.Stop()
	}
}

// fireDue fires a batch of what is due, and says how long to wait for the next.
func (e *Engine) fireDue(ctx context.Context, since time.Duration) (wait time.Duration, err error) {
	call, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	due, err := e.db.DueTimers(call, since, timersBatch)
	if err != nil {
		return 0, storeError("look for due timers", err)
	}
	wait = timersEvery
	if n := slices.IndexFunc(due, func(t store.DueTimer) bool { return t.Wait > 0 }); n >= 0 {
		wait = min(wait, due[n].Wait)
		due = due[:n]
	} else if len(due) == timersBatch {
		wait = 0
	}
	if len(due) == 0 {
		return wait, nil
	}
	fired, err := e.fire(call, due)
	if fired == 0 && err == nil {
		// Another broker is at it, or each has to wait: no need to hurry.
		wait = timersEvery
	}
	return wait, err
}

// firing is a timer on its way.
type firing struct {
	t store.DueTimer
	f *flight
}

// fire stores the messages of timers. It returns how many are gone.
func (e *Engine) fire(ctx context.Context, due []store.DueTimer) (fired int, err error) {
	pu := &push{done: make(chan struct{})}
	pu.open.Store(int64(len(due)) + 1) // nobody waits for it
	var all []firing
	var parts []*partition
	for _, t := range due {
		m := &Message{Queue: t.Queue, ID: t.ID, Value: t.Payload}
		if t.Partition != nil {
			m.Partition = *t.Partition
		}
		size := nativeSize(m)
		p, err := e.pushTarget(ctx, m, nil)
		if err == nil {
			err = fits(m, size, p)
		}
		if err != nil {
			if err := e.delayTimer(ctx, t, err); err != nil {
				return 0, err
			}
			continue
		}
		it := newPushItem(m, size, &Pushed{}, pu)
		f := &flight{
			p: p, whole: true, base: IDBase{Hi: t.IDHi, Lo: t.IDLo}, fixed: true,
			seg: &openSegment{entries: []*entry{{items: []*pushItem{&it}}}},
		}
		f.seg.deadline, _ = ctx.Deadline()
		all = append(all, firing{t, f})
		if !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	release, err := e.writer.turns(ctx, parts)
	if err != nil {
		return 0, err
	}
	defer release()
	slices.SortStableFunc(all, func(a, b firing) int { return cmp.Compare(a.f.p.id, b.f.p.id) })
	timers := make([]store.FiringTimer, len(all))
	for i, x := range all {
		if !e.writer.prepare(ctx, x.f) {
			return 0, cmp.Or(x.f.seg.entries[0].items[0].out.Err, ErrUnavailable)
		}
		timers[i] = store.FiringTimer{Queue: x.t.Queue, Key: x.t.Key, Segment: x.f.call}
	}
	res, ours, err := e.db.FireTimers(ctx, timers)
	if err != nil {
		// What was fired nevertheless is gone from the next look.
		return 0, storeError("fire timers", err)
	}
	for i, x := range all {
		if !ours[i] {
			continue
		}
		r := &res[i]
		if r.Next >= 0 {
			x.f.p.seen(r.Epoch, r.LogStart, r.Next)
		}
		switch r.Status {
		case store.SegmentStored, store.SegmentAlready:
			e.writer.stored(x.f, r)
			e.writer.wakeReaders(x.f)
			e.metrics.timersFired.Inc()
			fired++
		case store.SegmentDuplicates:
			e.metrics.duplicates.Inc()
			fired++
		case store.SegmentGone: // the next look finds the queue that has the name now
			e.catalog.drop(x.f.p.queue)
			e.tail.forget(x.f.p.id)
			e.cache.Forget(x.f.p.id)
		default: // the window is another one
			if err := e.catalog.reload(ctx, x.f.p.queue); err != nil {
				return fired, err
			}
		}
	}
	return fired, nil
}

// delayTimer puts off a timer that cannot be fired; why is its reason. Where the
// database is not to be had nothing is noted: it is tried again soon anyway.
func (e *Engine) delayTimer(ctx context.Context, t store.DueTimer, why error) error {
	var l *ledgerError
	if errors.As(why, &l) || ctx.Err() != nil {
		return why
	}
	by := timersDelayMax
	if t.Attempts < 6 {
		by = timersDelayMin << t.Attempts
	}
	text := why.Error()
	e.log.Warn("timer cannot be fired; will retry", "queue", t.Queue, "key", t.Key, "error", text)
	if err := e.db.DelayTimer(ctx, t, by, strings.ToValidUTF8(text[:min(len(text), timerReasonsMax)], "")); err != nil {
		return storeError("put off timer", err)
	}
	return nil
}
