package store_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"queenmq/store"
	"queenmq/store/storetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenVersion is the PostgreSQL whose plans the golden files hold. On
// another one only what holds everywhere is checked.
const goldenVersion = 15

// The plans of the hot statements, read from what the server executed: with
// auto_explain also those inside functions. They are the same on tables of
// more than 100,000 rows and, but for the golden text, on empty ones: a
// connection keeps its plans, and may have made them when there was nothing.
func TestHotStatementsEnterTablesByKey(t *testing.T) {
	t.Parallel()
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		testPlans(t, false)
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		testPlans(t, true)
	})
}

func testPlans(t *testing.T, full bool) {
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 500)
	first, queue := p[0], query[int64](t, pool, `SELECT id FROM queues`)
	exec(t, pool, `UPDATE queues SET dedup_window_seconds = 3600`)
	exec(t, pool, `UPDATE group_slots SET epoch = 1`)
	exec(t, pool, `INSERT INTO subscriptions VALUES ($1, 'new', now() - interval '1 hour')`, queue)
	if full {
		exec(t, pool, `
			WITH s AS (SELECT id, n FROM log_partitions, generate_series(0, 99) n
			           UNION ALL SELECT $1::bigint, n FROM generate_series(100, 60000) n),
			     a AS (INSERT INTO log_txns SELECT id, n, n, now(), n, n, n << 20, '{}' FROM s),
			     b AS (INSERT INTO producers SELECT id, n, 99, 0, '{0}', '{0}', '{0}', now() FROM s WHERE n < 100),
			     c AS (INSERT INTO cursors (partition_id, group_name, next_offset, kafka, committed_at)
			           SELECT id, 'g' || n, 0, true, now() FROM s WHERE n < 100)
			INSERT INTO log_segments SELECT id, n, n, now(), n, 1, 1, 10, 'header', 'data' FROM s`, first)
	}
	if full {
		exec(t, pool, `
			WITH s AS (SELECT n FROM generate_series(0, 60000) n),
			     a AS (INSERT INTO kv SELECT 'n' || n % 9, 'k' || n, '1', n + 1, now() + interval '1 hour' * (n % 3), now() FROM s)
			INSERT INTO timers SELECT 'q' || n % 9, 'k' || n, NULL, 't', 'p', n, n, now() + interval '1 second' * n, now() + interval '1 second' * n FROM s`)
	}
	exec(t, pool, `VACUUM ANALYZE`)
	next := query[int64](t, pool, `SELECT COALESCE(max(end_offset) + 1, 0) FROM log_txns WHERE partition_id = $1`, first)

	w := newWatch(t, db)
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"segment_read", func() error {
			return w.query("query/segment_read.sql", []int64{first, p[1]}, []int64{5, 5}, []int64{30, 1 << 20}, 1<<20)
		}},
		{"mark_list", func() error { return w.query("query/mark_list.sql", p) }},
		{"segment_at_time", func() error { return w.query("query/segment_at_time.sql", first, 7) }},
		{"segment_headers", func() error { return w.query("query/segment_headers.sql", first, 5, 100, 10) }},
		{"epoch_end", func() error { return w.query("query/epoch_end.sql", first, 1) }},
		{"partition_list", func() error { return w.query("query/partition_list.sql", queue, 100, 200) }},
		{"cursor_find", func() error { return w.query("query/cursor_find.sql", "g1", p[:10]) }},
		{"cursor_list", func() error { return w.query("query/cursor_list.sql", "g1") }},
		{"cursor_commit", func() error {
			return w.query("query/cursor_commit.sql", "g1", 5, 1, 1, p[:2], []int64{1, 1}, []int32{1, 1}, [][]byte{{}, {}}, true)
		}},
		{"append", func() error {
			sql, args := store.AppendCall(explainedAppend(first, next), true)
			return w.exec(sql, args...)
		}},
		{"append_short", func() error {
			s := explainedAppend(first, next)[0]
			s.Verified, s.Hashes, s.UIDs, s.Suspects = s.Known-2, s.Hashes[:2], nil, nil
			s.Parts, s.Header, s.Data, s.IDLo = s.Parts[:1], s.Header[:32], s.Data[:4], 10
			sql, args := store.AppendCall([]store.Segment{s}, true)
			return w.exec(sql, args...)
		}},
		{"claim", func() error {
			return w.query("query/claim.sql", "new", p[:2], 1, 5, 1<<20, uuid.New(), time.Hour.Milliseconds())
		}},
		{"ready_list", func() error { return w.query("query/ready_list.sql", []int64{queue}, []string{"new"}, 1000) }},
		{"group_summary", func() error {
			return w.query("query/group_summary.sql", []int64{queue, queue}, []int32{0, 100}, []int32{100, 1000})
		}},
		{"group_lag", func() error {
			return w.query("query/group_lag.sql", []int64{queue}, []int32{0}, []int32{100}, []int32{1, 1}, []string{"g1", "new"})
		}},
		{"group_depth", func() error { return w.query("query/group_depth.sql", queue, 0, 100, []string{}) }},
		{"group_queues", func() error { return w.query("query/group_queues.sql", "g1") }},
		{"retention_due", func() error {
			exec(t, pool, `UPDATE queues SET retention_ms = 1, retention_bytes = 1, retention_groups = '{g1,g2}'`)
			return w.query("query/retention_due.sql", 0, 10, 500, 900)
		}},
		{"ack", func() error {
			return w.query("query/ack.sql", uuid.New(), []string{"new"}, []int64{first}, []*uuid.UUID{nil}, []int32{1},
				[]int64{1, 2, 3}, []int16{0, 1, 3}, []*string{nil, nil, nil}, 10)
		}},
		{"ids_resolve", func() error {
			return w.query("query/ids_resolve.sql", first, 0, []uuid.UUID{{1}}, []int64{1}, []int64{1})
		}},
		{"size_list", func() error { return w.query("query/size_list.sql", p[:2]) }},
		{"queue_changed", func() error { return w.query("query/queue_changed.sql", 1) }},
		{"producer_list", func() error { return w.query("query/producer_list.sql", first, 86400, 10) }},
		{"partitions_ensure", func() error { return w.query("query/partitions_ensure.sql", "made", []string{"b", "a", "b"}) }},
		{"segment_scan", func() error { return w.query("query/segment_scan.sql", first, 5, 100, 10) }},
		{"compaction_due", func() error {
			exec(t, pool, `UPDATE queues SET cleanup_compact = true, compaction_lag_min_ms = 1`)
			return w.query("query/compaction_due.sql", 0, 0, 3)
		}},
		{"kv_apply", func() error {
			return w.query("query/kv_apply.sql", uuid.New(), false, []byte(`[{"op":"put","ns":"n1","key":"new","value":"1"},{"op":"incr","ns":"n1","key":"k1","delta":"1"},
				{"op":"delete","ns":"n2","key":"k2"},{"op":"get","ns":"n3","key":"k3"}]`))
		}},
		{"kv_read", func() error {
			return w.query("query/kv_read.sql", []string{"n1"}, []string{"k1"}, []string{"n1"}, []string{"k1"}, []string{"k2"}, []string{""}, []int32{5}, []bool{true}, 1<<20)
		}},
		{"kv_purge", func() error { return w.query("query/kv_purge.sql", time.Time{}, 5) }},
		{"timers_apply", func() error {
			return w.query("query/timers_apply.sql", uuid.New(), []byte(`[{"op":"schedule","queue":"q1","key":"k1","txn":"","payload":"","hi":1,"lo":1,"delay":1},{"op":"cancel","queue":"q2","key":"k2"}]`))
		}},
		{"timers_due", func() error { return w.query("query/timers_due.sql", 30_000, 32) }},
		{"timer_list", func() error { return w.query("query/timer_list.sql", "q1", "k1", 5) }},
		{"segments_purge", func() error {
			exec(t, pool, `UPDATE log_partitions SET start_offset = 5`)
			return w.query("query/segments_purge.sql", first, 500, 1<<20)
		}},
		{"txns_purge", func() error {
			exec(t, pool, `UPDATE log_txns SET created_at = created_at - interval '1 day' WHERE partition_id = $1 AND end_offset < 5`, first)
			return w.query("query/txns_purge.sql", first, 500, 1<<20, 900, 86400)
		}},
		{"deleted_sweep", func() error {
			exec(t, pool, `UPDATE queues SET deleted_at = now()`)
			return w.query("query/deleted_sweep.sql", 1_000_000, 1<<40)
		}},
	} {
		w.plans.Reset()
		if err := c.run(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := w.plans.String()
		if strings.Count(got, "\n") < 3 {
			t.Errorf("%s: no plan was seen: %q", c.name, got)
		}
		lines := strings.Split(got, "\n")
		for i, line := range lines {
			whole := scansIndex.MatchString(line) && !strings.Contains(line, " queues_deleted ") && !strings.Contains(lines[i+1], "Index Cond: ")
			if whole || scansTable.MatchString(line) {
				t.Errorf("%s reads a whole table: %s", c.name, strings.TrimSpace(line))
			}
		}
		if full && w.version == goldenVersion {
			compareGolden(t, filepath.Join("testdata", "plans", c.name+".txt"), got)
		}
	}
}

// scansTable and scansIndex match what may read a whole table; an index that is
// entered by key has a condition in its next line. The table cluster has one row,
// the index queues_deleted what is to be swept.
var (
	scansTable = regexp.MustCompile(`Bitmap|Seq Scan on (log_|producers|cursors|queues|subscriptions|group_slots|leases|retries|dead_|calls)`)
	scansIndex = regexp.MustCompile(`Index (Only )?Scan `)
)

// explainedAppend is a call that runs through every statement of append_1: it
// looks for its id base, knows a producer, probes hashes, minted ids and spans.
func explainedAppend(partition, next int64) []store.Segment {
	part := store.Part{Bytes: 4, Batches: 1, Span: 2, Records: 2, Producer: -1}
	producer := part
	producer.Producer, producer.BaseSequence = 1, 1
	return []store.Segment{{
		Partition: partition, Known: max(next-10, 0), IDHi: 9, IDLo: 9, Window: 3600, Verified: max(next-20, -1),
		Header: make([]byte, 64), Data: []byte("12345678"), Parts: []store.Part{part, producer},
		Hashes:   [][16]byte{{1}, {2}, {3}, {4}},
		UIDs:     []store.UID{{Index: 0, Hi: 1, Lo: 1}},
		Suspects: []store.Suspect{{From: 1, To: 2, IDs: []int32{0}}},
	}}
}

// watch is a connection like a pooled one that hears the plans of all it runs.
type watch struct {
	t       *testing.T
	conn    *pgx.Conn
	version int
	plans   strings.Builder
}

var (
	planParam = regexp.MustCompile(`\$\d+`) // numbers of PL/pgSQL variables change with any edit
	planCost  = regexp.MustCompile(`  \(cost=[^)]*\)`)
	planHead  = regexp.MustCompile(`(?s)^duration: .*?Query Text: (.*?)\n((?:[A-Z][A-Za-z ]*?)(?: on [^\n]*| using [^\n]*)?  \(cost=.*)$`)
	blanks    = regexp.MustCompile(`\s+`)
	sqlRemark = regexp.MustCompile(`(?m)^--.*$`)
)

func newWatch(t *testing.T, db *store.DB) *watch {
	t.Helper()
	w := &watch{t: t}
	cfg := db.Config()
	cc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Pin(&cc.Config)
	cc.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		m := planHead.FindStringSubmatch(n.Message)
		if m == nil {
			return
		}
		text := strings.TrimSpace(blanks.ReplaceAllString(sqlRemark.ReplaceAllString(m[1], ""), " "))
		if len(text) > 100 {
			text = text[:100] + " …"
		}
		plan := text + "\n" + planParam.ReplaceAllString(planCost.ReplaceAllString(m[2], ""), "$$") + "\n\n"
		if !strings.Contains(w.plans.String(), plan) { // a statement in a loop is shown once
			w.plans.WriteString(plan)
		}
	}
	if w.conn, err = pgx.ConnectConfig(t.Context(), cc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close(context.Background()) })
	store.RegisterTypes(w.conn.TypeMap())
	if err := w.conn.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::integer / 10000`).Scan(&w.version); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`LOAD 'auto_explain'`,
		`SET auto_explain.log_min_duration = 0`,
		`SET auto_explain.log_nested_statements = on`,
		`SET auto_explain.log_level = warning`, // connections ask for nothing below
	} {
		if _, err := w.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// exec runs a statement to its end.
func (w *watch) exec(sql string, args ...any) error {
	rows, err := w.conn.Query(w.t.Context(), sql, args...)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// query runs the statement of a file.
func (w *watch) query(file string, args ...any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return w.exec(string(text), args...)
}

// compareGolden compares with a golden file, or rewrites it.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; now:\n%s", file, got)
	}
}
