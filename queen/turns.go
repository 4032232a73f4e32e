package queen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// turns waits until each partition is the caller's: what was to be flushed before
// is in the log, and what comes after waits for release. So a call of
// several kinds of writes takes its place in the order in which this broker
// appends, and the memory of ids learns of it in that order, without a gap. Taken
// in ascending order, so that two callers never wait for each other; no
// flush ever waits for a turn.
func (w *writer) turns(ctx context.Context, parts []*partition) (release func(), err error) {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b *partition) int { return cmp.Compare(a.id, b.id) })
	held := 0
	release = func() {
		for _, p := range parts[:held] {
			w.finish(&flight{p: p})
		}
		held = 0
	}
	for _, p := range parts {
		turn, err := w.turn(p)
		if err == nil && turn != nil {
			select {
			case <-turn:
			case <-ctx.Done():
				err = fmt.Errorf("%w: the partition was busy", ErrTimedOut)
				go func() { <-turn; w.finish(&flight{p: p}) }() // it comes in any case
			}
		}
		if err != nil {
			release()
			return nil, err
		}
		held++
	}
	return release, nil
}

// turn asks for a partition: it is the caller's once turn is closed, at once
// where turn is nil, and until finish.
func (w *writer) turn(p *partition) (turn chan struct{}, err error) {
	w.count(1) // until finish; first, as in enqueue
	if w.closing.Load() {
		w.count(-1)
		return nil, ErrClosing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.busy {
		p.busy = true
		return nil, nil
	}
	turn = make(chan struct{})
	p.pending = append(p.pending, &openSegment{turn: turn})
	return turn, nil
}
