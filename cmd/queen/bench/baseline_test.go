package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/store/storetest"
)

// schemas counts the schemas of benchmarks on the server.
func schemas(t *testing.T, url string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, $1)", schemaPrefix).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func openDatabase(t *testing.T, url, name string) *Database {
	t.Helper()
	db, err := OpenDatabase(t.Context(), url, name)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// runLongEnough runs a side with rounds of 50 ms, and with longer ones where a
// busy machine answers nothing in them.
func runLongEnough(t *testing.T, plan Plan, side func(time.Duration) Side) Outcome {
	t.Helper()
	for d := 50 * time.Millisecond; ; d *= 8 {
		plan.Duration = d
		out, err := Run(t.Context(), plan, side(d), nil)
		if errors.Is(err, errNothingAnswered) && d < time.Minute {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func TestBaselineWritesVerifiesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	url := storetest.NewServer(t).URL

	// A run that was killed: its schema is there, its lock is not.
	killed := openDatabase(t, url, "killed")
	if err := killed.makeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := killed.conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A run beside ours, which must be left alone.
	other := openDatabase(t, url, "other")
	if err := other.makeSchema(t.Context()); err != nil {
		t.Fatal(err)
	}

	var db *Database
	var b *Baseline
	plan := Plan{Rounds: 2, Verify: true, Settle: func(ctx context.Context) error { return db.Settle(ctx) }}
	plan.Watch.Pair = func(i int, _ Round, _ *Round, _ float64) {
		if i == 0 && schemas(t, url) != 2 {
			t.Errorf("%d schemas while running, want ours and the other run's", schemas(t, url))
		}
	}
	out := runLongEnough(t, plan, func(d time.Duration) Side {
		if db != nil {
			if err := db.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		db = openDatabase(t, url, "ours")
		b = &Baseline{DB: db, Payload: payload(t, Random, 1024), Connections: 3, Duration: d}
		return b
	})
	if len(out.A.Rounds) != 2 || out.A.Rounds[1].Records == 0 || out.A.Rounds[1].Bytes != out.A.Rounds[1].Records*int64(b.Row) {
		t.Errorf("rounds %+v, want two with whole rows of %d bytes", out.A.Rounds, b.Row)
	}
	if v := out.A.Verified; v == nil || v.Read == 0 || v.Read != v.Acknowledged {
		t.Errorf("verified %+v, want every row", v)
	}
	if len(b.tried) != len(BaselineRows) || b.Row == 0 {
		t.Errorf("tried %+v and took %d, want all of %v tried", b.tried, b.Row, BaselineRows)
	}
	var c Conditions
	if err := c.AskDatabase(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	if c.PostgreSQL["fsync"] != "on" || c.PostgreSQL["synchronous_commit"] != "on" || c.PostgreSQL["max_wal_size"] != "2GB" {
		t.Errorf("settings %v, want those of the server", c.PostgreSQL)
	}
	for _, d := range []*Database{db, other} {
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := schemas(t, url); n != 0 {
		t.Errorf("%d schemas left, want none", n)
	}
}

func TestBaselineNoticesDamage(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, storetest.URL(t), "damage")
	defer func() { _ = db.Close(context.Background()) }()
	b := &Baseline{DB: db, Payload: payload(t, Random, 1024), Connections: 1, Row: 4096}
	if err := b.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for b.next[0] < 3 {
		if err := b.Round(t.Context(), Times{Duration: 30 * time.Millisecond}, NewMeter(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.conn.Exec(t.Context(), `UPDATE baseline SET data = set_byte(data, 99, 255 - get_byte(data, 99)) WHERE n = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.conn.Exec(t.Context(), `DELETE FROM baseline WHERE n = 1`); err != nil {
		t.Fatal(err)
	}
	v, err := b.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.Damaged != 1 || v.Missing != 2 || v.Read != v.Acknowledged-1 || v.err() == nil {
		t.Errorf("verified %+v, want one damaged, and it and a deleted one missing", v)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
