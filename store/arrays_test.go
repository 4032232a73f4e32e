package store_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"queenmq/store"
)

// What is written in one pass is what pgx writes. (Not of an empty array, which it
// gives a dimension without elements; every call of append_1 has some of those.)
func TestArraysAreEncodedAsPgxDoes(t *testing.T) {
	t.Parallel()
	ours, theirs := pgtype.NewMap(), pgtype.NewMap()
	store.RegisterTypes(ours)
	same := func(oid uint32, value any) {
		t.Helper()
		got, err := ours.Encode(oid, pgtype.BinaryFormatCode, value, []byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := theirs.Encode(oid, pgtype.BinaryFormatCode, value, []byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%v: % x, pgx writes % x", value, got, want)
		}
	}
	same(pgtype.Int4ArrayOID, []int32(nil))
	same(pgtype.Int4ArrayOID, []int32{0, 1, -1, 1<<31 - 1, -1 << 31})
	same(pgtype.Int4ArrayOID, []int64{1, 2}) // left to pgx
	same(pgtype.Int8ArrayOID, []int64(nil))
	same(pgtype.Int8ArrayOID, []int64{0, 1, -1, 1<<63 - 1, -1 << 63})
	same(pgtype.Int8ArrayOID, []int32{1, 2})
	same(pgtype.UUIDArrayOID, [][16]byte{{1}, {15: 2}})

	got, err := ours.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, store.UUIDArray{{1}, {15: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := theirs.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, [][16]byte{{1}, {15: 2}}, nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("% x, pgx writes % x (%v)", got, want, err)
	}
}

// A call's arrays cost an allocation or two each, however long they are.
func TestEncodingArraysAllocatesNothingPerElement(t *testing.T) {
	m := pgtype.NewMap()
	store.RegisterTypes(m)
	buf := make([]byte, 0, 64<<10)
	for oid, value := range map[uint32]any{
		pgtype.Int4ArrayOID: make([]int32, 1000), pgtype.Int8ArrayOID: make([]int64, 1000), pgtype.UUIDArrayOID: make(store.UUIDArray, 1000),
	} {
		if n := testing.AllocsPerRun(10, func() {
			if _, err := m.Encode(oid, pgtype.BinaryFormatCode, value, buf); err != nil {
				t.Fatal(err)
			}
		}); n > 2 {
			t.Errorf("%T: %v allocations", value, n)
		}
	}
}
