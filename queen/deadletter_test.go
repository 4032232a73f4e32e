package queen

import (
	"errors"
	"fmt"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// bury pushes messages and has a group give up on all of them.
func bury(t *testing.T, e *Engine, queue, group string, n int) {
	t.Helper()
	for i := range n {
		pushOne(t, e, queue, fmt.Sprint("id-", i))
	}
	p := popBatch(t, e, PopRequest{Queue: queue, Group: group, Batch: n})
	if len(p.Messages) != n {
		t.Fatalf("%d messages", len(p.Messages))
	}
	ackAll(t, e, p, AckDead)
}

// TestDeadLettersOutliveRetentionAndAreReplayedOnce also where no ids are looked
// for: the first attempt's answer was lost, the second one does it again.
func TestDeadLettersOutliveRetentionAndAreReplayedOnce(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	window := 0
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{DedupWindowSeconds: &window}); err != nil {
		t.Fatal(err)
	}
	bury(t, e, "q", "g", 3)
	partition := query[int64](t, db, `SELECT id FROM log_partitions`)
	if _, err := db.RaiseLogStart(t.Context(), partition, 3); err != nil {
		t.Fatal(err)
	}
	if n, _, err := db.PurgeSegments(t.Context(), partition, 10, 1<<20); err != nil || n == 0 {
		t.Fatalf("%d segments purged, %v", n, err)
	}
	g := "g"
	letters, total, err := e.DeadLetters(t.Context(), DeadQuery{Queue: "q", Group: &g, Limit: 2})
	if err != nil || total != 3 || len(letters) != 2 || string(letters[0].Message.TransactionID) != "id-0" || letters[0].Message.Value == nil {
		t.Fatalf("%d of %d: %+v, %v", len(letters), total, letters, err)
	}
	for range 2 { // each was read before the other replayed it
		for _, l := range letters {
			if got, err := e.replay(t.Context(), l); err != nil {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	}
	if got := fetchFrom(t, e, "q", DefaultPartition, 3); len(got) != 2 || string(got[0].TransactionID) == "id-0" || string(got[1].Value) != string(letters[1].Message.Value) {
		t.Fatalf("%d messages are there after two replays of two: %+v", len(got), got)
	}
	again, err := e.ReplayDeadLetters(t.Context(), DeadQuery{Queue: "q", IDs: []int64{letters[0].ID, letters[1].ID}})
	if err != nil || len(again) != 0 {
		t.Errorf("replayed once more: %+v, %v", again, err)
	}
	t.Run("the rest is purged, with its segments", func(t *testing.T) {
		if n, err := e.PurgeDeadLetters(t.Context(), DeadQuery{Queue: "q", TransactionID: []byte("id-2")}); err != nil || n != 1 {
			t.Errorf("%d purged, %v", n, err)
		}
		if n := query[int](t, db, `SELECT (SELECT count(*) FROM dead_segments) + (SELECT count(*) FROM dead_letters)`); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// TestFindMessage in the log, and of what is a dead letter only.
func TestFindMessage(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	bury(t, e, "q", "", 2)
	partition := query[int64](t, db, `SELECT id FROM log_partitions`)
	find := func(id string) (string, *DeadLetter, error) {
		queue, m, dead, err := e.FindMessage(t.Context(), partition, []byte(id))
		return queue + ":" + string(m.TransactionID), dead, err
	}
	if got, dead, err := find("id-1"); err != nil || got != "q:id-1" || dead != nil {
		t.Errorf("%s, %+v, %v", got, dead, err)
	}
	if _, err := db.RaiseLogStart(t.Context(), partition, 2); err != nil {
		t.Fatal(err)
	}
	if got, dead, err := find("id-1"); err != nil || got != "q:id-1" || dead == nil || dead.Group != "" {
		t.Errorf("below the log start: %s, %+v, %v", got, dead, err)
	}
	if _, _, err := find("id-9"); !errors.Is(err, ErrUnresolvable) {
		t.Errorf("unknown: %v", err)
	}
	if _, _, _, err := e.FindMessage(t.Context(), partition+100, []byte("id-1")); !errors.Is(err, ErrUnresolvable) {
		t.Errorf("no such partition: %v", err)
	}
}

// query is one value of the database.
func query[T any](t *testing.T, db *store.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := storetest.Pool(t, db).QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
