package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// The two pushes of the contract, then again after everything that could make
// a broker forget.
func TestASecondPushIsADuplicate(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, 3*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	order := item{Queue: "orders", Partition: "eu", Payload: map[string]int{"n": 1}, TransactionID: "order-1"}
	first := push(ctx, t, p, order)[0]
	if first.Status != "queued" || first.Offset != 0 || first.MessageID == "" || first.TransactionID != "order-1" {
		t.Fatalf("first push: %+v", first)
	}
	duplicate := func(when string, p *broker.Process) {
		t.Helper()
		got := push(ctx, t, p, order)[0]
		if got.Status != "duplicate" || got.MessageID != first.MessageID || got.Offset != first.Offset {
			t.Errorf("%s: %+v, want a duplicate of %+v", when, got, first)
		}
	}
	duplicate("at once", p)
	duplicate("through a second broker", second(t, dir))
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	p = start(t, broker.Config{DataDir: dir})
	duplicate("after kill -9 and restart", p)
	if err := p.Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	p = start(t, broker.Config{DataDir: dir})
	duplicate("after a clean restart", p)
	p = restarted(t, p, dir, "QUEEN_DEDUP_CACHE=0")
	duplicate("with the cache off", p)
	push(ctx, t, p, item{Queue: "orders", Partition: "eu", Payload: 2, TransactionID: "order-2"})
	if n := stored(ctx, t, p, "orders", "eu"); n != 2 {
		t.Errorf("%d messages are stored, want 2", n)
	}
}

func restarted(t *testing.T, p *broker.Process, dir string, env ...string) *broker.Process {
	t.Helper()
	if err := p.Stop(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	return start(t, broker.Config{DataDir: dir, Env: env})
}

// stored counts the messages of a partition by reading its mark.
func stored(ctx context.Context, t *testing.T, p *broker.Process, queue, partition string) int64 {
	t.Helper()
	var a struct {
		Partitions []struct {
			Name          string `json:"name"`
			HighWatermark int64  `json:"highWatermark"`
		} `json:"partitions"`
	}
	call(ctx, t, p, "GET", "/api/v1/resources/queues/"+queue+"/partitions", nil, &a, http.StatusOK)
	for _, x := range a.Partitions {
		if x.Name == partition {
			return x.HighWatermark
		}
	}
	t.Fatalf("no partition %s: %+v", partition, a)
	return 0
}

// A thousand ids, each pushed four times at once through two brokers to one
// partition: a thousand are queued, all answers for an id agree.
func TestTwoBrokersQueueEachIDOnce(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{"cache on": "QUEEN_DEDUP_CACHE=1", "cache off": "QUEEN_DEDUP_CACHE=0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, dir := within(t, 3*time.Minute), broker.TempDataDir(t)
			a := start(t, broker.Config{DataDir: dir, Env: []string{env}})
			race(ctx, t, []*broker.Process{a, second(t, dir, env)}, 1000, 4)
		})
	}
}

// race pushes every id from several connections at once, in batches of mixed
// order, and checks the verdicts against each other and against the log.
func race(ctx context.Context, t *testing.T, brokers []*broker.Process, ids, times int) {
	t.Helper()
	const batch = 20
	verdicts := make([]map[string]verdict, times) // by id, of each pusher
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for k := range times {
		verdicts[k] = make(map[string]verdict)
		wg.Go(func() {
			<-begin
			for from := 0; from < ids; from += batch {
				var items []item
				for i := range batch {
					// Each pusher walks a batch in an order of its own.
					id := fmt.Sprintf("id-%d", from+(i*7+k*3)%batch)
					items = append(items, item{Queue: "race", Partition: "one", Payload: id, TransactionID: id})
				}
				vs, err := tryPush(ctx, brokers[k%len(brokers)], items)
				if err != nil {
					t.Errorf("pusher %d: %v", k, err)
					return
				}
				for i, v := range vs {
					verdicts[k][items[i].TransactionID] = v
				}
			}
		})
	}
	close(begin)
	wg.Wait()
	if t.Failed() {
		return
	}
	offsets := make(map[int64]string)
	for i := range ids {
		id := fmt.Sprintf("id-%d", i)
		queued := 0
		first := verdicts[0][id]
		for k := range times {
			v := verdicts[k][id]
			if v.Status == "queued" {
				queued++
			} else if v.Status != "duplicate" {
				t.Errorf("%s, pusher %d: %+v", id, k, v)
			}
			if v.Offset != first.Offset || v.MessageID != first.MessageID {
				t.Errorf("%s: pusher 0 was told %+v, pusher %d %+v", id, first, k, v)
			}
		}
		if queued != 1 {
			t.Errorf("%s was queued %d times", id, queued)
		}
		offsets[first.Offset] = id
	}
	for o := range int64(ids) {
		if offsets[o] == "" {
			t.Errorf("no id is at offset %d of %d", o, ids)
			break
		}
	}
	if n := stored(ctx, t, brokers[0], "race", "one"); n != int64(ids) {
		t.Errorf("%d messages are stored, want %d", n, ids)
	}
}

func tryPush(ctx context.Context, p *broker.Process, items []item) ([]verdict, error) {
	status, text, err := try(ctx, p, "POST", "/api/v1/push", map[string]any{"items": items})
	if err != nil {
		return nil, err
	}
	if status != http.StatusCreated {
		return nil, fmt.Errorf("answered %d: %s", status, text)
	}
	var vs []verdict
	if err := json.Unmarshal(text, &vs); err != nil {
		return nil, err
	}
	if len(vs) != len(items) {
		return nil, fmt.Errorf("%d verdicts for %d items", len(vs), len(items))
	}
	return vs, nil
}

// Fifty connections push one new id at a barrier: one is queued (D10).
func TestConcurrentFirstPushesQueueOne(t *testing.T) {
	t.Parallel()
	p, ctx := shared(t), within(t, 2*time.Minute)
	const rounds, pushers = 50, 50
	var took []time.Duration
	for round := range rounds {
		var mu sync.Mutex
		var wg sync.WaitGroup
		var got []verdict
		begin := make(chan struct{})
		for range pushers {
			wg.Go(func() {
				<-begin
				start := time.Now()
				vs, err := tryPush(ctx, p, []item{{Queue: "barrier", Payload: round, TransactionID: fmt.Sprint(round)}})
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(start))
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, vs[0])
			})
		}
		close(begin)
		wg.Wait()
		queued := 0
		for _, v := range got {
			if v.Status == "queued" {
				queued++
			}
			if v.MessageID != got[0].MessageID || v.Offset != int64(round) {
				t.Errorf("round %d: %+v beside %+v", round, v, got[0])
			}
		}
		if queued != 1 {
			t.Errorf("round %d: %d queued", round, queued)
		}
	}
	slices.Sort(took)
	t.Logf("p50 %s, p99 %s", took[len(took)/2], took[len(took)*99/100])
}

// Pushers send the same twenty ids, each in an order of its own: one of each is
// stored, and nobody waits for somebody who waits for him (D10).
func TestConcurrentBatchesInAnyOrderQueueEachIDOnce(t *testing.T) {
	t.Parallel()
	p, ctx := shared(t), within(t, 2*time.Minute)
	const rounds, pushers, ids = 20, 10, 20
	for round := range rounds {
		var mu sync.Mutex
		var wg sync.WaitGroup
		queued, offsets := map[string]int{}, map[string]int64{}
		begin := make(chan struct{})
		for range pushers {
			var items []item
			for _, i := range rand.Perm(ids) {
				// Two partitions, so that calls for several meet too.
				items = append(items, item{
					Queue: "orders-of-ids", Partition: fmt.Sprint(i % 2), Payload: i, TransactionID: fmt.Sprint(round, "-", i),
				})
			}
			wg.Go(func() {
				<-begin
				vs, err := tryPush(ctx, p, items)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				for i, v := range vs {
					id := items[i].TransactionID
					if v.Status == "queued" {
						queued[id]++
					}
					if at, ok := offsets[id]; ok && at != v.Offset {
						t.Errorf("round %d: %s at %d and at %d", round, id, at, v.Offset)
					}
					offsets[id] = v.Offset
				}
			})
		}
		close(begin)
		wg.Wait()
		for id, n := range queued {
			if n != 1 {
				t.Errorf("round %d: %s was queued %d times", round, id, n)
			}
		}
		if len(queued) != ids {
			t.Errorf("round %d: %d ids were queued, want %d", round, len(queued), ids)
		}
	}
}

// The window is raised, and an id from before is pushed at once: whatever the
// broker remembers of the old window must not make it new.
func TestARaisedWindowHoldsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, time.Minute), broker.TempDataDir(t)
	a := start(t, broker.Config{DataDir: dir})
	b := second(t, dir)
	window := func(p *broker.Process, seconds int) {
		t.Helper()
		call(ctx, t, p, "POST", "/api/v1/configure", map[string]any{
			"queue": "raised", "options": map[string]int{"dedupWindowSeconds": seconds},
		}, nil, http.StatusOK, http.StatusCreated)
	}
	x := item{Queue: "raised", Payload: "x", TransactionID: "x"}
	window(a, 1)
	first := push(ctx, t, a, x)[0]
	// The window of one second passes, by the database's clock.
	for {
		v := push(ctx, t, a, item{Queue: "raised", Payload: "x", TransactionID: fmt.Sprint("other", time.Now().UnixNano())})[0]
		if v.Offset > 1 && olderThan(ctx, t, dir, 1500*time.Millisecond) {
			break
		}
	}
	window(b, 3600) // the other broker; a is not told
	for who, p := range map[string]*broker.Process{"the broker that raised it": b, "the other one": a} {
		v := push(ctx, t, p, x)[0]
		if v.Status != "duplicate" || v.MessageID != first.MessageID || v.Offset != first.Offset {
			t.Errorf("%s: %+v, want a duplicate of %+v", who, v, first)
		}
	}
	window(a, 0)
	for i := range 2 {
		if v := push(ctx, t, a, x)[0]; v.Status != "queued" {
			t.Errorf("window 0, push %d: %+v", i, v)
		}
	}
	window(a, 3600)
	if v := push(ctx, t, b, x)[0]; v.Status != "duplicate" || v.Offset != first.Offset {
		t.Errorf("stored twice, window raised: %+v, want a duplicate of the first, %+v", v, first)
	}
}
