package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// Arrays are written and read in PostgreSQL's binary form in one pass: hashes come by
// the thousand, a call of append_1 has two dozen arrays of numbers, and pgx's generic
// encoder makes a plan for each element.
//
// The form: dimensions, flags, element type, length, lower bound, then each element
// with its length; of an empty array the first three.

// uuidArray is a uuid[] parameter.
type uuidArray [][16]byte

const arrayHeaderLen = 20

// appendArrayHeader begins an array of n elements of so many bytes each, and makes room for them.
func appendArrayHeader(buf []byte, oid uint32, n, size int) []byte {
	buf = slices.Grow(buf, arrayHeaderLen+n*(4+size))
	dimensions := min(n, 1)
	buf = binary.BigEndian.AppendUint32(buf, uint32(dimensions))
	buf = binary.BigEndian.AppendUint32(buf, 0)
	buf = binary.BigEndian.AppendUint32(buf, oid)
	if dimensions == 0 {
		return buf
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(n))
	return binary.BigEndian.AppendUint32(buf, 1)
}

func (a uuidArray) appendBinary(buf []byte) []byte {
	buf = appendArrayHeader(buf, pgtype.UUIDOID, len(a), 16)
	for i := range a {
		buf = binary.BigEndian.AppendUint32(buf, 16)
		buf = append(buf, a[i][:]...)
	}
	return buf
}

func appendInt4s(buf []byte, a []int32) []byte {
	buf = appendArrayHeader(buf, pgtype.Int4OID, len(a), 4)
	for _, v := range a {
		buf = binary.BigEndian.AppendUint32(buf, 4)
		buf = binary.BigEndian.AppendUint32(buf, uint32(v))
	}
	return buf
}

func appendInt8s(buf []byte, a []int64) []byte {
	buf = appendArrayHeader(buf, pgtype.Int8OID, len(a), 8)
	for _, v := range a {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(v))
	}
	return buf
}

// arrayCodec lets pgx encode T, a Go type of one kind of array, by append; everything
// else about that array stays pgx's.
type arrayCodec[T any] struct {
	pgtype.Codec
	append func(buf []byte, a T) []byte
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec[T]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(T); ok && format == pgtype.BinaryFormatCode {
		return encodeArray[T](c.append)
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type encodeArray[T any] func(buf []byte, a T) []byte

// Encode implements pgtype.EncodePlan.
func (e encodeArray[T]) Encode(value any, buf []byte) ([]byte, error) {
	a, ok := value.(T)
	if !ok {
		return nil, fmt.Errorf("BUG: %T is not the array that was planned for", value)
	}
	return e(buf, a), nil
}

// registerArrays makes a connection encode uuidArray, []int32 and []int64 as uuid[], integer[] and bigint[].
func registerArrays(m *pgtype.Map) {
	registerArray(m, pgtype.UUIDArrayOID, func(buf []byte, a uuidArray) []byte { return a.appendBinary(buf) })
	registerArray(m, pgtype.Int4ArrayOID, appendInt4s)
	registerArray(m, pgtype.Int8ArrayOID, appendInt8s)
}

func registerArray[T any](m *pgtype.Map, oid uint32, encode func([]byte, T) []byte) {
	t, ok := m.TypeForOID(oid)
	if !ok {
		panic(fmt.Sprintf("BUG: pgx does not know the type %d", oid))
	}
	m.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: arrayCodec[T]{t.Codec, encode}})
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
	if len(b) < arrayHeaderLen {
		return nil, false
	}
	n := int(binary.BigEndian.Uint32(b[12:]))
	return b[arrayHeaderLen:], len(b) == arrayHeaderLen+(4+size)*n
}
