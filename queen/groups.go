package queen

import (
	"context"
	"errors"
	"fmt"

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

// DeleteGroup deletes all positions of a group. A group without any is
// ErrUnknownGroup; one with a native lease is ErrGroupNotEmpty. Whether a Kafka
// client is in it only the Kafka door knows.
func (e *Engine) DeleteGroup(ctx context.Context, group string) error {
	if err := ValidateName("group", group); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	n, err := e.db.DeleteCursors(ctx, group, nil)
	switch {
	case errors.Is(err, store.ErrLeased):
		return fmt.Errorf("%w: a member of %q holds a lease", ErrGroupNotEmpty, group)
	case err != nil:
		return storeError("delete group", err)
	case n == 0:
		return fmt.Errorf("%w: %q", ErrUnknownGroup, group)
	}
	return nil
}

// DeleteOffsets deletes a group's positions in the partitions named; one error
// per partition, nil also where it had none.
func (e *Engine) DeleteOffsets(ctx context.Context, group string, refs []PartitionRef) ([]error, error) {
	if err := ValidateName("group", group); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidGroup, err)
	}
	out := make([]error, len(refs))
	ids := make([]int64, 0, len(refs))
	for i, r := range refs {
		p, err := e.catalog.partition(ctx, r)
		if err != nil {
			out[i] = err
			continue
		}
		ids = append(ids, p.id)
	}
	_, err := e.db.DeleteCursors(ctx, group, ids)
	switch {
	case errors.Is(err, store.ErrLeased):
		return nil, fmt.Errorf("%w: a member of %q holds a lease", ErrGroupNotEmpty, group)
	case err != nil:
		return nil, storeError("delete offsets", err)
	}
	return out, nil
}
