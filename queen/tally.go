package queen

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// The patience of a tally.
const (
	// tallyWait is how long somebody who could have an older result waits for one made
	// since they asked; making one may take so long before it has a share of the time.
	tallyWait  = 400 * time.Millisecond
	tallyShare = 10 // what takes longer is made for one part in so many of the time
)

// tally is a result over everything there is, which may take long to make. It is made
// when somebody asks, once for all who ask meanwhile, by the engine's goroutine for it: so
// nobody waits for it who has had a result before, and nobody who leaves stops it.
type tally[T any] struct {
	mu      sync.Mutex
	last    *tallied[T]   // the last that succeeded; nil: none yet
	began   time.Time     // of the one being made
	making  chan struct{} // closed when it is made; nil: none is
	failure error         // of the last that was made; nil: it succeeded
}

// tallied is a result and when making it began.
type tallied[T any] struct {
	result T
	at     time.Time
	took   time.Duration
	ended  time.Time
}

// get returns a result that was made since the caller came, or, where that takes longer
// than tallyWait, the last there is. The first is waited for.
func (t *tally[T]) get(ctx context.Context, e *Engine, makeOne func(context.Context) (T, error)) (*tallied[T], error) {
	came := time.Now()
	soon := time.NewTimer(tallyWait)
	defer soon.Stop()
	var waited bool // for one that was made since
	for {
		t.mu.Lock()
		last, failure := t.last, t.failure
		switch {
		case last != nil && !last.at.Before(came),
			last != nil && t.making == nil && failure == nil && !last.due(time.Now()):
			t.mu.Unlock()
			return last, nil
		case waited && failure != nil:
			t.mu.Unlock()
			return nil, failure
		}
		if t.making == nil {
			t.making, t.began = make(chan struct{}), time.Now()
			e.tallies <- func(ctx context.Context) { t.made(makeOne(ctx)) } // it has room for one of each
		}
		made := t.making
		waited = !t.began.Before(came)
		t.mu.Unlock()
		var late <-chan time.Time // never, without an older result
		if last != nil {
			late = soon.C
		}
		select {
		case <-made:
		case <-late:
			return last, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("count: %w", context.Cause(ctx))
		case <-e.ctx.Done():
			return nil, fmt.Errorf("count: %w", context.Cause(e.ctx))
		}
	}
}

// due says whether another one may be made.
func (t *tallied[T]) due(now time.Time) bool {
	return t.took <= tallyWait || now.Sub(t.ended) >= tallyShare*t.took
}

// made takes what was made.
func (t *tally[T]) made(result T, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.failure = err; err == nil {
		t.last = &tallied[T]{result, t.began, now.Sub(t.began), now}
	}
	close(t.making)
	t.making = nil
}

// tally makes what was asked for, one after the other.
func (e *Engine) tally(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case makeOne := <-e.tallies:
			makeOne(ctx)
		}
	}
}
