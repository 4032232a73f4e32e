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
	//go:embed query/group_depth.sql
	groupDepthSQL string
	//go:embed query/group_summary.sql
	groupSummarySQL string
	//go:embed query/group_queues.sql
	groupQueuesSQL string
)

// Span is the partitions of a queue whose number is at least From and below To. A
// statement over spans takes some 15 µs of the database for each of their partitions
// and groups.
type Span struct {
	Queue    int64
	From, To int
}

// SpanGroup names a group in one of some spans.
type SpanGroup struct {
	Span  int
	Group string
}

// LagRow is what a group owes in one partition. A group without a position there
// owes what it would be given first.
type LagRow struct {
	Span             int // of those asked about
	Group            string
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

// Lag lists what groups owe in each partition of their spans, by span and number.
func (db *DB) Lag(ctx context.Context, spans []Span, groups []SpanGroup) ([]LagRow, error) {
	return readRows(ctx, db, db.admin, "list lag", scanLag, groupLagSQL, append(spanArrays(spans), groupArrays(groups)...)...)
}

// Lagging lists the limit partitions of spans in which a group has owed something
// longest, the longest first; with before, those that have since before then. A group that
// has neither a position in a span nor a subscription is looked at only where it is named.
func (db *DB) Lagging(ctx context.Context, spans []Span, groups []SpanGroup, before *time.Time, limit int) ([]LagRow, error) {
	args := append(spanArrays(spans), groupArrays(groups)...)
	return readRows(ctx, db, db.admin, "list lagging groups", scanLag, groupLaggingSQL, append(args, before, limit)...)
}

func spanArrays(spans []Span) []any {
	queues, from, to := make([]int64, len(spans)), make([]int32, len(spans)), make([]int32, len(spans))
	for i, s := range spans {
		queues[i], from[i], to[i] = s.Queue, int32(s.From), int32(s.To)
	}
	return []any{queues, from, to}
}

func groupArrays(groups []SpanGroup) []any {
	spans, names := make([]int32, len(groups)), make([]string, len(groups))
	for i, g := range groups {
		spans[i], names[i] = int32(g.Span+1), g.Group
	}
	return []any{spans, names}
}

func scanLag(row pgx.CollectableRow) (r LagRow, err error) {
	err = row.Scan(&r.Span, &r.Group, &r.Partition, &r.Number, &r.Name, &r.LogStart, &r.LogEnd, &r.Next, &r.Known, &r.Acked,
		&r.CommittedAt, &r.LeaseEnd, &r.LeaseUntil, &r.Pending, &r.OldestAt, &r.AgeMs)
	r.Span--
	return r, err
}

// DepthRow is what waits in one partition.
type DepthRow struct {
	Partition int64
	Number    int
	Name      string
	Pending   int64
}

// Depth lists what waits in each partition of a span, by number: what the group that is
// furthest behind owes, of those that have a position in it, a subscription, or are
// named; all that is stored where there is none.
func (db *DB) Depth(ctx context.Context, span Span, groups []string) ([]DepthRow, error) {
	if groups == nil {
		groups = []string{}
	}
	return readRows(ctx, db, db.admin, "measure depth", pgx.RowToStructByPos[DepthRow], groupDepthSQL, span.Queue, span.From, span.To, groups)
}

// LagSummary is what a group owes in one span.
type LagSummary struct {
	Span        int
	Group       *string // nil: whoever has neither a position in it nor a subscription
	Partitions  int     // of the span
	Positions   int     // partitions in which the group has a position
	Behind      int     // partitions in which it owes something
	Pending     int64
	Leases      int // live ones
	CommittedAt *time.Time
	OldestAt    *time.Time // nil: nothing is owed
	AgeMs       *int64
	// Furthest, where Group is nil, is what the group of the span that is furthest behind
	// owes, partition by partition; nil: there is none.
	Furthest *int64
}

// LagSummaries says what groups owe in spans, a line for each span and group that has a
// position in it or a subscription, and one for all others.
func (db *DB) LagSummaries(ctx context.Context, spans []Span) ([]LagSummary, error) {
	scan := func(row pgx.CollectableRow) (r LagSummary, err error) {
		err = row.Scan(&r.Span, &r.Group, &r.Partitions, &r.Positions, &r.Behind, &r.Pending, &r.Leases,
			&r.CommittedAt, &r.OldestAt, &r.AgeMs, &r.Furthest)
		r.Span--
		return r, err
	}
	return readRows(ctx, db, db.admin, "count messages", scan, groupSummarySQL, spanArrays(spans)...)
}

// GroupQueues names the queues in which a group has a position or a subscription, ascending.
func (db *DB) GroupQueues(ctx context.Context, group string) ([]string, error) {
	return readRows(ctx, db, db.admin, "list queues of a group", pgx.RowTo[string], groupQueuesSQL, group)
}
