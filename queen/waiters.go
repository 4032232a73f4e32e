package queen

import (
	"fmt"
	"sync"
)

// waiters parks readers until something is written to one of their partitions.
//
// A reader registers first, looks then, and waits last; a writer commits first
// and wakes then. Whichever comes between the two, the reader either sees the
// write or finds the wake-up in its channel, which holds one and keeps it. It
// stays registered until close, so it may look and wait as often as it likes.
//
// At most max registrations (a reader on one partition is one) are held; beyond
// that register refuses. It is safe for concurrent use.
type waiters struct {
	max int

	mu    sync.Mutex
	held  int
	heads map[int64]*waiterLink // by partition: the first of a list
}

// waiter is a parked reader.
type waiter struct {
	wake  chan struct{} // holds one wake-up
	set   *waiters
	links []waiterLink // guarded by set.mu; nil after close
}

// waiterLink is one registration, a member of its partition's list.
type waiterLink struct {
	waiter     *waiter
	partition  int64
	prev, next *waiterLink
}

func newWaiters(max int) *waiters {
	return &waiters{max: max, heads: make(map[int64]*waiterLink)}
}

// register parks a reader on partitions. It must be closed. The error is ErrOverloaded.
func (ws *waiters) register(partitions []int64) (*waiter, error) {
	w := &waiter{wake: make(chan struct{}, 1), set: ws, links: make([]waiterLink, len(partitions))}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.held+len(partitions) > ws.max {
		return nil, fmt.Errorf("%d readers' partitions are waited for, %d more would be over %d: %w", ws.held, len(partitions), ws.max, ErrOverloaded)
	}
	ws.held += len(partitions)
	for i, p := range partitions {
		l := &w.links[i]
		l.waiter, l.partition, l.next = w, p, ws.heads[p]
		if l.next != nil {
			l.next.prev = l
		}
		ws.heads[p] = l
	}
	return w, nil
}

// close ends the waiting. It may be called twice.
func (w *waiter) close() {
	ws := w.set
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i := range w.links {
		l := &w.links[i]
		if l.next != nil {
			l.next.prev = l.prev
		}
		switch {
		case l.prev != nil:
			l.prev.next = l.next
		case l.next != nil:
			ws.heads[l.partition] = l.next
		default:
			delete(ws.heads, l.partition)
		}
	}
	ws.held -= len(w.links)
	w.links = nil
}

// wake tells everybody parked on a partition to look again.
func (ws *waiters) wake(partition int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for l := ws.heads[partition]; l != nil; l = l.next {
		l.waiter.notify()
	}
}

// notify leaves a wake-up, unless one is still there. It never blocks.
func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
