package queen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// LagPageMax bounds the partitions of an answer of GroupPositions and of Depth, and the
// answer of Lagging.
const LagPageMax = 10_000

// PositionsQuery chooses partitions of a group's queues.
type PositionsQuery struct {
	Group     string // empty: the group-less mode
	Queue     string // empty: every queue that the group is in
	Partition string // of Queue; empty: all
	// FromQueue and From say where a page begins: with that queue, or the next by name, and
	// in it with the partition of this number.
	FromQueue string
	From      int
	Limit     int // partitions at most; 0: LagPageMax
}

// PositionsPage is a page of what a group owes.
type PositionsPage struct {
	Partitions []PartitionLag // by queue and number
	More       bool           // and the next page begins …
	NextQueue  string
	Next       int
}

// GroupPositions lists what one group owes, a line per partition of its queues,
// by queue and number; where a queue is named, of its partitions, also where the group
// has no position there.
func (e *Engine) GroupPositions(ctx context.Context, q PositionsQuery) (*PositionsPage, error) {
	name, err := groupName(q.Group)
	if err != nil {
		return nil, err
	}
	all, err := e.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	queues := []string{q.Queue}
	if q.Queue == "" {
		if queues, err = e.db.GroupQueues(ctx, name); err != nil {
			return nil, storeError("list lag", err)
		}
	}
	page := &PositionsPage{}
	left := q.Limit
	if left <= 0 || left > LagPageMax {
		left = LagPageMax
	}
	var spans []store.Span
	var names []string
	for _, queue := range queues {
		if queue < q.FromQueue {
			continue
		}
		known, ok := queueNamed(all, queue)
		if !ok && q.Queue == "" {
			continue // deleted meanwhile
		}
		if !ok {
			return nil, unknownQueue(QueueRef{Name: queue})
		}
		from, to := 0, known.Partitions
		switch {
		case q.Partition != "":
			p, err := e.lookupNamed(ctx, queue, q.Partition)
			if err != nil {
				return nil, err
			}
			from, to = int(p.number), int(p.number)+1
		case queue == q.FromQueue || queue == q.Queue:
			from = q.From
		}
		if from < to && (left == 0 || len(spans) == countSpansMax) {
			page.More, page.NextQueue, page.Next = true, queue, from
			break
		}
		if from >= to {
			continue
		}
		end := min(to, from+left)
		spans, names = append(spans, store.Span{Queue: known.ID, From: from, To: end}), append(names, queue)
		if left -= end - from; end < to {
			page.More, page.NextQueue, page.Next = true, queue, end
			break
		}
	}
	groups := make([]store.SpanGroup, len(spans))
	for i := range spans {
		groups[i] = store.SpanGroup{Span: i, Group: name}
	}
	rows, err := e.db.Lag(ctx, spans, groups)
	if err != nil {
		return nil, storeError("list lag", err)
	}
	page.Partitions = partitionLags(rows, func(span int) string { return names[span] })
	return page, nil
}

// queueNamed finds a queue in a list that is in order of their names.
func queueNamed(all []Queue, name string) (Queue, bool) {
	i, ok := slices.BinarySearchFunc(all, name, func(q Queue, name string) int { return cmp.Compare(q.Name, name) })
	if !ok {
		return Queue{}, false
	}
	return all[i], true
}

// Lagging lists the partitions in which a group has owed something for at least
// age, the longest first, at most LagPageMax, and as of when. Where that takes longer than
// half a second it is the last such list there is.
func (e *Engine) Lagging(ctx context.Context, age time.Duration) ([]PartitionLag, time.Time, error) {
	t, err := e.laggards.get(ctx, e, e.longest)
	if err != nil {
		return nil, time.Time{}, err
	}
	n := len(t.result)
	for n > 0 && t.result[n-1].OldestAge < age {
		n--
	}
	return t.result[:n:n], t.at, nil
}

// longest lists the LagPageMax partitions in which a group has owed something longest.
func (e *Engine) longest(ctx context.Context) ([]PartitionLag, error) {
	queues, err := e.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	count, err := e.countOf(ctx, queues) // for the groups that have no position in one of the steps
	if err != nil {
		return nil, err
	}
	groups := map[string][]string{}
	for _, g := range count.Groups {
		name, err := groupName(g.Group)
		if err != nil {
			return nil, err
		}
		groups[g.Queue] = append(groups[g.Queue], name)
	}
	var all []PartitionLag
	err = e.inSteps(ctx, queues, func(ctx context.Context, spans []store.Span, of []int) error {
		var named []store.SpanGroup
		for i := range spans {
			for _, g := range groups[queues[of[i]].Name] {
				named = append(named, store.SpanGroup{Span: i, Group: g})
			}
		}
		var before *time.Time
		if len(all) == LagPageMax {
			before = &all[LagPageMax-1].OldestAt
		}
		rows, err := e.db.Lagging(ctx, spans, named, before, LagPageMax)
		if err != nil {
			return storeError("list lagging groups", err)
		}
		all = append(all, partitionLags(rows, func(span int) string { return queues[of[span]].Name })...)
		slices.SortFunc(all, func(a, b PartitionLag) int {
			return cmp.Or(a.OldestAt.Compare(b.OldestAt), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Number, b.Number))
		})
		all = all[:min(len(all), LagPageMax)]
		return nil
	})
	return all, err
}

func partitionLags(rows []store.LagRow, queue func(span int) string) []PartitionLag {
	out := make([]PartitionLag, len(rows))
	for i, r := range rows {
		out[i] = PartitionLag{
			Group: groupShown(r.Group), Queue: queue(r.Span), Partition: r.Name, PartitionID: r.Partition, Number: r.Number,
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

// Depth says what waits in each partition of a queue, by number, from one on, at most
// limit of them (0 or more than LagPageMax: LagPageMax): what a group owes, or, for a nil
// group, what the group that is furthest behind there owes. Where there is no group, all
// that is stored waits. next is where the next page begins; 0: there is none.
func (e *Engine) Depth(ctx context.Context, queueName string, group *string, from, limit int) (depth []Depth, next int, err error) {
	if queueName == "" {
		return nil, 0, fmt.Errorf("%w: the queue name is empty", ErrInvalidName)
	}
	if group != nil {
		page, err := e.GroupPositions(ctx, PositionsQuery{Group: *group, Queue: queueName, From: from, Limit: limit})
		if err != nil {
			return nil, 0, err
		}
		for _, p := range page.Partitions {
			depth = append(depth, Depth{p.Partition, p.PartitionID, p.Number, p.Pending})
		}
		return depth, page.Next, nil
	}
	all, err := e.AllQueues(ctx)
	if err != nil {
		return nil, 0, err
	}
	q, ok := queueNamed(all, queueName)
	if !ok {
		return nil, 0, unknownQueue(QueueRef{Name: queueName})
	}
	if limit <= 0 || limit > LagPageMax {
		limit = LagPageMax
	}
	end := q.Partitions
	if from+limit < end {
		end, next = from+limit, from+limit
	}
	var elsewhere []string // groups that may have no position in this page
	if from > 0 || next > 0 {
		c, err := e.CountQueue(ctx, queueName)
		if err != nil {
			return nil, 0, err
		}
		for _, g := range c.Groups {
			name, err := groupName(g.Group)
			if err != nil {
				return nil, 0, err
			}
			elsewhere = append(elsewhere, name)
		}
	}
	rows, err := e.db.Depth(ctx, store.Span{Queue: q.ID, From: from, To: end}, elsewhere)
	if err != nil {
		return nil, 0, storeError("measure depth", err)
	}
	for _, r := range rows {
		depth = append(depth, Depth{r.Name, r.Partition, r.Number, r.Pending})
	}
	return depth, next, nil
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
