package compat

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// Members of a consumer group find the broker that takes their group over, join
// it again and read on from what was committed, although nobody there knows them.
func TestConsumerGroupSurvivesItsCoordinator(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, 3*time.Minute), server(t)
	brokers := []*broker.Process{
		second(t, dir, "QUEEN_KAFKA_GROUP_HEARTBEAT=500ms"), second(t, dir, "QUEEN_KAFKA_GROUP_HEARTBEAT=500ms"),
	}
	seeds := kgo.SeedBrokers(brokers[0].Kafka, brokers[1].Kafka)
	const topic, partitions, n = "survive", 6, 300
	producer := kafka(t, brokers[0], seeds, kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(-1))
	adm := kadm.NewClient(producer)
	if _, err := adm.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	coordinator := func(group string) string {
		t.Helper()
		for {
			c := adm.FindGroupCoordinators(ctx, group)[group]
			if c.Err == nil {
				return fmt.Sprintf("%s:%d", c.Host, c.Port)
			}
			if !shortly(ctx, 50*time.Millisecond) { // while slots change hands
				t.Fatal(c.Err)
			}
		}
	}
	// A group of one of the two: the third broker has the database.
	group, at := "", ""
	for i := 0; at != brokers[0].Kafka && at != brokers[1].Kafka; i++ {
		group = fmt.Sprint("survivors-", i)
		if at = coordinator(group); i%100 == 99 && !shortly(ctx, 50*time.Millisecond) {
			t.Fatal("neither of two brokers coordinates any of many groups")
		}
	}
	produced := 0
	produce := func() {
		t.Helper()
		var rs []*kgo.Record
		for range n {
			rs = append(rs, &kgo.Record{Value: fmt.Append(nil, produced)})
			produced++
		}
		if err := producer.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	var mu sync.Mutex
	seen, news := map[string]int{}, make(chan struct{}, 1)
	until := func(what string) {
		t.Helper()
		for {
			mu.Lock()
			got := len(seen)
			mu.Unlock()
			if got == produced {
				return
			}
			select {
			case <-news:
			case <-ctx.Done():
				t.Fatalf("%s: %d of %d records came", what, got, produced)
			}
		}
	}
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	for range 3 {
		cl := kafka(t, brokers[0], seeds, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.ServerSideBalancer(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.AlwaysRetryEOF(),
			// A heartbeat that reaches nobody does not make franz-go 1.22 look for
			// another coordinator; that the broker is gone from metadata does.
			kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100*time.Millisecond))
		reading.Go(func() {
			for {
				fs := cl.PollFetches(ctx)
				if fs.IsClientClosed() || ctx.Err() != nil {
					return
				}
				mu.Lock()
				fs.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
				mu.Unlock()
				// Between coordinators this fails: what is not committed comes again.
				_ = cl.CommitUncommittedOffsets(ctx)
				select {
				case news <- struct{}{}:
				default:
				}
			}
		})
		t.Cleanup(cl.CloseAllowingRebalance)
	}
	produce()
	until("with both brokers")
	at = coordinator(group) // the third may have come later than the second
	left := brokers[0]
	for i, p := range brokers {
		if p.Kafka == at {
			left = brokers[1-i]
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce()
	until("with one broker less")
	// A client of its own: one that has met the killed coordinator goes on asking it.
	cl := kafka(t, left)
	adm = kadm.NewClient(cl)
	for coordinator(group) == at {
		if !shortly(ctx, 100*time.Millisecond) {
			t.Fatalf("%s, which was killed, still coordinates", at)
		}
	}
	produce()
	until("with another coordinator")
	// All members are known there, and have committed all.
	for {
		members := 0
		describe := kmsg.NewPtrConsumerGroupDescribeRequest()
		describe.Groups = []string{group}
		if d, err := describe.RequestWith(ctx, cl); err == nil {
			members = len(d.Groups[0].Members)
		}
		committed := int64(0)
		offsets, err := adm.FetchOffsets(ctx, group)
		offsets.Each(func(o kadm.OffsetResponse) { committed += o.At })
		if err == nil && committed == int64(produced) && members == 3 {
			break
		}
		if !shortly(ctx, 100*time.Millisecond) {
			t.Fatalf("%d members, %d of %d records are committed, %v", members, committed, produced, err)
		}
	}
}

// shortly lets time pass between two looks; false means that ctx has ended.
func shortly(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
