package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// fleetSize is how large a run of workers is. WORKERS_TIME makes it the sized one.
type fleetSize struct {
	workers, partitions int
	lease               time.Duration
	span                time.Duration // pushing goes on so long; then the rest is drained
	killEvery           time.Duration
}

func theFleetSize(t *testing.T) fleetSize {
	t.Helper()
	s := os.Getenv("WORKERS_TIME")
	if s == "" {
		return fleetSize{workers: 6, partitions: 30, lease: time.Second, span: 2 * time.Second, killEvery: 1500 * time.Millisecond}
	}
	span, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("WORKERS_TIME: %v", err)
	}
	return fleetSize{workers: 20, partitions: 1000, lease: 5 * time.Second, span: span, killEvery: 15 * time.Second}
}

// fleet is workers of one group on a queue, and what is known of each partition.
// Values are numbered in each partition, so its state is two numbers.
type fleet struct {
	fleetSize
	t *testing.T

	mu      sync.Mutex
	brokers []*broker.Process
	parts   []partState
	faults  map[string]int

	pushed, completed, redelivered atomic.Int64
	drained                        chan struct{} // closed when all is pushed
}

// partState is what the workers know of one partition.
type partState struct {
	pushed int // values 0 … pushed−1 are stored
	// Values below done were acknowledged and the answer said so; those below tried
	// may have been.
	done, tried int
	// held is until when the last delivery's lease may be live, unless its worker
	// gave it up; up to is the value after its last.
	held time.Time
	upTo int
}

// TestWorkersFinishEveryMessageInOrder: workers die, sleep past their leases and
// lose their brokers; every message is finished, in its partition's order, and none
// is given again while somebody holds it or after it was finished.
func TestWorkersFinishEveryMessageInOrder(t *testing.T) {
	t.Parallel()
	size := theFleetSize(t)
	dir := server(t)
	f := &fleet{
		fleetSize: size, t: t, parts: make([]partState, size.partitions), faults: map[string]int{}, drained: make(chan struct{}),
		brokers: []*broker.Process{second(t, dir), second(t, dir)},
	}
	ctx := within(t, size.span+10*time.Minute)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range size.workers {
		wg.Go(func() { f.work(ctx, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	wg.Go(func() { f.push(ctx, began.Add(size.span)) })
	wg.Go(func() {
		// Brokers are killed in turn, and start again.
		tick := time.NewTicker(size.killEvery)
		defer tick.Stop()
		for i := 0; time.Since(began) < size.span; i++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := f.broker(i).Kill(); err != nil {
				t.Error(err)
			}
			p := second(t, dir)
			f.mu.Lock()
			f.brokers[i%2] = p
			f.faults["broker killed"]++
			f.mu.Unlock()
		}
	})
	wg.Wait()
	t.Logf("%d messages of %d partitions finished by %d workers in %s; %d given again; faults: %v",
		f.completed.Load(), size.partitions, size.workers, time.Since(began).Round(time.Millisecond), f.redelivered.Load(), f.faults)
	if ctx.Err() != nil {
		t.Fatalf("%d of %d messages were finished in time", f.completed.Load(), f.pushed.Load())
	}
	// Of acks whose answer was lost, some were not taken: what is left is given once
	// the last lease has ended, in order too.
	r := rand.New(rand.NewPCG(2, 0))
	for ctx.Err() == nil {
		path := fmt.Sprintf("/api/v1/pop/queue/work?consumerGroup=g&batch=100&partitions=100&wait=true&timeout=%d", 2*size.lease.Milliseconds())
		done, sent := f.dones(), time.Now()
		msgs := pop(ctx, t, f.broker(0), path)
		if len(msgs) == 0 {
			break
		}
		f.delivered(msgs, done, sent)
		f.ack(ctx, r, msgs)
	}
	for p, s := range f.parts {
		if s.tried != s.pushed {
			t.Errorf("partition %d: %d of %d were finished", p, s.tried, s.pushed)
		}
	}
	var depth struct {
		Pending int `json:"pending"`
	}
	call(ctx, t, f.broker(0), "GET", "/api/v1/resources/queues/work/depth?group=g", nil, &depth, http.StatusOK)
	if depth.Pending != 0 {
		t.Errorf("%d messages are pending", depth.Pending)
	}
}

func (f *fleet) broker(i int) *broker.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.brokers[i%2]
}

func (f *fleet) fault(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[what]++
}

// push pushes a value to each partition, round after round, each under its id, until
// it is known to be stored.
func (f *fleet) push(ctx context.Context, until time.Time) {
	const batch = 50
	for round := 0; (time.Now().Before(until) || round == 0) && ctx.Err() == nil; round++ {
		for from := 0; from < f.partitions; from += batch {
			var items []item
			for p := from; p < min(from+batch, f.partitions); p++ {
				items = append(items, item{Queue: "work", Partition: fmt.Sprint(p), Payload: round, TransactionID: fmt.Sprintf("%d-%d", p, round)})
			}
			for i := 0; ctx.Err() == nil; i++ {
				status, text, err := try(ctx, f.broker(i), "POST", "/api/v1/push", map[string]any{"items": items})
				var vs []verdict
				if err != nil || status != http.StatusCreated || json.Unmarshal(text, &vs) != nil {
					f.pause(ctx, 20*time.Millisecond)
					continue
				}
				ok := true
				for _, v := range vs {
					ok = ok && v.Status != "error"
				}
				if ok {
					break
				}
			}
			f.mu.Lock()
			for p := from; p < min(from+batch, f.partitions); p++ {
				f.parts[p].pushed = round + 1
			}
			f.mu.Unlock()
			f.pushed.Add(int64(len(items)))
		}
	}
	close(f.drained)
}

// finished says whether nothing is left to do.
func (f *fleet) finished() bool {
	select {
	case <-f.drained:
	default:
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.parts {
		if p.tried < p.pushed {
			return false
		}
	}
	return true
}

// pause waits for something outside to change.
func (f *fleet) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// work is one worker after another: each pops, handles and acknowledges until it
// dies.
func (f *fleet) work(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil && !f.finished() {
		path := fmt.Sprintf("/api/v1/pop/queue/work?consumerGroup=g&batch=10&partitions=%d&leaseSeconds=%d&wait=true&timeout=500", 1+r.IntN(4), int(f.lease.Seconds()))
		done := f.dones()
		sent := time.Now()
		status, text, err := try(ctx, f.broker(r.IntN(2)), "GET", path, nil)
		if err != nil || status == http.StatusServiceUnavailable {
			f.pause(ctx, 20*time.Millisecond)
			continue
		}
		if status == http.StatusNoContent {
			continue
		}
		var a struct {
			Messages []popped `json:"messages"`
		}
		if status != http.StatusOK || json.Unmarshal(text, &a) != nil {
			f.t.Errorf("pop: %d %s", status, text)
			return
		}
		f.delivered(a.Messages, done, sent)
		switch n := r.IntN(100); {
		case n < 3:
			f.fault("worker killed")
			continue // dead: whoever comes next waits for the lease
		case n < 5:
			f.fault("lease slept through")
			f.pause(ctx, f.lease+f.lease/2)
		}
		f.ack(ctx, r, a.Messages)
	}
}

// dones is what is surely finished at this moment.
func (f *fleet) dones() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]int, len(f.parts))
	for i, p := range f.parts {
		out[i] = p.done
	}
	return out
}

// place is a message's partition and number.
func place(id string) (partition, value int) {
	if _, err := fmt.Sscanf(id, "%d-%d", &partition, &value); err != nil {
		return -1, -1
	}
	return partition, value
}

// delivered judges what a pop that was sent at a moment gave.
func (f *fleet) delivered(msgs []popped, done []int, sent time.Time) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	last := map[int]int{}
	for _, m := range msgs {
		p, v := place(m.TransactionID)
		if p < 0 {
			f.t.Errorf("a message that nobody pushed: %q", m.TransactionID)
			continue
		}
		s := &f.parts[p]
		before, more := last[p]
		switch {
		case more && v != before+1:
			f.t.Errorf("partition %d: %d is given after %d", p, v, before)
		case !more && v < done[p]:
			f.t.Errorf("partition %d: %d is given again after it was finished up to %d", p, v, done[p])
		case !more && v > s.tried:
			f.t.Errorf("partition %d: %d is given while %d was not finished", p, v, s.tried)
		case !more && v < s.upTo && now.Before(s.held):
			f.t.Errorf("partition %d: %d is given while somebody holds it for %s", p, v, time.Until(s.held))
		}
		if v < s.upTo {
			f.redelivered.Add(1)
		}
		last[p] = v
	}
	for p, v := range last {
		// Its lease began after the pop was sent: it cannot end before this.
		f.parts[p].held, f.parts[p].upTo = sent.Add(f.lease), max(f.parts[p].upTo, v+1)
	}
}

// ack acknowledges a batch, in order. An answer that is lost may have been yes; one
// that says the lease was lost is final.
func (f *fleet) ack(ctx context.Context, r *rand.Rand, msgs []popped) {
	var acks []map[string]any
	f.mu.Lock()
	for _, m := range msgs {
		acks = append(acks, map[string]any{"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": m.LeaseID, "status": "completed"})
		p, v := place(m.TransactionID)
		f.parts[p].tried = max(f.parts[p].tried, v+1)
		f.parts[p].held = time.Time{} // from now on it may end at any moment
	}
	f.mu.Unlock()
	lost := false
	for ctx.Err() == nil {
		status, text, err := try(ctx, f.broker(r.IntN(2)), "POST", "/api/v1/ack/batch", map[string]any{"acknowledgments": acks, "consumerGroup": "g"})
		if err != nil || status == http.StatusServiceUnavailable {
			lost = true // it may have taken effect
			f.fault("answer to an ack lost")
			f.pause(ctx, 20*time.Millisecond)
			continue
		}
		var out []struct {
			Success bool   `json:"success"`
			Code    string `json:"code"`
		}
		if status != http.StatusOK || json.Unmarshal(text, &out) != nil || len(out) != len(acks) {
			f.t.Errorf("ack: %d %s", status, text)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, o := range out {
			p, v := place(msgs[i].TransactionID)
			s := &f.parts[p]
			switch {
			case o.Success && v >= s.done:
				s.done = v + 1
				f.completed.Add(1)
			case !o.Success && !lost && s.done <= v && s.tried == v+1:
				s.tried = v // it did not take effect, and nobody else tried
			}
		}
		return
	}
}
