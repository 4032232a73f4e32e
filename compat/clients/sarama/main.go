// Command sarama-client is the Sarama row of the client matrix: it does against
// one broker what a service written with Sarama does.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"steps"
	"sync"

	"github.com/IBM/sarama"
)

const (
	partitions = 4
	records    = 400
)

// program is what the steps share.
type program struct {
	brokers      []string
	topic, group string
	admin        sarama.ClusterAdmin
}

func main() {
	p := &program{brokers: os.Args[1:], topic: steps.Name("sarama"), group: steps.Name("sarama-group")}
	all := []steps.Step{
		{Name: "create-topic", Run: p.createTopic},
		{Name: "produce", Run: p.produce},
		{Name: "keys-headers-nulls", Run: p.shapes},
	}
	for _, c := range []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		all = append(all, steps.Step{Name: "codec-" + c.String(), Run: func(ctx context.Context) error { return p.codec(ctx, c) }})
	}
	steps.Main(steps.Version("github.com/IBM/sarama"), append(all,
		steps.Step{Name: "idempotent", Run: p.idempotent},
		steps.Step{Name: "old-versions", Run: p.oldVersions},
		steps.Step{Name: "group-commit-resume", Run: p.resume},
		steps.Step{Name: "rebalance", Run: p.rebalance},
		steps.Step{Name: "describe-groups", Run: p.describeGroups},
		steps.Step{Name: "configs", Run: p.configs},
		steps.Step{Name: "grow-and-trim", Run: p.growAndTrim},
		steps.Step{Name: "delete", Run: p.remove},
	)...)
}

// config is what the client's documentation recommends, for a recent Kafka.
func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_1_0_0
	c.ClientID = "sarama-client"
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	return c
}

func (p *program) createTopic(ctx context.Context) (err error) {
	if p.admin, err = sarama.NewClusterAdmin(p.brokers, config()); err != nil {
		return err
	}
	hour := "3600000"
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hour}}
	if err := p.admin.CreateTopic(p.topic, detail, false); err != nil {
		return err
	}
	if err := p.admin.CreateTopic(p.topic, detail, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		return fmt.Errorf("made twice: %v", err)
	}
	return steps.Wait(ctx, "the topic is described", func() (bool, error) {
		topics, err := p.admin.DescribeTopics([]string{p.topic})
		return err == nil && len(topics) == 1 && topics[0].Err == 0 && len(topics[0].Partitions) == partitions, err
	})
}

// send produces messages and checks that offsets count up from the start of each partition.
func (p *program) send(c *sarama.Config, topic string, msgs []*sarama.ProducerMessage) error {
	producer, err := sarama.NewSyncProducer(p.brokers, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, m := range msgs {
		m.Topic = topic
	}
	if err := producer.SendMessages(msgs); err != nil {
		return err
	}
	return nil
}

// read consumes one partition from its start until n messages are there.
func (p *program) read(ctx context.Context, c *sarama.Config, topic string, n int) ([]*sarama.ConsumerMessage, error) {
	consumer, err := sarama.NewConsumer(p.brokers, c)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	pc, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer pc.Close()
	var got []*sarama.ConsumerMessage
	for len(got) < n {
		select {
		case m := <-pc.Messages():
			got = append(got, m)
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d messages came: %w", len(got), n, context.Cause(ctx))
		}
	}
	return got, nil
}

func value(i int) []byte {
	return fmt.Appendf(nil, "value %d, long enough to be worth compressing, twice", i)
}

func batch(n int, partition func(i int) int32) []*sarama.ProducerMessage {
	msgs := make([]*sarama.ProducerMessage, n)
	for i := range msgs {
		msgs[i] = &sarama.ProducerMessage{
			Partition: partition(i),
			Key:       sarama.ByteEncoder(fmt.Appendf(nil, "key-%d", i)), Value: sarama.ByteEncoder(value(i)),
		}
	}
	return msgs
}

func first(int) int32 { return 0 }

// same compares what came back with batch(n, first).
func same(got []*sarama.ConsumerMessage) error {
	for i, m := range got {
		if m.Offset != int64(i) || string(m.Key) != fmt.Sprintf("key-%d", i) || !bytes.Equal(m.Value, value(i)) {
			return fmt.Errorf("message %d came back at offset %d as %q %q", i, m.Offset, m.Key, m.Value)
		}
	}
	return nil
}

func (p *program) produce(context.Context) error {
	msgs := batch(records, func(i int) int32 { return int32(i % partitions) })
	if err := p.send(config(), p.topic, msgs); err != nil {
		return err
	}
	for i, m := range msgs {
		if m.Offset != int64(i/partitions) {
			return fmt.Errorf("message %d was stored at %d, want %d", i, m.Offset, i/partitions)
		}
	}
	return nil
}

func (p *program) shapes(ctx context.Context) error {
	topic := steps.Name("sarama-shapes")
	h := func(key string, v []byte) sarama.RecordHeader { return sarama.RecordHeader{Key: []byte(key), Value: v} }
	sent := []*sarama.ProducerMessage{
		{Key: sarama.StringEncoder("k"), Value: nil},
		{Key: nil, Value: sarama.StringEncoder("v")},
		{Key: sarama.StringEncoder(""), Value: sarama.StringEncoder("")},
		{
			Key: sarama.StringEncoder("k"), Value: sarama.ByteEncoder{0, 255, 10},
			Headers: []sarama.RecordHeader{h("h", nil), h("h", []byte{}), h("h", []byte("x")), h("é", []byte{0, 255})},
		},
	}
	if err := p.send(config(), topic, sent); err != nil { // the topic is made by asking for it
		return err
	}
	got, err := p.read(ctx, config(), topic, len(sent))
	if err != nil {
		return err
	}
	if got[0].Value != nil || got[1].Key != nil || len(got[2].Key) != 0 || got[2].Value == nil {
		return fmt.Errorf("null and empty are mixed up: %q %q %q", got[0].Value, got[1].Key, got[2].Value)
	}
	if !bytes.Equal(got[3].Value, []byte{0, 255, 10}) || len(got[3].Headers) != 4 {
		return fmt.Errorf("came back as %q with %d headers", got[3].Value, len(got[3].Headers))
	}
	for i, want := range sent[3].Headers {
		if g := got[3].Headers[i]; !bytes.Equal(g.Key, want.Key) || !bytes.Equal(g.Value, want.Value) {
			return fmt.Errorf("header %d came back as %q=%q", i, g.Key, g.Value)
		}
	}
	return p.admin.DeleteTopic(topic)
}

func (p *program) codec(ctx context.Context, codec sarama.CompressionCodec) error {
	topic := steps.Name("sarama-" + codec.String())
	c := config()
	c.Producer.Compression = codec
	if err := p.send(c, topic, batch(records, first)); err != nil {
		return err
	}
	got, err := p.read(ctx, c, topic, records)
	if err != nil {
		return err
	}
	return errors.Join(same(got), p.admin.DeleteTopic(topic))
}

func (p *program) idempotent(ctx context.Context) error {
	topic := steps.Name("sarama-idempotent")
	c := config()
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1 // the client insists
	if err := p.send(c, topic, batch(records, first)); err != nil {
		return err
	}
	got, err := p.read(ctx, c, topic, records)
	if err != nil {
		return err
	}
	return errors.Join(same(got), p.admin.DeleteTopic(topic))
}

// oldVersions is a service that was never told of a newer Kafka.
func (p *program) oldVersions(ctx context.Context) error {
	for _, v := range []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V2_1_0_0} {
		topic := steps.Name("sarama-old")
		c := config()
		c.Version, c.ApiVersionsRequest = v, false
		if err := p.send(c, topic, batch(records, first)); err != nil {
			return fmt.Errorf("as %s: %v", v, err)
		}
		got, err := p.read(ctx, c, topic, records)
		if err != nil {
			return fmt.Errorf("as %s: %v", v, err)
		}
		if err := errors.Join(same(got), p.admin.DeleteTopic(topic)); err != nil {
			return fmt.Errorf("as %s: %v", v, err)
		}
	}
	return nil
}

// member is a consumer in a group; it stops at a number of messages, if given.
type member struct {
	mu      sync.Mutex
	stop    int
	claims  int // partitions it has
	commits bool
	seen    map[string]int
	full    chan struct{}
}

func newMember(stop int, commits bool) *member {
	return &member{stop: stop, commits: commits, seen: map[string]int{}, full: make(chan struct{})}
}

func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims = 0
	for _, ps := range s.Claims() {
		m.claims += len(ps)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case msg := <-claim.Messages():
			if msg == nil {
				return nil
			}
			if !m.take(msg) {
				return nil
			}
			if m.commits {
				s.MarkMessage(msg, "seen") // committed when the member leaves
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// take notes a message, unless there are enough.
func (m *member) take(msg *sarama.ConsumerMessage) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.seen) == m.stop {
		return false
	}
	m.seen[fmt.Sprintf("%d/%d", msg.Partition, msg.Offset)]++
	if len(m.seen) == m.stop {
		close(m.full)
	}
	return true
}

func (m *member) holds() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims
}

// consume runs a member until stop is called, which waits for it to leave.
func (p *program) consume(group string, m *member) (stop func() error, err error) {
	c := config()
	c.Consumer.Offsets.AutoCommit.Enable = true
	cg, err := sarama.NewConsumerGroup(p.brokers, group, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for {
			if err := cg.Consume(ctx, []string{p.topic}, m); err != nil || ctx.Err() != nil {
				done <- err
				return
			}
		}
	}()
	return func() error {
		cancel()
		return errors.Join(<-done, cg.Close())
	}, nil
}

// resume reads a half of the topic as one member and the rest as another.
func (p *program) resume(ctx context.Context) error {
	seen := map[string]int{}
	for range 2 {
		m := newMember(records/2, true)
		stop, err := p.consume(p.group, m)
		if err != nil {
			return err
		}
		select {
		case <-m.full:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d of %d messages came", len(m.seen), m.stop), stop())
		}
		if err := stop(); err != nil {
			return err
		}
		for k, n := range m.seen {
			seen[k] += n
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
	group := steps.Name("sarama-rebalance")
	a, b := newMember(-1, false), newMember(-1, false)
	stopA, err := p.consume(group, a)
	if err != nil {
		return err
	}
	shared := func(ofA, ofB int) error {
		return steps.Wait(ctx, fmt.Sprintf("members hold %d and %d partitions", ofA, ofB), func() (bool, error) {
			return a.holds() == ofA && b.holds() == ofB, fmt.Errorf("they hold %d and %d", a.holds(), b.holds())
		})
	}
	if err := shared(partitions, 0); err != nil {
		return errors.Join(err, stopA())
	}
	stopB, err := p.consume(group, b)
	if err != nil {
		return errors.Join(err, stopA())
	}
	err = shared(partitions/2, partitions/2)
	err = errors.Join(err, stopB())
	b.mu.Lock()
	b.claims = 0
	b.mu.Unlock()
	if err == nil {
		err = shared(partitions, 0)
	}
	return errors.Join(err, stopA(), p.admin.DeleteConsumerGroup(group))
}

func (p *program) describeGroups(context.Context) error {
	groups, err := p.admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	if _, ok := groups[p.group]; !ok {
		return fmt.Errorf("%s is not among %v", p.group, groups)
	}
	described, err := p.admin.DescribeConsumerGroups([]string{p.group})
	if err != nil {
		return err
	}
	if len(described) != 1 || described[0].State != "Empty" {
		return fmt.Errorf("described as %+v", described)
	}
	offsets, err := p.admin.ListConsumerGroupOffsets(p.group, map[string][]int32{p.topic: {0, 1, 2, 3}})
	if err != nil {
		return err
	}
	for i := range int32(partitions) {
		b := offsets.GetBlock(p.topic, i)
		if b == nil || b.Err != 0 || b.Offset != records/partitions || b.Metadata != "seen" {
			return fmt.Errorf("position of partition %d: %+v", i, b)
		}
	}
	if err := p.admin.DeleteConsumerGroupOffset(p.group, p.topic, 0); err != nil {
		return err
	}
	return p.admin.DeleteConsumerGroup(p.group)
}

func (p *program) configs(context.Context) error {
	day, half := "86400000", "43200000"
	if err := p.admin.AlterConfig(sarama.TopicResource, p.topic, map[string]*string{"retention.ms": &day}, false); err != nil {
		return err
	}
	read := func() (string, error) {
		entries, err := p.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: p.topic, ConfigNames: []string{"retention.ms"}})
		if err != nil {
			return "", err
		}
		if len(entries) != 1 {
			return "", fmt.Errorf("%d entries", len(entries))
		}
		return entries[0].Value, nil
	}
	if v, err := read(); err != nil || v != day {
		return fmt.Errorf("after AlterConfigs: %q %v", v, err)
	}
	set := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &half}}
	if err := p.admin.IncrementalAlterConfig(sarama.TopicResource, p.topic, set, false); err != nil {
		return err
	}
	if v, err := read(); err != nil || v != half {
		return fmt.Errorf("after IncrementalAlterConfigs: %q %v", v, err)
	}
	brokers, controller, err := p.admin.DescribeCluster()
	if err != nil {
		return err
	}
	entries, err := p.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: fmt.Sprint(controller)})
	if err != nil || len(entries) == 0 || len(brokers) == 0 {
		return fmt.Errorf("broker %d of %d has %d configs: %v", controller, len(brokers), len(entries), err)
	}
	return nil
}

func (p *program) growAndTrim(ctx context.Context) error {
	if err := p.admin.CreatePartitions(p.topic, partitions+2, nil, false); err != nil {
		return err
	}
	err := steps.Wait(ctx, "the new partitions are there", func() (bool, error) {
		topics, err := p.admin.DescribeTopics([]string{p.topic})
		return err == nil && len(topics) == 1 && len(topics[0].Partitions) == partitions+2, err
	})
	if err != nil {
		return err
	}
	if err := p.admin.DeleteRecords(p.topic, map[int32]int64{0: 10}); err != nil {
		return err
	}
	cl, err := sarama.NewClient(p.brokers, config())
	if err != nil {
		return err
	}
	defer cl.Close()
	start, err := cl.GetOffset(p.topic, 0, sarama.OffsetOldest)
	if err != nil || start != 10 {
		return fmt.Errorf("the log starts at %d after DeleteRecords to 10: %v", start, err)
	}
	end, err := cl.GetOffset(p.topic, 0, sarama.OffsetNewest)
	if err != nil || end != records/partitions {
		return fmt.Errorf("the log ends at %d: %v", end, err)
	}
	return nil
}

func (p *program) remove(ctx context.Context) error {
	if err := p.admin.DeleteTopic(p.topic); err != nil {
		return err
	}
	err := steps.Wait(ctx, "the topic is gone", func() (bool, error) {
		topics, err := p.admin.ListTopics()
		_, there := topics[p.topic]
		return err == nil && !there, err
	})
	return errors.Join(err, p.admin.Close())
}
