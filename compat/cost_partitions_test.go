package compat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// costOfPartitions: a message costs what it costs, however many
// partitions there are; those that nobody uses cost nothing.
func (s *site) costOfPartitions(size costSizes) {
	s.rest("0", "idle", size.idle)
	for _, n := range size.partitions {
		s.costOf(size, n)
	}
}

func (s *site) costOf(size costSizes, n int) {
	step, queue := strconv.Itoa(n), fmt.Sprintf("cost-native-%d", n)
	anyOf := func(r *rand.Rand, _ int) int { return r.IntN(n) }
	before, _ := residentMB(s.t, s.p.PID())

	// Made by their first messages, or before these.
	began := time.Now()
	per := min(500, n)
	c := s.load(min(size.clients, n), 0, 0, s.eachOnce(n, per, func(next func() int) (turn, error) {
		var from int
		return s.pusher(costHTTP, queue, per, func(_ *rand.Rand, i int) int {
			if i == 0 {
				from = next()
			}
			return (from + i) % n
		}), nil
	}))
	s.note(step, "push, first messages", c, fmt.Sprintf("%.0f partitions/s", float64(n)/time.Since(began).Seconds()))
	began = time.Now()
	s.makeTopics(n)
	s.table.add(step, "topics made", "", "", "", "", "", "", time.Since(began).Round(time.Millisecond).String())
	s.note(step, "produce, first records", s.load(min(size.clients, n), 0, 0, s.eachOnce(n, 100, func(next func() int) (turn, error) {
		return s.producesFrom(n, 1, 100, func(*rand.Rand) int { return next() % n })(0)
	})), "")
	made, _ := residentMB(s.t, s.p.PID())

	to1 := s.flat
	if n == 1 {
		to1 = s.note // all clients meet in it, and are fused
	}
	to1(step, "push, 100 to a partition", s.load(size.clients, size.span, 0, func(int) (turn, error) {
		var to int
		return s.pusher(costHTTP, queue, 100, func(r *rand.Rand, i int) int {
			if i == 0 {
				to = r.IntN(n)
			}
			return to
		}), nil
	}), "")
	s.note(step, "push, 100 to 100 partitions", s.load(size.clients, size.span, 0, s.pushes(queue, 100, anyOf)(costHTTP)), "")
	to1(step, "produce, 100 to a partition", s.load(size.clients, size.span, 0, s.produces(n, 100, 1)), "")
	s.note(step, "produce, 1 to each of 100", s.load(size.clients, size.span, 0, s.produces(n, 1, 100)), "")
	var empty atomic.Int64
	popped := s.load(size.clients, size.span, 0, s.pops(queue, 100, "g", &empty))
	s.note(step, "pop, batches of 100", popped, fmt.Sprintf("%.0f pops/s, %d of them empty", float64(popped.turns)/popped.took.Seconds(), empty.Load()))
	s.drain(queue)
	empty.Store(0)
	s.note(step, "pop, nothing there", s.load(size.clients, size.span, 0, s.pops(queue, 100, "g", &empty)), fmt.Sprintf("%.0f pops/s", float64(empty.Load())/size.span.Seconds()))
	now, _ := residentMB(s.t, s.p.PID())
	s.table.add(step, "memory", "", "", "", "", "", strconv.Itoa(now), fmt.Sprintf("%d MB before, %d MB made: %.1f KB a partition; cache %.0f MB",
		before, made, float64(made-before)*1024/float64(2*n), gauge(s.t, s.p, "queen_dedup_cache_bytes")/(1<<20)))

	s.rest(step, "idle", size.idle)
	s.parked(step, queue, size)
	s.tail(step, n, size)
	s.metadata(step, n)
}

// tail has one consumer read all partitions at their ends, idle and while records
// come at a rate, each to any of them.
func (s *site) tail(step string, n int, size costSizes) {
	s.t.Helper()
	read := min(n, 5*topicWidth) // a frame of Fetch has 2 MiB at most
	ends := map[string]map[int32]kgo.Offset{}
	for i := range read {
		topic, number := topicOf(n, i)
		if ends[topic] == nil {
			ends[topic] = map[int32]kgo.Offset{}
		}
		ends[topic][number] = kgo.NewOffset().AtEnd()
	}
	cl := kafka(s.t, s.p, kgo.ConsumePartitions(ends), kgo.FetchMaxWait(500*time.Millisecond))
	ctx, cancel := context.WithCancel(s.t.Context())
	var got atomic.Int64
	var took []time.Duration
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				took = append(took, time.Since(r.Timestamp))
				got.Add(1)
			})
		}
	}()
	// It reads when one of the records that follow one another has come.
	produce := s.producesFrom(n, 1, 1, func(r *rand.Rand) int { return r.IntN(read) })
	one, err := produce(0)
	if err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	for r := rand.New(rand.NewPCG(1, 1)); got.Load() == 0; pause(ctx, 20*time.Millisecond) {
		if _, err := one(ctx, r); err != nil || time.Since(began) > 2*time.Minute {
			s.t.Fatalf("nothing has come in %s: %v", time.Since(began), err)
		}
	}
	s.table.add(step, fmt.Sprintf("a consumer of %d partitions", read), "", "", "", "", "", "", "reads after "+time.Since(began).Round(time.Millisecond).String())
	s.rest(step, "the consumer waits", size.idle)
	before := got.Load()
	c := s.load(4, size.span, 200, produce)
	for began = time.Now(); got.Load() < before+c.messages; pause(ctx, time.Millisecond) {
		if time.Since(began) > time.Minute {
			s.t.Fatalf("%d of %d records have come", got.Load()-before, c.messages)
		}
	}
	cancel()
	<-done
	took = took[before:]
	slices.Sort(took)
	c.p50, c.p99 = took[len(took)/2], took[len(took)*99/100]
	s.note(step, "200 records/s produced and read", c, "times are from end to end")
	cl.Close()
}

// eachOnce has clients go over n partitions together, so many in each request,
// from where next says.
func (s *site) eachOnce(n, some int, client func(next func() int) (turn, error)) func(int) (turn, error) {
	var at atomic.Int64
	return func(int) (turn, error) {
		one, err := client(func() int { return int(at.Add(int64(some))) - some })
		return func(ctx context.Context, r *rand.Rand) (sum int, err error) {
			for at.Load() < int64(n) && err == nil {
				var k int
				k, err = one(ctx, r)
				sum += k
			}
			return sum, err
		}, err
	}
}

// drain takes all there is.
func (s *site) drain(queue string) {
	var empty atomic.Int64
	s.load(8, 0, 0, func(i int) (turn, error) {
		one, err := s.pops(queue, 5000, "g", &empty)(i)
		return func(ctx context.Context, r *rand.Rand) (int, error) {
			for {
				if n, err := one(ctx, r); n == 0 || err != nil {
					return 0, err
				}
			}
		}, err
	})
}

// parked has workers wait for messages that do not come.
func (s *site) parked(step, queue string, size costSizes) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	for range 10 * size.clients {
		wg.Go(func() {
			_, _, _ = s.asks(ctx, costHTTP, http.MethodGet, fmt.Sprintf("/api/v1/pop/queue/%s?wait=true&timeout=600000&autoAck=true&consumerGroup=g", queue), nil)
		})
	}
	untilInFlight(ctx, s.t, s.p, 10*size.clients)
	s.rest(step, fmt.Sprintf("%d pops parked", 10*size.clients), size.idle)
	cancel()
	wg.Wait()
}

func (s *site) metadata(step string, n int) {
	topic, _ := topicOf(n, 0)
	on(s.t, s.p, func(_ context.Context, k *T) {
		took, bytes := k.metadataTakes([]string{topic}, min(n, topicWidth))
		s.table.add(step, "Metadata of a topic", "", "", "", fmt.Sprintf("%.1f", float64(took.Microseconds())/1000), "", "", fmt.Sprintf("%d KiB", bytes>>10))
	})
}
