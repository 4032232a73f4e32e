package kafkawire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// replyRoom bounds the memory of replies, over all connections: those being made, and
// those that their clients are slow to read. A reply's size is known when it is made, so
// room is taken for as much as replies to the same had lately, and what it
// really takes is counted then, there or not. Records are not counted: they are the
// engine's (queen.AnswerRoom), as are replies of up to outKept, for which each
// connection keeps a buffer anyway.
type replyRoom struct {
	budget   *budget
	waitMax  time.Duration // for room, then the connection is closed
	patience time.Duration // a reply may be read for so long while others wait, then it is cut
}

// replyPatience is how long a large reply may be read while others wait for its memory.
const replyPatience = 5 * time.Second

// replyMaking is what making a reply takes of memory, for each of its bytes.
const replyMaking = 4

// errNoReplyRoom is why a request was not answered although nothing is wrong with it.
var errNoReplyRoom = errors.New("no room for a reply: ReplyBytesMax is taken by replies that their clients do not read")

func newReplyRoom(cfg *Config) *replyRoom {
	return &replyRoom{budget: newBudget(cfg.ReplyBytesMax), waitMax: cfg.InFlightWait, patience: replyPatience}
}

// take waits for room for a reply of about n bytes, in held, which holds nothing yet.
func (r *replyRoom) take(ctx context.Context, held *int64, n int64) error {
	if n <= outKept {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, r.waitMax, errNoReplyRoom)
	defer stop()
	var err error
	*held, err = r.budget.take(ctx, n)
	return err
}

// settle makes what is held the n bytes that a reply turned out to have.
func (r *replyRoom) settle(held *int64, n int64) {
	if n <= outKept {
		n = 0
	}
	r.budget.give(*held - n)
	*held = n
}

// cutWhenWanted calls cut, once, when a reply has been read for too long while others
// wait for memory; never after stop has returned.
func (r *replyRoom) cutWhenWanted(cut func()) (stop func()) {
	var mu sync.Mutex // of over, and of what the timer does
	over := false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(r.patience, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
		case r.budget.wanted():
			cut()
		default:
			timer.Reset(r.patience / 5)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}

// replyRoomWhen says when room for a reply is taken.
type replyRoomWhen int8

const (
	roomBefore    replyRoomWhen = iota // before the handler runs
	roomAfter                          // then: it may wait for something to happen
	roomByHandler                      // by the handler itself, which knows how much
)

// lately is about the largest size replies of a kind had lately.
type lately struct{ bytes atomic.Int64 }

// saw notes a reply. What is seen no more is forgotten, a tenth with each reply.
func (l *lately) saw(n int64) {
	was := l.bytes.Load()
	l.bytes.Store(max(n, was-was/10-1, 0))
}
