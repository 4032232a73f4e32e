package store

import (
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// uuidArray is a uuid[] parameter in PostgreSQL's binary form, written in one
// pass: hashes come by the thousand and pgx's generic array encoder makes a
// plan per element.
type uuidArray [][16]byte

const uuidOID = 2950

// appendBinary appends the array in binary format: dimensions, flags, element
// type, length, lower bound, then each element with its length.
func (a uuidArray) appendBinary(buf []byte) []byte {
	if len(a) == 0 {
		buf = binary.BigEndian.AppendUint32(buf, 0)
		buf = binary.BigEndian.AppendUint32(buf, 0)
		return binary.BigEndian.AppendUint32(buf, uuidOID)
	}
	buf = binary.BigEndian.AppendUint32(buf, 1)
	buf = binary.BigEndian.AppendUint32(buf, 0)
	buf = binary.BigEndian.AppendUint32(buf, uuidOID)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(a)))
	buf = binary.BigEndian.AppendUint32(buf, 1)
	for i := range a {
		buf = binary.BigEndian.AppendUint32(buf, 16)
		buf = append(buf, a[i][:]...)
	}
	return buf
}

// uuidArrayCodec lets pgx encode uuidArray; everything else about uuid[] stays pgx's.
type uuidArrayCodec struct{ pgtype.Codec }

// PlanEncode implements pgtype.Codec.
func (c uuidArrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuidArray); ok && format == pgtype.BinaryFormatCode {
		return encodeUUIDArray{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type encodeUUIDArray struct{}

// Encode implements pgtype.EncodePlan.
func (encodeUUIDArray) Encode(value any, buf []byte) ([]byte, error) {
	a, ok := value.(uuidArray)
	if !ok {
		return nil, fmt.Errorf("BUG: %T is no uuidArray", value)
	}
	return a.appendBinary(buf), nil
}

// registerUUIDArray makes a connection encode uuidArray as uuid[].
func registerUUIDArray(m *pgtype.Map) {
	t, ok := m.TypeForOID(pgtype.UUIDArrayOID)
	if !ok {
		panic("BUG: pgx does not know uuid[]")
	}
	m.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: uuidArrayCodec{t.Codec}})
}
