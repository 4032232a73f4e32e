package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// Old are only positions that a Kafka client wrote last, of groups that nobody
// was seen in, or that its members do not read any more.
func TestOldPositionsExpire(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	q, r := partitions(t, db, "q", 3), partitions(t, db, "r", 1)
	a := registered(t, db)
	if _, err := db.AssignSlots(t.Context(), a, map[int]uuid.UUID{7: a}); err != nil {
		t.Fatal(err)
	}
	under := store.Fence{Slot: 7, Epoch: 1}
	commit := func(group string, parts ...int64) {
		t.Helper()
		for _, p := range parts {
			if _, err := db.CommitCursors(t.Context(), group, under, []store.CursorRow{{Partition: p, Offset: 5}}, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	expire := func(want int, group string, keep []string, rows int) {
		t.Helper()
		got, err := db.ExpireCursors(t.Context(), group, under, time.Hour, 2*time.Hour, keep, rows)
		if err != nil || got != want {
			t.Fatalf("ExpireCursors(%q) = %d, %v; want %d", group, got, err, want)
		}
	}
	left := func(group string, want ...int64) {
		t.Helper()
		rows, err := db.Cursors(t.Context(), group, nil)
		var got []int64
		for _, row := range rows {
			got = append(got, row.Partition)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q has positions in %v, %v; want %v", group, got, err, want)
		}
	}
	old := func(ago string) {
		t.Helper()
		exec(t, pool, `UPDATE cursors SET committed_at = committed_at - $1::interval`, ago)
	}

	commit("g", q[0], q[1], r[0])
	commit("native", q[0])
	commit("leased", q[0])
	old("59 minutes")
	expire(0, "g", nil, 10)
	old("1 minute")
	exec(t, pool, `UPDATE cursors SET kafka = false WHERE group_name = 'native'`)
	exec(t, pool, `UPDATE cursors SET lease_until = now() + interval '1 minute' WHERE group_name = 'leased'`)
	commit("g", q[2]) // a fresh one
	rows, err := db.ExpirableGroups(t.Context(), "", 2, time.Hour)
	if want := []store.ExpirableRow{{Group: "g", Old: true}, {Group: "leased", Old: true}}; err != nil || !slices.Equal(rows, want) {
		t.Fatalf("%+v, %v; want %+v", rows, err, want)
	}
	rows, err = db.ExpirableGroups(t.Context(), "leased", 2, time.Hour)
	if want := []store.ExpirableRow{{Group: "native"}}; err != nil || !slices.Equal(rows, want) {
		t.Fatalf("%+v, %v; want %+v", rows, err, want)
	}

	if err := db.GroupsSeen(t.Context(), []string{"g"}, time.Hour, 10); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE group_activity SET seen_at = seen_at - interval '119 minutes'`)
	expire(0, "g", nil, 10)
	left("g", q[0], q[1], q[2], r[0])
	expire(1, "g", []string{"q"}, 10) // its members read q
	left("g", q[0], q[1], q[2])
	exec(t, pool, `UPDATE group_activity SET seen_at = seen_at - interval '1 minute'`)
	expire(1, "g", nil, 1)
	left("g", q[1], q[2])
	expire(1, "g", nil, 1)
	expire(0, "g", nil, 1)
	left("g", q[2])
	expire(0, "native", nil, 10)
	expire(0, "leased", nil, 10)
	left("native", q[0])
	left("leased", q[0])
	if n, err := db.ExpireCursors(t.Context(), "g", store.Fence{Slot: 7, Epoch: 2}, 0, 0, nil, 10); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("under another epoch: %d, %v", n, err)
	}
	old("1 hour")
	expire(1, "g", nil, 10)
	left("g")
	if n := query[int](t, pool, `SELECT count(*)::integer FROM group_activity`); n != 0 {
		t.Errorf("%d groups without positions are remembered", n)
	}
}

// A position that is committed while it is about to expire stays.
func TestAPositionCommittedMeanwhileDoesNotExpire(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	a := registered(t, db)
	if _, err := db.AssignSlots(t.Context(), a, map[int]uuid.UUID{7: a}); err != nil {
		t.Fatal(err)
	}
	under := store.Fence{Slot: 7, Epoch: 1}
	if _, err := db.CommitCursors(t.Context(), "g", under, []store.CursorRow{{Partition: p[0], Offset: 5}}, true); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE cursors SET committed_at = committed_at - interval '1 hour'`)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT cursors_commit_1('g', 7, 1, 1, $1, '{6}', '{-1}', '{""}', true)`, p); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		n   int
		err error
	}
	done := make(chan answer, 1)
	go func() {
		n, err := db.ExpireCursors(t.Context(), "g", under, time.Hour, time.Hour, nil, 10)
		done <- answer{n, err}
	}()
	for query[int](t, pool, `SELECT count(*)::integer FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, tx.Conn().PgConn().PID()) == 0 {
		if len(done) > 0 {
			t.Fatalf("%+v: it did not wait for the commit", <-done)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.err != nil || a.n != 0 {
		t.Fatalf("%+v, want nothing deleted", a)
	}
}

// Of the groups that were seen, those with positions stay known.
func TestGroupsSeenLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	seen := func(groups ...string) {
		t.Helper()
		if err := db.GroupsSeen(t.Context(), groups, time.Hour, 2); err != nil {
			t.Fatal(err)
		}
	}
	known := func(want ...string) {
		t.Helper()
		got := query[[]string](t, pool, `SELECT COALESCE(array_agg(group_name ORDER BY group_name), '{}') FROM group_activity`)
		if !slices.Equal(got, want) {
			t.Fatalf("known are %q, want %q", got, want)
		}
	}
	if _, err := db.CommitCursors(t.Context(), "c", store.Fence{}, []store.CursorRow{{Partition: p[0]}}, true); err != nil {
		t.Fatal(err)
	}
	seen("d", "a", "c", "b", "a")
	known("a", "b", "c", "d")
	exec(t, pool, `UPDATE group_activity SET seen_at = seen_at - interval '1 hour'`)
	seen("b")
	known("b", "c")
	if n, _, err := db.DeleteCursors(t.Context(), uuid.New(), "c", store.Fence{}, store.CursorScope{Subscriptions: true}, 0, 9); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	known("b")
}
