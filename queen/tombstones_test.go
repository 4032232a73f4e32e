package queen

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"queenmq/store"
	"queenmq/store/storetest"
)

func TestTombstonesStayForTheirTime(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.TombstoneRetentionMs = 3_600_000 })
	appendPairs(t, e, "t", pair{"a", "1"}, pair{"b", "1"})
	appendPairs(t, e, "t", pair{"a", ""})
	appendPairs(t, e, "t", pair{"c", "1"})
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=1", "2 a=", "3 c=1")
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=1", "2 a=", "3 c=1")
	left := queryOne[float64](t, e.db,
		`SELECT extract(epoch FROM tombstones_due - clock_timestamp())::float8 FROM log_compactions`)
	if left < 3500 || left > 3601 {
		t.Errorf("the tombstone is due in %.0f s, want an hour from when it was compacted", left)
	}
	// The hour passes: nothing new is written, and it goes all the same.
	elapse(t, e.db)
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=1", "3 c=1")
	if due := queryOne[bool](t, e.db, `SELECT tombstones_due IS NOT NULL FROM log_compactions`); due {
		t.Error("a tombstone is due, and there is none left")
	}
}

// elapse makes the times of all tombstones lie in the past.
func elapse(t *testing.T, db *store.DB) {
	t.Helper()
	pool := storetest.Pool(t, db)
	if _, err := pool.Exec(t.Context(), `UPDATE log_compactions SET tombstones_due = clock_timestamp() - interval '1 s'`); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Partition, End int64
		Header         []byte
	}
	res, err := pool.Query(t.Context(), `SELECT partition_id, end_offset, header FROM log_segments`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pgx.CollectRows(res, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		h, err := decodeSegmentHeader(r.Header)
		if err != nil {
			t.Fatal(err)
		}
		for i := range h.Marks {
			h.Marks[i].TombstonesDue = min(1, h.Marks[i].TombstonesDue)
		}
		if _, err := pool.Exec(t.Context(), `UPDATE log_segments SET header = $3 WHERE partition_id = $1 AND end_offset = $2`,
			r.Partition, r.End, h.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// The end of the log keeps its row, or who reads on from before it would find nothing.
func TestATombstoneAtTheEndOfTheLogStays(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.TombstoneRetentionMs, o.CompactionLagMaxMs = 0, 1 })
	appendPairs(t, e, "t", pair{"a", "1"})
	appendPairs(t, e, "t", pair{"b", ""}, pair{"a", ""})
	age(t, e.db, "1 min")
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=", "2 a=")
	elapse(t, e.db)
	compactNow(t, e)
	wantContents(t, e, "t", "2 a=")
	appendPairs(t, e, "t", pair{"c", "1"})
	age(t, e.db, "1 min")
	compactNow(t, e)
	wantContents(t, e, "t", "3 c=1")
}

// age makes all segments older.
func age(t *testing.T, db *store.DB, by string) {
	t.Helper()
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE log_segments SET created_at = created_at - $1::text::interval`, by); err != nil {
		t.Fatal(err)
	}
}
