package store_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"queenmq/store"
)

// TestAppendCostsTheSameUnderAnOpenSnapshot appends through one idempotent
// producer while a forgotten transaction keeps every dead row, and counts the
// pages an append touches: a row that each append updates would leave a chain
// of dead versions to walk, and the count would grow with it.
func TestAppendCostsTheSameUnderAnOpenSnapshot(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	tx, err := l.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM log_txns`); err != nil {
		t.Fatal(err)
	}
	seq := int32(0)
	next := func() store.Segment {
		s := l.segment(0, 3600, int(seq))
		s.Known, s.Verified = int64(seq), int64(seq)-1
		s.Parts[0].Producer, s.Parts[0].BaseSequence = 5, seq
		seq++
		return s
	}
	// The pages of one call: the mean of some, since an index splits now and then.
	pages := func() float64 {
		t.Helper()
		const calls = 20
		total := 0
		for range calls {
			sql, args := store.AppendCall([]store.Segment{next()}, true)
			var out []byte
			if err := l.db.QueryWriter(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args, &out); err != nil {
				t.Fatal(err)
			}
			var plans []struct {
				Plan struct {
					Hit  int `json:"Shared Hit Blocks"`
					Read int `json:"Shared Read Blocks"`
				}
			}
			if err := json.Unmarshal(out, &plans); err != nil {
				t.Fatal(err)
			}
			total += plans[0].Plan.Hit + plans[0].Plan.Read
		}
		return float64(total) / calls
	}
	many := func(n int) {
		t.Helper()
		for range n {
			if r := l.append(l.db, next())[0]; r.Status != store.SegmentStored {
				t.Fatalf("%+v, want stored", r)
			}
		}
	}
	many(1000) // past the first growth of the indexes, which is not what is looked for
	before := pages()
	many(2000)
	after := pages()
	t.Logf("%.1f pages before, %.1f after", before, after)
	if after > 1.3*before {
		t.Fatalf("an append touches %.1f pages after 2,000 others under an open snapshot, %.1f before", after, before)
	}
}
