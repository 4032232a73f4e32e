package queen

import (
	"context"
	"fmt"
	"time"

	"queenmq/store"
)

// Segments that go in calls of their own: those whose call looks through a large span,
// those whose row somebody holds, those a shared call failed with. Each may take long, so
// no flusher waits for them, and they have half as many places as there are flushers:
// whatever they wait for, the rest has connections.

// goAlone sends those that go alone on their way and returns the others.
func (w *writer) goAlone(ctx context.Context, fl []*flight) (others []*flight) {
	for _, f := range fl {
		if !f.alone {
			others = append(others, f)
			continue
		}
		w.goes.Go(func() { w.flushAlone(ctx, f) })
	}
	return others
}

// flushAlone stores one flight, as soon as there is a place.
func (w *writer) flushAlone(ctx context.Context, f *flight) {
	late := time.NewTimer(time.Until(f.seg.deadline))
	defer late.Stop()
	select {
	case w.alone <- struct{}{}:
		defer func() { <-w.alone }()
	case <-late.C:
		w.lapse(f)
		return
	case <-ctx.Done():
		w.lapse(f)
		return
	}
	backoff := w.cfg.RetryMin
	for left := []*flight{f}; len(left) > 0; {
		left = w.attempt(ctx, left, &backoff)
	}
}

// lapse fails a flight that never got its place.
func (w *writer) lapse(f *flight) {
	w.fail(f, w.outcome(f, fmt.Errorf("%w: calls that take long have all places", store.ErrUnavailable)))
	w.finish(f)
}

// restMax bounds how long a partition gives way after one call.
const restMax = 250 * time.Millisecond

// rest is how long a partition gives way after a call that took so long: as long again,
// where the call looked through a large span and other partitions have work. A
// partition that is looked through again and again would keep a processor of the
// database from them all the time.
func (w *writer) rest(f *flight, took time.Duration, busy bool) time.Duration {
	if !f.probes || !busy || w.closing.Load() {
		return 0
	}
	return min(took, restMax)
}
