package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

func incrOp(key string) store.KVOp { return store.KVOp{Op: "incr", NS: "n", Key: key, Delta: "1"} }

func kvValue(t *testing.T, db *store.DB, key string) (value string) {
	t.Helper()
	if err := db.KVRead(t.Context(), []store.KVKey{{NS: "n", Key: key}}, nil, 0, func(r store.KVRow) { value = r.Value }); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestKVCallRepeatedTakesEffectOnce repeats a call whose first attempt committed
// without its caller knowing, and one whose first attempt is still under way.
func TestKVCallRepeatedTakesEffectOnce(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	id := uuid.New()
	first, err := db.KV(t.Context(), id, false, []store.KVOp{incrOp("a")})
	if err != nil || !first.Results[0].Applied {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := db.KV(t.Context(), uuid.New(), false, []store.KVOp{incrOp("a")}); err != nil {
		t.Fatal(err)
	}
	again, err := db.KV(t.Context(), id, true, []store.KVOp{incrOp("a")})
	if err != nil || again.Results[0].Version != first.Results[0].Version || *again.Results[0].Value != "1" {
		t.Errorf("repeated: %+v, %v; want the first answer, %+v", again, err, first)
	}
	if v := kvValue(t, db, "a"); v != "2" {
		t.Errorf("the sum is %s, want 2", v)
	}
}

// TestKVLateAttemptDoesNotUndoAVerdict: after a repeat was told that nothing
// applied, the first attempt arrives when it would apply.
func TestKVLateAttemptDoesNotUndoAVerdict(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	put := store.KVOp{Op: "put", NS: "n", Key: "a", Value: "1", Expect: new(int64), Required: true}
	if _, err := db.KV(t.Context(), uuid.New(), false, []store.KVOp{put}); err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	for name, required := range map[string]bool{"required": true, "as an outcome": false} {
		put.Required = required
		id[0]++
		got, err := db.KV(t.Context(), id, true, []store.KVOp{put})
		if err != nil || got.Results[0].Applied || (got.Lost != nil) != required {
			t.Fatalf("%s: %+v, %v; want exists", name, got, err)
		}
	}
	if _, err := db.KV(t.Context(), uuid.New(), false, []store.KVOp{{Op: "delete", NS: "n", Key: "a"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := db.KV(t.Context(), id, false, []store.KVOp{put}); err != nil || got.Results[0].Applied {
			t.Errorf("the late attempt: %+v, %v; want what was reported", got, err)
		}
		id[0]--
	}
	if v := kvValue(t, db, "a"); v != "" {
		t.Errorf("the key is %s, want it gone", v)
	}
}

// What is not wanted any more does not come: a call of many pages of large values
// would read gigabytes for an answer of some megabytes.
func TestKVPagesComeWithSoManyBytesOfValues(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	var ops []store.KVOp
	for _, key := range []string{"a1", "a2", "a3", "b1", "b2"} {
		ops = append(ops, store.KVOp{Op: "put", NS: "n", Key: key, Value: `"` + strings.Repeat("x", 1000) + `"`})
	}
	if _, err := db.KV(t.Context(), uuid.New(), false, ops); err != nil {
		t.Fatal(err)
	}
	pages := []store.KVPage{
		{NS: "n", Prefix: "a", Rows: 9, Values: true}, {NS: "n", Prefix: "a", Rows: 9}, {NS: "n", Prefix: "b", Rows: 9, Values: true},
	}
	got := ""
	if err := db.KVRead(t.Context(), nil, pages, 2500, func(r store.KVRow) {
		got += fmt.Sprintf(" %d:%s:%d", r.Place, r.Key, len(r.Value))
	}); err != nil {
		t.Fatal(err)
	}
	if want := " 0:a1:1002 0:a2:1002 0:a3:0 1:a1:0 1:a2:0 1:a3:0 2:b1:1002 2:b2:0"; got != want {
		t.Errorf("read%s, want%s", got, want)
	}
}

// TestKVAttemptsOfOneCallGoOneAfterTheOther has both under way at once.
func TestKVAttemptsOfOneCallGoOneAfterTheOther(t *testing.T) {
	t.Parallel()
	db := openNamed(t, storetest.Config(t), nil)
	pool := storetest.Pool(t, db)
	if _, err := db.KV(t.Context(), uuid.New(), false, []store.KVOp{incrOp("a")}); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM kv FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	lost, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := db.KV(lost, id, false, []store.KVOp{incrOp("a")})
		first <- err
	}()
	backend(t, pool, db, waiting)
	second := make(chan error, 1)
	var again store.KVAnswer
	go func() {
		var err error
		again, err = db.KV(t.Context(), id, true, []store.KVOp{incrOp("a")})
		second <- err
	}()
	backend(t, pool, db, "wait_event = 'advisory'")
	giveUp()
	if err := <-first; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("first attempt: %v, want ErrOutcomeUnknown", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil || *again.Results[0].Value != "2" {
		t.Errorf("second attempt: %+v, %v", again, err)
	}
	if v := kvValue(t, db, "a"); v != "2" {
		t.Errorf("the sum is %s, want 2", v)
	}
}
