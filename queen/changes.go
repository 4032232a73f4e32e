package queen

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ChangesQuery asks which partitions of a queue were written to.
type ChangesQuery struct {
	Queue string
	Since time.Time // at or after; zero: all partitions
	From  int       // the first number that is looked at
	Limit int       // partitions at most, 1 to ChangesMax
}

// ChangesMax bounds the partitions of one answer.
const ChangesMax = 10_000

// Changes answers one ChangesQuery.
type Changes struct {
	Err        error
	Partitions []ChangedPartition
	More       int // the number to go on from; 0: these are all
}

// ChangedPartition is a partition and what was written to it last.
type ChangedPartition struct {
	ID          int64
	Number      int
	Name        string
	LogStart    int64
	LastOffset  int64     // −1: nothing was ever written
	LastWriteAt time.Time // by the database's clock; zero: never
}

// Changed says which partitions were written to, and up to which moment, by the
// database's clock, these answers hold every write: who asks again since then misses
// none, whichever brokers wrote.
func (e *Engine) Changed(ctx context.Context, qs []ChangesQuery) (safe time.Time, out []Changes, err error) {
	if safe, err = e.db.SafeTime(ctx); err != nil {
		return safe, nil, storeError("read the time", err)
	}
	out = make([]Changes, len(qs))
	for i, q := range qs {
		if q.Limit < 1 || q.Limit > ChangesMax {
			out[i].Err = fmt.Errorf("%w: a limit of %d, must be 1 to %d", ErrInvalidRequest, q.Limit, ChangesMax)
			continue
		}
		out[i], err = e.changed(ctx, q)
		if err != nil {
			return safe, nil, err
		}
	}
	return safe, out, nil
}

func (e *Engine) changed(ctx context.Context, q ChangesQuery) (c Changes, err error) {
	cached, err := e.catalog.queue(ctx, QueueRef{Name: q.Queue})
	if errors.Is(err, ErrUnknownQueue) {
		return Changes{Err: err}, nil
	}
	if err != nil {
		return c, err
	}
	var since *time.Time
	if !q.Since.IsZero() {
		since = &q.Since
	}
	rows, err := e.db.ChangedPartitions(ctx, cached.id, since, q.From, q.Limit+1)
	if err != nil {
		return c, storeError("list changed partitions", err)
	}
	if len(rows) > q.Limit {
		c.More = rows[q.Limit].Number
		rows = rows[:q.Limit]
	}
	for _, r := range rows {
		c.Partitions = append(c.Partitions, ChangedPartition{
			ID: r.ID, Number: r.Number, Name: r.Name, LogStart: r.LogStart, LastOffset: r.LastOffset, LastWriteAt: orZero(r.LastWriteAt),
		})
	}
	return c, nil
}
