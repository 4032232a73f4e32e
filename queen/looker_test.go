package queen

import (
	"context"
	"slices"
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
	e.hotlist.mu.Lock()
	s.sole = store.Registrations{} // as if another broker were there
	e.hotlist.mu.Unlock()
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

// A broker that is alone knows what was written since it looked, so a pop that finds
// nothing asks the database only whether it was alone, and what another broker
// left is found.
func TestAPopOfTheOnlyBrokerLooksNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pop := func() int {
		t.Helper()
		got, err := e.Pop(t.Context(), PopRequest{Queue: "q", Group: "g", Batch: 10, Partitions: 10, AutoAck: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range got {
			n += len(p.Messages)
		}
		return n
	}
	looked := func() time.Time {
		e.hotlist.mu.Lock()
		defer e.hotlist.mu.Unlock()
		return e.hotlist.sets[popKey{queue: "q", group: "g"}].lookedAt
	}
	pushOne(t, e, "q", "1")
	if pop() != 1 || pop() != 0 {
		t.Fatal("want one message, and then none")
	}
	known := false
	for try := 0; try < 20 && !known; try++ { // a look holds for five seconds
		was := looked()
		if pop() != 0 {
			t.Fatal("want no more messages")
		}
		known = looked() == was
	}
	if !known {
		t.Error("each time a look over all partitions by who has looked and was alone since")
	}
	pushOne(t, e, "q", "2")
	if pop() != 1 {
		t.Error("what was pushed here is not popped")
	}

	// Another broker comes, writes and goes, before this one hears of it.
	other := openEngine(t, storetest.OpenConfig(t, db.Config()))
	pushOne(t, other, "q", "3")
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pop() != 1 {
		t.Error("what another broker left is not popped at once")
	}
}

// What is written while a lease ends is not lost sight of: whoever ended it looked
// at the end of the log before.
func TestNewsDuringALeaseAreNotForgotten(t *testing.T) {
	t.Parallel()
	h := newHotlist()
	s, err := h.enter(popKey{queue: "t", group: "g"}, store.Subscription{})
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{}
	q.desc.Store(&Queue{Name: "t"})
	p := &partition{id: 1, queue: q}
	for _, wrote := range []bool{false, true} {
		h.leased(s, p, time.Minute)
		if wrote {
			h.wrote(p)
		}
		h.ended("g", 1, false, 0)
		if got := len(h.take(s, 1)) == 1; got != wrote {
			t.Errorf("written to during the lease %v: on the hotlist after it %v", wrote, got)
		}
	}
}

// What comes due is met without looking at all that is kept back: a queue with a
// delay keeps every partition that is written to.
func TestOnlyWhatIsDueRipens(t *testing.T) {
	t.Parallel()
	h := newHotlist()
	s, err := h.enter(popKey{queue: "t", group: "g"}, store.Subscription{})
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{}
	q.desc.Store(&Queue{Name: "t"})
	parts := make([]*partition, 1000)
	for i := range parts {
		parts[i] = &partition{id: int64(i), queue: q}
		h.leased(s, parts[i], time.Hour+time.Duration(i)*time.Minute)
	}
	begun := time.Now()
	h.leased(s, parts[7], 2*time.Minute) // kept anew, for a shorter time
	h.ended("g", 3, false, 0)            // given back
	ripe := func(after time.Duration, looks int, want ...int64) {
		t.Helper()
		h.mu.Lock()
		looked := h.ripen(begun.Add(after))
		h.mu.Unlock()
		var got []int64
		for _, p := range h.take(s, 10) {
			got = append(got, p.id)
		}
		if !slices.Equal(got, want) || looked != looks {
			t.Errorf("%v later %v are hot after %d looks, want %v after %d", after, got, looked, want, looks)
		}
	}
	ripe(time.Minute, 0)
	ripe(3*time.Minute, 1, 7)
	ripe(time.Hour+2*time.Minute+time.Second, 3, 0, 1, 2)
	ripe(time.Hour+4*time.Minute+time.Second, 2, 4)
	for range 5000 { // leases that come and go leave nothing behind
		h.leased(s, parts[0], time.Hour)
		h.ended("g", 0, false, 0)
	}
	if n, kept := len(h.ends), len(s.kept); n > 2*kept+keptEndsMin || h.keeping != kept {
		t.Errorf("%d ends are remembered of %d partitions, %d as counted", n, kept, h.keeping)
	}
	h.mu.Lock()
	h.drop(s)
	h.mu.Unlock()
	if h.keeping != 0 {
		t.Errorf("%d partitions are kept back of no set", h.keeping)
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
		if n := len(h.due(now, popLookAlone, changes)); n != want {
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
	s.sole = store.Registrations{Count: 1} // nobody else makes anything to claim
	f(time.Second, lookShare*time.Second, 0, 0)
	f(time.Second, lookAlone*time.Second, 0, 1)
	s.sole, s.partial = store.Registrations{}, true // the look found more than it took
	f(ms, lookShare*ms, 0, 1)
	s.partial = false
	for n, want := range map[int]time.Duration{1: 5040 * time.Microsecond, 100_000: time.Second} { // of waiting no look gets seldom
		if got := workOf(time.Second, n); got != want {
			t.Errorf("a look of a second at %d partitions counts as %v, want %v", n, got, want)
		}
	}
	if got := workOf(ms, 1); got != ms {
		t.Errorf("a look of 1ms counts as %v", got)
	}
	if s.lookTook = time.Hour; !h.fresh(s, popLookAlone) {
		t.Error("what was looked at one pause ago is not fresh: each pop would look itself")
	}
}

// A look is over so many partitions at once: more are more statements, and more sets
// more looks, those first that waited longest. One statement over all takes too
// long where they are many, and then nobody is ever told of anything.
func TestALookIsOverSoManyPartitionsAtOnce(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	e.hotlist.lookPartitionsMax = 3
	labels := "many"
	for _, name := range []string{"a", "b", "c"} {
		if _, err := e.Configure(t.Context(), name, OptionsPatch{Namespace: &labels}); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"0", "1"} {
			if got := e.Push(t.Context(), []Message{{Queue: name, Partition: part, Value: []byte("1")}})[0]; got.Err != nil {
				t.Fatal(got.Err)
			}
		}
	}
	enter := func(group string) *popSet {
		t.Helper()
		s, err := e.hotlist.enter(popKey{namespace: labels, group: group}, store.Subscription{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.hotlist.leave(s) })
		return s
	}
	first, second := enter("g"), enter("h")
	if err := e.lookFor(t.Context(), []*popSet{first}); err != nil {
		t.Fatal(err)
	}
	if got := len(e.hotlist.take(first, 10)); got != 6 {
		t.Errorf("%d partitions are hot, want all 6", got)
	}
	l := look{e: e}
	for i, q := range e.hotlist.chosen(first) {
		if err := l.take(t.Context(), first, q); err != nil || len(l.pairs) != 1 || l.partitions != 2 {
			t.Errorf("%d queues of 2 partitions: %d are in one statement, want 1; %v", i+1, len(l.pairs), err)
		}
	}
	sets := func(due ...*popSet) []*popSet { return e.hotlist.batch(due) }
	if got := sets(first, second); !slices.Equal(got, []*popSet{second}) {
		t.Errorf("%d sets are looked at, want the one that never was", len(got))
	}
	second.lookedAt = first.lookedAt.Add(time.Nanosecond)
	if got := sets(second, first); !slices.Equal(got, []*popSet{first}) {
		t.Errorf("%d sets are looked at, want the one that waited longest", len(got))
	}
	e.hotlist.lookPartitionsMax = 6
	if got := sets(second, first); !slices.Equal(got, []*popSet{first, second}) {
		t.Errorf("%d sets are looked at, want both: they are not many", len(got))
	}
}

// TestALookThatWaitedMakesTheNextNoLater: what a look waits for is no work, of which looks
// have a share.
func TestALookThatWaitedMakesTheNextNoLater(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	e := openEngine(t, db)
	pushOne(t, e, "q", "a")
	pool := storetest.Pool(t, db)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE cursors IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	popped := make(chan error, 1)
	go func() {
		_, err := e.Pop(t.Context(), PopRequest{Queue: "q", Lease: time.Hour})
		popped <- err
	}()
	for waited := false; !waited; {
		if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE application_name = 'queen/' || $1 AND query LIKE '-- What the groups%' AND wait_event_type = 'Lock'
			  AND clock_timestamp() - query_start > interval '200 ms')`, db.Config().Application).Scan(&waited); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-popped; err != nil {
		t.Fatal(err)
	}
	e.hotlist.mu.Lock()
	defer e.hotlist.mu.Unlock()
	for _, s := range e.hotlist.sets {
		if got := s.lookEvery(popLookAlone); got != popLookAlone {
			t.Errorf("the next look comes after %v, want %v", got, popLookAlone)
		}
	}
}
