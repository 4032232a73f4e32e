package queen

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// What is read for answers is bounded like what is accepted: clients that ask for
// much and read nothing would fill the memory.
const (
	answerRoomShare = 8                // a grant is at most this part of what is free
	answerRoomMin   = 64 << 10         // but not less than this
	answerRoomWait  = 10 * time.Second // for room at all, then the answer is refused
	// answerRoomPatience is how long an answer may be read while others wait for its
	// memory; it is looked at as often as the second says.
	answerRoomPatience = 5 * time.Second
	answerRoomEvery    = time.Second
	// answerRoomTimes is what messages take while they are made an answer of: as
	// they lie in rows, unpacked (twice that at most), and as text.
	answerRoomTimes = 4
)

// answerRoom is the memory of answers that are being made or written. Who asks
// gets a part of what is left, so that little is left for nobody, and waits
// only where nothing is: what is taken may be more than was granted, as a first
// message or batch is given whole.
type answerRoom struct {
	mu    sync.Mutex
	free  int
	freed chan struct{} // closed when bytes come back; nil where nobody waits
}

func newAnswerRoom(bytesMax int) *answerRoom { return &answerRoom{free: bytesMax} }

// grant takes up to want bytes.
func (r *answerRoom) grant(ctx context.Context, want int) (int, error) {
	var patience <-chan time.Time
	for {
		r.mu.Lock()
		if r.free > 0 {
			n := min(want, max(r.free/answerRoomShare, answerRoomMin))
			r.free -= n
			r.mu.Unlock()
			return n, nil
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		r.mu.Unlock()
		if patience == nil {
			timer := time.NewTimer(answerRoomWait)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-freed:
		case <-patience:
			return 0, fmt.Errorf("%w: the answers under way have all the memory that is meant for them, and their clients do not read them", ErrUnavailable)
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for room for an answer: %w", context.Cause(ctx))
		}
	}
}

// give returns n bytes; below 0 it takes them, whatever is there.
func (r *answerRoom) give(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free += n; r.free > 0 && r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// AnswerRoom is what one answer holds of the memory for answers. Its zero value holds
// nothing; who makes an answer of messages releases it when the answer is written,
// or never will be.
type AnswerRoom struct {
	room     *answerRoom
	n        int
	bytesMax int // what a read was cut to
}

// grant adds up to want bytes to what is held and returns how many.
func (a *AnswerRoom) grant(ctx context.Context, r *answerRoom, want int) (int, error) {
	n, err := r.grant(ctx, want)
	a.room = r
	a.n += n
	return n, err
}

// settle makes the last n bytes granted those really used.
func (a *AnswerRoom) settle(n, used int) {
	a.room.give(n - used)
	a.n += used - n
}

// Release gives back what is held.
func (a *AnswerRoom) Release() {
	if a.n != 0 {
		a.room.give(a.n)
		a.n = 0
	}
}

// CutWhenWanted calls cut, once, when this answer has been written for some seconds
// and others wait for memory. cut does not wait for anything; when stop has returned it
// is not called any more, since the connection may be at its next answer by then.
func (a *AnswerRoom) CutWhenWanted(cut func()) (stop func()) {
	r := a.room
	if r == nil {
		return func() {}
	}
	var mu sync.Mutex // of timer, and of what it does
	var timer *time.Timer
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case timer == nil:
		case r.wanted():
			cut()
		default:
			timer.Reset(answerRoomEvery)
		}
	}
	mu.Lock()
	timer = time.AfterFunc(answerRoomPatience, look)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}

func (r *answerRoom) wanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freed != nil
}
