package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/safe_time.sql
	safeTimeSQL string
	//go:embed query/partition_changes.sql
	partitionChangesSQL string
)

// SafeTime is the moment, by the database's clock, up to which every write is seen
// by reads that begin after this returns.
func (db *DB) SafeTime(ctx context.Context) (time.Time, error) {
	return only(readRows(ctx, db, db.read, "read the time", pgx.RowTo[time.Time], safeTimeSQL))
}

// ChangedPartition is a partition and what was written to it last.
type ChangedPartition struct {
	ID          int64
	Number      int
	Name        string
	LogStart    int64
	LastOffset  int64      // −1: nothing was ever written
	LastWriteAt *time.Time // by the database's clock; nil: never
}

// ChangedPartitions returns at most limit partitions of a queue from a number on, in
// that order, to which something was written at or after since; all, where it is nil.
func (db *DB) ChangedPartitions(ctx context.Context, queue int64, since *time.Time, from, limit int) ([]ChangedPartition, error) {
	return readRows(ctx, db, db.read, "list changed partitions", func(row pgx.CollectableRow) (p ChangedPartition, err error) {
		err = row.Scan(&p.ID, &p.Number, &p.Name, &p.LogStart, &p.LastOffset, &p.LastWriteAt)
		return p, err
	}, partitionChangesSQL, queue, since, from, limit)
}
