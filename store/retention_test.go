package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
)

func TestRetentionRaisesLogStartThenDeletesSegments(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	for i := range 5 {
		l.append(l.db, l.segment(0, 0, i))
	}
	due := func() store.DueRow {
		t.Helper()
		rows, err := l.db.RetentionDue(t.Context(), 0, 10, 100, 900)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, %v; want one", len(rows), err)
		}
		return rows[0]
	}
	if d := due(); d.LogStart != -1 || d.Sidecar {
		t.Fatalf("%+v, want nothing to forget without retention", d)
	}
	l.exec(`UPDATE queues SET retention_ms = 9223372036854775807`) // Kafka's clients' word for ever
	l.exec(`UPDATE log_segments SET created_at = created_at - interval '61 s' WHERE end_offset < 3`)
	if d := due(); d.LogStart != -1 {
		t.Fatalf("%+v, want nothing to forget for ever", d)
	}
	l.exec(`UPDATE queues SET retention_ms = 60000`)
	if d := due(); d.LogStart != 3 {
		t.Fatalf("%+v, want the log to start at 3", d)
	}
	if at, err := l.db.RaiseLogStart(t.Context(), l.parts[0], 3); err != nil || at != 3 {
		t.Fatalf("log start %d, %v; want 3", at, err)
	}
	if at, err := l.db.RaiseLogStart(t.Context(), l.parts[0], 1); err != nil || at != 3 {
		t.Fatalf("log start %d, %v after asking for 1; want 3: it never goes back", at, err)
	}
	for _, want := range []int{2, 1, 0} {
		if n, more, err := l.db.PurgeSegments(t.Context(), l.parts[0], 2, 1<<20); err != nil || n != want || more != (want == 2) {
			t.Fatalf("purged %d, more %v, %v; want %d", n, more, err, want)
		}
	}
	// A round that was cut off is taken up, retention or not.
	l.exec(`UPDATE queues SET retention_ms = -1`)
	l.exec(`UPDATE log_partitions SET start_offset = 4`)
	if d := due(); d.LogStart != 4 {
		t.Fatalf("%+v, want the leftovers below 4 seen", d)
	}
	if at, err := l.db.RaiseLogStart(t.Context(), l.parts[0], 99); err != nil || at != 5 {
		t.Fatalf("log start %d, %v after asking for 99; want the log's end 5", at, err)
	}
	l.want(l.append(l.db, l.segment(0, 0, 9))[0], store.SegmentStored, 5, 5, 6)
}

// A look at what is due reads as much of a long log as of a short one: a round is
// over all partitions, and most have nothing to forget.
func TestALookForWhatHasExpiredReadsOneRowOfALog(t *testing.T) {
	t.Parallel()
	const parts, rows = 3, 40
	l := newLedger(t, 3600, parts)
	l.exec(`UPDATE queues SET retention_ms = 60000, retention_bytes = -1`)
	l.exec(`INSERT INTO log_segments SELECT p.id, n, n, clock_timestamp(), n, 1, 1, 1, 'header', 'data' FROM log_partitions p, generate_series(0, $1::integer - 1) n`, rows)
	l.exec(`INSERT INTO log_txns SELECT p.id, n, n, clock_timestamp(), n, n, n, '{}' FROM log_partitions p, generate_series(0, $1::integer - 1) n`, rows)
	if rows, err := l.db.RetentionDue(t.Context(), 0, 10, 500, 900); err != nil || len(rows) != parts || rows[0].LogStart != -1 {
		t.Fatalf("%+v, %v; want %d partitions in which nothing is due", rows, err, parts)
	}
	text, err := os.ReadFile("query/retention_due.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table string
		most  int
	}{{"log_segments", parts}, {"log_txns", 2 * parts}} {
		if n := rowsRead(t, l.pool, string(text), "bigint, integer, integer, integer", "0, 10, 500, 900", c.table); n != c.most {
			t.Errorf("%d rows of %s read in %d partitions of %d rows with nothing due, want %d", n, c.table, parts, rows, c.most)
		}
	}
}

// rowsRead runs a statement with parameters of types as a pooled connection would
// and counts the rows of a table that it reads. No plan shows what a function reads:
// where the one for sizes is called it fails.
func rowsRead(t *testing.T, pool *pgxpool.Pool, sql, types, args, table string) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var text []byte
	for _, s := range []string{
		"SET LOCAL plan_cache_mode = force_generic_plan", "SET LOCAL enable_seqscan = off", "SET LOCAL enable_bitmapscan = off",
		"CREATE OR REPLACE FUNCTION retained_from_1(p_partition bigint, p_bytes bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE ''called''; END'",
		"PREPARE counted_" + table + " (" + types + ") AS " + sql,
	} {
		if _, err := tx.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE counted_"+table+" ("+args+")").Scan(&text); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "DEALLOCATE counted_"+table); err != nil { // it outlives the transaction
		t.Fatal(err)
	}
	type node struct {
		Table string  `json:"Relation Name"`
		Rows  float64 `json:"Actual Rows"`
		Loops float64 `json:"Actual Loops"`
		Plans []node  `json:"Plans"`
	}
	var tops []struct{ Plan node }
	if err := json.Unmarshal(text, &tops); err != nil {
		t.Fatal(err)
	}
	read := 0.0
	var add func(n node)
	add = func(n node) {
		if n.Table == table {
			read += n.Rows * n.Loops
		}
		for _, p := range n.Plans {
			add(p)
		}
	}
	add(tops[0].Plan)
	return int(read)
}

func TestRetentionBySizeKeepsThatManyBytes(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 2)
	for i := range 5 {
		l.append(l.db, l.segment(0, 0, i))
	}
	l.exec(`UPDATE log_segments SET size = 100, total_size = 100 * (end_offset + 1)`)
	for _, c := range []struct{ keep, start int64 }{{501, -1}, {500, -1}, {401, -1}, {400, 1}, {399, 1}, {201, 2}, {200, 3}, {1, 4}, {0, 5}, {-1, -1}} {
		l.exec(`UPDATE queues SET retention_bytes = $1`, c.keep)
		rows, err := l.db.RetentionDue(t.Context(), 0, 10, 2, 900)
		if err != nil || len(rows) != 2 {
			t.Fatalf("%d rows, %v; want two", len(rows), err)
		}
		if rows[0].LogStart != c.start || rows[1].LogStart != -1 {
			t.Errorf("keep %d bytes: log starts %d and, empty, %d; want %d and -1", c.keep, rows[0].LogStart, rows[1].LogStart, c.start)
		}
	}
	// Whichever of time and size asks for more.
	l.exec(`UPDATE queues SET retention_bytes = 400, retention_ms = 60000`)
	l.exec(`UPDATE log_segments SET created_at = created_at - interval '61 s' WHERE end_offset < 2`)
	if rows, err := l.db.RetentionDue(t.Context(), 0, 10, 100, 900); err != nil || rows[0].LogStart != 2 {
		t.Errorf("log start %d, %v; want 2", rows[0].LogStart, err)
	}
}

func TestSidecarIsKeptForTheCompletedRetention(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 60, 1)
	l.append(l.db, l.segment(0, 60, 1))
	l.append(l.db, l.segment(0, 60, 2))
	l.exec(`UPDATE queues SET completed_retention_seconds = 7200`)
	for _, c := range []struct {
		age string
		due bool
		n   int
	}{{"7199 s", false, 0}, {"7201 s", true, 1}} {
		l.exec(`UPDATE log_txns SET created_at = clock_timestamp() - $1::text::interval`, c.age)
		rows, err := l.db.RetentionDue(t.Context(), 0, 10, 100, 900)
		if err != nil || rows[0].Sidecar != c.due {
			t.Errorf("rows of %s: due %v, %v; want %v", c.age, rows[0].Sidecar, err, c.due)
		}
		if n, _, err := l.db.PurgeSidecar(t.Context(), l.parts[0], 100, 1<<20, 900, 86400); err != nil || n != c.n {
			t.Errorf("rows of %s: purged %d, %v; want %d", c.age, n, err, c.n)
		}
	}
}

func TestSidecarPurgeKeepsTheWindowAndTheNewestRow(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 4 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	purge := func() int {
		t.Helper()
		n, _, err := l.db.PurgeSidecar(t.Context(), l.parts[0], 100, 1<<20, 900, 86400)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '3599 s'`)
	if n := purge(); n != 0 {
		t.Fatalf("purged %d rows inside the window", n)
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '2 s' WHERE end_offset < 2`)
	if n := purge(); n != 2 {
		t.Fatalf("purged %d rows, want the 2 past the window", n)
	}
	var start int64
	l.scan(`SELECT txns_start FROM log_partitions`, nil, &start)
	if start != 2 {
		t.Fatalf("txns_start %d, want 2", start)
	}
	// A window of a minute still keeps rows for acknowledging by id.
	l.exec(`UPDATE queues SET dedup_window_seconds = 60`)
	l.exec(`UPDATE log_txns SET created_at = clock_timestamp() - interval '899 s'`)
	if n := purge(); n != 0 {
		t.Fatalf("purged %d rows younger than 900 s", n)
	}
	l.exec(`UPDATE log_txns SET created_at = clock_timestamp() - interval '1 day'`)
	if n := purge(); n != 1 {
		t.Fatalf("purged %d rows, want all but the newest", n)
	}
	l.want(l.append(l.db, l.segment(0, 60, 3))[0], store.SegmentStored, 4, 4, 5)
}

func TestNothingIsDueWhereOnlyTheNewestRowIsLeft(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 60, 2)
	for i := range 3 {
		l.append(l.db, l.segment(0, 60, i))
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 day'`)
	for _, want := range []bool{true, false} {
		rows, err := l.db.RetentionDue(t.Context(), 0, 10, 100, 900)
		if err != nil || len(rows) != 2 || rows[0].Sidecar != want || rows[1].Sidecar {
			t.Fatalf("%+v, %v; want the first due: %v", rows, err, want)
		}
		if _, _, err := l.db.PurgeSidecar(t.Context(), l.parts[0], 100, 1<<20, 900, 86400); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeletedQueuesTakePartInTheCount: a caller that gets fewer rows than it
// asked for takes them for the last.
func TestDeletedQueuesTakePartInTheCount(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 60, 3)
	l.append(l.db, l.segment(0, 60, 1))
	l.exec(`UPDATE log_partitions SET start_offset = 1`)
	l.exec(`UPDATE queues SET deleted_at = now()`)
	rows, err := l.db.RetentionDue(t.Context(), 0, 2, 100, 900)
	if err != nil || len(rows) != 2 || rows[1].Partition != l.parts[1] {
		t.Fatalf("%+v, %v; want both partitions looked at", rows, err)
	}
	if rows[0].LogStart != -1 || rows[0].Sidecar {
		t.Fatalf("%+v, want nothing due", rows[0])
	}
}

// Two raise the log start at once, the lower one last: it stays where it was raised to.
func TestLogStartIsRaisedUnderTheLock(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	l.append(l.db, l.segment(0, 0, -1, -1, -1))
	tx, err := l.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var start int64
	if err := tx.QueryRow(t.Context(), `SELECT log_start_raise_1($1, 3)`, l.parts[0]).Scan(&start); err != nil || start != 3 {
		t.Fatalf("raised to %d, %v; want 3", start, err)
	}
	other := openNamed(t, l.db.Config(), nil)
	done := make(chan error, 1)
	go func() {
		at, err := other.RaiseLogStart(t.Context(), l.parts[0], 1)
		if err == nil && at != 3 {
			err = fmt.Errorf("the log starts at %d, want 3", at)
		}
		done <- err
	}()
	backend(t, l.pool, other, waiting)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.scan(`SELECT start_offset FROM log_partitions WHERE id = $1`, []any{l.parts[0]}, &start)
	if start != 3 {
		t.Errorf("the log starts at %d, want 3", start)
	}
}

// TestRetentionByConsumptionWaitsForAllItsGroups, and for no other.
func TestRetentionByConsumptionWaitsForAllItsGroups(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 0, 1)
	for i := range 5 {
		l.append(l.db, l.segment(0, 0, 2*i, 2*i+1)) // two offsets in each
	}
	f := func(what string, want int64) {
		t.Helper()
		rows, err := l.db.RetentionDue(t.Context(), 0, 10, 100, 900)
		if err != nil || len(rows) != 1 || rows[0].LogStart != want {
			t.Errorf("%s: %+v, %v; want the log to start at %d", what, rows, err, want)
		}
	}
	commit := func(group string, offset int64) {
		t.Helper()
		if _, err := l.db.CommitCursors(t.Context(), group, store.Fence{}, []store.CursorRow{{Partition: l.parts[0], Offset: offset, Epoch: -1}}, false); err != nil {
			t.Fatal(err)
		}
	}
	commit("reader", 10)
	f("no group decides", -1)
	l.exec(`UPDATE queues SET retention_groups = '{a,b}'`)
	f("neither has a position", -1)
	commit("a", 5)
	f("one has none", -1)
	commit("b", 7)
	f("the slower one is inside a segment", 4)
	if _, err := l.db.RaiseLogStart(t.Context(), l.parts[0], 4); err != nil {
		t.Fatal(err)
	}
	if n, _, err := l.db.PurgeSegments(t.Context(), l.parts[0], 10, 1<<20); err != nil || n != 2 {
		t.Fatalf("%d segments purged, %v", n, err)
	}
	f("nothing more", -1)
	commit("a", 10)
	f("the other one decides now", 6)
	commit("b", 10)
	f("all is completed", 10)
	commit("a", 99)
	commit("b", 99) // before there was so much
	l.append(l.db, l.segment(0, 3600, 100))
	f("what was written since is not", 10)
}

// A step of forgetting ends after so many bytes, however few rows have them, and after
// so many producers: what a statement deletes takes time.
func TestForgettingEndsAfterSoManyBytes(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 6 {
		l.append(l.db, l.segment(0, 3600, i)) // one id: 37 bytes
	}
	f := func(what string, wantN int, wantMore bool, n int, more bool, err error) {
		t.Helper()
		if err != nil || n != wantN || more != wantMore {
			t.Errorf("%s: %d went, more %v, %v; want %d, more %v", what, n, more, err, wantN, wantMore)
		}
	}
	segments := func(what string, wantN int, wantMore bool) {
		t.Helper()
		n, more, err := l.db.PurgeSegments(t.Context(), l.parts[0], 100, 25)
		f(what, wantN, wantMore, n, more, err)
	}
	l.exec(`UPDATE log_segments SET size = CASE end_offset WHEN 3 THEN 1000 ELSE 10 END`)
	l.exec(`UPDATE log_partitions SET start_offset = 5`)
	segments("three of 10 bytes", 3, true)
	segments("one that is larger than the bound", 1, true)
	segments("the last one below the log start", 1, false)
	segments("nothing", 0, false)

	sidecar := func(what string, rows, wantN int, wantMore bool) {
		t.Helper()
		n, more, err := l.db.PurgeSidecar(t.Context(), l.parts[0], rows, 100, 900, 86400)
		f(what, wantN, wantMore, n, more, err)
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '1 day'`)
	sidecar("three rows of ids", 100, 3, true)
	sidecar("all but the newest", 100, 2, false)
	l.exec(`INSERT INTO producers SELECT $1, i, 0, 0, '{}', '{}', '{}', now() - interval '2 days' FROM generate_series(1, 5) i`, l.parts[0])
	l.exec(`UPDATE producers SET updated_at = now() WHERE producer_id = 2`)
	sidecar("two producers", 2, 2, true)
	sidecar("two more", 2, 2, true)
	sidecar("none", 2, 0, false)
	var left int64
	if l.scan(`SELECT sum(producer_id) FROM producers`, nil, &left); left != 2 {
		t.Errorf("producers that are left have a sum of %d, want the one in use", left)
	}
}

// A step of the purge takes the partition's lock and then reads the window: one that is
// raised while it waits is the one it keeps to.
func TestSidecarPurgeReadsTheWindowUnderTheLock(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 3 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '5000 s'`)
	tx, err := l.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions FOR NO KEY UPDATE`); err != nil { // as an append does
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE queues SET dedup_window_seconds = 7200`); err != nil {
		t.Fatal(err)
	}
	other := openNamed(t, l.db.Config(), nil)
	purged := make(chan int, 1)
	go func() {
		n, _, err := other.PurgeSidecar(t.Context(), l.parts[0], 100, 1<<20, 900, 86400)
		if err != nil {
			t.Error(err)
		}
		purged <- n
	}()
	for waits := false; !waits && len(purged) == 0; {
		l.scan(`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'queen/' || $1 AND wait_event_type = 'Lock')`,
			[]any{other.Config().Application}, &waits)
	}
	if len(purged) > 0 {
		t.Error("a step was made beside an append that holds the partition")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-purged; n != 0 {
		t.Errorf("%d rows within the new window were purged", n)
	}
	if r := l.appendUndone(l.segment(0, 7200, 0)); r.Status != store.SegmentDuplicates {
		t.Errorf("status %d, want a duplicate under the new window", r.Status)
	}
}

// A step of the purge forgets so many rows, raises txns_start to behind them, and says
// that there is more.
func TestSidecarPurgeGoesInSteps(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	for i := range 6 {
		l.append(l.db, l.segment(0, 3600, i))
	}
	l.exec(`UPDATE log_txns SET created_at = created_at - interval '2 hours' WHERE end_offset < 5`)
	for i, want := range []struct {
		n     int
		more  bool
		start int64
	}{{2, true, 2}, {2, true, 4}, {1, false, 5}, {0, false, 5}} {
		n, more, err := l.db.PurgeSidecar(t.Context(), l.parts[0], 2, 1<<20, 900, 86400)
		var start int64
		l.scan(`SELECT txns_start FROM log_partitions`, nil, &start)
		if err != nil || n != want.n || more != want.more || start != want.start {
			t.Errorf("step %d: %d rows, more %v, txns_start %d, %v; want %+v", i, n, more, start, err, want)
		}
	}
}
