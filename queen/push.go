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

// pushPlan is what a call of Push asks of the writer.
type pushPlan struct {
	shares    []*pushShare // in the order in which the request comes to their partitions
	followers []pushFollower
	size      int  // bytes to be written
	apart     bool // no two of the messages to be written have one hash
}

// pushShare is what a push has for one partition.
type pushShare struct {
	p     *partition
	items []*pushItem
}

// pushFollower is a message that repeats an earlier one of its request; both places.
type pushFollower struct{ at, leader int }

// Push stores messages and answers one Pushed per message, in order. The
// first of equal (queue, partition, id) wins, whatever the window; later ones
// answer duplicate with its outcome. It returns when every message has an
// outcome, or when ctx ends, then with ErrOutcomeUnknown for all of them. Only
// in that case are the messages read any further.
func (e *Engine) Push(ctx context.Context, msgs []Message) []Pushed {
	out := make([]Pushed, len(msgs))
	pu := &push{done: make(chan struct{})}
	pu.open.Store(1) // ours, until all are enqueued
	plan := e.planPush(ctx, msgs, out, pu)
	size := plan.size
	if size > 0 {
		if err := e.writer.budget.acquire(ctx, size); err != nil {
			plan.refuse(err)
			size = 0
		}
	}
	for _, s := range plan.shares {
		pu.open.Add(int64(len(s.items)))
	}
	for _, s := range plan.shares {
		e.enqueuePush(s.p, s.items, plan.apart)
	}
	pu.finish()
	select {
	case <-pu.done:
		e.writer.budget.release(size)
	case <-ctx.Done():
		// The write goes on, into out; its outcome is what a retry will be told.
		go func() { <-pu.done; e.writer.budget.release(size) }()
		return unknownPushes(msgs)
	}
	for _, f := range plan.followers {
		out[f.at] = out[f.leader]
		if out[f.leader].Status == Queued {
			out[f.at].Status = Duplicate
		}
		if out[f.at].Status == Duplicate {
			e.metrics.duplicates(layerRequest, 1)
		}
	}
	return out
}

// planPush checks messages, finds their partitions and folds ids repeated in the
// request (layer 1). A message that is refused has its outcome in out.
func (e *Engine) planPush(ctx context.Context, msgs []Message, out []Pushed, pu *push) (plan pushPlan) {
	firsts := requestFirsts.Get().(*dedup.Firsts)
	byPartition := map[*partition]*pushShare{}
	made := make([]pushItem, len(msgs)) // one allocation for all
	var s *pushShare                    // of the message before, …
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
			if s = byPartition[p]; s == nil {
				s = &pushShare{p: p}
				if len(plan.shares) == 0 { // mostly it has them all
					s.items = make([]*pushItem, 0, len(msgs))
				}
				byPartition[p] = s
				plan.shares = append(plan.shares, s)
			}
			if m.Partition != "" {
				named = m
			}
		}
		err := validateID(m.ID)
		if err == nil {
			err = fits(m, n, s.p)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Partition = s.p.name
		made[i] = newPushItem(m, n, &out[i], pu)
		if l, follows := firsts.Lead(m.Queue, s.p.name, m.ID, made[i].hash, i); follows {
			plan.followers = append(plan.followers, pushFollower{i, l})
			continue
		}
		s.items = append(s.items, &made[i])
		plan.size += n
	}
	plan.apart = firsts.Apart()
	if firsts.Reset(); len(msgs) <= pooledFirstsMax {
		requestFirsts.Put(firsts)
	}
	return plan
}

// refuse gives all messages that were to be written the same error.
func (p *pushPlan) refuse(err error) {
	for _, s := range p.shares {
		for _, it := range s.items {
			it.out.Err = err
		}
	}
	p.shares = nil
}

// unknownPushes answers a request that ended before its messages had outcomes.
func unknownPushes(msgs []Message) []Pushed {
	out := make([]Pushed, len(msgs))
	for i := range out {
		out[i] = Pushed{
			Status: Failed, TransactionID: msgs[i].ID, Partition: msgs[i].Partition, Offset: -1,
			Err: fmt.Errorf("%w: the request ended first; retry", ErrOutcomeUnknown),
		}
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
