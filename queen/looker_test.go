package queen

import (
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// Pops that find nothing at the same time ask the database once: a look is over
// all partitions of a queue.
func TestPopsThatComeTogetherShareALook(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	createTopic(t, e, "t", 1)
	s, err := e.hotlist.enter(popKey{queue: "t", group: "g"}, store.Subscription{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.hotlist.leave(s)
	looked := func() time.Time {
		e.hotlist.mu.Lock()
		defer e.hotlist.mu.Unlock()
		return s.lookedAt
	}
	came := time.Now()
	if err := e.lookShared(t.Context(), s, came); err != nil {
		t.Fatal(err)
	}
	first := looked()
	if !first.After(came) {
		t.Fatalf("looked at %v, want a look after %v", first, came)
	}
	if err := e.lookShared(t.Context(), s, came); err != nil || looked() != first {
		t.Errorf("looked again (%v), though a look began after the pop came", err)
	}
	if err := e.lookShared(t.Context(), s, time.Now()); err != nil || !looked().After(first) {
		t.Errorf("not looked again (%v) for a pop that came after the look began", err)
	}
}

// A look over many partitions takes long; the next for parked pops waits longer.
func TestLooksForParkedPopsHaveAShare(t *testing.T) {
	t.Parallel()
	h := newHotlist()
	s, err := h.enter(popKey{queue: "t", group: "g"}, store.Subscription{})
	if err != nil {
		t.Fatal(err)
	}
	if !h.park(s, &popWaiter{wake: make(chan struct{}, 1)}) {
		t.Fatal("something is hot")
	}
	now := time.Now()
	f := func(took, since time.Duration, changes int64, want int) {
		t.Helper()
		s.lookedAt, s.lookTook = now.Add(-since), took
		if n := len(h.tick(now, popLookAlone, changes)); n != want {
			t.Errorf("%v after a look of %v, catalog version %d: %d sets are due, want %d", since, took, changes, n, want)
		}
	}
	const ms = time.Millisecond
	f(ms, popLookAlone, 0, 1)
	f(ms, popLookAlone-ms, 0, 0)
	f(ms, lookShare*ms, 1, 1) // the catalog changed
	f(ms, (lookShare-1)*ms, 1, 0)
	f(time.Second, popLookAlone, 0, 0)
	f(time.Second, lookShare*time.Second, 0, 1)
	if s.lookTook = time.Second; !h.fresh(s, popLookAlone) {
		t.Error("what was looked at one pause ago is not fresh: each pop would look itself")
	}
}
