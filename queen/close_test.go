package queen

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestCloseLeavesNothingRunning opens, works, closes and counts what is left.
// It does not run beside other tests, whose goroutines it would count.
func TestCloseLeavesNothingRunning(t *testing.T) { //nolint:paralleltest // see above
	cfg := storetest.Config(t)
	before := goleak.IgnoreCurrent()
	db, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Config{DB: db, Broker: BrokerConfig{ID: -1}})
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, e, "t", 2)
	appendBatch(t, e, at("t", 0), kafkaBatch(t, 3))
	pushOne(t, e, "q", "a")
	waited := make(chan error, 2)
	go func() {
		_, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 1), MaxBytes: 1, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MinBytes: 1, MaxBytes: 1, MaxWait: time.Hour,
		})
		waited <- err
	}()
	go func() {
		_, err := e.Pop(t.Context(), PopRequest{Queue: "nothing", Wait: time.Hour})
		waited <- err
	}()
	e.untilWaiting(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-waited; err != nil { // answered with what was there, not cut off
			t.Error(err)
		}
	}
	_, err = e.Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: kafkaBatch(t, 1)}})[0].Result(t.Context())
	if !errors.Is(err, ErrClosing) {
		t.Errorf("append after close: %v, want closing", err)
	}
	db.Close()
	goleak.VerifyNone(t, before)
}

func TestMurmur2IsKafkas(t *testing.T) {
	t.Parallel()
	// The vectors of Kafka's own UtilsTest.
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestBudgetMakesCallersWaitInTurnAndGivesUpWithTheirContext(t *testing.T) {
	t.Parallel()
	b := newBudget(10)
	if err := b.acquire(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { gaveUp <- b.acquire(ctx, 5) }()
	second := make(chan error, 1)
	for queued := 0; queued < 1; {
		b.mu.Lock()
		queued = len(b.queue)
		b.mu.Unlock()
	}
	go func() { second <- b.acquire(t.Context(), 2) }()
	for queued := 0; queued < 2; {
		b.mu.Lock()
		queued = len(b.queue)
		b.mu.Unlock()
	}
	if err := b.acquire(t.Context(), 0); err != nil { // nothing to wait for: acks alone, say
		t.Fatal(err)
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, ErrOverloaded) {
		t.Fatalf("%v, want overloaded", err)
	}
	if err := <-second; err != nil { // it fitted all along, but had its turn
		t.Fatal(err)
	}
	b.release(8)
	b.release(2)
	if err := b.acquire(t.Context(), 1000); err != nil { // larger than the bound: alone
		t.Fatal(err)
	}
}
