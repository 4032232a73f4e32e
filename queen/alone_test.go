package queen

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// However many partitions have calls that take long, others have theirs.
func TestWhatTakesLongLeavesRoom(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	const long = 5
	e, push := openProbing(t, db, long)
	release := holdLong(t, db)
	done := make(chan error, long)
	for p := range long {
		go func() { done <- push(fmt.Sprint("long", p), "new") }()
	}
	e.untilBlocked(t)
	appendBatch(t, e, at("short", 0), kafkaBatch(t, 1))
	select {
	case err := <-done:
		t.Errorf("a push was answered while its partition's row was held: %v", err)
	default:
	}
	release()
	for range long {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// openProbing opens an engine of two flushers for which a span of more than one offset
// is large, and makes partitions long0, long1, … of such a span, and a topic named short.
func openProbing(t *testing.T, db *store.DB, long int) (*Engine, func(partition, id string) error) {
	t.Helper()
	e := openEngine(t, db, func(c *Config) {
		c.Flushers, c.DedupCacheOff, c.ProbeAloneOffsets = 2, true, 1
	})
	push := func(partition, id string) error {
		return e.Push(t.Context(), []Message{{Queue: "q", Partition: partition, ID: []byte(id), Value: []byte("x")}})[0].Err
	}
	for p := range long {
		for id := range 3 {
			if err := push(fmt.Sprint("long", p), fmt.Sprint(id)); err != nil {
				t.Fatal(err)
			}
		}
	}
	createTopic(t, e, "short", 1)
	return e, push
}

// holdLong holds the rows of the long partitions until what it returns is called, or the test ends.
func holdLong(t *testing.T, db *store.DB) (release func()) {
	t.Helper()
	tx, err := storetest.Pool(t, db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions WHERE name LIKE 'long%' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A partition that was looked through while others had work waits with its next call.
func TestAProbeIsFollowedByRest(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	e, push := openProbing(t, db, 1)
	release := holdLong(t, db)
	done := make(chan error, 1)
	go func() { done <- push("long0", "new") }()
	e.untilBlocked(t)
	for began := time.Now(); time.Since(began) < restMax; { // its call takes longer than that
		appendBatch(t, e, at("short", 0), kafkaBatch(t, 1))
	}
	began := time.Now()
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := push("long0", "newer"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < restMax {
		t.Errorf("the next push was stored after %v", took)
	}
}

// Who waits for a place no longer than its deadline allows is told that nothing was stored,
// or, where an attempt may have been, that this is unknown.
func TestWhatGoesAloneWaitsUntilItsDeadline(t *testing.T) {
	t.Parallel()
	for unknown, want := range map[bool]error{false: ErrUnavailable, true: ErrOutcomeUnknown} {
		synctest.Test(t, func(t *testing.T) {
			w := &writer{cfg: Config{}.withDefaults(), alone: make(chan struct{}), wake: make(chan struct{}, 1)}
			w.budget = newBudget(1 << 20)
			pending := &Pending{done: make(chan struct{})}
			f := &flight{
				p: &partition{busy: true}, unknown: unknown,
				seg: &openSegment{deadline: time.Now().Add(10 * time.Second), entries: []*entry{{batch: []byte("b"), pending: pending}}},
			}
			w.open.Store(1)
			began := time.Now()
			w.flushAlone(t.Context(), f)
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("it waited for %v", took)
			}
			if _, err := pending.Result(t.Context()); !errors.Is(err, want) {
				t.Errorf("unknown %v: %v, want %v", unknown, err, want)
			}
			if f.p.busy || w.open.Load() != 0 {
				t.Errorf("the partition is busy: %v; %d segments are open", f.p.busy, w.open.Load())
			}
		})
	}
}

// A partition that was looked through gives way to others as long as that took.
func TestAPartitionLookedThroughGivesWay(t *testing.T) {
	t.Parallel()
	var w writer
	for _, c := range []struct {
		probes, busy, closing bool
		took, want            time.Duration
	}{
		{probes: true, busy: true, took: 30 * time.Millisecond, want: 30 * time.Millisecond},
		{probes: true, busy: true, took: time.Minute, want: 250 * time.Millisecond},
		{probes: true, took: 30 * time.Millisecond},
		{busy: true, took: 30 * time.Millisecond},
		{probes: true, busy: true, closing: true, took: 30 * time.Millisecond},
	} {
		w.closing.Store(c.closing)
		if got := w.rest(&flight{probes: c.probes}, c.took, c.busy); got != c.want {
			t.Errorf("%+v: it rests for %v", c, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := &writer{wake: make(chan struct{}, 1)}
		w.open.Store(2)
		p := &partition{busy: true, pending: []*openSegment{{}}}
		began := time.Now()
		w.finish(&flight{p: p, rest: 30 * time.Millisecond})
		if got := w.open.Load(); got != 1 {
			t.Errorf("%d segments are open, want the next only", got)
		}
		<-w.wake
		if got := time.Since(began); got != 30*time.Millisecond {
			t.Errorf("its next segment goes after %v", got)
		}
		if len(w.ready) != 1 || w.ready[0] != p || !p.busy {
			t.Errorf("ready: %v, busy: %v", w.ready, p.busy)
		}
	})
}
