package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/group_expirable.sql
	groupExpirableSQL string
	//go:embed query/groups_seen.sql
	groupsSeenSQL string
	//go:embed query/offsets_expire.sql
	offsetsExpireSQL string
)

// ExpirableRow is a group with positions.
type ExpirableRow struct {
	Group string
	// Old says that a Kafka client committed one of them long ago.
	Old bool
}

// ExpirableGroups returns up to groupsMax groups that have a position, by name from
// after (exclusive) on, and whether one was committed by a Kafka client age ago.
func (db *DB) ExpirableGroups(ctx context.Context, after string, groupsMax int, age time.Duration) ([]ExpirableRow, error) {
	return readRows(ctx, db, db.admin, "find old positions", pgx.RowToStructByPos[ExpirableRow], groupExpirableSQL,
		after, groupsMax, age.Milliseconds())
}

// GroupsSeen notes that groups have, or just had, members. It forgets some of
// those not seen for forget that have no positions either.
func (db *DB) GroupsSeen(ctx context.Context, groups []string, forget time.Duration, rowsMax int) error {
	if groups == nil {
		groups = []string{}
	}
	_, err := writeRows(ctx, db, db.admin, "note who has members", noColumns,
		groupsSeenSQL, groups, forget.Milliseconds(), rowsMax)
	return err
}

// ExpireCursors deletes up to rowsMax positions of a group that Kafka clients
// committed age ago or earlier; it returns how many. keep nil: nobody is in the
// group, and nothing is deleted where somebody was seen in it less than seen ago.
// Else it has members, who read the queues keep. ErrFenced: nothing was deleted,
// another broker coordinates the group by now.
func (db *DB) ExpireCursors(ctx context.Context, group string, under Fence, age, seen time.Duration, keep []string, rowsMax int) (int, error) {
	n, err := only(writeRows(ctx, db, db.admin, "expire positions", pgx.RowTo[int], offsetsExpireSQL,
		group, under.Slot, under.Epoch, age.Milliseconds(), seen.Milliseconds(), keep, rowsMax))
	if err == nil && n < 0 {
		return 0, fmt.Errorf("expire positions of %q: %w", group, ErrFenced)
	}
	return n, err
}
