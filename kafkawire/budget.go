package kafkawire

import (
	"container/list"
	"context"
	"sync"
)

// room bounds the frames in flight, over all connections, in two parts, so that
// heartbeats and fetches get through while somebody sends 100 MiB slowly.
type room struct {
	small, large *budget
}

// share is what a frame holds of the room.
type share struct {
	small, large int64
}

// largePiece is the size above which a piece needs the larger part.
const largePiece = 1 << 20

func newRoom(size int64) *room {
	return &room{small: newBudget(size / 5), large: newBudget(size - size/5)}
}

// part is where a piece of n bytes is taken from, and what s holds of it.
func (r *room) part(s *share, n int64) (part *budget, held *int64) {
	if n > largePiece {
		return r.large, &s.large
	}
	return r.small, &s.small
}

// take adds n bytes to what s holds, or waits for them, or for ctx. A frame with
// all of a part has enough of it.
func (r *room) take(ctx context.Context, s *share, n int64) error {
	part, held := r.part(s, n)
	took, err := part.take(ctx, min(n, part.size-*held))
	*held += took
	return err
}

// tryTake is take where there is nothing to wait for.
func (r *room) tryTake(s *share, n int64) bool {
	part, held := r.part(s, n)
	n = min(n, part.size-*held)
	if n > 0 && !part.tryTake(n) { // who needs nothing waits behind nobody
		return false
	}
	*held += n
	return true
}

// keep gives back what s holds above n bytes.
func (r *room) keep(s *share, n int64) {
	excess := max(0, s.small+s.large-n)
	large := min(excess, s.large)
	small := min(excess-large, s.small)
	s.large, s.small = s.large-large, s.small-small
	r.large.give(large)
	r.small.give(small)
}

// budget is a bound on bytes shared by all connections. Takers are served in
// the order they came, so that a large one is not starved by small ones.
type budget struct {
	mu    sync.Mutex
	size  int64
	free  int64
	queue list.List // of *taker
}

type taker struct {
	n     int64
	ready chan struct{}
}

func newBudget(size int64) *budget { return &budget{size: size, free: size} }

// take waits for n bytes of room, or for ctx. More than the whole budget counts
// as all of it. It returns what must be given back.
func (b *budget) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.size)
	if b.tryTake(n) {
		return n, nil
	}
	t := &taker{n: n, ready: make(chan struct{})}
	b.mu.Lock()
	e := b.queue.PushBack(t)
	b.grant() // room that came meanwhile
	b.mu.Unlock()

	select {
	case <-t.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-t.ready: // granted at the last moment
		return n, nil
	default:
	}
	b.queue.Remove(e)
	b.grant() // it may have been the one in the way
	return 0, context.Cause(ctx)
}

// tryTake takes n bytes if they are there and nobody came before.
func (b *budget) tryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue.Len() > 0 || b.free < n {
		return false
	}
	b.free -= n
	return true
}

// give returns n bytes.
func (b *budget) give(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if b.free > b.size {
		panic("BUG: more bytes given back to the budget than taken")
	}
	b.grant()
}

// grant serves the queue's front while there is room. mu is held.
func (b *budget) grant() {
	for e := b.queue.Front(); e != nil; e = b.queue.Front() {
		t := e.Value.(*taker)
		if t.n > b.free {
			return
		}
		b.free -= t.n
		b.queue.Remove(e)
		close(t.ready)
	}
}
