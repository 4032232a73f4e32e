package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// FetchMaxWait is how long a tailing consumer lets a broker wait for a record.
	FetchMaxWait = 500 * time.Millisecond
	// arriveTimeout is how long after the last acknowledgment every record must have come.
	arriveTimeout = 30 * time.Second
)

// E2E is the side that measures how long records take from the moment they are
// due to the moment a consumer has them. Records are due at a fixed rate, whether
// or not those before them got anywhere, and each one's latency counts from then:
// a stall is in the latency of every record it delayed, also of those that could
// not even be sent (no coordinated omission).
type E2E struct {
	*Kafka
	Rate int // records per second, all clients together

	tails []*tail
	// due is the schedule of the round under way, and first the number of each
	// client's first record in it; the tails read both.
	mu    sync.Mutex
	due   schedule
	first []uint64
	meter *Meter

	came chan struct{} // says that tails have got something
}

// tail is one consumer of a share of the partitions.
type tail struct {
	client  *kgo.Client
	stop    context.CancelFunc
	done    chan struct{}
	arrived atomic.Int64 // good records, ever
	failed  atomic.Pointer[error]
}

// Prepare makes the topic, and consumers that wait at its end.
func (e *E2E) Prepare(ctx context.Context) error {
	if err := e.Kafka.Prepare(ctx); err != nil {
		return err
	}
	e.came = make(chan struct{}, 1)
	for i := range e.Connections {
		at := make(map[int32]kgo.Offset)
		for p := i; p < e.Partitions; p += e.Connections {
			at[int32(p)] = kgo.NewOffset().At(0)
		}
		if len(at) == 0 {
			break
		}
		cl, err := kgo.NewClient(append(e.common(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{e.Topic: at}),
			kgo.FetchMinBytes(1), kgo.FetchMaxWait(FetchMaxWait),
			kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartition))...)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // until Close
		t := &tail{client: cl, stop: stop, done: make(chan struct{})}
		e.tails = append(e.tails, t)
		go func() {
			defer close(t.done)
			e.follow(ctx, t, i)
		}()
	}
	return nil
}

// follow counts what a tail's consumer gets, until it is stopped.
func (e *E2E) follow(ctx context.Context, t *tail, shard int) {
	for {
		fetches := t.client.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return
		}
		var failed error
		fetches.EachError(func(_ string, p int32, err error) {
			failed = fmt.Errorf("fetch partition %d: %w", p, err)
		})
		n := int64(0)
		e.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if err := e.arrived(shard, r.Value, now); err != nil {
				failed = fmt.Errorf("partition %d, offset %d: %w", r.Partition, r.Offset, err)
				return
			}
			n++
		})
		e.mu.Unlock()
		if failed != nil {
			t.failed.CompareAndSwap(nil, &failed)
		}
		t.arrived.Add(n)
		select {
		case e.came <- struct{}{}:
		default:
		}
	}
}

// arrived counts a value by the time its record was due; e.mu is held.
func (e *E2E) arrived(shard int, value []byte, now time.Time) error {
	id, err := e.Payload.Check(value)
	if err != nil {
		return err
	}
	client, number := int(id>>clientShift), id&(1<<clientShift-1)
	if client >= len(e.first) || number < e.first[client] {
		return fmt.Errorf("%w: number %d of client %d was not sent in this round", errForeign, number, client)
	}
	e.meter.Shard(shard).Arrived(e.due.at(client, number-e.first[client]), now, len(value))
	return nil
}

// Round sends at the rate until the time is over, and waits until everything
// has come.
func (e *E2E) Round(ctx context.Context, t Times, m *Meter) error {
	start := time.Now()
	to := m.Begin(start, t)
	s := schedule{start: start, interval: time.Second / time.Duration(e.Rate), clients: e.Connections}
	e.mu.Lock()
	e.due, e.meter, e.first = s, m, e.sentSoFar()
	e.mu.Unlock()
	if err := each(ctx, e.Connections, func(ctx context.Context, i int) error {
		return e.send(ctx, i, s, to, m.Shard(i))
	}); err != nil {
		return err
	}
	return e.allCame(ctx)
}

// sentSoFar is, per client, the number of its next record.
func (e *E2E) sentSoFar() []uint64 {
	next := make([]uint64, len(e.producers))
	for i, p := range e.producers {
		next[i] = p.next
	}
	return next
}

// send is one client's share of a round.
func (e *E2E) send(ctx context.Context, client int, s schedule, to time.Time, shard *Shard) error {
	p := e.producers[client]
	s.pace(ctx, client, to, sleep, func(due time.Time) bool {
		one := p.spare.Get().(*sent)
		one.shard = nil
		one.record = kgo.Record{Value: one.record.Value}
		e.Payload.Fill(one.record.Value, idOf(client, p.next))
		p.next++
		shard.Sent(due, time.Now())
		// Waits where too much is under way, which makes the next ones late.
		p.client.Produce(ctx, &one.record, func(_ *kgo.Record, err error) { p.answered(one, err) })
		return p.failed.Load() == nil && ctx.Err() == nil
	})
	return p.flush(ctx)
}

// allCame waits until the tails have seen every record ever sent.
func (e *E2E) allCame(ctx context.Context) error {
	want := int64(0)
	for _, n := range e.sentSoFar() {
		want += int64(n)
	}
	ctx, cancel := context.WithTimeout(ctx, arriveTimeout)
	defer cancel()
	for {
		came := int64(0)
		for _, t := range e.tails {
			if failed := t.failed.Load(); failed != nil {
				return *failed
			}
			came += t.arrived.Load()
		}
		if came == want {
			return nil
		}
		if came > want {
			return fmt.Errorf("%d records came, %d were sent: some came twice", came, want)
		}
		select {
		case <-e.came:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d acknowledged records came within %s: %w", came, want, arriveTimeout, context.Cause(ctx))
		}
	}
}

// Close ends the consumers and deletes the topic.
func (e *E2E) Close(ctx context.Context) error {
	for _, t := range e.tails {
		t.stop()
		<-t.done
		t.client.Close()
	}
	e.tails = nil
	return e.Kafka.Close(ctx)
}
