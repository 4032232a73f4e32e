package store

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// pieces is a bytea parameter that lies in several places, written one after another.
type pieces [][]byte

// piecesCodec lets pgx encode pieces; everything else about bytea stays pgx's.
type piecesCodec struct{ pgtype.Codec }

// PlanEncode implements pgtype.Codec.
func (c piecesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(pieces); ok && format == pgtype.BinaryFormatCode {
		return encodePieces{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type encodePieces struct{}

// Encode implements pgtype.EncodePlan.
func (encodePieces) Encode(value any, buf []byte) ([]byte, error) {
	p, ok := value.(pieces)
	if !ok {
		return nil, fmt.Errorf("BUG: %T is no pieces", value)
	}
	for _, b := range p {
		buf = append(buf, b...)
	}
	return buf, nil
}

// registerPieces makes a connection encode pieces as bytea.
func registerPieces(m *pgtype.Map) {
	t, ok := m.TypeForOID(pgtype.ByteaOID)
	if !ok {
		panic("BUG: pgx does not know bytea")
	}
	m.RegisterType(&pgtype.Type{Name: t.Name, OID: t.OID, Codec: piecesCodec{t.Codec}})
}
