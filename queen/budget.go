package queen

import (
	"context"
	"fmt"
	"sync"
)

// budget bounds the bytes that are accepted and not yet stored. At the bound
// callers wait in turn; a request larger than the whole bound passes alone.
type budget struct {
	max int

	mu    sync.Mutex
	used  int
	queue []*claim
}

type claim struct {
	n     int
	ready chan struct{}
}

func newBudget(bytesMax int) *budget { return &budget{max: bytesMax} }

func (b *budget) fits(n int) bool { return b.used == 0 || b.used+n <= b.max }

// acquire takes n bytes, waiting until ctx ends. Who needs none waits for nobody.
func (b *budget) acquire(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	b.mu.Lock()
	if len(b.queue) == 0 && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return nil
	}
	c := &claim{n: n, ready: make(chan struct{})}
	b.queue = append(b.queue, c)
	b.mu.Unlock()
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.queue {
		if o == c {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.grant()
			return fmt.Errorf("%w: %d bytes wait to be stored, the bound is %d", ErrOverloaded, b.used, b.max)
		}
	}
	b.used -= n // granted meanwhile: give it back
	b.grant()
	return fmt.Errorf("%w: the request ended first", ErrTimedOut)
}

func (b *budget) release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.used < 0 {
		panic("BUG: budget released twice")
	}
	b.grant()
}

func (b *budget) grant() {
	for len(b.queue) > 0 && b.fits(b.queue[0].n) {
		c := b.queue[0]
		b.queue[0] = nil
		b.queue = b.queue[1:]
		b.used += c.n
		close(c.ready)
	}
}
