package queen

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestCatalogCountsWhatItHolds grows queues partition by partition, as pushes to
// new names do, past the bound and away again.
func TestCatalogCountsWhatItHolds(t *testing.T) {
	t.Parallel()
	c := newCatalog(storetest.New(t), 10)
	held := func() (n int) {
		for _, q := range c.byTopic {
			n += q.size()
		}
		return n
	}
	for i := range 8 {
		for _, queue := range []string{"a", "b"} {
			if _, err := c.named(t.Context(), queue, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if c.partitions != held() || held() > 10 {
			t.Fatalf("%d partitions are counted, %d held, 10 allowed", c.partitions, held())
		}
	}
	for _, q := range c.byTopic {
		c.drop(q)
	}
	if c.partitions != 0 {
		t.Errorf("%d partitions are counted, none is held", c.partitions)
	}
}

func TestCatalogKeepsTheNewerRow(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	c := newCatalog(db, 10)
	older, _, err := db.EnsurePartition(t.Context(), "q", "p")
	if err != nil {
		t.Fatal(err)
	}
	size := 2048
	newer, _, _, err := db.Configure(t.Context(), uuid.New(), "q", store.QueuePatch{MaxMessageBytes: &size}, store.ConfigureMerge)
	if err != nil {
		t.Fatal(err)
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	for _, row := range []store.QueueRow{newer, older} { // as two that were read at once may come in
		q, err := c.load(t.Context(), row)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.describe().Options.MaxMessageBytes; got != size {
			t.Fatalf("the largest message is %d bytes, want %d", got, size)
		}
	}
}

// TestCatalogForgetsWhatAnotherIncarnationLost makes the database another
// incarnation, in which a partition was lost and another one has its number.
func TestCatalogForgetsWhatAnotherIncarnationLost(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	c := newCatalog(db, 10)
	for _, name := range []string{"kept", "lost"} {
		if _, err := c.named(t.Context(), "q", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	pool := storetest.Pool(t, db)
	for _, sql := range []string{
		`UPDATE log_partitions SET name = 'other' WHERE name = 'lost'`,
		`UPDATE queues SET max_message_bytes = 2048, version = version - 1`,
		`UPDATE cluster SET timeline = 0`,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'queen/' || '` + db.Config().Application + `'`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for before := db.Incarnation().Epoch; db.Incarnation().Epoch == before; { // until the dead connections are found out
		_ = c.refresh(t.Context())
	}
	if err := c.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := c.partition(t.Context(), at("q", 1))
	if err != nil {
		t.Fatal(err)
	}
	if p.name != "other" {
		t.Errorf("partition 1 is %q, want the other one", p.name)
	}
	if got := p.queue.describe().Options.MaxMessageBytes; got != 2048 {
		t.Errorf("the largest message is %d bytes, want 2048", got)
	}
}

// A change costs what changed, whatever else is cached: what was not changed is not
// read. What was deleted is gone, also where its tombstone went before it was seen.
func TestCatalogReadsWhatChanged(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	c := newCatalog(db, 100)
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		if _, err := c.named(t.Context(), name, "p"); err != nil {
			t.Fatal(err)
		}
	}
	secretly := 0 // something that reading a row again would bring in
	refresh := func() {
		t.Helper()
		secretly++
		if _, err := pool.Exec(t.Context(), `UPDATE queues SET dedup_window_seconds = $1`, secretly); err != nil {
			t.Fatal(err)
		}
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	read := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, name := range names {
			if q := c.cached(QueueRef{Name: name}); q != nil && q.describe().Options.DedupWindowSeconds == secretly {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q were read, want %q", what, got, want)
		}
	}
	change := func(name string) {
		t.Helper()
		size := 2048 + secretly
		if _, _, _, err := db.Configure(t.Context(), uuid.New(), name, store.QueuePatch{MaxMessageBytes: &size}, store.ConfigureMerge); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if _, err := db.DeleteQueue(t.Context(), uuid.New(), c.cached(QueueRef{Name: name}).id); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	read("the first time", names...)
	refresh()
	read("nothing changed")
	change("b")
	change("not cached")
	refresh()
	read("one changed", "b")
	if _, _, err := db.EnsurePartition(t.Context(), "c", "another"); err != nil {
		t.Fatal(err)
	}
	refresh()
	read("one grew", "c")
	if q := c.cached(QueueRef{Name: "c"}); q.named("another") == nil {
		t.Error("the new partition is not there")
	}
	remove("e")
	change("a")
	refresh()
	read("one was deleted", "a")
	if c.cached(QueueRef{Name: "e"}) != nil {
		t.Error("a deleted queue is still there")
	}
	remove("d")
	for done, err := false, error(nil); !done; {
		if done, err = db.SweepDeleted(t.Context(), 100, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	read("one was deleted and swept", "a", "b", "c")
	if c.cached(QueueRef{Name: "d"}) != nil {
		t.Error("a queue that was deleted and swept is still there")
	}
	refresh()
	read("nothing changed since")
	for range 4 {
		change("not cached")
	}
	change("b")
	refresh()
	read("more changed than is cached", "a", "b", "c")
}

// A request that needs many new partitions makes them in one call, not in a commit each.
func TestPushMakesItsPartitionsInOneCall(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	version := func() int64 {
		t.Helper()
		v, err := e.db.CatalogVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var msgs []Message
	for i := range 50 {
		msgs = append(msgs, Message{Queue: []string{"a", "b"}[i%2], Partition: fmt.Sprint(i / 4), Value: []byte("x")})
	}
	msgs[8].Partition = "bad\x00name"
	msgs[9].Partition = "" // Default
	before := version()
	for i, r := range e.Push(t.Context(), msgs) {
		if i == 8 && r.Err == nil || i != 8 && r.Err != nil {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	if n := version() - before; n != 2 {
		t.Errorf("the catalog changed %d times for new partitions of two queues, want twice", n)
	}
	for name, want := range map[string]string{"a": "0", "b": "0"} {
		q := e.catalog.cached(QueueRef{Name: name})
		if got := q.partition(0).name; got != want {
			t.Errorf("partition 0 of %q is %q, want that of its first message", name, got)
		}
	}
	if q := e.catalog.cached(QueueRef{Name: "b"}); q.named(DefaultPartition) == nil {
		t.Error("a message without a partition found no Default")
	}
}

// What was read with the list of partitions is enough for the first message to one:
// its end need not be asked for, a statement for each. Nobody else goes by it,
// because it may be old.
func TestTheFirstMessageToAPartitionAsksForNoEnd(t *testing.T) {
	t.Parallel()
	q := &queue{byPart: map[string]*partition{}, ids: map[int64]*partition{}}
	q.desc.Store(&Queue{Options: QueueOptions{MaxMessageBytes: 1 << 20}})
	if err := q.grow([]store.PartitionRow{{ID: 5, Incarnation: 3, LogStart: 2, NextOffset: 7}}); err != nil {
		t.Fatal(err)
	}
	p := q.partition(0)
	w := &writer{cfg: Config{}.withDefaults()} // without a database
	pu := &push{done: make(chan struct{})}
	f := &flight{p: p, seg: &openSegment{entries: []*entry{{items: []*pushItem{{msg: &Message{Value: []byte("x")}, out: &Pushed{}, push: pu}}}}}}
	if !w.prepare(t.Context(), f) || f.call.Known != 7 || f.call.Epoch != 3 {
		t.Errorf("%+v, want a call above offset 7 of incarnation 3", f.call)
	}
	if m := p.marks(); m.known {
		t.Errorf("%+v is known, but was read when the partition was loaded", m)
	}
	if p.seen(3, 2, 6); p.marks().next != 6 || !p.marks().known {
		t.Errorf("%+v, want what was seen since", p.marks())
	}
}

// Names that PostgreSQL cannot even compare are unknown, and keep nobody beside
// them from an answer.
func TestANameThatNoQueueCanHaveIsUnknown(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	createTopic(t, openEngine(t, db), "t", 1)
	e := openEngine(t, storetest.Open(t, db)) // knows none yet
	got, err := e.Queues(t.Context(), []QueueRef{{Name: "a\x00b"}, {Name: "t"}, {Name: "\xff"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{ErrUnknownQueue, nil, ErrUnknownQueue} {
		if !errors.Is(got[i].Err, want) {
			t.Errorf("%d: %v, want %v", i, got[i].Err, want)
		}
	}
}

// TestALostLookUpIsNoVerdict: where the database does not say what a queue is, nothing
// is concluded from it. A message without a partition would be for Default, which
// a fixed queue has not.
func TestALostLookUpIsNoVerdict(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	createTopic(t, openEngine(t, storetest.Open(t, db)), "lost-look-up", 3)
	e := openEngine(t, db)
	l.lose("lost-look-up")
	p := e.Push(t.Context(), []Message{{Queue: "lost-look-up", Value: []byte("1")}})[0]
	if l.count() != 1 || !errors.Is(p.Err, ErrUnavailable) {
		t.Errorf("%d answers were lost; %v, want ErrUnavailable", l.count(), p.Err)
	}
	if p := e.Push(t.Context(), []Message{{Queue: "lost-look-up", Value: []byte("1")}})[0]; p.Err != nil {
		t.Error(p.Err)
	}
}

// TestDeleteFindsWhatHasTheNameNow deletes by name through a broker that knows another
// queue under it, which is gone.
func TestDeleteFindsWhatHasTheNameNow(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	stale := openEngine(t, db, func(c *Config) { c.CatalogEvery = 1 << 50 })
	other := openEngine(t, storetest.Open(t, db))
	push := func(e *Engine) {
		t.Helper()
		if got := e.Push(t.Context(), []Message{{Queue: "q", ID: []byte("a"), Value: []byte("1")}})[0]; got.Status != Queued {
			t.Fatalf("%+v, want queued", got)
		}
	}
	push(stale)
	if _, err := other.DeleteQueue(t.Context(), QueueRef{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	push(other)
	now, err := other.Queues(t.Context(), []QueueRef{{Name: "q"}})
	if err != nil || now[0].Err != nil {
		t.Fatal(err, now[0].Err)
	}
	got, err := stale.DeleteQueue(t.Context(), QueueRef{Name: "q"})
	if err != nil || got.TopicID != now[0].Queue.TopicID {
		t.Fatalf("deleted %s, %v; want %s, which has the name now", got.TopicID, err, now[0].Queue.TopicID)
	}
	if _, err := stale.DeleteQueue(t.Context(), QueueRef{Name: "q"}); !errors.Is(err, ErrUnknownQueue) {
		t.Errorf("once more: %v, want that there is none", err)
	}
	if _, err := other.DeleteQueue(t.Context(), QueueRef{TopicID: now[0].Queue.TopicID}); !errors.Is(err, ErrUnknownQueueID) {
		t.Errorf("by its id through another broker: %v, want that there is none", err)
	}
}
