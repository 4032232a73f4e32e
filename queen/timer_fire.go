package queen

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"queenmq/store"
)

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
	all, err := e.firings(ctx, due)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	var parts []*partition
	for _, x := range all {
		if !slices.Contains(parts, x.f.p) {
			parts = append(parts, x.f.p)
		}
	}
	release, err := e.writer.turns(ctx, parts)
	if err != nil {
		return 0, err
	}
	defer release()
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
		gone, err := e.fired(ctx, x.f, &res[i])
		if err != nil {
			return fired, err
		}
		if gone {
			fired++
		}
	}
	return fired, nil
}

// firings makes a flight of each timer's message, in ascending order of partitions. A
// timer whose message cannot go anywhere is put off.
func (e *Engine) firings(ctx context.Context, due []store.DueTimer) (all []firing, err error) {
	pu := &push{done: make(chan struct{})}
	pu.open.Store(int64(len(due)) + 1) // nobody waits for it
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
				return nil, err
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
	}
	slices.SortStableFunc(all, func(a, b firing) int { return cmp.Compare(a.f.p.id, b.f.p.id) })
	return all, nil
}

// fired takes the answer to a timer of ours, and says whether the timer is gone.
func (e *Engine) fired(ctx context.Context, f *flight, r *store.SegmentResult) (gone bool, err error) {
	if r.Next >= 0 {
		f.p.seen(r.Epoch, r.LogStart, r.Next)
	}
	switch r.Status {
	case store.SegmentStored, store.SegmentAlready:
		e.writer.stored(f, r)
		e.writer.wakeReaders(f)
		e.metrics.timersFired.Inc()
		return true, nil
	case store.SegmentDuplicates:
		e.metrics.duplicates(layerLedger, 1)
		return true, nil
	case store.SegmentGone: // the next look finds the queue that has the name now
		e.catalog.drop(f.p.queue)
		e.tail.forget(f.p.id)
		e.cache.Forget(f.p.id)
		return false, nil
	default: // the window is another one
		return false, e.catalog.reload(ctx, f.p.queue)
	}
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
