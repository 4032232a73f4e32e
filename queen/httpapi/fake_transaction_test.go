package httpapi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"queenmq/queen"
)

// fakeTimer is a timer of the fake; its clock stands still, so none fires.
type fakeTimer struct {
	queue string
	queen.PendingTimer
}

func (f *fake) Timers(_ context.Context, ops []queen.TimerOp) ([]queen.TimerResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastTimers = ops
	if f.down != nil {
		return nil, f.down
	}
	for _, o := range ops {
		if err := fakeName(o.Queue); err != nil {
			return nil, err
		}
	}
	return f.setTimers(ops), nil
}

func (f *fake) setTimers(ops []queen.TimerOp) []queen.TimerResult {
	out := make([]queen.TimerResult, len(ops))
	for i, o := range ops {
		at := slices.IndexFunc(f.timers, func(t fakeTimer) bool { return t.queue == o.Queue && t.Key == o.Key })
		r := &out[i]
		r.ID = o.ID
		if o.Cancel {
			r.Status = queen.TimerAbsent
			if at >= 0 {
				r.Status, r.DeliverAt = queen.TimerCancelled, f.timers[at].DeliverAt
				f.timers = slices.Delete(f.timers, at, at+1)
			}
			continue
		}
		r.Status, r.MessageID, r.DeliverAt = queen.TimerScheduled, f.id(), f.now.Add(o.Delay)
		if o.ID == nil {
			r.ID = []byte(r.MessageID.String())
		}
		t := fakeTimer{o.Queue, queen.PendingTimer{Key: o.Key, Partition: o.Partition, ID: r.ID, MessageID: r.MessageID, DeliverAt: r.DeliverAt, Payload: o.Payload}}
		if at >= 0 {
			r.Status = queen.TimerRescheduled
			f.timers[at] = t
		} else {
			f.timers = append(f.timers, t)
		}
	}
	return out
}

func (f *fake) Timer(_ context.Context, queue, key string) (queen.PendingTimer, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.timers {
		if t.queue == queue && t.Key == key {
			return t.PendingTimer, true, f.down
		}
	}
	return queen.PendingTimer{}, false, cmp2(f.down, fakeName(queue))
}

func (f *fake) ListTimers(_ context.Context, queue, after string, limit int) (page []queen.PendingTimer, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.timers {
		if t.queue == queue && t.Key > after {
			page = append(page, t.PendingTimer)
		}
	}
	slices.SortFunc(page, func(a, b queen.PendingTimer) int { return strings.Compare(a.Key, b.Key) })
	if limit > 0 && len(page) > limit {
		page, more = page[:limit], true
	}
	return page, more, cmp2(f.down, fakeName(queue))
}

func (f *fake) Transact(_ context.Context, tx queen.Transaction) (queen.Transacted, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastTx = tx
	if f.down != nil {
		return queen.Transacted{}, f.down
	}
	undo := f.snapshot()
	got := f.transact(tx)
	if got.Reason != "" {
		undo()
	}
	return got, nil
}

func (f *fake) transact(tx queen.Transaction) queen.Transacted {
	out := queen.Transacted{Failed: -1}
	fail := func(r queen.Rollback, at int, err error) {
		if out.Reason == "" {
			out.Reason, out.Failed, out.Err = r, at, err
		}
	}
	at := 0
	stored := map[[2]string]queen.Pushed{}
	type ack struct {
		ack queen.Ack
		at  int
	}
	var acks []ack
	for _, o := range tx.Operations {
		if o.Ack != nil {
			acks = append(acks, ack{*o.Ack, at})
			at++
		}
		for _, m := range o.Push {
			key := [2]string{m.Queue + "/" + m.Partition, string(m.ID)}
			p, again := stored[key]
			switch {
			case m.ID != nil && again:
				p.Status = queen.Duplicate
			default:
				if p = f.push(m); p.Status == queen.Duplicate {
					fail(queen.RollbackDuplicate, at, queen.ErrInvalidRequest)
				}
				stored[key] = p
			}
			if p.Err != nil {
				fail(queen.RollbackBadRequest, at, p.Err)
			}
			out.Pushed = append(out.Pushed, p)
			at++
		}
	}
	for _, a := range acks {
		if err := f.ack(a.ack); err != nil {
			fail(queen.RollbackAckRejected, a.at, err)
		}
	}
	kv := f.keys.apply(f.now, tx.KV)
	out.KV = kv.Results
	if kv.Lost >= 0 {
		fail(queen.RollbackKVPrecondition, at+kv.Lost, queen.ErrInvalidRequest)
		if out.Reason == queen.RollbackKVPrecondition {
			out.Lost = &out.KV[kv.Lost]
		}
	}
	out.Timers = f.setTimers(tx.Timers)
	return out
}

// snapshot returns how to go back to what is there now.
func (f *fake) snapshot() (undo func()) {
	queues, parts, keys, timers, ids := map[string]*fakeQueue{}, map[int64]*fakePartition{}, maps.Clone(f.keys.rows), slices.Clone(f.timers), f.ids
	for name, q := range f.queues {
		c := *q
		c.parts = nil
		for _, p := range q.parts {
			copied := *p
			copied.msgs, copied.cursors, copied.leases = slices.Clone(p.msgs), maps.Clone(p.cursors), maps.Clone(p.leases)
			c.parts = append(c.parts, &copied)
			parts[p.ID] = &copied
		}
		queues[name] = &c
	}
	return func() { f.queues, f.parts, f.keys.rows, f.timers, f.ids = queues, parts, keys, timers, ids }
}
