package queen

import (
	"context"
	"fmt"
)

// ToLogEnd as Truncation.Before deletes all messages there are.
const ToLogEnd = -1

// Truncation asks for a partition's oldest messages to be deleted.
type Truncation struct {
	Partition PartitionRef
	Before    int64 // lower offsets go; ToLogEnd for all
}

// Truncated is what became of a Truncation.
type Truncated struct {
	Err      error // an offset beyond the log's end is ErrOffsetOutOfRange
	LogStart int64 // afterwards; −1 with Err
}

// Truncate raises log starts; nobody reads below them from then on, and the rows
// go in the rounds of retention. What is known of the ids stays: a duplicate of
// a message deleted is still one.
func (e *Engine) Truncate(ctx context.Context, ts []Truncation) []Truncated {
	out := make([]Truncated, len(ts))
	look := e.catalog.lookups(len(ts), func(i int) QueueRef { return ts[i].Partition.Queue })
	for i, t := range ts {
		out[i].LogStart, out[i].Err = e.truncate(ctx, look, t)
	}
	return out
}

func (e *Engine) truncate(ctx context.Context, look *lookups, t Truncation) (int64, error) {
	p, err := look.partition(ctx, t.Partition)
	if err != nil {
		return -1, err
	}
	if !p.queue.describe().Options.CleanupDelete {
		return -1, fmt.Errorf("%w: messages of %q are compacted, not deleted (cleanup.policy)", ErrPolicy, p.queue.name())
	}
	ms, err := e.db.Marks(ctx, []int64{p.id})
	if err != nil {
		return -1, storeError("read the log's end", err)
	}
	m := ms[0]
	if !m.Found {
		return -1, unknownQueue(t.Partition.Queue)
	}
	to := t.Before
	if to == ToLogEnd {
		to = m.NextOffset
	}
	if to < 0 || to > m.NextOffset {
		return -1, fmt.Errorf("%w: offset %d, the log has %d to %d", ErrOffsetOutOfRange, t.Before, m.LogStart, m.NextOffset)
	}
	start, err := e.db.RaiseLogStart(ctx, p.id, to)
	if err != nil {
		return -1, storeError("raise log start", err)
	}
	p.seen(m.Incarnation, start, m.NextOffset)
	e.tail.forgetBelow(p.id, start)
	return start, nil
}
