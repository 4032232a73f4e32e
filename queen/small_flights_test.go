package queen

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"queenmq/store/storetest"
)

// A small bundle waits for those under way; none that anybody would gain nothing from does.
func TestSmallBundlesWaitForThoseUnderWay(t *testing.T) {
	t.Parallel()
	segment := func(bytes int) *partition {
		return &partition{pending: []*openSegment{{bytes: bytes}}}
	}
	many := make([]*partition, 16)
	for i := range many {
		many[i] = segment(1)
	}
	for name, c := range map[string]struct {
		flying int
		late   bool
		ready  []*partition
		wait   bool
		taken  int
	}{
		"nothing to take":       {flying: smallFlights},
		"an idle writer":        {ready: []*partition{segment(1)}, taken: 1},
		"few under way":         {flying: smallFlights - 1, ready: []*partition{segment(1)}, taken: 1},
		"enough under way":      {flying: smallFlights, ready: []*partition{segment(1), segment(1)}, wait: true},
		"it has waited":         {flying: smallFlights, late: true, ready: []*partition{segment(1), segment(1)}, taken: 2},
		"large":                 {flying: smallFlights, ready: []*partition{segment(1), segment(smallFlightBytes)}, taken: 2},
		"as many as one holds":  {flying: smallFlights, ready: many, taken: 16},
		"somebody takes a turn": {flying: smallFlights, ready: []*partition{segment(1), {pending: []*openSegment{{turn: make(chan struct{})}}}}, taken: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{
				cfg: Config{BundlePartitionsMax: 16, BundleBytesMax: 1 << 20}, wake: make(chan struct{}, 1),
				flying: c.flying, ready: c.ready,
			}
			n := len(c.ready)
			fl, wait := w.take(c.late)
			if wait != c.wait || len(fl) != c.taken {
				t.Fatalf("waits: %v, want %v; took %d, want %d", wait, c.wait, len(fl), c.taken)
			}
			if wait && len(w.ready) != n || !wait && len(w.ready) != 0 {
				t.Errorf("%d of %d are left", len(w.ready), n)
			}
			want := c.flying
			if c.taken > 0 {
				want++
			}
			if w.flying != want {
				t.Errorf("%d bundles are under way, want %d", w.flying, want)
			}
		})
	}
}

// Whatever else comes meanwhile, a small bundle waits no longer than smallWaitMax.
func TestSmallBundlesWaitOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &writer{
			cfg: Config{BundlePartitionsMax: 16, BundleBytesMax: 1 << 20}, wake: make(chan struct{}, 1),
			flying: smallFlights, ready: []*partition{{pending: []*openSegment{{bytes: 1}}}},
		}
		w.open.Store(1)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.run(ctx)
		}()
		for began := time.Now(); w.open.Load() > 0; {
			if waited := time.Since(began); waited > smallWaitMax {
				t.Errorf("it waits for %v already", waited)
				break
			}
			w.wake <- struct{}{}
			<-time.After(smallWaitMax / 5)
			synctest.Wait()
		}
		end()
		<-ended
	})
}

// Calls that wait for somebody's lock do not stop the small ones of other partitions.
func TestSmallBundlesDoNotWaitForStuckOnes(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	e := openEngine(t, db)
	createTopic(t, e, "t", smallFlights+1)
	for p := range int32(smallFlights + 1) {
		appendBatch(t, e, at("t", p), kafkaBatch(t, 1)) // everything is known
	}
	tx, err := storetest.Pool(t, db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions WHERE number < $1 FOR UPDATE`, smallFlights); err != nil {
		t.Fatal(err)
	}
	var stuck []*Pending
	for p := range int32(smallFlights) {
		stuck = append(stuck, e.Append(t.Context(), []AppendItem{{Partition: at("t", p), Batch: kafkaBatch(t, 1)}})...)
		for flying := 0; flying != int(p)+1; { // each in a call of its own
			e.writer.mu.Lock()
			flying = e.writer.flying
			e.writer.mu.Unlock()
		}
	}
	e.untilBlocked(t)
	if got := appendBatch(t, e, at("t", smallFlights), kafkaBatch(t, 1)); got.BaseOffset != 1 {
		t.Errorf("the batch is at %d", got.BaseOffset)
	}
	for i, p := range stuck {
		select {
		case <-p.Done():
			t.Errorf("append %d was not stuck", i)
		default:
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range stuck {
		if _, err := p.Result(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A call that looks through a large span goes alone and may take long: small ones of
// other partitions do not wait for it.
func TestSmallBundlesDoNotWaitForProbes(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	e := openEngine(t, db, func(c *Config) {
		c.DedupCacheOff, c.ProbeAloneOffsets = true, 1
	})
	push := func(id string) []Pushed {
		return e.Push(t.Context(), []Message{{Queue: "q", ID: []byte(id), Value: []byte("x")}})
	}
	for _, id := range []string{"a", "b", "c"} {
		if got := push(id)[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
	}
	tx, err := storetest.Pool(t, db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	done := make(chan []Pushed, 1)
	go func() { done <- push("d") }()
	e.untilBlocked(t)
	e.writer.mu.Lock()
	flying := e.writer.flying
	e.writer.mu.Unlock()
	if flying != 0 {
		t.Errorf("%d bundles are under way that others may wait for, while a probe is", flying)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := (<-done)[0]; got.Err != nil {
		t.Error(got.Err)
	}
	for flying = 1; flying != 0; {
		e.writer.mu.Lock()
		flying = e.writer.flying
		e.writer.mu.Unlock()
	}
}
