package kafkawire

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// metadataRequest asks for topics by name; no names ask for none of them.
func metadataRequest(version int16, create bool, names ...string) *kmsg.MetadataRequest {
	req := at(kmsg.NewPtrMetadataRequest(), version)
	req.AllowAutoTopicCreation = create
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &n
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestMetadataListsAllOrNone(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("a", 1)
	d.fake.topic("b", 3)
	c := d.dial()
	f := func(version int16, topics []kmsg.MetadataRequestTopic, want string) {
		t.Helper()
		req := at(kmsg.NewPtrMetadataRequest(), version)
		req.Topics = topics
		resp := ask[*kmsg.MetadataResponse](c, req)
		var names []string
		for _, rt := range resp.Topics {
			names = append(names, fmt.Sprint(*rt.Topic, len(rt.Partitions)))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("v%d %v: %q, want %q", version, topics, got, want)
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].Host != "queen.test" || resp.Brokers[0].Port != 9092 || version >= 1 && resp.ControllerID != 1 {
			t.Errorf("v%d: brokers %v, controller %d", version, resp.Brokers, resp.ControllerID)
		}
	}
	none := []kmsg.MetadataRequestTopic{}
	f(0, none, "a1 b3")
	for version := int16(1); version <= 13; version++ {
		f(version, nil, "a1 b3")
		f(version, none, "")
	}
}

func TestMetadataDescribesPartitions(t *testing.T) {
	t.Parallel()
	d := open(t)
	q := d.fake.topic("t", 2)
	d.fake.setBrokers(queen.Broker{ID: 1, Host: "one", Port: 1}, queen.Broker{ID: 2, Host: "two", Port: 2}, queen.Broker{ID: 5, Host: "five", Port: 5})
	c := d.dial()
	resp := ask[*kmsg.MetadataResponse](c, metadataRequest(13, false, "t"))
	rt := resp.Topics[0]
	if rt.ErrorCode != 0 || rt.TopicID != [16]byte(q.TopicID) || rt.AuthorizedOperations != operationsNotAsked || resp.ControllerID != 1 || *resp.ClusterID != d.fake.cluster.ID {
		t.Errorf("%+v", resp)
	}
	for n, p := range rt.Partitions {
		if p.Partition != int32(n) || p.LeaderEpoch != 7 || p.ErrorCode != 0 || len(p.Replicas) != 1 || p.Replicas[0] != p.Leader || len(p.ISR) != 1 || p.ISR[0] != p.Leader {
			t.Errorf("partition %d: %+v", n, p)
		}
	}

	byID := metadataRequest(12, false)
	byID.Topics = append(byID.Topics, kmsg.MetadataRequestTopic{TopicID: q.TopicID}, kmsg.MetadataRequestTopic{TopicID: uuid.UUID{9}})
	resp = ask[*kmsg.MetadataResponse](c, byID)
	if known := resp.Topics[0]; known.ErrorCode != 0 || *known.Topic != "t" {
		t.Errorf("by id: %+v", known)
	}
	if unknown := resp.Topics[1]; unknown.ErrorCode != codeUnknownTopicID || unknown.Topic != nil || unknown.TopicID != [16]byte{9} {
		t.Errorf("by an unknown id: %+v", unknown)
	}
	byID.Version = 11
	byID.Topics = byID.Topics[:1]
	if old := ask[*kmsg.MetadataResponse](c, byID).Topics[0]; old.ErrorCode != codeInvalidRequest {
		t.Errorf("by id before v12: code %d", old.ErrorCode)
	}
}

func TestMetadataTellsAuthorisedOperations(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	req := metadataRequest(10, false, "t")
	req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
	resp := ask[*kmsg.MetadataResponse](d.dial(), req)
	// What Apache Kafka answers without an authorizer.
	if got := resp.Topics[0].AuthorizedOperations; got != 3576 {
		t.Errorf("topic: %d", got)
	}
	if got := resp.AuthorizedOperations; got != 8096 {
		t.Errorf("cluster: %d", got)
	}
}

// P19: a topic is created only when asked for and allowed, and is usable at once.
func TestAutoCreateOnlyWhenAskedAndAllowed(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	code := func(req *kmsg.MetadataRequest) int16 {
		t.Helper()
		return ask[*kmsg.MetadataResponse](c, req).Topics[0].ErrorCode
	}
	if got := code(metadataRequest(4, false, "no")); got != 3 {
		t.Errorf("not asked for: code %d", got)
	}
	for i := range 50 {
		name := fmt.Sprint("new", i)
		resp := ask[*kmsg.MetadataResponse](c, metadataRequest(9, true, name))
		if rt := resp.Topics[0]; rt.ErrorCode != 0 || len(rt.Partitions) != 1 {
			t.Fatalf("%s: code %d, %d partitions", name, rt.ErrorCode, len(rt.Partitions))
		}
		if p := produced(ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, name, batch(nil, record{value: "x"})))); p.ErrorCode != 0 {
			t.Fatalf("produce to %s at once: code %d", name, p.ErrorCode)
		}
	}
	if got := code(metadataRequest(3, false, "old")); got != 0 {
		t.Errorf("versions below 4 always ask: code %d", got)
	}
	if got := code(metadataRequest(9, true, "not legal!")); got != codeInvalidTopic {
		t.Errorf("an illegal name: code %d", got)
	}
	if got := code(metadataRequest(9, true, "old_")); got != 0 {
		t.Errorf("a name with an underscore: code %d", got)
	}
	if got := code(metadataRequest(9, true, "old.")); got != codeInvalidTopic {
		t.Errorf("a name that collides: code %d", got)
	}
	if p := produced(ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "never", batch(nil, record{value: "x"})))); p.ErrorCode != 3 {
		t.Errorf("produce to an unknown name: code %d", p.ErrorCode)
	}
	if n := d.fake.created; n != 52 {
		t.Errorf("%d topics were created, want 52", n)
	}
	o := d.fake.queues["new0"].Options
	if o.DedupWindowSeconds != 0 || o.WindowFrom != queen.WindowKafka || o.RetentionMs != 604800000 || o.MaxMessageBytes != 1048588 {
		t.Errorf("options of a created topic: %+v", o)
	}

	off := open(t, func(c *Config) { c.AutoCreate = false })
	if rt := ask[*kmsg.MetadataResponse](off.dial(), metadataRequest(9, true, "new")).Topics[0]; rt.ErrorCode != 3 || off.fake.created != 0 {
		t.Errorf("not allowed: code %d, %d created", rt.ErrorCode, off.fake.created)
	}
}

func TestAutoCreateOncePerName(t *testing.T) {
	t.Parallel()
	d := open(t)
	var clients sync.WaitGroup
	for range 20 {
		c := d.dial()
		clients.Go(func() {
			for i := range 10 {
				rt := ask[*kmsg.MetadataResponse](c, metadataRequest(9, true, fmt.Sprint("new", i))).Topics[0]
				if rt.ErrorCode != 0 || len(rt.Partitions) != 1 {
					t.Errorf("code %d, %d partitions", rt.ErrorCode, len(rt.Partitions))
				}
			}
		})
	}
	clients.Wait()
	if n := d.fake.created; n != 10 {
		t.Errorf("%d topics were created, want 10", n)
	}
}

func TestMetadataHidesWhatKafkaCannotSee(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.PartitionsMax = 3 })
	d.fake.topic("fine", 3)
	d.fake.topic("wide", 4)
	d.fake.topic("two words", 1)
	d.fake.topic("umläut", 1)
	c := d.dial()
	for range 3 {
		var got []string
		for _, rt := range ask[*kmsg.MetadataResponse](c, at(kmsg.NewPtrMetadataRequest(), 9)).Topics {
			got = append(got, fmt.Sprint(*rt.Topic, " ", rt.ErrorCode, " ", len(rt.Partitions)))
		}
		if s := strings.Join(got, ", "); s != "fine 0 3, wide 17 0" {
			t.Errorf("listed: %s", s)
		}
	}
	if log := d.logs.String(); strings.Count(log, "two words") != 1 || strings.Count(log, "umläut") != 1 {
		t.Errorf("each hidden queue is to be logged once: %s", log)
	}
	if rt := ask[*kmsg.MetadataResponse](c, metadataRequest(9, false, "wide")).Topics[0]; rt.ErrorCode != 17 || len(rt.Partitions) != 0 {
		t.Errorf("asked for by name: code %d, %d partitions", rt.ErrorCode, len(rt.Partitions))
	}
	byID := metadataRequest(12, false)
	byID.Topics = append(byID.Topics, kmsg.MetadataRequestTopic{TopicID: d.fake.queues["two words"].TopicID})
	if rt := ask[*kmsg.MetadataResponse](c, byID).Topics[0]; rt.ErrorCode != codeUnknownTopicID {
		t.Errorf("asked for by id: code %d", rt.ErrorCode)
	}
}

func TestMetadataWithoutADatabase(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.setFail(queen.ErrUnavailable)
	c := d.dial()
	if rt := ask[*kmsg.MetadataResponse](c, metadataRequest(9, true, "t")).Topics[0]; rt.ErrorCode != codeLeaderNotAvailable {
		t.Errorf("code %d, want 5", rt.ErrorCode)
	}
	c.send(at(kmsg.NewPtrMetadataRequest(), 9)) // all: an empty list would be a lie
	c.closed()
}

func TestLeadersAreSpreadAndStay(t *testing.T) {
	t.Parallel()
	topic := uuid.UUID{1, 2, 3}
	three := []queen.Broker{{ID: 1}, {ID: 2}, {ID: 3}}
	const n = 3000
	share := make(map[int32]int)
	moved := 0
	for p := range int32(n) {
		was := leader(topic, p, three)
		share[was]++
		if now := leader(topic, p, three[:2]); now != was && was != 3 {
			moved++
		}
	}
	for _, b := range three {
		if s := share[b.ID]; s < n/3-150 || s > n/3+150 {
			t.Errorf("broker %d leads %d of %d", b.ID, s, n)
		}
	}
	if moved != 0 {
		t.Errorf("%d partitions of the others moved when broker 3 left", moved)
	}
}

func TestDescribeCluster(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	req := at(kmsg.NewPtrDescribeClusterRequest(), 2)
	req.EndpointType, req.IncludeClusterAuthorizedOperations = 1, true
	got := ask[*kmsg.DescribeClusterResponse](c, req)
	if got.ErrorCode != 0 || got.ClusterID != d.fake.cluster.ID || got.ControllerID != 1 || len(got.Brokers) != 1 || got.Brokers[0].IsFenced || got.ClusterAuthorizedOperations != 8096 {
		t.Errorf("%+v", got)
	}
	for endpoint, want := range map[int8]int16{2: codeMismatchedEndpointType, 3: codeUnsupportedEndpointType} {
		req.EndpointType = endpoint
		if got := ask[*kmsg.DescribeClusterResponse](c, req); got.ErrorCode != want || len(got.Brokers) != 0 {
			t.Errorf("endpoint type %d: code %d, %d brokers", endpoint, got.ErrorCode, len(got.Brokers))
		}
	}
}
