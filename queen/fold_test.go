package queen

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"queenmq/dedup"
	"queenmq/store/storetest"
)

// An id repeated in another push of a segment follows the first one's message, and no
// longer where the two go apart again.
func TestRepeatsFollowWithinTheirSegmentOnly(t *testing.T) {
	t.Parallel()
	of := func(apart bool, ids ...byte) *entry {
		e := &entry{apart: apart}
		for _, id := range ids {
			e.items = append(e.items, &pushItem{hash: dedup.Hash{id}})
		}
		return e
	}
	first, second, batch := of(true, 1, 2), of(true, 3, 1), &entry{batch: []byte("a batch of records")}
	foldRepeats([]*entry{first, batch, second})
	if l := second.items[1].leader; l != first.items[0] {
		t.Errorf("a repeat in another push follows %v", l)
	}
	foldRepeats([]*entry{batch, second})
	if l := second.items[1].leader; l != nil {
		t.Errorf("alone it still follows %v", l)
	}
	twice := of(false, 1, 1)
	foldRepeats([]*entry{twice})
	if l := twice.items[1].leader; l != twice.items[0] {
		t.Errorf("another id of the same hash, in one push, follows %v", l)
	}
}

// behind lets f start what is to go in one flush: a first push of the queue is away, and
// waits for the partition's lock, until all that f waits for is pending.
func behind(t *testing.T, e *Engine, queue, partition string, pending int, f func()) {
	t.Helper()
	tx, err := storetest.Pool(t, e.db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ahead := make(chan Pushed, 1)
	go func() {
		ahead <- e.Push(t.Context(), []Message{{Queue: queue, Partition: partition, Value: []byte("ahead")}})[0]
	}()
	e.untilBlocked(t)
	f()
	p, err := e.catalog.named(t.Context(), queue, partition)
	if err != nil {
		t.Fatal(err)
	}
	for waiting := 0; waiting < pending; runtime.Gosched() {
		waiting = 0
		p.mu.Lock()
		for _, s := range p.pending {
			waiting += len(s.entries)
		}
		p.mu.Unlock()
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-ahead; a.Err != nil {
		t.Fatal(a.Err)
	}
}

// inOneFlush pushes the id a to the queue q in so many requests, which go in one flush
// behind another message.
func inOneFlush(t *testing.T, e *Engine, requests int) (out []Pushed) {
	t.Helper()
	answers := make(chan Pushed, requests)
	behind(t, e, "q", DefaultPartition, requests, func() {
		for range requests {
			go func() {
				answers <- e.Push(t.Context(), []Message{{Queue: "q", ID: []byte("a"), Value: []byte("1")}})[0]
			}()
		}
	})
	for range requests {
		out = append(out, <-answers)
	}
	return out
}

// Where the window is 0 requests with one id are all stored, in one flush or not, and
// also by a broker that folded them because it believed in another window.
func TestRequestsOfOneFlushAreAllStoredWithoutAWindow(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]bool{"known": false, "not known yet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := openEngine(t, openNamed(t), func(c *Config) { c.CatalogEvery = time.Hour })
			pushOne(t, e, "q", "before")
			zero := 0
			by := e
			if stale {
				by = openEngine(t, storetest.Open(t, e.db))
			}
			if _, err := by.Configure(t.Context(), "q", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
				t.Fatal(err)
			}
			const requests = 5
			offsets := map[int64]bool{}
			for _, p := range inOneFlush(t, e, requests) {
				if p.Err != nil || p.Status != Queued {
					t.Errorf("%+v, want it queued", p)
				}
				offsets[p.Offset] = true
			}
			if n := len(fetchAll(t, e, "q", "")); len(offsets) != requests || n != requests+2 {
				t.Errorf("%d offsets, %d messages stored; want %d of them", len(offsets), n, requests)
			}
		})
	}
}

// Whoever follows a message of another request gets its error, and nothing remembers the id.
func TestFollowersInAFlushFailWithTheirLeader(t *testing.T) {
	t.Parallel()
	e := openEngine(t, openNamed(t))
	pushOne(t, e, "q", "before")
	pool := storetest.Pool(t, e.db)
	// The flush ahead is stored, the next one is refused by the database.
	if _, err := pool.Exec(t.Context(), `ALTER TABLE log_segments ADD CONSTRAINT broken CHECK (base_offset < 2) NOT VALID`); err != nil {
		t.Fatal(err)
	}
	for _, p := range inOneFlush(t, e, 5) {
		if p.Status != Failed || !errors.Is(p.Err, ErrUnavailable) {
			t.Errorf("%+v, want the leader's error", p)
		}
	}
	if _, err := pool.Exec(t.Context(), `ALTER TABLE log_segments DROP CONSTRAINT broken`); err != nil {
		t.Fatal(err)
	}
	if p := pushOne(t, e, "q", "a"); p.Status != Queued || p.Offset != 2 {
		t.Errorf("%+v, want it queued at 2", p)
	}
}

// A batch that is a resend is left out of its flush, and its ids with it: what the others
// carry is known at their own offsets.
func TestIDsOfALeftOutBatchAreNotLearned(t *testing.T) {
	t.Parallel()
	e := openEngine(t, openNamed(t))
	sourced(t, e, "t", DedupSourceKey)
	wantBase(t, e, "t", sequenced(t, 0, "a", "b"), 0)
	var pending []*Pending
	behind(t, e, "t", "0", 2, func() {
		pending = e.Append(t.Context(), []AppendItem{
			{Partition: at("t", 0), Batch: sequenced(t, 0, "x", "y")}, // the sequence is what makes it a resend
			{Partition: at("t", 0), Batch: sequenced(t, 2, "c", "d", "e")},
		})
	})
	for i, want := range []int64{0, 3} {
		if got, err := pending[i].Result(t.Context()); err != nil || got.BaseOffset != want {
			t.Errorf("batch %d: %+v, %v; want offset %d", i, got, err, want)
		}
	}
	wantBase(t, e, "t", keyed(t, codecNone, "e", "c"), 5)
	wantBase(t, e, "t", keyed(t, codecNone, "x"), 6)
	wantBase(t, e, "t", keyed(t, codecNone, "d"), 4)
	if s := e.cache.Stats(); s.Contradictions != 0 || s.Hashes != 6 {
		t.Errorf("%d ids are known, %d contradictions; want six and none", s.Hashes, s.Contradictions)
	}
}

// A flush that folded under a window which is 0 by now stores all that it had folded.
func TestWhatWasFoldedIsStoredWhenTheWindowIsGone(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), func(c *Config) { c.CatalogEvery = time.Hour })
	pushOne(t, e, "q", "before")
	p, err := e.catalog.named(t.Context(), "q", DefaultPartition)
	if err != nil {
		t.Fatal(err)
	}
	f := &flight{p: p, seg: &openSegment{deadline: time.Now().Add(time.Minute)}}
	out := make([]Pushed, 2)
	pu := &push{done: make(chan struct{})}
	pu.open.Store(2)
	for i := range out {
		m := &Message{Queue: "q", ID: []byte("a"), Value: []byte("x")}
		it := newPushItem(m, nativeSize(m), &out[i], pu)
		f.seg.entries = append(f.seg.entries, &entry{ref: QueueRef{Name: "q"}, items: []*pushItem{&it}, apart: true})
	}
	if !e.writer.prepare(t.Context(), f) || f.call.Parts[0].Records != 1 {
		t.Fatalf("%+v, want one folded into the other", f.call.Parts)
	}
	zero := 0
	if _, err := openEngine(t, storetest.Open(t, e.db)).Configure(t.Context(), "q", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	e.writer.count(1) // as whoever opened its segment does
	for again := []*flight{f}; len(again) > 0; {
		if again, err = e.writer.call(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range out {
		if p.Err != nil || p.Status != Queued || p.Offset != int64(1+i) {
			t.Errorf("message %d: %+v, want it queued at %d", i, p, 1+i)
		}
	}
}
