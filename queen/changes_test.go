package queen

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"queenmq/store/storetest"
)

func TestChangedPartitionsMissNoWrite(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	for _, p := range []string{"a", "b", "c"} {
		pushTo(t, e, "q", p, 2)
	}
	ask := func(since time.Time, from, limit int) (safe time.Time, text string, more int) {
		t.Helper()
		safe, got, err := other.Changed(t.Context(), []ChangesQuery{{Queue: "q", Since: since, From: from, Limit: limit}, {Queue: "nope", Limit: 1}, {Queue: "q"}})
		if err != nil || got[0].Err != nil || !errors.Is(got[1].Err, ErrUnknownQueue) || !errors.Is(got[2].Err, ErrInvalidRequest) {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, p := range got[0].Partitions {
			text += fmt.Sprintf(" %s:%d", p.Name, p.LastOffset)
		}
		return safe, text, got[0].More
	}
	f := func(since time.Time, from, limit int, want string, wantMore int) {
		t.Helper()
		_, got, more := ask(since, from, limit)
		if got != want || more != wantMore {
			t.Errorf("changed since %s:%s, more from %d; want%s, %d", since, got, more, want, wantMore)
		}
	}
	// settled is a safe time after all that was written. Other tests' transactions in
	// the same database may hold it back for a while.
	settled := func() time.Time {
		t.Helper()
		for {
			safe, got, err := other.Changed(t.Context(), []ChangesQuery{{Queue: "q", Limit: 10}})
			if err != nil {
				t.Fatal(err)
			}
			behind := false
			for _, p := range got[0].Partitions {
				behind = behind || !safe.After(p.LastWriteAt)
			}
			if !behind {
				return safe
			}
		}
	}
	f(time.Time{}, 0, 2, " a:1 b:1", 2)
	f(time.Time{}, 2, 2, " c:1", 0)
	safe := settled()
	f(safe, 0, 10, "", 0)
	pushTo(t, e, "q", "b", 1)
	f(safe, 0, 10, " b:2", 0)

	// A write that is stamped and not committed holds the safe time back.
	pool := storetest.Pool(t, db)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var stamped time.Time
	if err := tx.QueryRow(t.Context(), `UPDATE log_txns x SET created_at = clock_timestamp()
		FROM log_partitions p WHERE p.id = x.partition_id AND p.name = 'c' AND x.end_offset = 1 RETURNING x.created_at`).Scan(&stamped); err != nil {
		t.Fatal(err)
	}
	safe, _, _ = ask(time.Time{}, 0, 10)
	if !safe.Before(stamped) {
		t.Errorf("safe time %s while a write of %s is not committed", safe, stamped)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, got, _ := ask(safe, 0, 10); !strings.HasSuffix(got, " c:1") {
		t.Errorf("changed since%s, want c too", got)
	}
}
