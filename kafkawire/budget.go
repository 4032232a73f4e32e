package kafkawire

import (
	"container/list"
	"context"
	"sync"
)

// room bounds the frames in flight, over all connections, in parts, so that who
// sends slowly, or much, keeps out nobody else.
type room struct {
	parts [roomParts]*budget
}

// The parts of the room, in the order in which a frame takes of them, each once: who
// waits for one holds only of those before it. So whoever has taken of the last one
// waits for nobody, and those behind him get on.
const (
	roomFirst      = iota // the first frameStep bytes of a frame
	roomRest              // its rest, if that is no more than largePiece
	roomLarge             // a larger rest
	roomServe             // what decoding may take, and frames of ownBytes: up to largePiece
	roomServeLarge        // more
	roomWaiting           // requests that wait long, as far as there is room
	roomParts
)

// roomTenths is the size of each part.
var roomTenths = [roomParts]int64{roomFirst: 1, roomRest: 2, roomLarge: 3, roomServe: 2, roomServeLarge: 1, roomWaiting: 1}

// largePiece is the size above which a piece needs a part for large ones.
const largePiece = 1 << 20

// ownBytes is the size up to which a frame lies in the memory of its connection until
// all of it has come: it takes room only then, and waits for no other that is under way.
const ownBytes = 4 << 10

// share is what a frame holds of each part.
type share [roomParts]int64

// bytes is all that it holds.
func (s *share) bytes() int64 {
	n := int64(0)
	for _, held := range s {
		n += held
	}
	return n
}

func newRoom(size int64) *room {
	r := &room{}
	for i, tenths := range roomTenths {
		r.parts[i] = newBudget(size * tenths / 10)
	}
	return r
}

// pieceOf is the part for n bytes: small, or the one after it.
func pieceOf(small int, n int64) int {
	if n > largePiece {
		return small + 1
	}
	return small
}

// take adds n bytes of a part to what s holds, or waits for them, or for ctx. A frame
// with all of a part has enough of it.
func (r *room) take(ctx context.Context, s *share, part int, n int64) error {
	b := r.parts[part]
	took, err := b.take(ctx, min(n, b.size-s[part]))
	s[part] += took
	return err
}

// tryTake is take where there is nothing to wait for.
func (r *room) tryTake(s *share, part int, n int64) bool {
	b := r.parts[part]
	n = min(n, b.size-s[part])
	if n > 0 && !b.tryTake(n) { // who needs nothing waits behind nobody
		return false
	}
	s[part] += n
	return true
}

// park makes what s holds n bytes at most, of the part for those who wait if it has
// room for them.
func (r *room) park(s *share, n int64) {
	var parked share
	if n < r.parts[roomWaiting].size && r.tryTake(&parked, roomWaiting, n) {
		r.leave(s)
		*s = parked
		return
	}
	for i := range s {
		kept := min(s[i], n)
		n -= kept
		r.parts[i].give(s[i] - kept)
		s[i] = kept
	}
}

// leave gives back all that s holds.
func (r *room) leave(s *share) {
	for i := range s {
		r.parts[i].give(s[i])
		s[i] = 0
	}
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

// wanted says whether somebody waits.
func (b *budget) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queue.Len() > 0
}

// give returns n bytes; below 0 it takes them, there or not.
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
