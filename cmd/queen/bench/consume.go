package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Consume is the side that reads a topic from its start, over and over: what a
// consumer does that catches up. The topic is filled first, by the producer's side.
type Consume struct {
	*Kafka
	FillBytes int64
}

// Prepare fills the topic.
func (c *Consume) Prepare(ctx context.Context) error {
	if err := c.Kafka.Prepare(ctx); err != nil {
		return err
	}
	if err := c.fill(ctx, c.FillBytes); err != nil {
		return fmt.Errorf("fill topic: %w", err)
	}
	return nil
}

// Round reads until the time is over, starting again at each end. Every client
// has partitions of its own.
func (c *Consume) Round(ctx context.Context, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	ctx, cancel := context.WithDeadlineCause(ctx, to, errTimeOver)
	defer cancel()
	err := each(ctx, c.Connections, func(ctx context.Context, i int) error {
		shard := m.Shard(i)
		for {
			r, err := c.reader(ctx, i, c.Connections)
			if err != nil {
				return err
			}
			err = r.poll(ctx, func(records []*kgo.Record) {
				bytes := 0
				for _, record := range records {
					bytes += len(record.Value)
				}
				shard.Answered(time.Time{}, time.Now(), len(records), bytes)
			})
			r.close()
			if err != nil || len(r.ends) == 0 {
				return err
			}
		}
	})
	if errors.Is(err, errTimeOver) || errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(to) {
		return nil
	}
	return err
}

var errTimeOver = errors.New("the round is over")

// reader reads a share of the topic's partitions up to where they end now.
type reader struct {
	client *kgo.Client
	ends   map[int32]int64
	left   int // partitions not read to their end
}

func (k *Kafka) reader(ctx context.Context, share, shares int) (*reader, error) {
	starts, err := k.admin.ListStartOffsets(ctx, k.Topic)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := k.admin.ListEndOffsets(ctx, k.Topic)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	r := &reader{ends: make(map[int32]int64)}
	at := make(map[int32]kgo.Offset)
	for p := share; p < k.Partitions; p += shares {
		start, _ := starts.Lookup(k.Topic, int32(p))
		end, ok := ends.Lookup(k.Topic, int32(p))
		if !ok || end.Err != nil {
			return nil, fmt.Errorf("end of partition %d: %w", p, errors.Join(end.Err, errors.New("not listed")))
		}
		if end.Offset > start.Offset {
			r.ends[int32(p)] = end.Offset
			at[int32(p)] = kgo.NewOffset().At(start.Offset)
		}
	}
	r.left = len(r.ends)
	r.client, err = kgo.NewClient(append(k.common(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.Topic: at}),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartition))...)
	return r, err
}

// read hands over every record, one by one.
func (r *reader) read(ctx context.Context, each func(*kgo.Record)) error {
	return r.poll(ctx, func(records []*kgo.Record) {
		for _, record := range records {
			each(record)
		}
	})
}

// poll hands over what each fetch brought, partition by partition.
func (r *reader) poll(ctx context.Context, each func([]*kgo.Record)) error {
	for r.left > 0 {
		fetches := r.client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var failed error
		fetches.EachError(func(_ string, p int32, err error) {
			failed = errors.Join(failed, fmt.Errorf("fetch partition %d: %w", p, err))
		})
		if failed != nil {
			return failed
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) == 0 {
				return
			}
			each(p.Records)
			if last := p.Records[len(p.Records)-1].Offset; last >= r.ends[p.Partition]-1 {
				r.left--
				r.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
			}
		})
	}
	return nil
}

func (r *reader) close() { r.client.Close() }
