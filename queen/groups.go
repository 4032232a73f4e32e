package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// Groups lists the groups that have a position somewhere, by name. That of
// consumers that name none is not among them.
func (e *Engine) Groups(ctx context.Context) ([]string, error) {
	names, err := e.db.Groups(ctx)
	if err != nil {
		return nil, storeError("list groups", err)
	}
	out := names[:0]
	for _, name := range names {
		if name != ownGroup {
			out = append(out, name)
		}
	}
	return out, nil
}

// HasPositions says whether a group has a position in a queue that is there.
func (e *Engine) HasPositions(ctx context.Context, group string) (bool, error) {
	if err := ValidateName("group", group); err != nil {
		return false, fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	has, err := e.db.HasCursors(ctx, group)
	return has, storeError("find group", err)
}

// DeleteGroup deletes all positions of a group and what it subscribed to, under the
// Fence its Coordinator gave. A group without any is ErrUnknownGroup; one with a
// native lease is ErrGroupNotEmpty. Whether a Kafka client is in it only its
// coordinator knows. It is done in calls of 2,000 positions: where it fails some may be
// gone already, and it can be said again.
func (e *Engine) DeleteGroup(ctx context.Context, group string, under Fence) error {
	if err := ValidateName("group", group); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	return e.deleteGroup(ctx, group, under, 0, "", true)
}

// DeleteGroupFrom deletes a group's positions in one queue, or in all where it is
// empty, without asking its coordinator. An empty group is the group-less mode.
// Without subscriptions what the group subscribed to is kept: it starts there again.
func (e *Engine) DeleteGroupFrom(ctx context.Context, group, queueName string, subscriptions bool) error {
	name, err := groupName(group)
	if err != nil {
		return err
	}
	var queueID int64
	if queueName != "" {
		q, err := e.catalog.queue(ctx, QueueRef{Name: queueName})
		if err != nil {
			return err
		}
		queueID = q.id
	}
	return e.deleteGroup(ctx, name, Fence{}, queueID, queueName, subscriptions)
}

func (e *Engine) deleteGroup(ctx context.Context, name string, under Fence, queueID int64, queueName string, subscriptions bool) error {
	n, err := e.deleteCursors(ctx, name, under, store.CursorScope{Queue: queueID, Subscriptions: subscriptions})
	switch shown := groupShown(name); {
	case err != nil:
		return groupError("delete group", shown, err)
	case n == 0 && queueName != "":
		return fmt.Errorf("%w: %q has no position in queue %q", ErrUnknownGroup, shown, queueName)
	case n == 0:
		return fmt.Errorf("%w: %q", ErrUnknownGroup, shown)
	}
	return nil
}

// deleteCursors deletes positions in calls of commitRowsMax; it says how many, and
// subscriptions, there were.
func (e *Engine) deleteCursors(ctx context.Context, group string, under Fence, scope store.CursorScope) (deleted int, err error) {
	defer e.hotlist.forgotten(group)
	under = e.brokers.begun(under)
	for after := int64(0); ; {
		call := uuid.Must(uuid.NewV7())
		var n int
		var next int64
		if err := e.untilKnown(ctx, func(ctx context.Context) (err error) {
			n, next, err = e.db.DeleteCursors(ctx, call, group, under, scope, after, commitRowsMax)
			return err
		}); err != nil {
			return deleted, err
		}
		deleted += n
		if after = next; after == 0 {
			return deleted, nil
		}
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
	}
}

// groupError is storeError for what is written of a group.
func groupError(verb, group string, err error) error {
	switch {
	case errors.Is(err, store.ErrLeased):
		return fmt.Errorf("%w: a member of %q holds a lease", ErrGroupNotEmpty, group)
	case errors.Is(err, store.ErrFenced):
		return fmt.Errorf("%w: another broker has taken %q over; ask for its coordinator again", ErrNotCoordinator, group)
	}
	return storeError(verb, err)
}

// DeleteOffsets deletes a group's positions in the partitions named, under the
// Fence its Coordinator gave; one error per partition, nil also where it had none.
func (e *Engine) DeleteOffsets(ctx context.Context, group string, under Fence, refs []PartitionRef) ([]error, error) {
	if err := ValidateName("group", group); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	out := make([]error, len(refs))
	ids := make([]int64, 0, len(refs))
	look := e.catalog.lookups(len(refs), func(i int) QueueRef { return refs[i].Queue })
	for i, r := range refs {
		p, err := look.partition(ctx, r)
		if err != nil {
			out[i] = err
			continue
		}
		ids = append(ids, p.id)
	}
	slices.Sort(ids)
	for step := range slices.Chunk(ids, commitRowsMax) {
		if _, err := e.deleteCursors(ctx, group, under, store.CursorScope{Partitions: step}); err != nil {
			return nil, groupError("delete offsets", group, err)
		}
	}
	return out, nil
}

// SetSubscription moves where a group begins in the partitions it has no position in:
// with what is stored after a moment. Its positions stay. A group that is nowhere is
// ErrUnknownGroup.
func (e *Engine) SetSubscription(ctx context.Context, group string, at time.Time) error {
	name, err := groupName(group)
	if err != nil {
		return err
	}
	queues, err := e.db.SetSubscription(ctx, name, at)
	if err != nil {
		return storeError("set subscription", err)
	}
	if len(queues) == 0 {
		return fmt.Errorf("%w: %q", ErrUnknownGroup, group)
	}
	for _, queueName := range queues {
		if q := e.catalog.cached(QueueRef{Name: queueName}); q != nil {
			for _, p := range q.all() {
				e.hotlist.moved(name, p)
			}
		}
	}
	return nil
}

// SeekTo says where a group goes. Exactly one of its fields is set.
type SeekTo struct {
	Start  bool      // to the log start: everything that is stored
	End    bool      // to the end: only what comes
	Time   time.Time // to the first message stamped then or later; the end where there is none
	Offset *int64    // to this offset of each partition asked for
}

// Sought is where a group stands in a partition after Seek.
type Sought struct {
	Partition   string
	PartitionID int64
	Number      int
	Offset      int64
}

// Seek moves a group in every partition of a queue, or in the one named, also
// backwards; a native lease there is lost. An empty group is the group-less mode. Where
// it fails some may have been moved already: it can be said again.
// Partitions born later start at 0. A Kafka client that is in the group goes on from
// where it is and commits over it.
func (e *Engine) Seek(ctx context.Context, group, queueName, partitionName string, to SeekTo) ([]Sought, error) {
	name, err := groupName(group)
	if err != nil {
		return nil, err
	}
	q, err := e.catalog.queue(ctx, QueueRef{Name: queueName})
	if err != nil {
		return nil, err
	}
	if err := e.catalog.reload(ctx, q); err != nil { // all of them, also those another broker just made
		return nil, err
	}
	parts := q.all()
	if partitionName != "" {
		p := q.named(partitionName)
		if p == nil {
			return nil, fmt.Errorf("%w: queue %q has no partition %q", ErrUnknownPartition, queueName, partitionName)
		}
		parts = []*partition{p}
	}
	targets, err := e.seekTargets(ctx, parts, to)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	moves := make([]move, len(parts))
	out := make([]Sought, len(parts))
	for i, p := range parts {
		moves[i] = move{i, p, store.CursorRow{Partition: p.id, Offset: targets[i], Epoch: -1}}
		out[i] = Sought{Partition: p.name, PartitionID: p.id, Number: int(p.number), Offset: targets[i]}
	}
	var lost bool
	_, err = e.commit(ctx, name, Fence{}, moves, false, func(_ move, gone bool) { lost = lost || gone })
	switch {
	case err != nil:
		return nil, storeError("seek", err)
	case lost:
		return nil, unknownQueue(QueueRef{Name: queueName})
	}
	return out, nil
}

// seekTargets resolves where to go in each partition.
func (e *Engine) seekTargets(ctx context.Context, parts []*partition, to SeekTo) ([]int64, error) {
	ids := make([]int64, len(parts))
	for i, p := range parts {
		ids[i] = p.id
	}
	marks, err := e.db.Marks(ctx, ids)
	if err != nil {
		return nil, storeError("seek", err)
	}
	targets := make([]int64, len(parts))
	for i, p := range parts {
		m := marks[i]
		switch {
		case !m.Found:
			e.catalog.drop(p.queue)
			return nil, unknownQueue(QueueRef{Name: p.queue.name()})
		case to.Offset != nil:
			targets[i] = *to.Offset
			if *to.Offset < m.LogStart || *to.Offset > m.NextOffset {
				return nil, fmt.Errorf("%w: partition %q can be read from offset %d to %d, %d is not among them",
					ErrOffsetOutOfRange, p.name, m.LogStart, m.NextOffset, *to.Offset)
			}
		case to.Start:
			targets[i] = m.LogStart
		default:
			targets[i] = m.NextOffset
		}
		if to.Time.IsZero() {
			continue
		}
		a, err := e.offsetAt(ctx, p, max(to.Time.UnixMilli(), 0), m)
		if err != nil {
			return nil, err
		}
		if a.Offset >= 0 { // else nothing is that new
			targets[i] = a.Offset
		}
	}
	return targets, nil
}
