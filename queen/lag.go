package queen

import (
	"context"
	"fmt"
	"time"

	"queenmq/store"
)

// GroupLag is what a group owes in one queue.
type GroupLag struct {
	Group, Queue string // an empty group is the group-less mode
	Partitions   int    // of the queue
	Positions    int    // partitions in which the group has a position
	Behind       int    // partitions in which it owes something
	Pending      int64  // offsets it owes
	Leases       int    // batches leased now
	CommittedAt  time.Time
	// OldestAt is when the first of them was stored; zero where nothing is owed.
	// OldestAge is how long ago, by the database's clock.
	OldestAt  time.Time
	OldestAge time.Duration
}

// PartitionLag is what a group owes in one partition. Without a position there,
// that is what it would be given first.
type PartitionLag struct {
	Group, Queue     string // an empty group is the group-less mode
	Partition        string
	PartitionID      int64
	Number           int
	LogStart, LogEnd int64
	Position         int64 // the first offset owed, never below the log start
	Known            bool  // the group has a position here
	// Ahead are offsets after Position that are completed, ascending.
	Ahead       []int64
	Pending     int64 // offsets owed, without those
	CommittedAt time.Time
	// LeaseEnd is the last offset under a live lease, −1 without one.
	LeaseEnd   int64
	LeaseUntil time.Time
	OldestAt   time.Time // as in GroupLag
	OldestAge  time.Duration
}

// Depth is what waits in one partition.
type Depth struct {
	Partition   string
	PartitionID int64
	Number      int
	Pending     int64
}

// QueueTotals is what a queue holds.
type QueueTotals struct {
	Queue      string
	Partitions int
	Messages   int64 // offsets between the log starts and the ends
	Pending    int64 // what Depth says of it without a group
	Groups     int
}

// groupShown is a stored group's name as doors see it.
func groupShown(name string) string {
	if name == ownGroup {
		return ""
	}
	return name
}

// lagOf names whose lag is asked for: nil is every group, an empty name the
// group-less mode; an empty queue is every queue.
func (e *Engine) lagOf(ctx context.Context, group *string, queueName string) (name string, queueID int64, err error) {
	if group != nil {
		if name, err = groupName(*group); err != nil {
			return "", 0, err
		}
	}
	if queueName != "" {
		q, err := e.catalog.queue(ctx, QueueRef{Name: queueName})
		if err != nil {
			return "", 0, err
		}
		queueID = q.id
	}
	return name, queueID, nil
}

// GroupLags lists what groups owe, a line per group and queue, by their names. A
// nil group is every group, an empty queue every queue that the group is in.
func (e *Engine) GroupLags(ctx context.Context, group *string, queueName string) ([]GroupLag, error) {
	name, queueID, err := e.lagOf(ctx, group, queueName)
	if err != nil {
		return nil, err
	}
	rows, err := e.db.LagSummaries(ctx, name, queueID)
	if err != nil {
		return nil, storeError("list lag", err)
	}
	out := make([]GroupLag, len(rows))
	for i, r := range rows {
		out[i] = GroupLag{
			Group: groupShown(r.Group), Queue: r.Queue, Partitions: r.Partitions, Positions: r.Positions, Behind: r.Behind,
			Pending: r.Pending, Leases: r.Leases,
			CommittedAt: orZero(r.CommittedAt), OldestAt: orZero(r.OldestAt), OldestAge: milliseconds(r.AgeMs),
		}
	}
	return out, nil
}

// GroupPositions lists what one group owes, a line per partition of its queues,
// by queue and number; where queue is named, of all its partitions.
func (e *Engine) GroupPositions(ctx context.Context, group, queueName string) ([]PartitionLag, error) {
	name, queueID, err := e.lagOf(ctx, &group, queueName)
	if err != nil {
		return nil, err
	}
	rows, err := e.db.Lag(ctx, name, queueID)
	if err != nil {
		return nil, storeError("list lag", err)
	}
	return partitionLags(rows), nil
}

// LaggingMax bounds the answer of Lagging.
const LaggingMax = 10_000

// Lagging lists the partitions in which a group has owed something for at least
// age, the longest first, at most LaggingMax.
func (e *Engine) Lagging(ctx context.Context, age time.Duration) ([]PartitionLag, error) {
	rows, err := e.db.Lagging(ctx, age, LaggingMax)
	if err != nil {
		return nil, storeError("list lagging groups", err)
	}
	return partitionLags(rows), nil
}

func partitionLags(rows []store.LagRow) []PartitionLag {
	out := make([]PartitionLag, len(rows))
	for i, r := range rows {
		out[i] = PartitionLag{
			Group: groupShown(r.Group), Queue: r.Queue, Partition: r.Name, PartitionID: r.Partition, Number: r.Number,
			LogStart: r.LogStart, LogEnd: r.LogEnd, Position: r.Next, Known: r.Known, Ahead: r.Acked, Pending: r.Pending,
			CommittedAt: orZero(r.CommittedAt), LeaseEnd: -1, LeaseUntil: orZero(r.LeaseUntil),
			OldestAt: orZero(r.OldestAt), OldestAge: milliseconds(r.AgeMs),
		}
		if r.LeaseEnd != nil {
			out[i].LeaseEnd = *r.LeaseEnd
		}
	}
	return out
}

// Depth says what waits in each partition of a queue, by number: what a group
// owes, or, for a nil group, what the group that is furthest behind there owes.
// Where there is no group, all that is stored waits.
func (e *Engine) Depth(ctx context.Context, queueName string, group *string) ([]Depth, error) {
	name, queueID, err := e.lagOf(ctx, group, queueName)
	if err != nil {
		return nil, err
	}
	if queueID == 0 {
		return nil, fmt.Errorf("%w: the queue name is empty", ErrInvalidName)
	}
	rows, err := e.db.Lag(ctx, name, queueID)
	if err != nil {
		return nil, storeError("measure depth", err)
	}
	if len(rows) == 0 { // no group at all, or no partition
		parts, err := e.Partitions(ctx, queueName)
		if err != nil {
			return nil, err
		}
		out := make([]Depth, len(parts))
		for i, p := range parts {
			out[i] = Depth{Partition: p.Name, PartitionID: p.ID, Number: p.Number, Pending: max(p.LogEnd-p.LogStart, 0)}
		}
		return out, nil
	}
	var out []Depth
	at := make(map[int64]int)
	for _, r := range rows {
		i, seen := at[r.Partition]
		if !seen {
			i = len(out)
			at[r.Partition] = i
			out = append(out, Depth{Partition: r.Name, PartitionID: r.Partition, Number: r.Number})
		}
		out[i].Pending = max(out[i].Pending, r.Pending)
	}
	return out, nil
}

// Totals says what each queue holds, by name; one queue where it is named.
func (e *Engine) Totals(ctx context.Context, queueName string) ([]QueueTotals, error) {
	_, queueID, err := e.lagOf(ctx, nil, queueName)
	if err != nil {
		return nil, err
	}
	rows, err := e.db.QueueTotals(ctx, queueID)
	if err != nil {
		return nil, storeError("count messages", err)
	}
	out := make([]QueueTotals, len(rows))
	for i, r := range rows {
		out[i] = QueueTotals{Queue: r.Queue, Partitions: r.Partitions, Messages: r.Messages, Pending: r.Pending, Groups: r.Groups}
	}
	return out, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func milliseconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Millisecond
}
