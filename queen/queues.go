package queen

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"

	"queenmq/store"
)

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

// CatalogVersion is another number when queues or their partitions have changed,
// by whatever broker, about a second after they did. It answers from memory; that
// one number is larger than another says nothing.
func (e *Engine) CatalogVersion() int64 { return e.catalog.seen.Load() }

// queueList is every queue as of a catalog version of an incarnation.
type queueList struct {
	epoch   int32
	version int64
	queues  []Queue
}

// AllQueues lists every queue, ordered by name; the list is not to be changed. The
// database says whether the one made last still holds.
func (e *Engine) AllQueues(ctx context.Context) ([]Queue, error) {
	epoch := e.db.Incarnation().Epoch
	version, err := e.db.CatalogVersion(ctx) // first: the list is then at least as new
	if err != nil {
		return nil, storeError("list queues", err)
	}
	if l := e.listed.Load(); l != nil && l.epoch == epoch && l.version == version {
		return l.queues, nil
	}
	rows, err := e.db.AllQueues(ctx)
	if err != nil {
		return nil, storeError("list queues", err)
	}
	out := make([]Queue, len(rows))
	for i, r := range rows {
		out[i] = describeRow(r)
	}
	e.listed.Store(&queueList{epoch: epoch, version: version, queues: out})
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
	if err := n.Options.Validate(); err != nil {
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
	call := uuid.Must(uuid.NewV7())
	var row store.QueueRow
	err := e.untilKnown(ctx, func(ctx context.Context) (err error) {
		row, err = e.db.CreateQueue(ctx, call, store.NewQueue{
			Name: n.Name, Partitions: n.Partitions, Fixed: true,
			QueueOptions: n.Options.row(),
		})
		return err
	})
	if errors.Is(err, store.ErrExists) {
		return Queue{}, fmt.Errorf("%w: %q", ErrQueueExists, n.Name)
	}
	if err != nil {
		return Queue{}, storeError("create queue", err)
	}
	return describeRow(row), nil
}

// DeleteQueue frees the name at once; the rows are removed in steps after. It needs no
// space in the database, so that it is what to do where there is none.
func (e *Engine) DeleteQueue(ctx context.Context, ref QueueRef) (Queue, error) {
	for {
		q, err := e.catalog.queue(ctx, ref)
		if err != nil {
			return Queue{}, err
		}
		deleted, err := e.deleteQueue(ctx, q)
		switch {
		case errors.Is(err, store.ErrNotFound) && ref.Name != "":
			// Deleted elsewhere, but the name may be another queue's by now, which this
			// broker has not heard of. It has forgotten the one it knew, and looks again.
		case errors.Is(err, store.ErrNotFound):
			return Queue{}, unknownQueue(ref)
		case err != nil:
			return Queue{}, storeError("delete queue", err)
		default:
			return deleted, nil
		}
	}
}

// deleteQueue deletes a queue by its id and forgets it; store.ErrNotFound: there is none.
func (e *Engine) deleteQueue(ctx context.Context, q *queue) (Queue, error) {
	call := uuid.Must(uuid.NewV7())
	var row store.QueueRow
	doubt := false
	err := e.untilKnown(ctx, func(ctx context.Context) (err error) {
		row, err = e.db.DeleteQueue(ctx, call, q.id)
		doubt = doubt || errors.Is(err, store.ErrOutcomeUnknown)
		return err
	})
	e.catalog.drop(q)
	for _, p := range q.all() {
		e.tail.forget(p.id)
		e.cache.Forget(p.id)
		e.waiters.wake(p.id)
	}
	if errors.Is(err, store.ErrNotFound) && doubt { // gone, and swept before it was asked for again
		return *q.desc.Load(), nil
	}
	if err != nil {
		return Queue{}, err
	}
	return describeRow(row), nil
}

// Partitions lists a queue's partitions with their marks, from the database: those
// from a number on, limit at most (0 or more than LagPageMax: LagPageMax). next is the
// number of the partition at which the next page begins, 0 where there is none.
func (e *Engine) Partitions(ctx context.Context, name string, from, limit int) (page []Partition, next int, err error) {
	q, err := e.catalog.queue(ctx, QueueRef{Name: name})
	if err != nil {
		return nil, 0, err
	}
	if limit <= 0 || limit > LagPageMax {
		limit = LagPageMax
	}
	rows, err := e.db.Partitions(ctx, q.id, from, min(from, math.MaxInt32-limit-1)+limit+1) // one more: whether there are more
	if err != nil {
		return nil, 0, storeError("list partitions", err)
	}
	if len(rows) > limit {
		rows, next = rows[:limit], rows[limit].Number
	}
	page = make([]Partition, len(rows))
	for i, r := range rows {
		page[i] = Partition{ID: r.ID, Number: r.Number, Name: r.Name, LogStart: r.LogStart, LogEnd: r.NextOffset}
	}
	return page, next, nil
}

// AddPartitions widens a queue made by a Kafka client to count partitions; with
// validate it only says whether it would. A count that is not above the present
// one is ErrInvalidPartitions. The partitions of a native queue come with their
// first message and are not added here: ErrInvalidRequest.
func (e *Engine) AddPartitions(ctx context.Context, name string, count int, validate bool) (Queue, error) {
	rows, err := e.db.Queues(ctx, []string{name}, nil)
	if err != nil {
		return Queue{}, storeError("look up queue", err)
	}
	if len(rows) == 0 {
		return Queue{}, unknownQueue(QueueRef{Name: name})
	}
	row, added := rows[0], rows[0].Fixed && rows[0].Partitions < count
	if added && !validate {
		call := uuid.Must(uuid.NewV7())
		err = e.untilKnown(ctx, func(ctx context.Context) (err error) {
			row, added, err = e.db.AddPartitions(ctx, call, rows[0].ID, count)
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return Queue{}, unknownQueue(QueueRef{Name: name})
		}
		if err != nil {
			return Queue{}, storeError("add partitions", err)
		}
	}
	switch {
	case !row.Fixed:
		return Queue{}, fmt.Errorf("%w: %q was made natively, its partitions come with their first message", ErrInvalidRequest, name)
	case !added:
		return Queue{}, fmt.Errorf("%w: %q has %d partitions, %d would not be an increase", ErrInvalidPartitions, name, row.Partitions, count)
	}
	if q := e.catalog.cached(QueueRef{Name: name}); q != nil && !validate {
		if err := e.catalog.reload(ctx, q); err != nil {
			return Queue{}, err
		}
	}
	return describeRow(row), nil
}
