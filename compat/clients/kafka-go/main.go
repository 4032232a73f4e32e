// Command kafka-go-client is the segmentio kafka-go row of the client matrix.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"steps"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	partitions = 4
	records    = 400
)

// program is what the steps share.
type program struct {
	addr         string
	topic, group string
	client       *kafka.Client
}

func main() {
	p := &program{topic: steps.Name("kafka-go"), group: steps.Name("kafka-go-group")}
	if len(os.Args) == 2 {
		p.addr = os.Args[1]
	}
	p.client = &kafka.Client{Addr: kafka.TCP(p.addr), Timeout: 30 * time.Second}
	all := []steps.Step{
		{Name: "create-topic", Run: p.createTopic},
		{Name: "produce", Run: p.produce},
		{Name: "keys-headers-nulls", Run: p.shapes},
	}
	for _, c := range []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		all = append(all, steps.Step{Name: "codec-" + c.String(), Run: func(ctx context.Context) error { return p.codec(ctx, c) }})
	}
	steps.Main(steps.Version("github.com/segmentio/kafka-go"), append(all,
		steps.Step{Name: "conn", Run: p.conn},
		steps.Step{Name: "group-commit-resume", Run: p.resume},
		steps.Step{Name: "rebalance", Run: p.rebalance},
		steps.Step{Name: "describe-groups", Run: p.describeGroups},
		steps.Step{Name: "configs", Run: p.configs},
		steps.Step{Name: "grow", Run: p.grow},
		steps.Step{Name: "delete", Run: p.remove},
	)...)
}

func (p *program) create(ctx context.Context, topic string, n int) error {
	resp, err := p.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: n, ReplicationFactor: 1,
		ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "3600000"}},
	}}})
	if err != nil {
		return err
	}
	if err := resp.Errors[topic]; err != nil {
		return err
	}
	return p.await(ctx, topic, n)
}

func (p *program) await(ctx context.Context, topic string, n int) error {
	return steps.Wait(ctx, fmt.Sprintf("%s has %d partitions", topic, n), func() (bool, error) {
		md, err := p.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		if err != nil {
			return false, err
		}
		t := md.Topics[0]
		return t.Error == nil && len(t.Partitions) == n, fmt.Errorf("%d partitions, error %v", len(t.Partitions), t.Error)
	})
}

func (p *program) drop(ctx context.Context, topic string) error {
	resp, err := p.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return resp.Errors[topic]
}

func (p *program) createTopic(ctx context.Context) error {
	if err := p.create(ctx, p.topic, partitions); err != nil {
		return err
	}
	if err := p.create(ctx, p.topic, partitions); !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("made twice: %v", err)
	}
	return nil
}

// send writes messages in one batch for each partition.
func (p *program) send(ctx context.Context, topic string, codec kafka.Compression, b kafka.Balancer, msgs []kafka.Message) error {
	w := &kafka.Writer{
		Addr: kafka.TCP(p.addr), Topic: topic, Balancer: b, RequiredAcks: kafka.RequireAll,
		Compression: codec, BatchTimeout: 5 * time.Millisecond, BatchSize: records, AllowAutoTopicCreation: true,
	}
	return errors.Join(w.WriteMessages(ctx, msgs...), w.Close())
}

// read reads partition 0 from its start until n messages are there.
func (p *program) read(ctx context.Context, topic string, n int) ([]kafka.Message, error) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{p.addr}, Topic: topic, Partition: 0, MaxWait: 500 * time.Millisecond})
	var got []kafka.Message
	for len(got) < n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("after %d of %d messages: %w", len(got), n, err), r.Close())
		}
		got = append(got, m)
	}
	return got, r.Close()
}

func value(i int) []byte {
	return fmt.Appendf(nil, "value %d, long enough to be worth compressing, twice", i)
}

func batch(n int) []kafka.Message {
	msgs := make([]kafka.Message, n)
	for i := range msgs {
		msgs[i] = kafka.Message{Key: fmt.Appendf(nil, "key-%d", i), Value: value(i)}
	}
	return msgs
}

func same(got []kafka.Message) error {
	for i, m := range got {
		if m.Offset != int64(i) || string(m.Key) != fmt.Sprintf("key-%d", i) || !bytes.Equal(m.Value, value(i)) {
			return fmt.Errorf("message %d came back at offset %d as %q %q", i, m.Offset, m.Key, m.Value)
		}
	}
	return nil
}

func (p *program) produce(ctx context.Context) error {
	if err := p.send(ctx, p.topic, 0, &kafka.RoundRobin{}, batch(records)); err != nil {
		return err
	}
	var asked []kafka.OffsetRequest
	for i := range partitions {
		asked = append(asked, kafka.FirstOffsetOf(i), kafka.LastOffsetOf(i))
	}
	resp, err := p.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{p.topic: asked}})
	if err != nil {
		return err
	}
	for _, o := range resp.Topics[p.topic] {
		if o.Error != nil || o.FirstOffset != 0 || o.LastOffset != records/partitions {
			return fmt.Errorf("offsets of partition %d: %+v", o.Partition, o)
		}
	}
	return nil
}

func (p *program) shapes(ctx context.Context) error {
	topic := steps.Name("kafka-go-shapes")
	sent := []kafka.Message{
		{Key: []byte("k"), Value: nil},
		{Key: nil, Value: []byte("v")},
		{Key: []byte("k"), Value: []byte{0, 255, 10}, Headers: []kafka.Header{
			{Key: "h", Value: nil}, {Key: "h", Value: []byte("x")}, {Key: "é", Value: []byte{0, 255}},
		}},
	}
	// The topic is made by asking for it, which the client repeats until it is there.
	if err := steps.Wait(ctx, "written", func() (bool, error) {
		err := p.send(ctx, topic, 0, &kafka.RoundRobin{}, sent)
		return err == nil, err
	}); err != nil {
		return err
	}
	got, err := p.read(ctx, topic, len(sent))
	if err != nil {
		return err
	}
	if got[0].Value != nil || got[1].Key != nil {
		return fmt.Errorf("nulls came back as %q and %q", got[0].Value, got[1].Key)
	}
	if !bytes.Equal(got[2].Value, sent[2].Value) || len(got[2].Headers) != 3 {
		return fmt.Errorf("came back as %q with %d headers", got[2].Value, len(got[2].Headers))
	}
	for i, want := range sent[2].Headers {
		if g := got[2].Headers[i]; g.Key != want.Key || !bytes.Equal(g.Value, want.Value) {
			return fmt.Errorf("header %d came back as %q=%q", i, g.Key, g.Value)
		}
	}
	return p.drop(ctx, topic)
}

func (p *program) codec(ctx context.Context, codec kafka.Compression) error {
	topic := steps.Name("kafka-go-" + codec.String())
	if err := p.create(ctx, topic, 1); err != nil {
		return err
	}
	if err := p.send(ctx, topic, codec, &kafka.RoundRobin{}, batch(records)); err != nil {
		return err
	}
	got, err := p.read(ctx, topic, records)
	if err != nil {
		return err
	}
	return errors.Join(same(got), p.drop(ctx, topic))
}

// conn uses the client's oldest layer, which pins versions and does not negotiate.
func (p *program) conn(ctx context.Context) error {
	topic := steps.Name("kafka-go-conn")
	if err := p.create(ctx, topic, 1); err != nil {
		return err
	}
	c, err := kafka.DialLeader(ctx, "tcp", p.addr, topic, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	if _, err := c.WriteMessages(batch(10)...); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	first, last, err := c.ReadOffsets()
	if err != nil || first != 0 || last != 10 {
		return fmt.Errorf("offsets %d to %d: %v", first, last, err)
	}
	if _, err := c.Seek(5, kafka.SeekAbsolute); err != nil {
		return err
	}
	m, err := c.ReadMessage(1 << 20)
	if err != nil || m.Offset != 5 || !bytes.Equal(m.Value, value(5)) {
		return fmt.Errorf("read at 5: offset %d %q, %v", m.Offset, m.Value, err)
	}
	controller, err := c.Controller()
	if err != nil {
		return err
	}
	brokers, err := c.Brokers()
	if err != nil {
		return err
	}
	listed := false
	for _, b := range brokers {
		listed = listed || b.ID == controller.ID
	}
	if !listed {
		return fmt.Errorf("controller %d is not among %v", controller.ID, brokers)
	}
	return p.drop(ctx, topic)
}

func (p *program) reader(group string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{p.addr}, GroupID: group, Topic: p.topic, MaxWait: 500 * time.Millisecond,
		StartOffset: kafka.FirstOffset, HeartbeatInterval: 500 * time.Millisecond,
	})
}

// resume reads a half of the topic as one member and the rest as another.
func (p *program) resume(ctx context.Context) error {
	seen := map[string]int{}
	for range 2 {
		r := p.reader(p.group)
		var last []kafka.Message
		for range records / 2 {
			m, err := r.FetchMessage(ctx)
			if err != nil {
				return errors.Join(fmt.Errorf("after %d messages: %w", len(seen), err), r.Close())
			}
			seen[fmt.Sprintf("%d/%d", m.Partition, m.Offset)]++
			last = append(last, m)
		}
		if err := errors.Join(r.CommitMessages(ctx, last...), r.Close()); err != nil {
			return err
		}
	}
	if len(seen) != records {
		return fmt.Errorf("%d different messages, want %d", len(seen), records)
	}
	for k, n := range seen {
		if n != 1 {
			return fmt.Errorf("%s came %d times", k, n)
		}
	}
	return nil
}

// rebalance has a second member come and go again.
func (p *program) rebalance(ctx context.Context) error {
	group := steps.Name("kafka-go-rebalance")
	// drain keeps a member in its group until stop is called.
	drain := func() (stop func() error) {
		r := p.reader(group)
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := r.FetchMessage(ctx); err != nil {
					return
				}
			}
		}()
		return func() error {
			cancel()
			<-done
			return r.Close()
		}
	}
	shares := func(want ...int) error {
		return steps.Wait(ctx, fmt.Sprintf("partitions are shared as %v", want), func() (bool, error) {
			got, err := p.shares(ctx, group)
			if err != nil {
				return false, err
			}
			return fmt.Sprint(got) == fmt.Sprint(want), fmt.Errorf("they are shared as %v", got)
		})
	}
	stopA := drain()
	if err := shares(partitions); err != nil {
		return errors.Join(err, stopA())
	}
	stopB := drain()
	err := shares(partitions/2, partitions/2)
	err = errors.Join(err, stopB())
	if err == nil {
		err = shares(partitions)
	}
	return errors.Join(err, stopA())
}

// shares answers how many partitions each member of a group has.
func (p *program) shares(ctx context.Context, group string) ([]int, error) {
	resp, err := p.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return nil, err
	}
	g := resp.Groups[0]
	if g.Error != nil || g.GroupState != "Stable" {
		return nil, fmt.Errorf("state %q, error %v", g.GroupState, g.Error)
	}
	var shares []int
	for _, m := range g.Members {
		n := 0
		for _, t := range m.MemberAssignments.Topics {
			n += len(t.Partitions)
		}
		shares = append(shares, n)
	}
	return shares, nil
}

func (p *program) describeGroups(ctx context.Context) error {
	listed, err := p.client.ListGroups(ctx, &kafka.ListGroupsRequest{Addr: kafka.TCP(p.addr)})
	if err != nil {
		return err
	}
	found := false
	for _, g := range listed.Groups {
		found = found || g.GroupID == p.group
	}
	if !found {
		return fmt.Errorf("%s is not among %d groups", p.group, len(listed.Groups))
	}
	resp, err := p.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: p.group, Topics: map[string][]int{p.topic: {0, 1, 2, 3}}})
	if err != nil {
		return err
	}
	if len(resp.Topics[p.topic]) != partitions {
		return fmt.Errorf("positions %+v", resp.Topics)
	}
	for _, o := range resp.Topics[p.topic] {
		if o.Error != nil || o.CommittedOffset != records/partitions {
			return fmt.Errorf("position of partition %d: %+v", o.Partition, o)
		}
	}
	dropped, err := p.client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: p.group, Topics: map[string][]int{p.topic: {0}}})
	if err != nil || dropped.Error != nil {
		return fmt.Errorf("OffsetDelete: %v %v", err, dropped)
	}
	deleted, err := p.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{p.group}})
	if err != nil {
		return err
	}
	return deleted.Errors[p.group]
}

func (p *program) configs(ctx context.Context) error {
	alter, err := p.client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: p.topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "86400000", ConfigOperation: kafka.ConfigOperationSet}},
		}},
	})
	if err != nil {
		return err
	}
	if err := alter.Resources[0].Error; err != nil {
		return err
	}
	described, err := p.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: p.topic, ConfigNames: []string{"retention.ms"}}},
	})
	if err != nil {
		return err
	}
	r := described.Resources[0]
	if r.Error != nil || len(r.ConfigEntries) != 1 || r.ConfigEntries[0].ConfigValue != "86400000" {
		return fmt.Errorf("described as %+v", r)
	}
	return nil
}

func (p *program) grow(ctx context.Context) error {
	resp, err := p.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: p.topic, Count: partitions + 2}},
	})
	if err != nil {
		return err
	}
	if err := resp.Errors[p.topic]; err != nil {
		return err
	}
	return p.await(ctx, p.topic, partitions+2)
}

func (p *program) remove(ctx context.Context) error {
	if err := p.drop(ctx, p.topic); err != nil {
		return err
	}
	return steps.Wait(ctx, "the topic is gone", func() (bool, error) {
		md, err := p.client.Metadata(ctx, &kafka.MetadataRequest{})
		if err != nil {
			return false, err
		}
		for _, t := range md.Topics {
			if t.Name == p.topic {
				return false, errors.New("it is still listed")
			}
		}
		return true, nil
	})
}
