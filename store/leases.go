package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/lease_extend.sql
	leaseExtendSQL string
	//go:embed query/lease_release.sql
	leaseReleaseSQL string
	//go:embed query/leased_span.sql
	leasedSpanSQL string
	//go:embed query/leases_purge.sql
	leasesPurgeSQL string
)

// ExtendLease lets a live lease run at least so long from now, 0: as long as it
// was asked for at first. It returns in how many partitions it is live, 0 where it is
// over, and its end by the database's clock. Repeating it is right.
func (db *DB) ExtendLease(ctx context.Context, lease uuid.UUID, by time.Duration) (partitions int, until time.Time, err error) {
	var ms *int64
	if by > 0 {
		n := by.Milliseconds()
		ms = &n
	}
	type answer struct {
		renewed int
		until   *time.Time
	}
	a, err := only(writeRows(ctx, db, db.write, "extend lease", func(row pgx.CollectableRow) (a answer, err error) {
		err = row.Scan(&a.renewed, &a.until)
		return a, err
	}, leaseExtendSQL, lease, ms))
	if err == nil && a.until != nil {
		until = *a.until
	}
	return a.renewed, until, err
}

// ReleaseLease ends a lease as if it had never been given, and returns its group and
// the partitions in which it was live. Repeating it is right.
func (db *DB) ReleaseLease(ctx context.Context, lease uuid.UUID) (group string, partitions []int64, err error) {
	partitions, err = writeRows(ctx, db, db.write, "release lease", func(row pgx.CollectableRow) (partition int64, err error) {
		err = row.Scan(&group, &partition)
		return partition, err
	}, leaseReleaseSQL, lease)
	return group, partitions, err
}

// PurgeLeases forgets up to about rowsMax leases that ended more than keepSeconds
// ago, those that ended after a moment; it returns how many went, and the moment to
// go on after. The zero time starts at the oldest.
func (db *DB) PurgeLeases(ctx context.Context, after time.Time, keepSeconds, rowsMax int) (deleted int, upto time.Time, err error) {
	return db.purgeAfter(ctx, "purge leases", leasesPurgeSQL, after, keepSeconds, rowsMax)
}

// LeasedSpan is what a group has leased in a partition.
type LeasedSpan struct {
	Next  int64     // its position
	Lease uuid.UUID // that is live; zero: none
	End   int64     // the last offset under it; −1: none
}

// LeasedSpan returns what a group has leased in a partition; ErrNotFound where it
// has no position there.
func (db *DB) LeasedSpan(ctx context.Context, group string, partition int64) (LeasedSpan, error) {
	return only(readRows(ctx, db, db.read, "find lease", func(row pgx.CollectableRow) (s LeasedSpan, err error) {
		var lease uuid.NullUUID
		var end *int64
		err = row.Scan(&s.Next, &lease, &end)
		s.Lease, s.End = lease.UUID, orMinus1(end)
		return s, err
	}, leasedSpanSQL, group, partition))
}
