package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// BufferedBytes is how much all clients of one side may have under way.
	BufferedBytes   = 32 << 20
	bufferedRecords = 200_000
	deliveryTimeout = 30 * time.Second
	fetchBytes      = 8 << 20
	fetchPartition  = 1 << 20
	inFlight        = 5 // as an idempotent client has
)

// Kafka is the side that produces through the Kafka protocol, acks=all.
type Kafka struct {
	Brokers     []string
	Topic       string
	Partitions  int
	Compression string // none, lz4 or zstd
	Idempotent  bool
	Linger      time.Duration // how long a client waits for a batch to grow
	Connections int           // clients, each with its own
	Payload     *Payload
	TopicConfig map[string]string

	producers []*producer
	admin     *kadm.Client
	made      bool
}

// producer is one client and what it has sent.
type producer struct {
	client *kgo.Client
	next   uint64
	spare  sync.Pool // of *sent
	failed atomic.Pointer[error]
}

// sent is a record under way, used again once it is answered.
type sent struct {
	record kgo.Record
	asked  time.Time
	shard  *Shard // nil: its answer is not what is measured
}

// Name is how the report calls it.
func (k *Kafka) Name() string {
	name := "kafka protocol at " + strings.Join(k.Brokers, ",")
	for _, c := range slices.Sorted(maps.Keys(k.TopicConfig)) {
		name += ", " + c + "=" + k.TopicConfig[c]
	}
	return name
}

// Clients is one shard per client.
func (k *Kafka) Clients() int { return k.Connections }

// Prepare creates the topic and connects the clients.
func (k *Kafka) Prepare(ctx context.Context) error {
	cl, err := kgo.NewClient(k.common()...)
	if err != nil {
		return err
	}
	k.admin = kadm.NewClient(cl)
	reach, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := cl.Ping(reach); err != nil {
		return fmt.Errorf("no broker answers: %w; start one with `queen serve`, or name it with --brokers", err)
	}
	configs := make(map[string]*string, len(k.TopicConfig))
	for name, value := range k.TopicConfig {
		configs[name] = &value
	}
	if _, err := k.admin.CreateTopic(ctx, int32(k.Partitions), -1, configs, k.Topic); err != nil {
		return fmt.Errorf("create topic %s: %w", k.Topic, err)
	}
	k.made = true
	for range k.Connections {
		cl, err := kgo.NewClient(append(k.common(), k.producing()...)...)
		if err != nil {
			return err
		}
		p := &producer{client: cl}
		p.spare.New = func() any { return &sent{record: kgo.Record{Value: make([]byte, k.Payload.Size())}} }
		k.producers = append(k.producers, p)
	}
	return nil
}

func (k *Kafka) common() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(k.Brokers...), kgo.ClientID("queen-bench")}
}

func (k *Kafka) producing() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(k.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedBytes(BufferedBytes / k.Connections),
		kgo.MaxBufferedRecords(bufferedRecords / k.Connections),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProducerLinger(k.Linger),
	}
	if !k.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(inFlight))
	}
	switch k.Compression {
	case "lz4":
		return append(opts, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	case "zstd":
		return append(opts, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	default:
		return append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
}

// Round produces until the time is over and waits for what is under way.
func (k *Kafka) Round(ctx context.Context, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	return each(ctx, k.Connections, func(ctx context.Context, i int) error {
		return k.producers[i].produce(ctx, i, k.Payload, m.Shard(i), func(now time.Time) bool { return now.Before(to) })
	})
}

// fill produces a number of bytes as fast as it can.
func (k *Kafka) fill(ctx context.Context, total int64) error {
	m := NewMeter(k.Connections)
	left := atomic.Int64{}
	left.Store(total)
	return each(ctx, k.Connections, func(ctx context.Context, i int) error {
		return k.producers[i].produce(ctx, i, k.Payload, m.Shard(i), func(time.Time) bool {
			return left.Add(-int64(k.Payload.Size())) >= 0
		})
	})
}

func (p *producer) produce(ctx context.Context, client int, payload *Payload, shard *Shard, more func(time.Time) bool) error {
	for {
		now := time.Now()
		if !more(now) || p.failed.Load() != nil || ctx.Err() != nil {
			break
		}
		s := p.spare.Get().(*sent)
		s.asked, s.shard = now, shard
		s.record = kgo.Record{Value: s.record.Value}
		payload.Fill(s.record.Value, idOf(client, p.next))
		p.next++
		// Waits where enough is under way.
		p.client.Produce(ctx, &s.record, func(_ *kgo.Record, err error) { p.answered(s, err) })
	}
	return p.flush(ctx)
}

// flush waits until everything is answered.
func (p *producer) flush(ctx context.Context) error {
	err := p.client.Flush(ctx)
	if failed := p.failed.Load(); failed != nil {
		return *failed
	}
	return err
}

func (p *producer) answered(s *sent, err error) {
	if err != nil {
		err = fmt.Errorf("record not acknowledged: %w", err)
		p.failed.CompareAndSwap(nil, &err)
		return
	}
	if s.shard != nil {
		s.shard.Answered(s.asked, time.Now(), 1, len(s.record.Value))
	}
	p.spare.Put(s)
}

// Verify reads the topic from its start to its end.
func (k *Kafka) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	next := make([]uint64, len(k.producers))
	for i, p := range k.producers {
		next[i] = p.next
	}
	back := newSeen(next)
	r, err := k.reader(ctx, 0, 1)
	if err != nil {
		return v, err
	}
	defer r.close()
	if err := r.read(ctx, func(record *kgo.Record) {
		id, err := k.Payload.Check(record.Value)
		back.count(&v, id, err)
	}); err != nil {
		return v, err
	}
	back.finish(&v)
	return v, nil
}

// Close deletes the topic.
func (k *Kafka) Close(ctx context.Context) error {
	for _, p := range k.producers {
		p.client.Close()
	}
	k.producers = nil
	if k.admin == nil {
		return nil
	}
	defer k.admin.Close()
	if !k.made {
		return nil
	}
	k.made = false
	_, err := k.admin.DeleteTopic(ctx, k.Topic)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("delete topic %s: %w", k.Topic, err)
	}
	return nil
}
