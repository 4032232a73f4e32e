package store

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
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

// collect reads the rows in PostgreSQL's binary form: hashes come by the
// million, and pgx would make a plan for each.
func (w *Window) collect(rows pgx.Rows, row func(WindowRow) error) error {
	defer rows.Close()
	var r WindowRow
	for rows.Next() {
		v := rows.RawValues()
		for i := range v[:5] {
			if v[i] != nil && len(v[i]) != 8 {
				return fmt.Errorf("column %d has %d bytes, not 8", i, len(v[i]))
			}
		}
		w.End, w.At = int64(binary.BigEndian.Uint64(v[0])), timestamp(v[1])
		if v[2] == nil {
			continue
		}
		r.Base, r.End, r.CreatedAt = int64(binary.BigEndian.Uint64(v[2])), int64(binary.BigEndian.Uint64(v[3])), timestamp(v[4])
		var err error
		if r.Hashes, err = decodeUUIDs(r.Hashes[:0], v[5]); err != nil {
			return err
		}
		if err := row(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// timestamp decodes a timestamptz: microseconds since 2000-01-01 UTC.
func timestamp(b []byte) time.Time {
	return time.UnixMicro(946_684_800_000_000 + int64(binary.BigEndian.Uint64(b)))
}

var errNotUUIDs = errors.New("no uuid[] in binary form")

// decodeUUIDs appends the elements of a binary uuid[] to dst.
func decodeUUIDs(dst [][16]byte, b []byte) ([][16]byte, error) {
	b, ok := arrayElements(b, uuidOID, 16)
	if !ok {
		return nil, errNotUUIDs
	}
	for ; len(b) > 0; b = b[20:] {
		dst = append(dst, [16]byte(b[4:20]))
	}
	return dst, nil
}

// arrayElements returns what follows the head of a binary array without nulls:
// its elements, each after its length, which is size.
func arrayElements(b []byte, oid uint32, size int) ([]byte, bool) {
	if len(b) < 12 || binary.BigEndian.Uint32(b[8:]) != oid {
		return nil, false
	}
	if binary.BigEndian.Uint32(b) == 0 {
		return nil, true
	}
	if len(b) < 20 {
		return nil, false
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	return b[20:], len(b) == 20+(4+size)*n
}
