package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/group_lag.sql
	groupLagSQL string
	//go:embed query/group_lagging.sql
	groupLaggingSQL string
	//go:embed query/group_summary.sql
	groupSummarySQL string
	//go:embed query/queue_totals.sql
	queueTotalsSQL string
)

// LagRow is what a group owes in one partition. A group without a position there
// owes what it would be given first.
type LagRow struct {
	Group, Queue     string
	Partition        int64
	Number           int
	Name             string // of the partition
	LogStart, LogEnd int64
	Next             int64 // the first offset owed; never below the log start
	Known            bool  // the group has a position here
	Acked            []int64
	CommittedAt      *time.Time
	LeaseEnd         *int64 // the last offset under a live lease; nil: there is none
	LeaseUntil       *time.Time
	Pending          int64      // offsets owed, those completed ahead left out
	OldestAt         *time.Time // when the first of them was stored; nil: none is owed
	AgeMs            *int64     // of OldestAt, by the database's clock
}

// Lag lists what a group owes, in each partition of its queues, or of one queue
// where queue is not 0, by queue and number. An empty group is every group.
func (db *DB) Lag(ctx context.Context, group string, queue int64) ([]LagRow, error) {
	return readRows(ctx, db, db.admin, "list lag", scanLag, groupLagSQL, orNull(group), orNull(queue))
}

// Lagging lists at most limit partitions in which a group has owed something for
// at least age, the longest first.
func (db *DB) Lagging(ctx context.Context, age time.Duration, limit int) ([]LagRow, error) {
	return readRows(ctx, db, db.admin, "list lagging groups", scanLag, groupLaggingSQL, age.Milliseconds(), limit)
}

func scanLag(row pgx.CollectableRow) (r LagRow, err error) {
	err = row.Scan(&r.Group, &r.Queue, &r.Partition, &r.Number, &r.Name, &r.LogStart, &r.LogEnd, &r.Next, &r.Known, &r.Acked,
		&r.CommittedAt, &r.LeaseEnd, &r.LeaseUntil, &r.Pending, &r.OldestAt, &r.AgeMs)
	return r, err
}

// LagSummary is what a group owes in one queue.
type LagSummary struct {
	Group, Queue string
	Partitions   int // of the queue
	Positions    int // partitions in which the group has a position
	Behind       int // partitions in which it owes something
	Pending      int64
	Leases       int // live ones
	CommittedAt  *time.Time
	OldestAt     *time.Time // nil: nothing is owed
	AgeMs        *int64
}

// LagSummaries is Lag, a line per group and queue.
func (db *DB) LagSummaries(ctx context.Context, group string, queue int64) ([]LagSummary, error) {
	scan := func(row pgx.CollectableRow) (r LagSummary, err error) {
		err = row.Scan(&r.Group, &r.Queue, &r.Partitions, &r.Positions, &r.Behind, &r.Pending, &r.Leases,
			&r.CommittedAt, &r.OldestAt, &r.AgeMs)
		return r, err
	}
	return readRows(ctx, db, db.admin, "list lag", scan, groupSummarySQL, orNull(group), orNull(queue))
}

// QueueTotals is what a queue holds.
type QueueTotals struct {
	Queue      string
	Partitions int
	Messages   int64 // offsets from the log starts on
	Pending    int64 // owed by the group furthest behind, partition by partition; all that is stored without a group
	Groups     int
}

// QueueTotals says what each queue holds, by name; of one queue where queue is not 0.
func (db *DB) QueueTotals(ctx context.Context, queue int64) ([]QueueTotals, error) {
	scan := func(row pgx.CollectableRow) (r QueueTotals, err error) {
		err = row.Scan(&r.Queue, &r.Partitions, &r.Messages, &r.Pending, &r.Groups)
		return r, err
	}
	return readRows(ctx, db, db.admin, "count messages", scan, queueTotalsSQL, orNull(queue))
}
