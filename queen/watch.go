package queen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"queenmq/store"
)

// poll looks for other brokers' writes to partitions that have waiters, or had
// a short while ago, and for where those begin by now that are read from memory.
// Local writes wake their readers directly.
func (e *Engine) poll(ctx context.Context) {
	every := e.cfg.PollMax
	failed := e.failed("poll for other brokers' writes")
	var was company
	for next := time.Now().Add(every); ; {
		sleep(ctx, min(e.cfg.PollMax, time.Until(next)))
		if ctx.Err() != nil {
			return
		}
		e.meetIncarnation()
		began := time.Now()
		if early := began.Before(next); early || every > e.cfg.PollMax {
			// A poll that takes long is put off, but not when another broker has come.
			if came := e.othersCame(ctx, &was); early && !came {
				continue
			}
		}
		found, over, err := e.pollOnce(ctx)
		was.alone = e.brokers.alone()
		every = e.cfg.pollPause(every, found, was.alone, workOf(time.Since(began), over))
		if err != nil {
			if ctx.Err() == nil {
				failed(err)
			}
			every = e.cfg.PollMax // whatever it took was not work
		}
		next = time.Now().Add(every)
	}
}

// company is what was known of other brokers when it was last asked whether one came.
type company struct {
	sole  store.Registrations // nobody else writes; zero: others may
	alone bool                // nobody is heard of: a pause chosen then may be long
}

// othersCame says whether another broker may have come, or gone, or is heard of now,
// since it was asked last, with the same company.
func (e *Engine) othersCame(ctx context.Context, was *company) bool {
	now := company{alone: e.brokers.alone()}
	var err error
	if now.sole, err = e.sole(ctx); err != nil || now == *was {
		return false
	}
	*was = now
	return true
}

// The share of its time that the poll may keep the database busy: one part in so many.
const (
	pollShare      = 10
	pollShareAlone = 200 // nobody else is there to write, as far as known
)

// pollPause is the pause before the next poll: short while writes are found, longer
// and longer up to PollMax while none are, and always PollMax for who is alone. Where
// many partitions are polled a poll takes time, and the pause is a multiple of it.
func (c *Config) pollPause(last time.Duration, found, alone bool, took time.Duration) time.Duration {
	if alone {
		return max(c.PollMax, pollShareAlone*took)
	}
	if found {
		return max(c.PollMin, pollShare*took)
	}
	return max(min(2*last, c.PollMax), pollShare*took)
}

// pollOnce compares the ends of watched partitions with what is remembered, and
// wakes the readers of those that moved. It reports whether any did, and of how many.
func (e *Engine) pollOnce(ctx context.Context) (found bool, over int, err error) {
	// Longer than watched() trusts, so that a mark in use is always polled.
	parts := e.watches.since(time.Now().Add(-2 * e.cfg.WatchFor))
	if len(parts) == 0 {
		return false, 0, nil
	}
	ids := make([]int64, len(parts))
	before := make([]mark, len(parts))
	for i, p := range parts {
		ids[i] = p.id
		before[i] = p.marks()
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	began := time.Now()
	rows, err := e.db.Marks(ctx, ids)
	if err != nil {
		return false, 0, storeError("read the ends of logs", err)
	}
	for i, r := range rows {
		p := parts[i]
		if !r.Found {
			e.catalog.drop(p.queue)
			e.waiters.wake(p.id)
			continue
		}
		p.seen(r.Incarnation, r.LogStart, r.NextOffset)
		p.askedAt.Store(began.UnixNano())
		if now := p.marks(); !before[i].known || now.next != before[i].next {
			found = true
			e.waiters.wake(p.id)
			e.hotlist.wrote(p)
		}
	}
	return found, len(parts), nil
}

// watchSet holds the partitions that the poll asks about: those with a waiter, or
// read from memory beside other brokers, now or within WatchFor. Its size is bounded
// by the catalog's.
type watchSet struct {
	mu sync.Mutex
	m  map[*partition]struct{}
}

// add has a partition polled that is waited at.
func (w *watchSet) add(p *partition, now time.Time) { w.poll(p, &p.waitedAt, now) }

// give has a partition polled that memory is read of.
func (w *watchSet) give(p *partition, now time.Time) { w.poll(p, &p.givenAt, now) }

func (w *watchSet) poll(p *partition, why *atomic.Int64, now time.Time) {
	why.Store(now.UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m[p] = struct{}{}
}

// since drops the partitions last waited for, or read, before t, and lists the rest.
func (w *watchSet) since(t time.Time) []*partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*partition, 0, len(w.m))
	for p := range w.m {
		if max(p.waitedAt.Load(), p.givenAt.Load()) < t.UnixNano() {
			delete(w.m, p)
			continue
		}
		out = append(out, p)
	}
	return out
}

// watch registers a waiter on the items' partitions and puts them into the poll.
func (e *Engine) watch(items []readState) (*waiter, error) {
	now := time.Now()
	ids := make([]int64, 0, len(items))
	for _, s := range items {
		if s.p != nil {
			e.watches.add(s.p, now)
			ids = append(ids, s.p.id)
		}
	}
	return e.waiters.register(ids)
}

// await waits for a wake-up. It reports false when there is nothing more to wait
// for: the time is over, or the engine is closing. The error is ctx's.
func (e *Engine) await(ctx context.Context, wake <-chan struct{}, d time.Duration) (bool, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
		return true, nil
	case <-t.C:
		return false, nil
	case <-e.stopping:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("wait: %w", context.Cause(ctx))
	}
}

// watched says whether other brokers' writes to p are being polled for, so
// that its mark is at most one poll old. A look is over many partitions at one time.
func (e *Engine) watched(p *partition, now time.Time) bool {
	return now.UnixNano()-p.waitedAt.Load() < int64(e.cfg.WatchFor)
}

// mayGive says whether memory may give what it has of p. Another broker may have
// raised the log start: the ledger was asked for it within WatchFor, or is now,
// and from then on the poll asks. Who is alone raises it himself.
func (e *Engine) mayGive(p *partition, alone bool, now time.Time) bool {
	if alone {
		return true
	}
	since := func(at *atomic.Int64) time.Duration { return time.Duration(now.UnixNano() - at.Load()) }
	polled := min(since(&p.waitedAt), since(&p.givenAt))
	if polled > e.cfg.WatchFor/2 {
		e.watches.give(p, now) // before the poll leaves it out
	}
	return polled < e.cfg.WatchFor && since(&p.askedAt) < e.cfg.WatchFor
}
