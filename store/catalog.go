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
	//go:embed query/queue_delete.sql
	queueDeleteSQL string
	//go:embed query/partition_ensure.sql
	partitionEnsureSQL string
	//go:embed query/partitions_ensure.sql
	partitionsEnsureSQL string
	//go:embed query/partitions_add.sql
	partitionsAddSQL string
	//go:embed query/partition_list.sql
	partitionListSQL string
	//go:embed query/partition_find.sql
	partitionFindSQL string
	//go:embed query/catalog_version.sql
	catalogVersionSQL string
	//go:embed query/deleted_sweep.sql
	deletedSweepSQL string
)

// QueueRow is a queue as stored.
type QueueRow struct {
	ID         int64     `json:"id"`
	Name       string    `json:"name"`
	TopicID    uuid.UUID `json:"topic_id"`
	Fixed      bool      `json:"fixed"` // made by a Kafka client: partitions "0", "1", … and no others
	Partitions int       `json:"partitions"`
	QueueOptions
	CreatedAt time.Time  `json:"created_at"`
	Version   int64      `json:"version"`    // the catalog version of its last change
	DeletedAt *time.Time `json:"deleted_at"` // only ChangedQueues and DeleteQueue return such rows
}

// Deleted reports that only the queue's tombstone is left.
func (q *QueueRow) Deleted() bool { return q.DeletedAt != nil }

func scanQueue(row pgx.CollectableRow) (q QueueRow, err error) {
	err = row.Scan(&q)
	return q, err
}

// PartitionRow is a partition and its marks.
type PartitionRow struct {
	ID, QueueID          int64
	Number               int
	Name                 string
	LogStart, NextOffset int64
	// Incarnation is the epoch of the connection that answered: the marks mean
	// nothing to another one. Only Partitions and EnsurePartition tell it.
	Incarnation int32
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

// CatalogChanges is what ChangedQueues found.
type CatalogChanges struct {
	Version int64 // the catalog version now: these are all changes up to it
	// Swept says that a queue was deleted after the version asked for and is swept:
	// it is in no list any more.
	Swept  bool
	Queues []QueueRow
}

// ChangedQueues returns the queues changed after a catalog version, in the order
// of their changes, deleted ones included until they are swept.
func (db *DB) ChangedQueues(ctx context.Context, version int64) (CatalogChanges, error) {
	var c CatalogChanges
	_, err := readRows(ctx, db, db.read, "list changed queues", func(row pgx.CollectableRow) (struct{}, error) {
		var swept int64
		var q *QueueRow
		err := row.Scan(&c.Version, &swept, &q)
		c.Swept = swept > version
		if q != nil {
			c.Queues = append(c.Queues, *q)
		}
		return struct{}{}, err
	}, queueChangedSQL, version)
	return c, err
}

// Partitions returns the partitions of a queue from a number on, below another one,
// ordered by number. Their numbers are dense.
func (db *DB) Partitions(ctx context.Context, queueID int64, from, below int) ([]PartitionRow, error) {
	rows, epoch, err := collect(ctx, db, db.read, "list partitions", db.readError, scanPartition, partitionListSQL, []any{queueID, from, below})
	for i := range rows {
		rows[i].Incarnation = epoch
	}
	return rows, err
}

// PartitionByName returns one partition of a queue, or ErrNotFound.
func (db *DB) PartitionByName(ctx context.Context, queueID int64, name string) (PartitionRow, error) {
	return only(readRows(ctx, db, db.read, "find partition", scanPartition, partitionFindSQL, queueID, name))
}

// NewQueue says what CreateQueue creates. Nothing has a default.
type NewQueue struct {
	Name       string
	Fixed      bool
	Partitions int // of a fixed queue; else 0
	QueueOptions
}

// CreateQueue creates a queue with the partitions "0" … "n−1", or answers ErrExists. A
// repeat of a call, under the same id, is told what its first attempt did.
func (db *DB) CreateQueue(ctx context.Context, call uuid.UUID, q NewQueue) (QueueRow, error) {
	if q.Configs == nil {
		q.Configs = map[string]string{}
	}
	if q.RetentionGroups == nil {
		q.RetentionGroups = []string{}
	}
	row, err := found(writeRows(ctx, db, db.admin, "create queue", pgx.RowTo[*QueueRow], queueCreateSQL,
		call, q.Name, q.Fixed, q.Partitions, q.QueueOptions))
	if errors.Is(err, ErrNotFound) {
		return row, fmt.Errorf("create queue %q: %w", q.Name, ErrExists)
	}
	return row, optionsError(err)
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
		err = row.Scan(&r.q, &r.p.ID, &r.p.Number, &r.p.Name, &r.p.LogStart, &r.p.NextOffset)
		r.p.QueueID = r.q.ID
		return r, err
	}
	rows, epoch, err := collect(ctx, db, db.admin, "ensure partition", db.writeError, scan, partitionEnsureSQL, []any{queue, partition})
	r, err := only(rows, err)
	r.p.Incarnation = epoch
	if err == nil && r.p.ID == 0 {
		return r.q, PartitionRow{}, fmt.Errorf("partition %q of queue %q: %w", partition, queue, ErrNotFound)
	}
	return r.q, r.p, err
}

// EnsurePartitions is EnsurePartition for several partitions of a queue, in one
// call, and returns the queue's row. Those that a fixed queue lacks are not made.
func (db *DB) EnsurePartitions(ctx context.Context, queue string, partitions []string) (QueueRow, error) {
	return only(writeRows(ctx, db, db.admin, "ensure partitions", scanQueue, partitionsEnsureSQL, queue, partitions))
}

// AddPartitions widens a fixed queue to count partitions. It says whether any
// were added: none are where there are as many, or where the queue is not fixed.
// ErrNotFound where there is no such queue. A repeat of a call, under the same id, is
// told what its first attempt did.
func (db *DB) AddPartitions(ctx context.Context, call uuid.UUID, queueID int64, count int) (q QueueRow, added bool, err error) {
	type widened struct {
		Queue QueueRow
		Added bool
	}
	w, err := found(writeRows(ctx, db, db.admin, "add partitions", pgx.RowTo[*widened], partitionsAddSQL, call, queueID, count))
	return w.Queue, w.Added, err
}

// DeleteQueue frees a queue's name and hides its rows, which SweepDeleted
// removes. No append to it is under way when this returns. ErrNotFound where
// there is no such queue. A repeat of a call, under the same id, is told what its
// first attempt did.
func (db *DB) DeleteQueue(ctx context.Context, call uuid.UUID, id int64) (QueueRow, error) {
	return found(writeRows(ctx, db, db.admin, "delete queue", pgx.RowTo[*QueueRow], queueDeleteSQL, call, id))
}

// SweepDeleted removes at most rowsMax rows of a deleted queue, none after bytesMax
// bytes, and says whether there was none left to sweep.
func (db *DB) SweepDeleted(ctx context.Context, rowsMax int, bytesMax int64) (done bool, err error) {
	return only(writeRows(ctx, db, db.admin, "sweep deleted queues", pgx.RowTo[bool], deletedSweepSQL, rowsMax, bytesMax))
}

// uuidArrayOf returns ids as a parameter; nil is an empty array.
func uuidArrayOf(ids []uuid.UUID) uuidArray {
	a := make(uuidArray, len(ids))
	for i, id := range ids {
		a[i] = id
	}
	return a
}
