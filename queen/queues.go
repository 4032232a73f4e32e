package queen

import (
	"context"
	"errors"
	"fmt"

	"queenmq/store"
)

// The bounds of a queue's options.
const (
	dedupWindowSecondsMax = 10 * 365 * 24 * 3600
	maxMessageBytesMin    = 1 << 10
	maxMessageBytesMax    = 64 << 20
)

// validate says which option is out of range, and what the range is.
func (o QueueOptions) validate() error {
	switch {
	case o.DedupWindowSeconds < 0 || o.DedupWindowSeconds > dedupWindowSecondsMax:
		return fmt.Errorf("%w: dedupWindowSeconds is %d, must be 0 (off) to %d", ErrInvalidConfig, o.DedupWindowSeconds, dedupWindowSecondsMax)
	case o.MaxMessageBytes < maxMessageBytesMin || o.MaxMessageBytes > maxMessageBytesMax:
		return fmt.Errorf("%w: the largest message is set to %d bytes, must be %d to %d",
			ErrInvalidConfig, o.MaxMessageBytes, maxMessageBytesMin, maxMessageBytesMax)
	case o.RetentionMs < -1:
		return fmt.Errorf("%w: retention is %d ms, must be -1 (keep everything) or more", ErrInvalidConfig, o.RetentionMs)
	}
	return nil
}

// Queues answers one QueueAnswer per ref, in order.
func (e *Engine) Queues(ctx context.Context, refs []QueueRef) ([]QueueAnswer, error) {
	qs, err := e.catalog.queues(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := make([]QueueAnswer, len(refs))
	for i, q := range qs {
		if q == nil {
			out[i].Err = unknownQueue(refs[i])
		} else {
			out[i].Queue = q.describe()
		}
	}
	return out, nil
}

// AllQueues lists every queue, ordered by name.
func (e *Engine) AllQueues(ctx context.Context) ([]Queue, error) {
	rows, err := e.db.AllQueues(ctx)
	if err != nil {
		return nil, storeError("list queues", err)
	}
	out := make([]Queue, len(rows))
	for i, r := range rows {
		out[i] = describeRow(r)
	}
	return out, nil
}

// CreateQueue makes a queue with a fixed set of partitions, as a Kafka client asks.
func (e *Engine) CreateQueue(ctx context.Context, n NewQueue) (Queue, error) {
	if err := ValidateName("queue", n.Name); err != nil {
		return Queue{}, err
	}
	if n.Partitions < 1 {
		return Queue{}, fmt.Errorf("%w: %d, at least 1", ErrInvalidPartitions, n.Partitions)
	}
	if err := n.Options.validate(); err != nil {
		return Queue{}, err
	}
	if n.Validate {
		a, err := e.Queues(ctx, []QueueRef{{Name: n.Name}})
		if err != nil {
			return Queue{}, err
		}
		if a[0].Err == nil {
			return Queue{}, fmt.Errorf("%w: %q", ErrQueueExists, n.Name)
		}
		return Queue{Name: n.Name, Partitions: n.Partitions, Fixed: true, Options: n.Options}, nil
	}
	row, err := e.db.CreateQueue(ctx, store.NewQueue{
		Name: n.Name, Partitions: n.Partitions, Fixed: true,
		DedupWindowSeconds: n.Options.DedupWindowSeconds, WindowFrom: string(n.Options.WindowFrom),
		MaxMessageBytes: n.Options.MaxMessageBytes, RetentionMs: n.Options.RetentionMs,
	})
	if errors.Is(err, store.ErrExists) {
		return Queue{}, fmt.Errorf("%w: %q", ErrQueueExists, n.Name)
	}
	if err != nil {
		return Queue{}, storeError("create queue", err)
	}
	return describeRow(row), nil
}

// Configure creates the queue or changes its options, under its row lock.
func (e *Engine) Configure(ctx context.Context, name string, p OptionsPatch) (Configured, error) {
	if err := ValidateName("queue", name); err != nil {
		return Configured{}, err
	}
	if err := p.Apply(DefaultOptions(), DefaultOptions()).validate(); err != nil {
		return Configured{}, err
	}
	row, before, created, err := e.db.Configure(ctx, name, store.QueuePatch{
		DedupWindowSeconds: p.DedupWindowSeconds, MaxMessageBytes: p.MaxMessageBytes, RetentionMs: p.RetentionMs,
	}, !p.Merge)
	if err != nil {
		return Configured{}, storeError("configure", err)
	}
	after := describeRow(row)
	if q := e.catalog.cached(QueueRef{Name: name}); q != nil && q.topic == after.TopicID {
		d := q.describe()
		d.Options = after.Options
		q.desc.Store(&d)
	}
	return Configured{Queue: after, Before: describeRow(before).Options, Created: created}, nil
}

// DeleteQueue frees the name at once; the rows are removed in steps after.
func (e *Engine) DeleteQueue(ctx context.Context, ref QueueRef) (Queue, error) {
	q, err := e.catalog.queue(ctx, ref)
	if err != nil {
		return Queue{}, err
	}
	row, err := e.db.DeleteQueue(ctx, q.id)
	e.catalog.drop(q)
	for _, p := range q.all() {
		e.tail.forget(p.id)
		e.cache.Forget(p.id)
		e.waiters.wake(p.id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return Queue{}, unknownQueue(ref)
	}
	if err != nil {
		return Queue{}, storeError("delete queue", err)
	}
	return describeRow(row), nil
}

// Partitions lists a queue's partitions with their marks, from the database.
func (e *Engine) Partitions(ctx context.Context, name string) ([]Partition, error) {
	q, err := e.catalog.queue(ctx, QueueRef{Name: name})
	if err != nil {
		return nil, err
	}
	rows, err := e.db.Partitions(ctx, q.id)
	if err != nil {
		return nil, storeError("list partitions", err)
	}
	out := make([]Partition, len(rows))
	for i, r := range rows {
		out[i] = Partition{ID: r.ID, Number: r.Number, Name: r.Name, LogStart: r.LogStart, LogEnd: r.NextOffset}
	}
	return out, nil
}
