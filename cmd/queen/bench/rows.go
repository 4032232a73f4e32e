package bench

import (
	"context"
	_ "embed" // the statements
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

var (
	//go:embed query/rows_create.sql
	rowsCreateSQL string
	//go:embed query/rows_insert.sql
	rowsInsertSQL string
	//go:embed query/rows_read.sql
	rowsReadSQL string
)

// Rows is the side that does without a broker: the same messages straight into
// the same PostgreSQL, a row each with its place in the order and its time, with a
// unique index for deduplication and one INSERT … ON CONFLICT DO NOTHING per batch,
// prepared and committed by itself.
type Rows struct {
	DB          *Database
	Partitions  int
	Batch       int
	Connections int
	Payload     *Payload
	IDs         IDKind

	batches batches
	conns   []*pgx.Conn
}

// Name is how the report calls it.
func (r *Rows) Name() string {
	return fmt.Sprintf("rows (one INSERT … ON CONFLICT DO NOTHING per batch, %d connections)", r.Connections)
}

// Clients is one shard per connection.
func (r *Rows) Clients() int { return r.Connections }

// Prepare makes the table.
func (r *Rows) Prepare(ctx context.Context) error {
	r.batches = batches{partitions: r.Partitions, batch: r.Batch, payload: r.Payload, ids: r.IDs, next: make([]uint64, r.Connections)}
	if err := r.DB.makeSchema(ctx); err != nil {
		return err
	}
	if _, err := r.DB.conn.Exec(ctx, rowsCreateSQL); err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	for range r.Connections {
		conn, err := r.DB.connect(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		r.conns = append(r.conns, conn)
	}
	return nil
}

// Round inserts until the time is over.
func (r *Rows) Round(ctx context.Context, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	return each(ctx, r.Connections, func(ctx context.Context, i int) error {
		room, shard := r.batches.room(), m.Shard(i)
		for asked := time.Now(); asked.Before(to); {
			r.batches.fill(&room, i)
			tag, err := r.conns[i].Exec(ctx, rowsInsertSQL, r.batches.partition(i), room.ids, room.values)
			if err != nil {
				return fmt.Errorf("insert rows: %w", err)
			}
			if tag.RowsAffected() != int64(r.Batch) {
				return fmt.Errorf("insert rows: %d of %d were new", tag.RowsAffected(), r.Batch)
			}
			r.batches.next[i] += uint64(r.Batch)
			now := time.Now()
			shard.Answered(asked, now, r.Batch, r.Batch*r.Payload.Size())
			asked = now
		}
		return nil
	})
}

// Verify reads every row and checks it.
func (r *Rows) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	back := newSeen(r.batches.next)
	rows, err := r.DB.conn.Query(ctx, rowsReadSQL)
	if err != nil {
		return v, err
	}
	var data pgtype.DriverBytes
	if _, err = pgx.ForEachRow(rows, []any{&data}, func() error {
		id, err := r.Payload.Check(data)
		back.count(&v, id, err)
		return nil
	}); err != nil {
		return v, err
	}
	back.finish(&v)
	return v, nil
}

// Close ends the connections; the table goes with the database's schema.
func (r *Rows) Close(ctx context.Context) error {
	defer func() { r.conns = nil }()
	return closeConns(ctx, r.conns)
}
