package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/queue_find.sql
	queueFindSQL string
	//go:embed query/queue_list.sql
	queueListSQL string
	//go:embed query/queue_changed.sql
	queueChangedSQL string
	//go:embed query/queue_create.sql
	queueCreateSQL string
	//go:embed query/queue_configure.sql
	queueConfigureSQL string
	//go:embed query/queue_delete.sql
	queueDeleteSQL string
	//go:embed query/partition_ensure.sql
	partitionEnsureSQL string
	//go:embed query/partition_list.sql
	partitionListSQL string
	//go:embed query/partition_find.sql
	partitionFindSQL string
	//go:embed query/catalog_version.sql
	catalogVersionSQL string
	//go:embed query/deleted_sweep.sql
	deletedSweepSQL string
)

// The options of a native queue nobody configured.
const (
	DefaultDedupWindowSeconds = 3600
	DefaultMaxMessageBytes    = 1048588 // Kafka's max.message.bytes
	DefaultRetentionMs        = -1      // everything is kept
)

// QueueRow is a queue as stored.
type QueueRow struct {
	ID                 int64
	Name               string
	TopicID            uuid.UUID
	Fixed              bool // made by a Kafka client: partitions "0", "1", … and no others
	Partitions         int
	DedupWindowSeconds int
	WindowFrom         string // "default", "configured" or "kafka"
	MaxMessageBytes    int
	RetentionMs        int64
	CreatedAt          time.Time
	Version            int64 // the catalog version of its last change
	Deleted            bool  // only ChangedQueues and DeleteQueue return such rows
}

// fields are the places to scan a queue's columns into.
func (q *QueueRow) fields() []any {
	return []any{
		&q.ID, &q.Name, &q.TopicID, &q.Fixed, &q.Partitions, &q.DedupWindowSeconds, &q.WindowFrom,
		&q.MaxMessageBytes, &q.RetentionMs, &q.CreatedAt, &q.Version, &q.Deleted,
	}
}

func scanQueue(row pgx.CollectableRow) (q QueueRow, err error) {
	err = row.Scan(q.fields()...)
	return q, err
}

// PartitionRow is a partition and its marks.
type PartitionRow struct {
	ID, QueueID          int64
	Number               int
	Name                 string
	LogStart, NextOffset int64
}

func scanPartition(row pgx.CollectableRow) (p PartitionRow, err error) {
	err = row.Scan(&p.ID, &p.QueueID, &p.Number, &p.Name, &p.LogStart, &p.NextOffset)
	return p, err
}

// Queues returns those of the named queues, by name or topic id, that exist, in no order.
func (db *DB) Queues(ctx context.Context, names []string, ids []uuid.UUID) ([]QueueRow, error) {
	return readRows(ctx, db, db.read, "find queues", scanQueue, queueFindSQL, names, uuidArrayOf(ids))
}

// AllQueues returns every queue, ordered by name.
func (db *DB) AllQueues(ctx context.Context) ([]QueueRow, error) {
	return readRows(ctx, db, db.admin, "list queues", scanQueue, queueListSQL)
}

// CatalogVersion returns the number raised by every change of queues and
// partitions. A reader that sees a version sees all changes up to it.
func (db *DB) CatalogVersion(ctx context.Context) (int64, error) {
	return only(readRows(ctx, db, db.read, "read catalog version", pgx.RowTo[int64], catalogVersionSQL))
}

// ChangedQueues returns the queues changed after a catalog version, in the order
// of their changes, deleted ones included until they are swept.
func (db *DB) ChangedQueues(ctx context.Context, version int64) ([]QueueRow, error) {
	return readRows(ctx, db, db.read, "list changed queues", scanQueue, queueChangedSQL, version)
}

// Partitions returns the partitions of a queue, ordered by number.
func (db *DB) Partitions(ctx context.Context, queueID int64) ([]PartitionRow, error) {
	return readRows(ctx, db, db.read, "list partitions", scanPartition, partitionListSQL, queueID)
}

// PartitionByName returns one partition of a queue, or ErrNotFound.
func (db *DB) PartitionByName(ctx context.Context, queueID int64, name string) (PartitionRow, error) {
	return only(readRows(ctx, db, db.read, "find partition", scanPartition, partitionFindSQL, queueID, name))
}

// NewQueue says what CreateQueue creates. Nothing has a default.
type NewQueue struct {
	Name               string
	Fixed              bool
	Partitions         int // of a fixed queue; else 0
	DedupWindowSeconds int
	WindowFrom         string
	MaxMessageBytes    int
	RetentionMs        int64
}

// CreateQueue creates a queue with the partitions "0" … "n−1", or answers ErrExists.
func (db *DB) CreateQueue(ctx context.Context, q NewQueue) (QueueRow, error) {
	row, err := only(writeRows(ctx, db, db.admin, "create queue", scanQueue, queueCreateSQL,
		q.Name, q.Fixed, q.Partitions, q.DedupWindowSeconds, q.WindowFrom, q.MaxMessageBytes, q.RetentionMs))
	if errors.Is(err, ErrNotFound) {
		return row, fmt.Errorf("create queue %q: %w", q.Name, ErrExists)
	}
	return row, err
}

// EnsurePartition finds a queue and its partition, and makes what is missing: a
// native queue with default options, and the partition. The one that a fixed
// queue lacks is ErrNotFound, with the queue's row.
func (db *DB) EnsurePartition(ctx context.Context, queue, partition string) (QueueRow, PartitionRow, error) {
	type pair struct {
		q QueueRow
		p PartitionRow
	}
	scan := func(row pgx.CollectableRow) (r pair, err error) {
		err = row.Scan(append(r.q.fields(), &r.p.ID, &r.p.Number, &r.p.Name, &r.p.LogStart, &r.p.NextOffset)...)
		r.p.QueueID = r.q.ID
		return r, err
	}
	r, err := only(writeRows(ctx, db, db.admin, "ensure partition", scan, partitionEnsureSQL,
		queue, partition, DefaultDedupWindowSeconds, DefaultMaxMessageBytes, DefaultRetentionMs))
	if err == nil && r.p.ID == 0 {
		return r.q, PartitionRow{}, fmt.Errorf("partition %q of queue %q: %w", partition, queue, ErrNotFound)
	}
	return r.q, r.p, err
}

// QueuePatch says what Configure changes; nil leaves an option out.
type QueuePatch struct {
	DedupWindowSeconds *int
	MaxMessageBytes    *int
	RetentionMs        *int64
}

// Configure applies a patch under the queue's row lock, creating a native queue
// if need be. With replace, options left out go back to their defaults; without,
// they keep their values. A window that is given counts as configured.
func (db *DB) Configure(ctx context.Context, name string, p QueuePatch, replace bool) (after, before QueueRow, created bool, err error) {
	type change struct {
		after, before QueueRow
		created       bool
	}
	scan := func(row pgx.CollectableRow) (c change, err error) {
		err = row.Scan(append(append(c.after.fields(), c.before.fields()...), &c.created)...)
		return c, err
	}
	c, err := only(writeRows(ctx, db, db.admin, "configure queue", scan, queueConfigureSQL,
		name, !replace, p.DedupWindowSeconds, p.MaxMessageBytes, p.RetentionMs,
		DefaultDedupWindowSeconds, DefaultMaxMessageBytes, DefaultRetentionMs))
	return c.after, c.before, c.created, err
}

// DeleteQueue frees a queue's name and hides its rows, which SweepDeleted
// removes. No append to it is under way when this returns. ErrNotFound where
// there is no such queue.
func (db *DB) DeleteQueue(ctx context.Context, id int64) (QueueRow, error) {
	return only(writeRows(ctx, db, db.admin, "delete queue", scanQueue, queueDeleteSQL, id))
}

// SweepDeleted removes at most rowsMax rows of a deleted queue, and says whether
// there was none left to sweep.
func (db *DB) SweepDeleted(ctx context.Context, rowsMax int) (done bool, err error) {
	return only(writeRows(ctx, db, db.admin, "sweep deleted queues", pgx.RowTo[bool], deletedSweepSQL, rowsMax))
}

// uuidArrayOf returns ids as a parameter; nil is an empty array.
func uuidArrayOf(ids []uuid.UUID) uuidArray {
	a := make(uuidArray, len(ids))
	for i, id := range ids {
		a[i] = id
	}
	return a
}
