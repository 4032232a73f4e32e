package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store/storetest"
)

// TestCallTakesEffectOnce sends a call again while its first attempt is under
// way, and after: both are answered like the first.
func TestCallTakesEffectOnce(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t, storetest.New(t))
	exec(t, pool, `
		CREATE TABLE effects (n integer);
		CREATE FUNCTION act(p_call uuid, p_answer jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
		DECLARE v jsonb := call_begin_1(p_call);
		BEGIN
			IF v IS NULL THEN
				INSERT INTO effects VALUES (1);
				PERFORM call_end_1(p_call, p_answer);
				v := p_answer;
			END IF;
			RETURN v;
		END $$`)
	call := uuid.Must(uuid.NewV7())
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // committed, if all is well
	if _, err := tx.Exec(t.Context(), `SELECT act($1, '"first"')`, call); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		var answer string
		if err := pool.QueryRow(context.WithoutCancel(t.Context()), `SELECT act($1, '"repeat"')`, call).Scan(&answer); err != nil {
			t.Error(err)
		}
		got <- answer
	}()
	// The repeat has reached the lock that its first attempt holds.
	for deadline := time.Now().Add(time.Minute); ; {
		if query[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the repeat does not wait for its first attempt")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := <-got; answer != `"first"` {
		t.Errorf("the repeat was answered %s", answer)
	}
	if answer := query[string](t, pool, `SELECT act($1, '"later"')`, call); answer != `"first"` {
		t.Errorf("a later repeat was answered %s", answer)
	}
	if answer := query[string](t, pool, `SELECT act($1, '"other"')`, uuid.Must(uuid.NewV7())); answer != `"other"` {
		t.Errorf("another call was answered %s", answer)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM effects`); n != 2 {
		t.Errorf("%d effects of two calls", n)
	}
}

func TestPurgeCallsKeepsTheYoung(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	exec(t, pool, `INSERT INTO calls SELECT gen_random_uuid(), clock_timestamp() - n * interval '100 s', '0' FROM generate_series(0, 20) n`)
	var after time.Time
	total := 0
	for {
		n, upto, err := db.PurgeCalls(t.Context(), after, 950, 4)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		if n > 4 || !upto.After(after) {
			t.Fatalf("a step of %d rows from %v to %v", n, after, upto)
		}
		total, after = total+n, upto
	}
	if left := query[int](t, pool, `SELECT count(*) FROM calls WHERE called_at > clock_timestamp() - interval '950 s'`); left != 10 || total != 11 {
		t.Errorf("%d went, %d of the last 950 s are left; want 11 and 10", total, left)
	}
}
