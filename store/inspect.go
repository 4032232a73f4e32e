package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed query/size_list.sql
	sizeListSQL string
	//go:embed query/producer_list.sql
	producerListSQL string
)

// Sizes returns the bytes that each partition holds, in order; 0 where there is
// no such partition.
func (db *DB) Sizes(ctx context.Context, partitions []int64) ([]int64, error) {
	type sized struct {
		i    int
		size int64
	}
	rows, err := readRows(ctx, db, db.admin, "read the sizes of logs", func(row pgx.CollectableRow) (s sized, err error) {
		err = row.Scan(&s.i, &s.size)
		return s, err
	}, sizeListSQL, partitions)
	sizes := make([]int64, len(partitions))
	for _, r := range rows {
		sizes[r.i-1] = r.size
	}
	return sizes, err
}

// ProducerRow is an idempotent producer's state in a partition.
type ProducerRow struct {
	ID           int64
	Epoch        int32
	LastSequence int32
	UpdatedAt    time.Time // when its last batch was stored
}

// Producers lists the idempotent producers that wrote to a partition within so
// many seconds, by id, at most max.
func (db *DB) Producers(ctx context.Context, partition int64, seconds, max int) ([]ProducerRow, error) {
	return readRows(ctx, db, db.admin, "list producers", func(row pgx.CollectableRow) (r ProducerRow, err error) {
		err = row.Scan(&r.ID, &r.Epoch, &r.LastSequence, &r.UpdatedAt)
		return r, err
	}, producerListSQL, partition, seconds, max)
}
