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
	//go:embed query/baseline_create.sql
	baselineCreateSQL string
	//go:embed query/baseline_insert.sql
	baselineInsertSQL string
	//go:embed query/baseline_read.sql
	baselineReadSQL string
)

// BaselineRows are the row sizes tried where none is given; the best counts.
var BaselineRows = []int{64 << 10, 256 << 10, 1 << 20}

const (
	calibrationPasses = 2
	calibrationMax    = 2 * time.Second // of each size in each pass
)

// Baseline is the bare writer: what this PostgreSQL takes when nothing but rows
// of bytes is asked of it. Each connection commits one row at a time.
type Baseline struct {
	DB          *Database
	Payload     *Payload
	Connections int
	Row         int           // bytes; 0 tries BaselineRows
	Duration    time.Duration // of a round, which bounds the trials

	conns []*pgx.Conn
	next  []uint64 // per connection: the number of its next row
	tried []RowTrial
}

// RowTrial is what one row size reached before the rounds.
type RowTrial struct {
	Row            int     `json:"row"`
	BytesPerSecond float64 `json:"bytesPerSecond"`
}

// Name is how the report calls it.
func (b *Baseline) Name() string {
	if b.Row == 0 {
		return "baseline"
	}
	return fmt.Sprintf("baseline (rows of %d KiB, %d connections)", b.Row>>10, b.Connections)
}

// Clients is one shard per connection.
func (b *Baseline) Clients() int { return b.Connections }

// Prepare makes the table and finds the best row size.
func (b *Baseline) Prepare(ctx context.Context) error {
	if err := b.DB.makeSchema(ctx); err != nil {
		return err
	}
	if _, err := b.DB.conn.Exec(ctx, baselineCreateSQL); err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	b.next = make([]uint64, b.Connections)
	for range b.Connections {
		conn, err := b.DB.connect(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		b.conns = append(b.conns, conn)
	}
	if b.Row == 0 {
		return b.calibrate(ctx)
	}
	return nil
}

// calibrate tries the sizes in turn, twice, and keeps the best.
func (b *Baseline) calibrate(ctx context.Context) error {
	for _, row := range BaselineRows {
		b.tried = append(b.tried, RowTrial{Row: row})
	}
	t := Times{WarmUp: min(warmUpMax, b.Duration) / 4, Duration: min(calibrationMax, b.Duration)}
	for range calibrationPasses {
		for i := range b.tried {
			if err := b.DB.Settle(ctx); err != nil {
				return err
			}
			m := NewMeter(b.Connections)
			if err := b.write(ctx, b.tried[i].Row, t, m); err != nil {
				return err
			}
			b.tried[i].BytesPerSecond += m.Read(time.Now()).BytesPerSecond / calibrationPasses
		}
	}
	best := b.tried[0]
	for _, r := range b.tried {
		if r.BytesPerSecond > best.BytesPerSecond {
			best = r
		}
	}
	b.Row = best.Row
	return nil
}

// Round writes rows of the chosen size.
func (b *Baseline) Round(ctx context.Context, t Times, m *Meter) error {
	return b.write(ctx, b.Row, t, m)
}

func (b *Baseline) write(ctx context.Context, row int, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	return each(ctx, b.Connections, func(ctx context.Context, i int) error {
		data := make([]byte, row)
		for shard, asked := m.Shard(i), time.Now(); asked.Before(to); {
			b.Payload.FillRow(data, idOf(i, b.next[i]))
			if _, err := b.conns[i].Exec(ctx, baselineInsertSQL, i, b.next[i], data); err != nil {
				return fmt.Errorf("insert row: %w", err)
			}
			b.next[i]++
			now := time.Now()
			shard.Answered(asked, now, 1, row)
			asked = now
		}
		return nil
	})
}

// Verify reads every row and checks it.
func (b *Baseline) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	back := newSeen(b.next)
	for i := range b.next {
		rows, err := b.DB.conn.Query(ctx, baselineReadSQL, i)
		if err != nil {
			return v, err
		}
		var data pgtype.DriverBytes
		if _, err = pgx.ForEachRow(rows, []any{&data}, func() error {
			id, err := checkBinary(data)
			back.count(&v, id, err)
			return nil
		}); err != nil {
			return v, err
		}
	}
	back.finish(&v)
	return v, nil
}

// Close ends the connections; the table goes with the database's schema.
func (b *Baseline) Close(ctx context.Context) error {
	defer func() { b.conns = nil }()
	return closeConns(ctx, b.conns)
}
