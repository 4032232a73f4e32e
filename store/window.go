package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed query/window_read.sql
var windowReadSQL string

// windowReadTimeout bounds the reading of one window.
const windowReadTimeout = 2 * time.Minute

// WindowRow is the ids of one segment: Hashes is empty where all are minted,
// else it has one element per offset, the zero hash for a minted one. It is
// good until the next row is read.
type WindowRow struct {
	Base, End int64
	CreatedAt time.Time
	Hashes    [][16]byte
}

// Window is the frame of what ReadWindow read: where the log ended, and when.
type Window struct {
	End   int64 // the last offset; −1 for an empty log
	At    time.Time
	Epoch int32 // incarnation
}

// ReadWindow streams the sidecar rows of a partition that end above the offset
// after and were created in the last seconds, oldest first, from one snapshot.
// An error of row ends it.
func (db *DB) ReadWindow(ctx context.Context, partition int64, seconds int32, after int64, row func(WindowRow) error) (Window, error) {
	var w Window
	err := db.long(ctx, "read window", windowReadTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		w.Epoch = incarnationOf(conn).Epoch
		rows, err := conn.Query(ctx, windowReadSQL, partition, seconds, after)
		if err == nil {
			err = w.collect(rows, row)
		}
		return db.readError("read window", conn, err)
	})
	if err != nil {
		return Window{}, err
	}
	return w, nil
}

// collect calls row with each of the rows. Where the window is empty, there is one
// that has only the frame.
func (w *Window) collect(rows pgx.Rows, row func(WindowRow) error) error {
	defer rows.Close()
	var r WindowRow
	for rows.Next() {
		b := binaryRow{values: rows.RawValues()}
		w.End, w.At = b.integer(-1), b.time()
		if b.values[0] == nil {
			continue
		}
		r.Base, r.End, r.CreatedAt = b.integer(0), b.integer(0), b.time()
		r.Hashes = b.uuids(r.Hashes[:0])
		if b.err != nil {
			return b.err
		}
		if err := row(r); err != nil {
			return err
		}
	}
	return rows.Err()
}
