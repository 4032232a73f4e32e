package kafkawire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func newTopic(name string, partitions int32, replication int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replication
	for i := 0; i < len(configs); i += 2 {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	return t
}

func createRequest(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := at(kmsg.NewPtrCreateTopicsRequest(), 7)
	req.TimeoutMillis, req.Topics = 1000, topics
	return req
}

func TestCreateTopics(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.DefaultPartitions, c.PartitionsMax = 4, 100 })
	c := d.dial()
	resp := ask[*kmsg.CreateTopicsResponse](c, createRequest(
		newTopic("plain", 3, 1), newTopic("defaults", -1, -1), newTopic("replicated", 1, 3),
		newTopic("tuned", 1, 1, "retention.ms", "1000", "max.message.bytes", "2000", "segment.bytes", "1024", "cleanup.policy", "delete"),
		newTopic("exact", 1, 1, "queen.dedup.window.seconds", "60"),
	))
	for i, partitions := range []int32{3, 4, 1, 1, 1} {
		rt := resp.Topics[i]
		if rt.ErrorCode != 0 || rt.NumPartitions != partitions || rt.ReplicationFactor != 1 || uuid.UUID(rt.TopicID) != d.fake.queues[rt.Topic].TopicID {
			t.Errorf("%+v", rt)
		}
	}
	o := d.fake.queues["tuned"].Options
	if o.RetentionMs != 1000 || o.MaxMessageBytes != 2000 || o.DedupWindowSeconds != 0 || o.WindowFrom != queen.WindowKafka {
		t.Errorf("options: %+v", o)
	}
	if o := d.fake.queues["plain"].Options; o.DedupWindowSeconds != 0 || o.WindowFrom != queen.WindowKafka || o.RetentionMs != 604800000 {
		t.Errorf("options of a plain topic: %+v", o)
	}
	if o := d.fake.queues["exact"].Options; o.DedupWindowSeconds != 60 || o.WindowFrom != queen.WindowConfigured {
		t.Errorf("options with a window: %+v", o)
	}
	configs := make(map[string]string)
	for _, rc := range resp.Topics[3].Configs {
		configs[rc.Name] = fmt.Sprint(*rc.Value, " ", rc.Source)
	}
	for name, want := range map[string]string{
		"retention.ms": "1000 1", "max.message.bytes": "2000 1", "segment.bytes": "1024 1", "cleanup.policy": "delete 1",
		"compression.type": "producer 5", "min.insync.replicas": "1 5",
	} {
		if configs[name] != want {
			t.Errorf("config %s is reported as %q, want %q", name, configs[name], want)
		}
	}
}

func TestCreateTopicsRefusals(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.PartitionsMax = 100 })
	d.fake.topic("there", 1)
	d.fake.topic("with.dot", 1)
	c := d.dial()
	f := func(want int16, topic kmsg.CreateTopicsRequestTopic) {
		t.Helper()
		for _, validate := range []bool{true, false} {
			req := createRequest(topic)
			req.ValidateOnly = validate
			rt := ask[*kmsg.CreateTopicsResponse](c, req).Topics[0]
			if rt.ErrorCode != want || rt.ErrorMessage == nil || uuid.UUID(rt.TopicID) != uuid.Nil || rt.NumPartitions != -1 {
				t.Errorf("%s (validate only: %v): %+v, want code %d", topic.Topic, validate, rt, want)
			}
		}
	}
	f(36, newTopic("there", 1, 1))
	f(17, newTopic("", 1, 1))
	f(17, newTopic("..", 1, 1))
	f(17, newTopic("two words", 1, 1))
	f(17, newTopic(strings.Repeat("x", 250), 1, 1))
	f(17, newTopic("with_dot", 1, 1))
	f(37, newTopic("t", 0, 1))
	f(37, newTopic("t", -2, 1))
	f(37, newTopic("t", 101, 1))
	f(38, newTopic("t", 1, 0))
	f(38, newTopic("t", 1, -2))
	f(40, newTopic("t", 1, 1, "no.such.config", "1"))
	f(40, newTopic("t", 1, 1, "cleanup.policy", "compact", "queen.dedup.source", "key", "queen.dedup.window.seconds", "60"))
	f(40, newTopic("t", 1, 1, "min.compaction.lag.ms", "2000", "max.compaction.lag.ms", "1000"))
	f(40, newTopic("t", 1, 1, "compression.type", "brotli"))
	f(40, newTopic("t", 1, 1, "message.timestamp.type", "BrokerTime"))
	f(40, newTopic("t", 1, 1, "retention.bytes", "1 MB"))
	f(40, newTopic("t", 1, 1, "cleanup.policy", "compact,evict"))
	f(40, newTopic("t", 1, 1, "cleanup.policy", "nonsense"))
	f(40, newTopic("t", 1, 1, "cleanup.policy", ""))
	f(40, newTopic("t", 1, 1, "min.insync.replicas", "0"))
	f(40, newTopic("t", 1, 1, "segment.ms", "soon"))
	f(40, newTopic("t", 1, 1, "preallocate", "yes"))
	f(40, newTopic("t", 1, 1, "leader.replication.throttled.replicas", "a\x00b"))
	f(40, newTopic("t", 1, 1, "follower.replication.throttled.replicas", "\xff"))
	f(40, newTopic("t", 1, 1, "min.cleanable.dirty.ratio", "NaN"))
	f(40, newTopic("t", 1, 1, "remote.storage.enable", "true"))
	f(40, newTopic("t", 1, 1, "queen.dedup.source", "value", "queen.dedup.window.seconds", "60"))
	f(40, newTopic("t", 1, 1, "queen.dedup.max.ids", "-2"))
	f(40, newTopic("t", 1, 1, "retention.ms", "-2"))
	f(40, newTopic("t", 1, 1, "retention.ms", "soon"))
	f(40, newTopic("t", 1, 1, "max.message.bytes", "-1"))
	f(40, newTopic("t", 1, 1, "max.message.bytes", "1000000000"))
	f(40, newTopic("t", 1, 1, "queen.dedup.window.seconds", "-1"))
	f(40, newTopic("t", 1, 1, "queen.dedup.source", "key"))
	null := newTopic("t", 1, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	f(40, null)

	assign := func(partitions, replication int32, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
		nt := newTopic("t", partitions, int16(replication))
		for i, r := range replicas {
			nt.ReplicaAssignment = append(nt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: r})
		}
		return nt
	}
	f(42, assign(2, -1, []int32{1}, []int32{1}))
	f(42, assign(-1, 1, []int32{1}))
	f(39, assign(-1, -1, []int32{2}))
	f(39, assign(-1, -1, []int32{1, 1}))
	f(39, assign(-1, -1, []int32{}))
	gap := assign(-1, -1, []int32{1}, []int32{1})
	gap.ReplicaAssignment[1].Partition = 2
	f(39, gap)
	if rt := ask[*kmsg.CreateTopicsResponse](c, createRequest(assign(-1, -1, []int32{1}, []int32{1}))).Topics[0]; rt.ErrorCode != 0 || rt.NumPartitions != 2 {
		t.Errorf("a good assignment: %+v", rt)
	}

	twice := ask[*kmsg.CreateTopicsResponse](c, createRequest(newTopic("x", 1, 1), newTopic("x", 2, 1), newTopic("y", 1, 1)))
	if len(twice.Topics) != 2 || twice.Topics[0].ErrorCode != 42 || twice.Topics[1].ErrorCode != 0 {
		t.Errorf("named twice: %+v", twice.Topics)
	}
	together := ask[*kmsg.CreateTopicsResponse](c, createRequest(newTopic("p.q", 1, 1), newTopic("p_q", 1, 1)))
	if together.Topics[0].ErrorCode != 0 || together.Topics[1].ErrorCode != 17 {
		t.Errorf("colliding in one request: %+v", together.Topics)
	}
}

func TestCreateTopicsValidateOnlyCreatesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	req := createRequest(newTopic("t", 3, 1))
	req.ValidateOnly = true
	if rt := ask[*kmsg.CreateTopicsResponse](d.dial(), req).Topics[0]; rt.ErrorCode != 0 || rt.NumPartitions != 3 || d.fake.created != 0 {
		t.Errorf("%+v, %d created", rt, d.fake.created)
	}
}

func TestDeleteTopics(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("a", 1)
	b := d.fake.topic("b", 1)
	hidden := d.fake.topic("two words", 1)
	c := d.dial()
	old := at(kmsg.NewPtrDeleteTopicsRequest(), 5)
	old.TopicNames = []string{"a", "missing", "two words"}
	resp := ask[*kmsg.DeleteTopicsResponse](c, old)
	for i, want := range []int16{0, 3, 3} {
		if rt := resp.Topics[i]; rt.ErrorCode != want || *rt.Topic != old.TopicNames[i] {
			t.Errorf("%s: code %d, want %d", *rt.Topic, rt.ErrorCode, want)
		}
	}

	req := at(kmsg.NewPtrDeleteTopicsRequest(), 6)
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{Topic: kmsg.StringPtr("b"), TopicID: b.TopicID}, {}, {TopicID: uuid.UUID{7}}, {TopicID: b.TopicID}, {TopicID: b.TopicID},
	}
	codes := func(want ...int16) []kmsg.DeleteTopicsResponseTopic {
		t.Helper()
		resp := ask[*kmsg.DeleteTopicsResponse](c, req)
		if len(resp.Topics) != len(want) {
			t.Fatalf("%d answers, want %d: %+v", len(resp.Topics), len(want), resp.Topics)
		}
		for i, rt := range resp.Topics {
			if rt.ErrorCode != want[i] {
				t.Errorf("answer %d: code %d, want %d", i, rt.ErrorCode, want[i])
			}
		}
		return resp.Topics
	}
	codes(42, 42, 100, 42) // what is named twice is answered once, and stays
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: b.TopicID}, {Topic: kmsg.StringPtr("missing")}}
	if rt := codes(0, 3)[0]; *rt.Topic != "b" || uuid.UUID(rt.TopicID) != b.TopicID {
		t.Errorf("deleted by id: %+v", rt)
	}
	if len(d.fake.queues) != 1 || d.fake.queues[hidden.Name] == nil {
		t.Errorf("left: %v", d.fake.queues)
	}
}

// A06: a topic deleted and made again under its name starts anew.
func TestDeleteAndRecreate(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	create := func(partitions int32) uuid.UUID {
		t.Helper()
		rt := ask[*kmsg.CreateTopicsResponse](c, createRequest(newTopic("t", partitions, 1))).Topics[0]
		if rt.ErrorCode != 0 || rt.NumPartitions != partitions {
			t.Fatalf("%+v", rt)
		}
		return rt.TopicID
	}
	idempotent := func() kmsg.ProduceResponseTopicPartition {
		return produced(ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(func(rb *kmsg.RecordBatch) {
			rb.ProducerID, rb.ProducerEpoch, rb.FirstSequence = 4001, 0, 0
		}, record{value: "a"}, record{value: "b"}))))
	}
	first := create(2)
	d.put("t", 0, "before")
	if p := idempotent(); p.BaseOffset != 1 {
		t.Fatalf("%+v", p)
	}
	del := at(kmsg.NewPtrDeleteTopicsRequest(), 5)
	del.TopicNames = []string{"t"}
	if code := ask[*kmsg.DeleteTopicsResponse](c, del).Topics[0].ErrorCode; code != 0 {
		t.Fatal(code)
	}
	if second := create(3); second == first {
		t.Error("the topic id is the old one")
	}
	list := at(kmsg.NewPtrListOffsetsRequest(), 7)
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
	if p := ask[*kmsg.ListOffsetsResponse](c, list).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 0 {
		t.Errorf("log end: %+v", p)
	}
	if p := fetched(ask[*kmsg.FetchResponse](c, fetchRequest(11, "t", 0, 0))); p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
		t.Errorf("fetched %d bytes, code %d", len(p.RecordBatches), p.ErrorCode)
	}
	if p := idempotent(); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("the producer starts again: %+v", p)
	}
}

// L07: odd identifiers are stored or refused, never half of each.
func TestOddNames(t *testing.T) {
	t.Parallel()
	for name, legal := range map[string]bool{
		"a": true, "A-z_0.9": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, "...": true, strings.Repeat("x", 250): false,
		"a b": false, "a\x00": false, "é": false, "\xff": false, "😀": false, "a/b": false, "a\n": false,
	} {
		if legalTopic(name) != legal {
			t.Errorf("legalTopic(%q) = %v", name, !legal)
		}
	}
	d := open(t)
	for _, id := range []string{"", "a\x00b", "😀", strings.Repeat("x", 32<<10-1)} {
		c := d.dial()
		c.fmt = kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))
		if rt := ask[*kmsg.MetadataResponse](c, metadataRequest(9, true, "a\x00b", "😀")); rt.Topics[0].ErrorCode != 17 || rt.Topics[1].ErrorCode != 17 {
			t.Errorf("client id of %d bytes: %+v", len(id), rt.Topics)
		}
	}
}
