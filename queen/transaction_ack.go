package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"queenmq/store"
)

// resolveAcks finds the offsets of what is acknowledged, once: they do not change.
func (t *transaction) resolveAcks(ctx context.Context) (*Transacted, error) {
	out := make([]Acked, len(t.acks))
	cursors := t.e.resolveAcks(ctx, t.acks, out)
	for i := range out {
		err := out[i].Err
		if err == nil {
			continue
		}
		if v := t.refuse(t.ackAt[i], err); v != nil {
			return v, nil
		}
		if !errors.Is(err, ErrUnresolvable) {
			return nil, err
		}
		t.unresolved, t.unresolvedAt = err, t.ackAt[i]
		// No group has a position in partition 0.
		t.cursors, t.ackOf = []store.CursorAck{{Group: ownGroup}}, [][]int{{i}}
		return nil, nil
	}
	slices.SortFunc(cursors, func(a, b cursorAcks) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), strings.Compare(a.Group, b.Group), cmp.Compare(a.index[0], b.index[0]))
	})
	for _, c := range cursors {
		t.cursors, t.ackOf = append(t.cursors, c.CursorAck), append(t.ackOf, c.index)
	}
	return nil, nil
}

// ackRefused is the verdict where a cursor refused its acks, for err.
func (t *transaction) ackRefused(cursor int, err error) *Transacted {
	if t.unresolved != nil {
		return t.rollback(RollbackAckRejected, t.unresolvedAt, t.unresolved)
	}
	return t.rollback(RollbackAckRejected, t.ackAt[t.ackOf[cursor][0]], ackRefusal(&t.cursors[cursor], err))
}

// ackRefusal says why a cursor refused an ack.
func ackRefusal(c *store.CursorAck, err error) error {
	switch {
	case errors.Is(err, store.ErrLeaseLost):
		return fmt.Errorf("%w: %s has ended, its messages may be with another consumer", ErrLeaseLost, c.Lease)
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%w: this group has popped nothing from partition %d", ErrLeaseLost, c.Partition)
	default:
		return fmt.Errorf("%w: %w; complete the earlier ones first", ErrOverloaded, err)
	}
}

// released tells those who wait for what acks gave back.
func (t *transaction) released(acked []store.Acked) {
	for i, a := range acked {
		if !a.Live {
			t.e.ended(t.cursors[i].Group, t.cursors[i].Partition, a)
		}
	}
}
