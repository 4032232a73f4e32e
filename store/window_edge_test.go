package store_test

import (
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// Wherever an id is looked for, the window ends at the same microsecond: what was
// created exactly so long ago is still in it. A time to live is over when it is.
func TestWindowEndsAtTheSameMicrosecondEverywhere(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	clock := storetest.NewClock(t, l.db)
	created := time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	clock.Stop(created)
	s := l.segment(0, 3600, 1, 2, -1)
	s.TTLs = []int64{0, 1500, 0}
	l.append(l.db, s)
	const micro = time.Microsecond
	check := func(where string, of int, age time.Duration, want bool, change func(*store.Segment)) {
		t.Helper()
		clock.Stop(created.Add(age))
		q := l.segment(0, 3600, 1000, of)
		change(&q)
		if r := l.appendUndone(q); (r.Status == store.SegmentDuplicates) != want {
			t.Errorf("%s, id %d, %v old: status %d, %+v; want a duplicate: %v", where, of, age, r.Status, r.Dups, want)
		}
	}
	each := func(where string, change func(*store.Segment)) {
		t.Helper()
		check(where, 1, time.Hour-micro, true, change)
		check(where, 1, time.Hour, true, change)
		check(where, 1, time.Hour+micro, false, change)
		check(where, 2, 1500*time.Millisecond-micro, true, change)
		check(where, 2, 1500*time.Millisecond, false, change)
	}
	each("rows", func(*store.Segment) {})
	each("spans", func(q *store.Segment) {
		q.Verified, q.Suspects = 2, []store.Suspect{{From: 0, To: 2, IDs: []int32{1}}}
	})
	minted := func(q *store.Segment) { q.UIDs = []store.UID{{Index: 1, Hi: s.IDHi, Lo: s.IDLo + 2}} }
	check("a minted id", 77, time.Hour, true, minted)
	check("a minted id", 77, time.Hour+micro, false, minted)
	if did, err := store.BuildRunOf(l.db, t.Context(), l.parts[0], 2, 8, 1); err != nil || !did {
		t.Fatal(did, err)
	}
	each("runs", func(*store.Segment) {})
}

// A clock that is put back makes ids young again that a memory has let go of as too
// old: what it vouches for holds from a time on.
func TestAVoucherHoldsFromItsTimeOn(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 2)
	clock := storetest.NewClock(t, l.db)
	asOf := time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	clock.Stop(asOf.Add(-time.Minute))
	l.append(l.db, l.segment(0, 3600, 1, 2))
	l.append(l.db, l.segment(1, 3600, 1, 2))
	ask := func(part int) store.Segment {
		s := l.segment(part, 3600, 3, 2)
		s.Verified = 1 // which is not so
		s.AsOf = asOf.UnixMicro()
		return s
	}
	believed := func(s store.Segment, want bool) {
		t.Helper()
		if r := l.appendUndone(s); (r.Status == store.SegmentStored) != want {
			t.Errorf("status %d, %+v; want it believed: %v", r.Status, r.Dups, want)
		}
	}
	clock.Stop(asOf)
	believed(ask(0), true)
	clock.Stop(asOf.Add(-time.Microsecond))
	believed(ask(0), false)
	spans := ask(0)
	spans.Suspects = []store.Suspect{{From: 0, To: 0, IDs: []int32{0}}} // and what it suspects is not all
	believed(spans, false)
	// Of several in one call each is looked through.
	always := ask(1)
	always.AsOf = 0
	for i, r := range l.append(l.db, ask(0), always) {
		if r.Status != store.SegmentDuplicates {
			t.Errorf("segment %d of a call for two: status %d", i, r.Status)
		}
	}
	// Of another incarnation neither counts.
	clock.Stop(asOf)
	other := ask(0)
	other.Epoch--
	believed(other, false)
}

// Creation times never fall along a partition, wherever the clock is put.
func TestCreationTimesNeverFall(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 2)
	clock := storetest.NewClock(t, l.db)
	at := time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	for i, step := range []struct{ clock, want time.Duration }{
		{0, 0},
		{-time.Hour, 0},
		{-time.Microsecond, 0},
		{time.Microsecond, time.Microsecond},
	} {
		clock.Stop(at.Add(step.clock))
		if r := l.append(l.db, l.segment(0, 3600, i))[0]; !r.CreatedAt.Equal(at.Add(step.want)) {
			t.Errorf("append %d, the clock at %v: created at %v, want %v", i, at.Add(step.clock), r.CreatedAt, at.Add(step.want))
		}
	}
	clock.Stop(at.Add(-time.Hour)) // another partition has a time of its own
	if r := l.append(l.db, l.segment(1, 3600, 1))[0]; !r.CreatedAt.Equal(at.Add(-time.Hour)) {
		t.Errorf("another partition: created at %v", r.CreatedAt)
	}
}

// The clock is read once the partition's lock is held: a call that waited long does not
// judge by when it came.
func TestWindowsAreJudgedByTheTimeAfterTheLock(t *testing.T) {
	t.Parallel()
	l := newLedger(t, 3600, 1)
	tx, err := l.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	other := openNamed(t, l.db.Config(), nil)
	done := make(chan store.SegmentResult, 1)
	s := l.segment(0, 3600, 1)
	s.Epoch = other.Incarnation().Epoch
	go func() {
		r, err := other.Append(t.Context(), []store.Segment{s}, true)
		if err != nil {
			t.Error(err)
		}
		done <- append(r, store.SegmentResult{})[0]
	}()
	backend(t, l.pool, other, waiting)
	var free time.Time
	if err := tx.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&free); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.CreatedAt.Before(free) {
		t.Errorf("created at %v, the lock was free at %v", r.CreatedAt, free)
	}
}
