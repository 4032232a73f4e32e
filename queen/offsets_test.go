package queen

import (
	"errors"
	"testing"

	"queenmq/store/storetest"
)

// TestManyPositionsAreStoredInSteps: no statement is over more than so many, and when
// one is refused each partition is told what became of it.
func TestManyPositionsAreStoredInSteps(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pool := storetest.Pool(t, db)
	const n = 2*commitRowsMax + 10
	createTopic(t, e, "t", n)
	for _, sql := range []string{
		`CREATE TABLE steps (n bigint)`,
		`CREATE FUNCTION step() RETURNS trigger LANGUAGE plpgsql AS $$
		 BEGIN INSERT INTO steps SELECT count(*) FROM stored; RETURN NULL; END $$`,
		`CREATE TRIGGER step AFTER INSERT ON cursors REFERENCING NEW TABLE AS stored FOR EACH STATEMENT EXECUTE FUNCTION step()`,
		// After the second step another broker has taken the group over.
		`CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS $$
		 BEGIN UPDATE group_slots SET epoch = epoch + 1 WHERE (SELECT count(*) FROM steps) = 2; RETURN NULL; END $$`,
		`CREATE TRIGGER taken AFTER INSERT ON cursors FOR EACH STATEMENT EXECUTE FUNCTION taken()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var cs []Cursor
	refs := make([]PartitionRef, n)
	for i := range n { // the highest first: steps go upwards whatever the order
		refs[i] = at("t", int32(i))
		cs = append(cs, Cursor{Partition: at("t", int32(n-1-i)), Offset: -2, Epoch: -1})
	}
	cs[1].Partition.Number = n // is not there
	got, err := e.CommitOffsets(t.Context(), "g", e.Coordinator("g").Fence, cs)
	if err != nil || len(got) != n {
		t.Fatal(len(got), err)
	}
	for i, c := range got {
		var want error
		switch number := n - 1 - i; {
		case i == 1:
			want = ErrUnknownPartition
		case number >= 2*commitRowsMax:
			want = ErrNotCoordinator
		}
		if !errors.Is(c.Err, want) {
			t.Fatalf("partition %d: %v, want %v", n-1-i, c.Err, want)
		}
	}
	stored, err := e.FetchOffsets(t.Context(), "g", refs)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range stored {
		want := int64(-2)
		if i >= 2*commitRowsMax {
			want = -1 // refused
		}
		if c.Offset != want {
			t.Fatalf("partition %d: position %d, want %d", i, c.Offset, want)
		}
	}
	// A group moved by hand takes the same steps.
	if _, err := e.Seek(t.Context(), "h", "t", "", SeekTo{Start: true}); err != nil {
		t.Fatal(err)
	}
	var most, sum int
	if err := pool.QueryRow(t.Context(), `SELECT max(n), sum(n) FROM steps`).Scan(&most, &sum); err != nil || most != commitRowsMax || sum != 2*commitRowsMax+n {
		t.Errorf("at most %d positions in a statement, %d in all, %v; want %d and %d", most, sum, err, commitRowsMax, 2*commitRowsMax+n)
	}
}

// TestManyPositionsAreDeletedInSteps: no statement is over more than so many. A lease
// that is given meanwhile ends it, and it can be said again.
func TestManyPositionsAreDeletedInSteps(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pool := storetest.Pool(t, db)
	const n = 2*commitRowsMax + 10
	createTopic(t, e, "t", n)
	for _, group := range []string{"g", "h"} {
		if _, err := e.Seek(t.Context(), group, "t", "", SeekTo{Start: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		`CREATE TABLE steps (n bigint)`,
		`CREATE FUNCTION step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO steps SELECT count(*) FROM gone;
			UPDATE cursors SET lease_until = now() + interval '1 hour'
			 WHERE group_name = 'g' AND partition_id = (SELECT max(partition_id) FROM cursors) AND (SELECT count(*) FROM steps) = 1;
			RETURN NULL; END $$`,
		`CREATE TRIGGER step AFTER DELETE ON cursors REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION step()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want int) {
		t.Helper()
		has, err := e.HasPositions(t.Context(), "g")
		if got := query[int](t, db, `SELECT count(*)::integer FROM cursors WHERE group_name = 'g'`); err != nil || got != want || has != (want > 0) {
			t.Fatalf("%d positions are left, want %d; any: %v, %v", got, want, has, err)
		}
	}
	left(n)
	if err := e.DeleteGroupFrom(t.Context(), "g", "", true); !errors.Is(err, ErrGroupNotEmpty) {
		t.Errorf("with a lease in the last step: %v, want ErrGroupNotEmpty", err)
	}
	left(10)
	if err := e.DeleteGroupFrom(t.Context(), "g", "", true); !errors.Is(err, ErrGroupNotEmpty) {
		t.Errorf("with a lease: %v, want ErrGroupNotEmpty", err)
	}
	left(10)
	if _, err := pool.Exec(t.Context(), `UPDATE cursors SET lease_until = now()`); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteGroupFrom(t.Context(), "g", "", true); err != nil {
		t.Error(err)
	}
	left(0)
	refs := make([]PartitionRef, n)
	for i := range n { // the highest first
		refs[i] = at("t", int32(n-1-i))
	}
	if _, err := e.DeleteOffsets(t.Context(), "h", e.Coordinator("h").Fence, refs); err != nil {
		t.Error(err)
	}
	var most, sum int
	if err := pool.QueryRow(t.Context(), `SELECT max(n), sum(n) FROM steps`).Scan(&most, &sum); err != nil || most != commitRowsMax || sum != 2*n {
		t.Errorf("at most %d positions in a statement, %d in all, %v; want %d and %d", most, sum, err, commitRowsMax, 2*n)
	}
}

// TestALateCommitDoesNotOvertakeTheNextOne: its client was told that its outcome is not
// known, and has committed something newer, before the database gets it.
func TestALateCommitDoesNotOvertakeTheNextOne(t *testing.T) {
	t.Parallel()
	const group = "group whose commit is late"
	l, db := openLossy(t)
	e := openEngine(t, db)
	createTopic(t, e, "t", 2)
	commit := func(partition int32, offset int64) error {
		t.Helper()
		got, err := e.CommitOffsets(t.Context(), group, e.Coordinator(group).Fence, []Cursor{{Partition: at("t", partition), Offset: offset, Epoch: -1}})
		if err != nil {
			return err
		}
		return got[0].Err
	}
	committed := func(partition int32, want int64) {
		t.Helper()
		if got, err := e.FetchOffsets(t.Context(), group, []PartitionRef{at("t", partition)}); err != nil || got[0].Offset != want {
			t.Errorf("partition %d is committed at %+v, %v; want %d", partition, got, err, want)
		}
	}
	for partition := range int32(2) {
		deliver := l.delay(t, group)
		if err := commit(partition, 5); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("a commit whose connection is lost: %v, want ErrOutcomeUnknown", err)
		}
		want := int64(5) // one that nothing followed counts
		if partition == 0 {
			want = 7
			if err := commit(partition, want); err != nil {
				t.Fatal(err)
			}
			committed(partition, want)
		}
		deliver()
		committed(partition, want)
	}
	if err := commit(0, 3); err != nil { // also backwards
		t.Fatal(err)
	}
	committed(0, 3)
}
