package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"queenmq/queen"
)

// The dead letters of the fake, in f.dead.

func (f *fake) bury(queue string, a *queen.Ack, m queen.StoredMessage) {
	f.dead = append(f.dead, queen.DeadLetter{
		ID: int64(len(f.dead) + 1), Queue: queue, Group: a.Group, Reason: a.Reason, DiedAt: f.now, Message: m,
	})
}

func (f *fake) choose(q queen.DeadQuery) (found []queen.DeadLetter) {
	for _, l := range f.dead {
		if l.Queue == q.Queue && (q.Group == nil || *q.Group == l.Group) && (q.Partition == "" || q.Partition == l.Message.Partition) &&
			(q.IDs == nil || slices.Contains(q.IDs, l.ID)) && (q.TransactionID == nil || bytes.Equal(q.TransactionID, l.Message.TransactionID)) &&
			(q.From.IsZero() || !l.DiedAt.Before(q.From)) && (q.To.IsZero() || l.DiedAt.Before(q.To)) {
			found = append(found, l)
		}
	}
	return found
}

func (f *fake) DeadLetters(_ context.Context, q queen.DeadQuery) ([]queen.DeadLetter, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues[q.Queue] == nil {
		return nil, 0, fmt.Errorf("%w: %q", queen.ErrUnknownQueue, q.Queue)
	}
	all := f.choose(q)
	page := all[min(q.Skip, len(all)):]
	if q.Limit > 0 {
		page = page[:min(q.Limit, len(page))]
	}
	return page, len(all), nil
}

func (f *fake) PurgeDeadLetters(_ context.Context, q queen.DeadQuery) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := f.choose(q)
	f.dead = slices.DeleteFunc(f.dead, func(l queen.DeadLetter) bool {
		return slices.ContainsFunc(gone, func(g queen.DeadLetter) bool { return g.ID == l.ID })
	})
	return len(gone), nil
}

func (f *fake) ReplayDeadLetters(ctx context.Context, q queen.DeadQuery) ([]queen.Replayed, error) {
	letters, _, err := f.DeadLetters(ctx, q)
	var out []queen.Replayed
	for _, l := range letters {
		if l.Lost {
			out = append(out, queen.Replayed{Letter: l, Err: queen.ErrUnresolvable})
			continue
		}
		id := fmt.Appendf(nil, "%s#replay-%d", l.Message.TransactionID, l.ID)
		got := f.Push(ctx, []queen.Message{{Queue: l.Queue, Partition: l.Message.Partition, ID: id, Value: l.Message.Value}})
		out = append(out, queen.Replayed{Letter: l, Pushed: got[0]})
		if _, err := f.PurgeDeadLetters(ctx, queen.DeadQuery{Queue: l.Queue, IDs: []int64{l.ID}}); err != nil {
			return nil, err
		}
	}
	return out, err
}

func (f *fake) FindMessage(_ context.Context, partition int64, id []byte) (string, queen.StoredMessage, *queen.DeadLetter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.queues {
		for _, p := range q.parts {
			for _, m := range p.msgs {
				if p.ID == partition && bytes.Equal(m.TransactionID, id) {
					return q.Name, m, nil, nil
				}
			}
		}
	}
	return "", queen.StoredMessage{}, nil, fmt.Errorf("%w: no message %q in partition %d is known", queen.ErrUnresolvable, id, partition)
}
