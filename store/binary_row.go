package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// binaryRow reads a row in binary form, from its first column to its last. A column
// that is not what it is read as is its error. It is for rows that come by the thousand
// or with every call: pgx would make a plan for each of their columns.
type binaryRow struct {
	values [][]byte
	err    error
}

var errNotBinary = errors.New("a column is not the number, or the array, in binary form that is expected")

// epochMicros is PostgreSQL's 2000-01-01 in microseconds since 1970.
const epochMicros = 946_684_800_000_000

func (r *binaryRow) next() (b []byte) {
	if len(r.values) == 0 {
		r.err = errNotBinary
		return nil
	}
	b, r.values = r.values[0], r.values[1:]
	return b
}

// number reads a boolean, smallint, integer or bigint.
func number(b []byte) (n int64, ok bool) {
	switch len(b) {
	case 1:
		return int64(b[0]), true
	case 2:
		return int64(int16(binary.BigEndian.Uint16(b))), true
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b))), true
	case 8:
		return int64(binary.BigEndian.Uint64(b)), true
	}
	return 0, false
}

// integer is the next column, and null where that is NULL.
func (r *binaryRow) integer(null int64) int64 {
	b := r.next()
	if b == nil {
		return null
	}
	n, ok := number(b)
	if !ok {
		r.err = errNotBinary
	}
	return n
}

// time is a timestamptz; NULL is the zero time.
func (r *binaryRow) time() time.Time {
	b := r.next()
	if b == nil {
		return time.Time{}
	}
	n, ok := number(b)
	if !ok || len(b) != 8 {
		r.err = errNotBinary
	}
	return time.UnixMicro(n + epochMicros)
}

// integers is an array without nulls, whose elements have size bytes; NULL is none.
func (r *binaryRow) integers(oid uint32, size int) []int64 {
	b := r.next()
	if b == nil {
		return nil
	}
	elements, ok := arrayElements(b, oid, size)
	if !ok {
		r.err = errNotBinary
		return nil
	}
	out := make([]int64, 0, len(elements)/(4+size))
	for ; len(elements) > 0; elements = elements[4+size:] {
		n, _ := number(elements[4 : 4+size])
		out = append(out, n)
	}
	return out
}

// uuids appends the elements of a uuid[] to dst.
func (r *binaryRow) uuids(dst [][16]byte) [][16]byte {
	elements, ok := arrayElements(r.next(), pgtype.UUIDOID, 16)
	if !ok {
		r.err = errNotBinary
	}
	for ; len(elements) > 0; elements = elements[20:] {
		dst = append(dst, [16]byte(elements[4:20]))
	}
	return dst
}

// int8s appends the elements of a bigint[] to dst.
func (r *binaryRow) int8s(dst []int64) []int64 {
	elements, ok := arrayElements(r.next(), pgtype.Int8OID, 8)
	if !ok {
		r.err = errNotBinary
	}
	for ; len(elements) > 0; elements = elements[12:] {
		dst = append(dst, int64(binary.BigEndian.Uint64(elements[4:])))
	}
	return dst
}
