package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/cursor_commit.sql
	cursorCommitSQL string
	//go:embed query/cursor_list.sql
	cursorListSQL string
	//go:embed query/cursor_find.sql
	cursorFindSQL string
	//go:embed query/cursors_delete.sql
	cursorsDeleteSQL string
	//go:embed query/group_list.sql
	groupListSQL string
	//go:embed query/group_find.sql
	groupFindSQL string
	//go:embed query/subscription_set.sql
	subscriptionSetSQL string
	//go:embed query/producer_id_new.sql
	producerIDNewSQL string
)

// CursorRow is a group's position in a partition.
type CursorRow struct {
	Partition int64
	Offset    int64 // the next one to read; on committing, also one that the log does not have
	Epoch     int32 // leader epoch the client sent along, −1 for none
	Metadata  []byte

	// Only on reading:
	Committed   int64 // what the client committed: Offset, or one the log did not have then
	CommittedAt time.Time
	Kafka       bool // last written by a Kafka commit
	Queue       string
	TopicID     uuid.UUID
	Number      int // of the partition in its queue
}

// CommitCursors stores positions as a Kafka client commits them; native leases
// on them are void. A position above the log's end is kept to be read back, and the
// group is at that end; the same where the log was cut below it since the epoch it
// names. Without kafka they are moved by hand, which is the same. gone says of each
// whether its partition does not exist (any more), so that it was not stored; one that a
// commit of a higher Serial came before is not told from one that was stored just before it.
// ErrFenced: nothing was stored, another broker coordinates the group by now.
func (db *DB) CommitCursors(ctx context.Context, group string, under Fence, cursors []CursorRow, kafka bool) (gone []bool, err error) {
	n := len(cursors)
	parts, offsets, epochs, metadata := make([]int64, n), make([]int64, n), make([]int32, n), make([][]byte, n)
	for i, c := range cursors {
		parts[i], offsets[i], epochs[i], metadata[i] = c.Partition, c.Offset, c.Epoch, c.Metadata
		if c.Metadata == nil {
			metadata[i] = []byte{} // a nil slice would be NULL
		}
	}
	committed, err := writeRows(ctx, db, db.write, "commit cursors", pgx.RowTo[int64], cursorCommitSQL,
		group, under.Slot, under.Epoch, under.Serial, parts, offsets, epochs, metadata, kafka)
	if err != nil {
		return nil, err
	}
	if len(committed) > 0 && committed[0] < 0 {
		return nil, fmt.Errorf("commit cursors of %q: %w", group, ErrFenced)
	}
	gone = make([]bool, n)
	for i, p := range parts {
		_, found := slices.BinarySearch(committed, p)
		gone[i] = !found
	}
	return gone, nil
}

// Cursors returns a group's positions in those of the partitions where it has
// one, all of its positions where partitions is nil; ordered by partition.
func (db *DB) Cursors(ctx context.Context, group string, partitions []int64) ([]CursorRow, error) {
	scan := func(row pgx.CollectableRow) (c CursorRow, err error) {
		err = row.Scan(&c.Partition, &c.Offset, &c.Committed, &c.Epoch, &c.Metadata, &c.CommittedAt, &c.Kafka, &c.Queue, &c.TopicID, &c.Number)
		return c, err
	}
	if partitions == nil {
		return readRows(ctx, db, db.read, "list cursors", scan, cursorListSQL, group)
	}
	return readRows(ctx, db, db.read, "find cursors", scan, cursorFindSQL, group, partitions)
}

// ErrLeased: a member of the group holds a lease.
var ErrLeased = errors.New("leased")

// Groups returns the names of the groups that have a position, ascending.
func (db *DB) Groups(ctx context.Context) ([]string, error) {
	return readRows(ctx, db, db.admin, "list groups", pgx.RowTo[string], groupListSQL)
}

// HasCursors says whether a group has a position in a queue that is there.
func (db *DB) HasCursors(ctx context.Context, group string) (bool, error) {
	return only(readRows(ctx, db, db.read, "find group", pgx.RowTo[bool], groupFindSQL, group))
}

// CursorScope says which of a group's positions DeleteCursors deletes.
type CursorScope struct {
	Partitions    []int64 // those in these partitions; nil: those in Queue
	Queue         int64   // 0: all
	Subscriptions bool    // with the last of them what the group subscribed to there
}

// DeleteCursors deletes a step of a group's positions: up to rowsMax of those in
// scope and above partition after, ascending. It says how many positions and
// subscriptions went, and the partition to go on after, 0 after the last step. A
// repeat of a call, under the same id, is told what its first attempt did. ErrLeased:
// a lease is on one of them, or, in the first step (after 0), on any in scope. What was
// committed under a higher Serial stays;
// ErrFenced: another broker coordinates the group by now. Then this step deleted nothing.
func (db *DB) DeleteCursors(ctx context.Context, call uuid.UUID, group string, under Fence, scope CursorScope, after int64, rowsMax int) (n int, next int64, err error) {
	type step struct {
		Refused string
		Deleted int
		After   int64
	}
	s, err := only(writeRows(ctx, db, db.admin, "delete cursors", pgx.RowTo[step], cursorsDeleteSQL,
		call, group, under.Slot, under.Epoch, under.Serial, orNull(scope.Queue), scope.Partitions, scope.Subscriptions, after, rowsMax))
	switch {
	case err != nil:
		return 0, 0, err
	case s.Refused == "leased":
		return 0, 0, fmt.Errorf("delete cursors of %q: %w", group, ErrLeased)
	case s.Refused == "fenced":
		return 0, 0, fmt.Errorf("delete cursors of %q: %w", group, ErrFenced)
	}
	return s.Deleted, s.After, nil
}

// SetSubscription moves where a group begins in the partitions it has no position in:
// with what is stored after a moment. It returns the names of the queues that the
// group is in, none where there is no such group.
func (db *DB) SetSubscription(ctx context.Context, group string, at time.Time) ([]string, error) {
	return writeRows(ctx, db, db.admin, "set subscription", pgx.RowTo[string], subscriptionSetSQL, group, at)
}

// NewProducerID returns an id that no producer was given before.
func (db *DB) NewProducerID(ctx context.Context) (int64, error) {
	return only(writeRows(ctx, db, db.write, "new producer id", pgx.RowTo[int64], producerIDNewSQL))
}
