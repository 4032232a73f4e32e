package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
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
	q := params.Get().(*paramBuffer)
	defer q.release()
	if err := q.encode(conn.TypeMap(), sd, args); err != nil {
		return nil, err
	}
	joined := join(data)
	defer joined.release()
	q.values[at], q.formats[at] = joined.b, pgx.BinaryFormatCode
	// All has been copied into the message, or sent, when this returns.
	rr := conn.PgConn().ExecStatement(ctx, sd, q.values, q.formats, q.results)
	return pgx.RowsFromResultReader(conn.TypeMap(), rr), nil
}

// paramBuffer is the memory in which parameters are encoded, and used again: three
// dozen small values with each call.
type paramBuffer struct {
	values           [][]byte
	bytes            []byte // values are parts of it, but for the data
	formats, results []int16
}

// paramBytesMax is the largest buffer kept for another call.
const paramBytesMax = 1 << 20

var params = sync.Pool{New: func() any {
	return &paramBuffer{
		bytes: make([]byte, 0, 4<<10), // not nil, which would make an empty value NULL
	}
}}

// encode fills the buffer with args; nil ones are NULL.
func (p *paramBuffer) encode(m *pgtype.Map, sd *pgconn.StatementDescription, args []any) error {
	if len(args) != len(sd.ParamOIDs) {
		return fmt.Errorf("BUG: %d arguments for %d parameters", len(args), len(sd.ParamOIDs))
	}
	p.values, p.formats, p.results, p.bytes = p.values[:0], p.formats[:0], p.results[:0], p.bytes[:0]
	for i, oid := range sd.ParamOIDs {
		format, from := m.FormatCodeForOID(oid), len(p.bytes)
		b, err := m.Encode(oid, format, args[i], p.bytes)
		if err != nil {
			return fmt.Errorf("parameter %d: %w", i+1, err)
		}
		value := []byte(nil)
		if b != nil { // else NULL
			value, p.bytes = b[from:len(b):len(b)], b
		}
		p.values, p.formats = append(p.values, value), append(p.formats, format)
	}
	for i := range sd.Fields {
		p.results = append(p.results, m.FormatCodeForOID(sd.Fields[i].DataTypeOID))
	}
	return nil
}

func (p *paramBuffer) release() {
	clear(p.values) // the data is somebody else's
	if cap(p.bytes) <= paramBytesMax {
		params.Put(p)
	}
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
