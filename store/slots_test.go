package store_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// registered is a broker that is alive.
func registered(t *testing.T, db *store.DB) uuid.UUID {
	t.Helper()
	b := broker()
	if _, err := db.Register(t.Context(), b, store.AnyBrokerID, uuid.UUID{}); err != nil {
		t.Fatal(err)
	}
	return b.Instance
}

func slot(t *testing.T, db *store.DB, n int) store.SlotRow {
	t.Helper()
	slots, err := db.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slots[n]
}

// A slot changes hands only when its owner gives it or is dead, and then its
// epoch rises.
func TestSlotsAreTakenFromTheDeadOnly(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	a, b := registered(t, db), registered(t, db)
	assign := func(self uuid.UUID, moved int, owners map[int]uuid.UUID) {
		t.Helper()
		if got, err := db.AssignSlots(t.Context(), self, owners); err != nil || got != moved {
			t.Fatalf("AssignSlots = %d, %v; want %d", got, err, moved)
		}
	}
	want := func(n int, owner uuid.UUID, epoch int64) {
		t.Helper()
		if got := slot(t, db, n); got.Owner != owner || got.Epoch != epoch {
			t.Fatalf("slot %d is %+v, want %v in epoch %d", n, got, owner, epoch)
		}
	}
	want(3, uuid.Nil, 0)
	assign(a, 2, map[int]uuid.UUID{3: a, 4: a})
	want(3, a, 1)
	assign(a, 0, map[int]uuid.UUID{3: a}) // its own already
	want(3, a, 1)
	assign(b, 1, map[int]uuid.UUID{3: b, 5: b}) // 3 belongs to the living
	want(3, a, 1)
	want(5, b, 1)
	assign(a, 1, map[int]uuid.UUID{3: b}) // given
	want(3, b, 2)
	exec(t, pool, `UPDATE brokers SET heartbeat_at = heartbeat_at - interval '5 seconds' WHERE instance = $1`, a)
	assign(b, 1, map[int]uuid.UUID{3: b, 4: b})
	want(4, b, 2)
	exec(t, pool, `DELETE FROM brokers WHERE instance = $1`, b)
	assign(a, 2, map[int]uuid.UUID{4: a, 5: uuid.Nil})
	want(4, a, 3)
	want(5, uuid.Nil, 2)
}

// What a coordinator writes after another has taken its slot is refused, whichever
// of them locked the slot first.
func TestWhatIsWrittenUnderAnOldEpochIsRefused(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	a := registered(t, db)
	if _, err := db.AssignSlots(t.Context(), a, map[int]uuid.UUID{7: a}); err != nil {
		t.Fatal(err)
	}
	commit := func(offset int64, epoch int64) error {
		_, err := db.CommitCursors(t.Context(), "g", store.Fence{Slot: 7, Epoch: epoch}, []store.CursorRow{{Partition: p[0], Offset: offset}}, true)
		return err
	}
	stored := func(offset int64) {
		t.Helper()
		rows, err := db.Cursors(t.Context(), "g", nil)
		if err != nil || len(rows) != 1 || rows[0].Committed != offset {
			t.Fatalf("stored is %+v, %v; want %d to be committed", rows, err, offset)
		}
	}
	if err := commit(1, 1); err != nil {
		t.Fatal(err)
	}
	stored(1)

	// The slot changes hands while the commit waits for it.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `UPDATE group_slots SET epoch = 2 WHERE slot = 7`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- commit(2, 1) }()
	for query[int](t, pool, `SELECT count(*)::integer FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, tx.Conn().PgConn().PID()) == 0 {
		if len(done) > 0 {
			t.Fatal("a commit did not wait for the slot")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrFenced) {
		t.Fatalf("a commit that waited: %v, want ErrFenced", err)
	}
	if err := commit(3, 1); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("a late commit: %v, want ErrFenced", err)
	}
	if n, _, err := db.DeleteCursors(t.Context(), uuid.New(), "g", store.Fence{Slot: 7, Epoch: 1}, store.CursorScope{Subscriptions: true}, 0, 9); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("a late deletion: %d, %v; want ErrFenced", n, err)
	}
	stored(1)
	if err := commit(4, 2); err != nil {
		t.Fatal(err)
	}
	stored(4)
	if n, _, err := db.DeleteCursors(t.Context(), uuid.New(), "g", store.Fence{Slot: 7, Epoch: 2}, store.CursorScope{Subscriptions: true}, 0, 9); err != nil || n != 1 {
		t.Fatalf("deleted %d, %v", n, err)
	}
}

// Whoever takes a slot waits for commits under way: afterwards there are none.
func TestATakeoverWaitsForCommitsUnderWay(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	a := registered(t, db)
	if _, err := db.AssignSlots(t.Context(), a, map[int]uuid.UUID{7: a}); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT cursors_commit_1('g', 7, 1, 1, $1, '{5}', '{-1}', '{""}', true)`, p); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := db.AssignSlots(t.Context(), a, map[int]uuid.UUID{7: uuid.New()})
		done <- err
	}()
	for query[int](t, pool, `SELECT count(*)::integer FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, tx.Conn().PgConn().PID()) == 0 {
		if len(done) > 0 {
			t.Fatal("the slot changed hands beside a commit")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || slot(t, db, 7).Epoch != 2 {
		t.Fatalf("%v, slot %+v", err, slot(t, db, 7))
	}
}

// Of two writes under one epoch the one that was begun later counts, whichever arrives
// first; the first of the next owner counts after all of them.
func TestWritesUnderASlotCountAsTheyWereBegun(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 2)
	exec(t, pool, `UPDATE group_slots SET epoch = 1`)
	f := func(what string, epoch, serial int64, kafka bool, partition int, offset, want int64) {
		t.Helper()
		gone, err := db.CommitCursors(t.Context(), "g", store.Fence{Slot: 7, Epoch: epoch, Serial: serial}, []store.CursorRow{{Partition: p[partition], Offset: offset}}, kafka)
		if err != nil || gone[0] {
			t.Fatalf("%s: %v, %v; want it to be told as stored", what, gone, err)
		}
		rows, err := db.Cursors(t.Context(), "g", p[partition:partition+1])
		if err != nil || len(rows) != 1 || rows[0].Committed != want {
			t.Errorf("%s: %+v, %v; want %d to be committed", what, rows, err, want)
		}
	}
	left := func(what string, serial int64, want int) {
		t.Helper()
		_, _, err := db.DeleteCursors(t.Context(), uuid.New(), "g", store.Fence{Slot: 7, Epoch: 2, Serial: serial}, store.CursorScope{Partitions: p}, 0, 9)
		if rows, e := db.Cursors(t.Context(), "g", nil); err != nil || e != nil || len(rows) != want {
			t.Errorf("%s: %d positions are left, %v, %v; want %d", what, len(rows), err, e, want)
		}
	}
	f("the first", 1, 8, true, 0, 5, 5)
	f("a later one, backwards", 1, 9, true, 0, 3, 3)
	f("an earlier one that is late", 1, 7, true, 0, 5, 3)
	f("it, in another partition", 1, 7, true, 1, 5, 5)
	f("moved by hand", 0, 0, false, 0, 4, 4)
	f("the earlier one, once more", 1, 7, true, 0, 5, 4)
	exec(t, pool, `UPDATE group_slots SET epoch = 2`)
	f("the next owner's first", 2, 1, true, 0, 6, 6)
	f("and its second", 2, 2, true, 1, 6, 6)
	left("a deletion begun before the second", 1, 1)
	left("one begun after it", 3, 0)
}
