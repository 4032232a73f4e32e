package store_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// ledger is a migrated schema with one queue and some partitions.
type ledger struct {
	t     *testing.T
	db    *store.DB
	pool  *pgxpool.Pool
	queue int64
	parts []int64
	ids   atomic.Int64
}

func newLedger(t *testing.T, window, partitions int) *ledger {
	t.Helper()
	l := &ledger{t: t, db: storetest.New(t)}
	l.pool = storetest.Pool(t, l.db)
	l.scan(`INSERT INTO queues (name, fixed, partitions, dedup_window_seconds) VALUES ('q', false, $1, $2) RETURNING id`,
		[]any{partitions, window}, &l.queue)
	for i := range partitions {
		var id int64
		l.scan(`INSERT INTO log_partitions (queue_id, number, name) VALUES ($1, $2, $3) RETURNING id`,
			[]any{l.queue, i, fmt.Sprint(i)}, &id)
		l.parts = append(l.parts, id)
	}
	return l
}

func (l *ledger) scan(sql string, args []any, dst ...any) {
	l.t.Helper()
	if err := l.pool.QueryRow(l.t.Context(), sql, args...).Scan(dst...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

func (l *ledger) exec(sql string, args ...any) {
	l.t.Helper()
	if _, err := l.pool.Exec(l.t.Context(), sql, args...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// hash is the test's own id → hash; the store does not care how it is made.
// Two neighbours have one first half, which is all that runs keep.
func hash(id int) (h [16]byte) {
	binary.BigEndian.PutUint64(h[:8], uint64(id/2)*0x9E3779B97F4A7C15)
	binary.BigEndian.PutUint64(h[8:], uint64(id)+1)
	return h
}

// ids makes a segment of one native part with these ids; an id below 0 is minted.
func (l *ledger) segment(part, window int, ids ...int) store.Segment {
	n := int32(len(ids))
	s := store.Segment{
		Partition: l.parts[part], Epoch: l.db.Incarnation().Epoch, Window: int32(window), Verified: -1,
		IDHi: 7 << 16, IDLo: l.ids.Add(1) << 20,
		Header: make([]byte, 4+32), Data: []byte(strings.Repeat("x", len(ids))),
		Parts: []store.Part{{Bytes: n, Batches: 1, Span: n, Records: n, Producer: -1}},
	}
	for _, id := range ids {
		var h [16]byte
		if id >= 0 {
			h = hash(id)
		}
		s.Hashes = append(s.Hashes, h)
	}
	return s
}

func (l *ledger) append(db *store.DB, segs ...store.Segment) []store.SegmentResult {
	l.t.Helper()
	res, err := db.Append(l.t.Context(), segs, true)
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

func (l *ledger) want(got store.SegmentResult, status store.SegmentStatus, base, end, next int64) {
	l.t.Helper()
	if got.Status != status || got.Base != base || got.End != end || got.Next != next {
		l.t.Fatalf("status %d, segment %d–%d, next %d; want status %d, segment %d–%d, next %d",
			got.Status, got.Base, got.End, got.Next, status, base, end, next)
	}
}

// mutate replaces a function by its text with replacements made in it.
func (l *ledger) mutate(name string, replace [][2]string) {
	l.t.Helper()
	b, err := os.ReadFile("schema/functions/" + name + ".sql")
	if err != nil {
		l.t.Fatal(err)
	}
	text := string(b)
	for _, r := range replace {
		if !strings.Contains(text, r[0]) {
			l.t.Fatalf("%s has no %q any more", name, r[0])
		}
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	l.exec(strings.Replace(text, "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
}
