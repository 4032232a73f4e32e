package queen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"queenmq/dedup"
)

// push is one call of Push: it is done when no item is open.
type push struct {
	open atomic.Int64
	done chan struct{}
}

func (p *push) finish() {
	if p.open.Add(-1) == 0 {
		close(p.done)
	}
}

// Push stores messages and answers one Pushed per message, in order. The
// first of equal (queue, partition, id) wins, whatever the window; later ones
// answer duplicate with its outcome. It returns when every message has an
// outcome, or when ctx ends, with ErrOutcomeUnknown for those that have none. Only
// in that case are the messages read any further.
func (e *Engine) Push(ctx context.Context, msgs []Message) []Pushed {
	out := make([]Pushed, len(msgs))
	pu := &push{done: make(chan struct{})}
	pu.open.Store(1) // ours, until all are enqueued
	firsts := requestFirsts.Get().(*dedup.Firsts)
	type target struct {
		p     *partition
		items []*pushItem
	}
	var order []*target
	byPartition := map[*partition]*target{}
	type follower struct{ at, leader int }
	var followers []follower
	size := 0
	made := make([]pushItem, len(msgs)) // one allocation for all
	var t *target                       // of the message before, …
	var named *Message                  // … where that was named there, not chosen
	for i := range msgs {
		m := &msgs[i]
		out[i] = Pushed{Status: Failed, TransactionID: m.ID, Partition: m.Partition, Offset: -1}
		n := nativeSize(m)
		if named == nil || named.Queue != m.Queue || named.Partition != m.Partition {
			named = nil
			p, err := e.pushTarget(ctx, m, msgs[i+1:])
			if err != nil {
				out[i].Err = err
				continue
			}
			if t = byPartition[p]; t == nil {
				t = &target{p: p}
				if len(order) == 0 { // mostly it has them all
					t.items = make([]*pushItem, 0, len(msgs))
				}
				byPartition[p] = t
				order = append(order, t)
			}
			if m.Partition != "" {
				named = m
			}
		}
		err := validateID(m.ID)
		if err == nil {
			err = fits(m, n, t.p)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Partition = t.p.name
		made[i] = newPushItem(m, n, &out[i], pu)
		if l, follows := firsts.Lead(m.Queue, t.p.name, m.ID, made[i].hash, i); follows {
			followers = append(followers, follower{i, l})
			continue
		}
		t.items = append(t.items, &made[i])
		size += n
	}
	apart := firsts.Apart()
	if firsts.Reset(); len(msgs) <= pooledFirstsMax {
		requestFirsts.Put(firsts)
	}
	if size > 0 {
		if err := e.writer.budget.acquire(ctx, size); err != nil {
			for _, t := range order {
				for _, it := range t.items {
					it.out.Err = err
				}
			}
			order, size = nil, 0
		}
	}
	for _, t := range order {
		pu.open.Add(int64(len(t.items)))
	}
	for _, t := range order {
		e.enqueuePush(t.p, t.items, apart)
	}
	pu.finish()
	select {
	case <-pu.done:
		e.writer.budget.release(size)
	case <-ctx.Done():
		// The write goes on; its outcome is what a retry will be told.
		go func() { <-pu.done; e.writer.budget.release(size) }()
		lost := make([]Pushed, len(msgs))
		for i := range lost {
			lost[i] = Pushed{
				Status: Failed, TransactionID: msgs[i].ID, Partition: msgs[i].Partition, Offset: -1,
				Err: fmt.Errorf("%w: the request ended first; retry", ErrOutcomeUnknown),
			}
		}
		return lost
	}
	for _, f := range followers {
		out[f.at] = out[f.leader]
		if out[f.leader].Status == Queued {
			out[f.at].Status = Duplicate
		}
		e.metrics.folded.Inc()
	}
	return out
}

// requestFirsts keeps tables of usual size, like segmentFirsts.
var requestFirsts = sync.Pool{New: func() any { return new(dedup.Firsts) }}

// enqueuePush cuts one push's messages for a partition into entries of at most a segment.
func (e *Engine) enqueuePush(p *partition, items []*pushItem, apart bool) {
	for len(items) > 0 {
		n, size := 0, 0
		for n < len(items) {
			s := items[n].size
			if n > 0 && size+s > e.cfg.SegmentBytesMax {
				break
			}
			size += s
			n++
		}
		e.writer.enqueue(p, &entry{items: items[:n:n], apart: apart, ref: QueueRef{Name: items[0].msg.Queue}})
		items = items[n:]
	}
}
