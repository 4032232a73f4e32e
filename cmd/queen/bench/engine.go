package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queenmq/queen"
)

// Engine is the side that pushes as Push does, into an engine in this process:
// what is left of a push without HTTP and JSON.
type Engine struct {
	Engine      *queen.Engine
	Queue       string
	Partitions  int
	Batch       int
	Window      int // seconds of the deduplication window
	Connections int // callers at once
	Payload     *Payload
	IDs         IDKind

	batches batches
	made    bool
}

// Name is how the report calls it.
func (e *Engine) Name() string { return "push into an engine in this process" }

// Clients is one shard per caller.
func (e *Engine) Clients() int { return e.Connections }

// Prepare makes the queue with its window.
func (e *Engine) Prepare(ctx context.Context) error {
	e.batches = batches{partitions: e.Partitions, batch: e.Batch, payload: e.Payload, ids: e.IDs, next: make([]uint64, e.Connections)}
	if _, err := e.Engine.Configure(ctx, e.Queue, queen.OptionsPatch{DedupWindowSeconds: &e.Window}); err != nil {
		return fmt.Errorf("configure queue: %w", err)
	}
	e.made = true
	return nil
}

// Round pushes until the time is over.
func (e *Engine) Round(ctx context.Context, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	return each(ctx, e.Connections, func(ctx context.Context, i int) error {
		room, shard, messages := e.batches.room(), m.Shard(i), make([]queen.Message, e.Batch)
		for asked := time.Now(); asked.Before(to) && ctx.Err() == nil; {
			e.batches.fill(&room, i)
			partition := partitionName(e.batches.partition(i))
			for k := range messages {
				messages[k] = queen.Message{Queue: e.Queue, Partition: partition, ID: []byte(room.ids[k]), Value: room.values[k]}
			}
			for _, p := range e.Engine.Push(ctx, messages) {
				if p.Status != queen.Queued {
					return fmt.Errorf("push: %s: %w", p.Status, errors.Join(p.Err, errors.New("not queued")))
				}
			}
			e.batches.next[i] += uint64(e.Batch)
			now := time.Now()
			shard.Answered(asked, now, e.Batch, e.Batch*e.Payload.Size())
			asked = now
		}
		return ctx.Err()
	})
}

// Verify fetches every partition from its start.
func (e *Engine) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	back := newSeen(e.batches.next)
	for i := range e.Partitions {
		for offset := int64(0); ; {
			got, err := e.Engine.Fetch(ctx, queen.FetchRequest{MaxBytes: fetchRecordsMax, Items: []queen.FetchItem{{
				Queue: e.Queue, Partition: partitionName(i), Offset: offset, MaxBytes: fetchRecordsMax,
			}}})
			if err != nil {
				return v, err
			}
			if err := got[0].Err; errors.Is(err, queen.ErrUnknownPartition) {
				break // nothing was ever pushed there
			} else if err != nil {
				return v, err
			}
			messages := got[0].Messages
			if len(messages) == 0 {
				break
			}
			for _, m := range messages {
				id, err := e.Payload.Check(m.Value)
				back.count(&v, id, err)
			}
			offset = messages[len(messages)-1].Offset + 1
		}
	}
	back.finish(&v)
	return v, nil
}

// Close deletes the queue.
func (e *Engine) Close(ctx context.Context) error {
	if !e.made {
		return nil
	}
	e.made = false
	if _, err := e.Engine.DeleteQueue(ctx, queen.QueueRef{Name: e.Queue}); err != nil {
		return fmt.Errorf("delete queue %s: %w", e.Queue, err)
	}
	return nil
}
