package store_test

import (
	"sync"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// race sends the same ids through two databases at once, rounds times, and
// counts ids that were stored more than once.
func (l *ledger) race(rounds int) (repeated int) {
	l.t.Helper()
	dbs := []*store.DB{l.db, storetest.Open(l.t, l.db)}
	for r := range rounds {
		var wg sync.WaitGroup
		start := make(chan struct{})
		for w := range 8 {
			wg.Go(func() {
				<-start
				for i := range 6 {
					s := l.segment(0, 3600, 1000*r+i)
					if _, err := dbs[w%2].Append(l.t.Context(), []store.Segment{s}, true); err != nil {
						l.t.Error(err)
					}
				}
			})
		}
		close(start)
		wg.Wait()
	}
	l.scan(`SELECT count(*) - count(DISTINCT h) FROM log_txns, unnest(hashes) h`, nil, &repeated)
	return repeated
}

func TestAppendConcurrentIDsAreStoredOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	if n := l.race(20); n != 0 {
		t.Fatalf("%d ids were stored more than once", n)
	}
	var rows, end int64
	l.scan(`SELECT count(*), max(end_offset) FROM log_segments`, nil, &rows, &end)
	if rows != 120 || end != 119 {
		t.Fatalf("%d segments up to offset %d, want 120 up to 119", rows, end)
	}
}

// TestAppendRaceCatchesAProbeInTheLockingStatement plants the mistake the
// function is built around: a probe in the statement that takes the lock sees
// a snapshot from before it waited.
func TestAppendRaceCatchesAProbeInTheLockingStatement(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	l.mutate("append_1", [][2]string{
		{"ORDER BY p.id FOR NO KEY UPDATE);", "ORDER BY p.id);"},
		{"FROM probe_1(v_pid, v_from,", "FROM (SELECT p.id FROM log_partitions p WHERE p.id = v_pid FOR NO KEY UPDATE) held CROSS JOIN LATERAL probe_1(held.id, v_from,"},
		{"IF v_spans OR v_probe THEN", "IF true THEN"},
		{"WHERE v_probe\n", "WHERE true\n"},
		// The rest of the function is left as right as it can be.
		{"            -- 5 Write.\n", `
			SELECT t.end_offset + 1, t.created_at INTO next_offset, v_newest FROM log_txns t
			 WHERE t.partition_id = v_pid ORDER BY t.end_offset DESC LIMIT 1;
			next_offset := COALESCE(next_offset, 0);
			v_newest := COALESCE(v_newest, '-infinity');
			v_at := next_offset + p_parts[s];
`},
	})
	for _, inner := range []string{"probe_1", "rows_probe_1", "runs_probe_1"} { // one snapshot for all of it
		l.mutate(inner, [][2]string{{"LANGUAGE plpgsql VOLATILE", "LANGUAGE plpgsql STABLE"}})
	}
	for range 30 {
		if l.race(3) > 0 {
			return
		}
	}
	t.Fatal("the mutant stored no id twice: this race has no teeth")
}

func TestAppendBundlesInAnyOverlapDoNotDeadlock(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 6)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 15 {
				var segs []store.Segment
				for p := range l.parts {
					if (p+w+i)%3 != 0 {
						segs = append(segs, l.segment(p, 3600, 1000*w+i))
					}
				}
				if _, err := l.db.Append(t.Context(), segs, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var stored int
	l.scan(`SELECT count(*) FROM log_segments`, nil, &stored)
	if stored != 6*15*4 {
		t.Fatalf("%d segments, want %d", stored, 6*15*4)
	}
}
