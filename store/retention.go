package store

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/retention_due.sql
	retentionDueSQL string
	//go:embed query/log_start_raise.sql
	logStartRaiseSQL string
	//go:embed query/segments_purge.sql
	segmentsPurgeSQL string
	//go:embed query/txns_purge.sql
	txnsPurgeSQL string
)

// DueRow is a partition that may have something to forget.
type DueRow struct {
	Partition int64
	// LogStart is where the log may start; −1 when nothing has expired.
	LogStart int64
	// Sidecar says that the oldest sidecar row is past its use.
	Sidecar bool
}

// RetentionDue looks at up to partitionsMax partitions with an id above after,
// each up to segmentsMax segments ahead, and returns one row for each. Sidecar
// rows are kept for the deduplication window and at least keepSeconds.
func (db *DB) RetentionDue(ctx context.Context, after int64, partitionsMax, segmentsMax, keepSeconds int) ([]DueRow, error) {
	return readRows(ctx, db, db.admin, "find what has expired", func(row pgx.CollectableRow) (d DueRow, err error) {
		var start *int64
		var old *bool
		err = row.Scan(&d.Partition, &start, &old)
		d.LogStart, d.Sidecar = orMinus1(start), old != nil && *old
		return d, err
	}, retentionDueSQL, after, partitionsMax, segmentsMax, keepSeconds)
}

// RaiseLogStart makes start the partition's first offset, unless it is higher
// already; it never passes the log's end. It returns the log start.
func (db *DB) RaiseLogStart(ctx context.Context, partition, start int64) (int64, error) {
	at, err := only(writeRows(ctx, db, db.admin, "raise log start", pgx.RowTo[*int64], logStartRaiseSQL, partition, start))
	if err == nil && at == nil {
		err = ErrNotFound
	}
	return orMinus1(at), err
}

// PurgeSegments deletes up to rowsMax segments below the log start, and none after
// bytesMax bytes. It returns how many, and whether there are more.
func (db *DB) PurgeSegments(ctx context.Context, partition int64, rowsMax int, bytesMax int64) (n int, more bool, err error) {
	return purged(writeRows(ctx, db, db.admin, "purge segments", scanPurge, segmentsPurgeSQL, partition, rowsMax, bytesMax))
}

// PurgeSidecar deletes up to rowsMax sidecar rows older than the window and
// keepSeconds, none after bytesMax bytes of ids, and as many producer states unused for
// producerSeconds. It returns how many, and whether there may be more.
func (db *DB) PurgeSidecar(ctx context.Context, partition int64, rowsMax int, bytesMax int64, keepSeconds, producerSeconds int) (n int, more bool, err error) {
	return purged(writeRows(ctx, db, db.admin, "purge sidecar", scanPurge, txnsPurgeSQL,
		partition, rowsMax, bytesMax, keepSeconds, producerSeconds))
}

// purge is what a step of forgetting did.
type purge struct {
	n    int
	more bool
}

func scanPurge(row pgx.CollectableRow) (p purge, err error) {
	err = row.Scan(&p.n, &p.more)
	return p, err
}

func purged(rows []purge, err error) (int, bool, error) {
	p, err := only(rows, err)
	return p.n, p.more, err
}
