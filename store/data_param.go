package store

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// thePlaceOfData is the argument of queryWithData that stands for the data.
type thePlaceOfData struct{}

// queryWithData is a query with one large bytea parameter, which may lie in
// several pieces. pgx would copy it into memory of its own, growing that piece by
// piece, before it copies it into its message; here only the latter is left.
// The statement is prepared under a name once for each connection.
func queryWithData(ctx context.Context, conn *pgx.Conn, name, sql string, args []any, data [][]byte) (pgx.Rows, error) {
	at := slices.Index(args, any(thePlaceOfData{}))
	if at < 0 {
		panic("BUG: no argument is the place of the data")
	}
	args[at] = nil
	sd, err := conn.Prepare(ctx, name, sql)
	if err != nil {
		return nil, err
	}
	var q pgx.ExtendedQueryBuilder
	if err := q.Build(conn.TypeMap(), sd, args); err != nil {
		return nil, err
	}
	joined := join(data)
	defer joined.release()
	q.ParamValues[at], q.ParamFormats[at] = joined.b, pgx.BinaryFormatCode
	// It has been copied into the message, or sent, when this returns.
	rr := conn.PgConn().ExecStatement(ctx, sd, q.ParamValues, q.ParamFormats, q.ResultFormats)
	return pgx.RowsFromResultReader(conn.TypeMap(), rr), nil
}

// prepareAnew forgets a statement after an error of its execution that may say
// that the server's is gone, or another: the next query prepares it again.
func prepareAnew(ctx context.Context, conn *pgx.Conn, name string, err error) {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && (pe.Code == "26000" || pe.Code == "0A000") {
		_ = conn.Deallocate(ctx, name) // or the connection is gone as well
	}
}

// joinedData is data in one piece; its memory may have been borrowed.
type joinedData struct {
	b    []byte
	lent *[]byte
}

// joinedBytesMax is the largest buffer kept for another call.
const joinedBytesMax = 4 << 20

var joinBuffers = sync.Pool{New: func() any { return new([]byte) }}

func join(data [][]byte) joinedData {
	switch len(data) {
	case 0:
		return joinedData{b: []byte{}}
	case 1:
		if data[0] == nil { // that would be NULL
			return joinedData{b: []byte{}}
		}
		return joinedData{b: data[0]}
	}
	n := 0
	for _, d := range data {
		n += len(d)
	}
	lent := joinBuffers.Get().(*[]byte)
	b := slices.Grow((*lent)[:0], n)
	for _, d := range data {
		b = append(b, d...)
	}
	*lent = b
	return joinedData{b: b, lent: lent}
}

func (j joinedData) release() {
	if j.lent != nil && cap(*j.lent) <= joinedBytesMax {
		joinBuffers.Put(j.lent)
	}
}
