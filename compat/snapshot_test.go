package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// TestAnOpenSnapshotDoesNotSlowPops pushes, pops and acknowledges at a fixed rate
// over 100 partitions, first without and then beside a transaction that somebody
// forgot: rate and median stay within twice of before. SNAPSHOT_TIME=5m is the
// sized run, in which the ratios are held; else it only goes through it.
func TestAnOpenSnapshotDoesNotSlowPops(t *testing.T) {
	t.Parallel()
	span, sized := 500*time.Millisecond, false
	before := span
	if s := os.Getenv("SNAPSHOT_TIME"); s != "" {
		var err error
		if span, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		sized, before = true, min(time.Minute, span)
	}
	ctx := within(t, span+3*before+10*time.Minute)
	dir := broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	steady(ctx, t, p, min(10*time.Second, before)) // partitions are made, memory is warm
	was := steady(ctx, t, p, before)
	tx, err := database(ctx, t, dir).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// A transaction of READ COMMITTED holds a snapshot only while it has a cursor open.
	if _, err := tx.Exec(ctx, `DECLARE forgotten CURSOR FOR SELECT generate_series(1, 10)`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `FETCH 1 FROM forgotten`); err != nil {
		t.Fatal(err)
	}
	is := steady(ctx, t, p, span)
	var last latencies
	if sized {
		last = steady(ctx, t, p, before)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("before for %s: %s", before, was)
	t.Logf("beside an open snapshot for %s: %s", span, is)
	if !sized {
		return
	}
	t.Logf("beside it for another %s: %s", before, last)
	for _, l := range []latencies{is, last} {
		if l.rate() < was.rate()/2 || l.median(l.pops) > 2*was.median(was.pops) || l.median(l.acks) > 2*was.median(was.acks) || l.median(l.pushes) > 2*was.median(was.pushes) {
			t.Error("more than twice as slow beside an open snapshot")
		}
	}
}

// latencies of one stretch.
type latencies struct {
	span               time.Duration
	pushes, pops, acks []time.Duration
}

func (l latencies) rate() float64 { return float64(len(l.acks)) / l.span.Seconds() }

func (latencies) median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// String shows rate and medians.
func (l latencies) String() string {
	return fmt.Sprintf("%.0f pushes/s, %.0f pops with acks/s; p50 of push %s, pop %s, ack %s", float64(len(l.pushes))/l.span.Seconds(), l.rate(),
		l.median(l.pushes).Round(10*time.Microsecond), l.median(l.pops).Round(10*time.Microsecond), l.median(l.acks).Round(10*time.Microsecond))
}

// steady pushes 200 messages a second, one at a time, to 100 partitions, and pops and
// acknowledges what comes.
func steady(ctx context.Context, t *testing.T, p *broker.Process, span time.Duration) latencies {
	t.Helper()
	const partitions, rate, pushers, workers = 100, 200, 4, 4
	l := latencies{span: span}
	var mu sync.Mutex
	note := func(into *[]time.Duration, began time.Time) {
		mu.Lock()
		defer mu.Unlock()
		*into = append(*into, time.Since(began))
	}
	end := time.Now().Add(span)
	var wg sync.WaitGroup
	for k := range pushers {
		wg.Go(func() {
			tick := time.NewTicker(time.Second * pushers / rate)
			defer tick.Stop()
			for i := k; time.Now().Before(end) && ctx.Err() == nil; i += pushers {
				<-tick.C
				began := time.Now()
				status, text, err := try(ctx, p, "POST", "/api/v1/push", map[string]any{"items": []item{{Queue: "steady", Partition: fmt.Sprint(i % partitions), Payload: i}}})
				if err != nil || status != http.StatusCreated {
					t.Errorf("push: %d %s %v", status, text, err)
					return
				}
				note(&l.pushes, began)
			}
		})
	}
	for range workers {
		wg.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				began := time.Now()
				status, text, err := try(ctx, p, "GET", "/api/v1/pop/queue/steady?consumerGroup=g&batch=1", nil)
				if err != nil || status != http.StatusOK && status != http.StatusNoContent {
					t.Errorf("pop: %d %s %v", status, text, err)
					return
				}
				if status == http.StatusNoContent {
					// Nothing yet: wait for it, which is not the time of a pop.
					_, text, err = try(ctx, p, "GET", "/api/v1/pop/queue/steady?consumerGroup=g&batch=1&wait=true&timeout=200", nil)
					if err != nil {
						t.Error(err)
						return
					}
				} else {
					note(&l.pops, began)
				}
				var a struct {
					Messages []popped `json:"messages"`
				}
				if len(text) == 0 {
					continue
				}
				if err := json.Unmarshal(text, &a); err != nil {
					t.Error(err)
					return
				}
				for _, m := range a.Messages {
					began = time.Now()
					status, text, err := try(ctx, p, "POST", "/api/v1/ack", map[string]any{
						"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": m.LeaseID, "consumerGroup": "g", "status": "completed",
					})
					if err != nil || status != http.StatusOK {
						t.Errorf("ack: %d %s %v", status, text, err)
						return
					}
					note(&l.acks, began)
				}
			}
		})
	}
	wg.Wait()
	return l
}
