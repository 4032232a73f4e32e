package compat

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var adminCases = []Case{
	{"admin/create-describe-delete", createDescribeDelete},
	{"admin/create-refusals", createRefusals},
	{"admin/validate-only-makes-nothing", validateOnly},
	{"admin/defaults-for-minus-1", createDefaults},
	{"admin/delete-by-id-and-refusals", deleteRefusals},
	{"admin/recreated-topic-starts-anew", recreated},
	{"admin/metadata-null-is-all-empty-is-none", metadataAllNone},
	{"admin/describe-cluster", describeCluster},
	{"admin/named-twice-is-answered-once", namedTwice},
}

func createDescribeDelete(ctx context.Context, t *T) {
	offered, _ := t.offers(kmsg.CreateTopics)
	deletes, _ := t.offers(kmsg.DeleteTopics)
	for v := max(offered.min, 2); v <= t.max(kmsg.CreateTopics, newest); v++ {
		name := t.name("compat")
		r := ask[*kmsg.CreateTopicsResponse](t.control(), createTopicsRequest(false, newTopic(name, 3)), v)
		t.cleanup(func() { t.deleteTopic(name) })
		t.wantCode(fmt.Sprintf("create v%d", v), r.Topics[0].ErrorCode, 0)
		tp := t.await(name, 3)
		if v >= 7 && r.Topics[0].TopicID != tp.id {
			t.Errorf("create v%d: topic id %x, in Metadata %x", v, r.Topics[0].TopicID, tp.id)
		}
		if v >= 5 && (r.Topics[0].NumPartitions != 3 || len(r.Topics[0].Configs) == 0) {
			t.Errorf("create v%d: %d partitions, %d configs", v, r.Topics[0].NumPartitions, len(r.Topics[0].Configs))
		}
		dv := min(v, t.max(kmsg.DeleteTopics, newest))
		dv = max(dv, deletes.min)
		d := ask[*kmsg.DeleteTopicsResponse](t.control(), deleteTopicsRequest(name), dv)
		t.wantCode(fmt.Sprintf("delete v%d", dv), d.Topics[0].ErrorCode, 0)
		t.gone(ctx, name)
	}
}

// control connects to the broker that takes changes of topics.
func (t *T) control() *wire {
	md, err := t.adm().BrokerMetadata(t.ctx)
	t.must(err, "metadata")
	for _, b := range md.Brokers {
		if b.NodeID == md.Controller {
			return t.dialTo(fmt.Sprintf("%s:%d", b.Host, b.Port))
		}
	}
	t.Fatalf("controller %d is not among the brokers", md.Controller)
	return nil
}

// gone waits until a deleted topic is no longer listed.
func (t *T) gone(ctx context.Context, name string) {
	t.until(name+" is gone", func() bool {
		names, err := t.adm().ListTopics(ctx)
		return err == nil && !names.Has(name)
	})
}

func createRefusals(_ context.Context, t *T) {
	existing := t.topic(1)
	v := t.max(kmsg.CreateTopics, newest)
	w := t.control()
	change := func(f func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		rt := newTopic(t.name("compat-never"), 1)
		f(&rt)
		return rt
	}
	named := func(name string) kmsg.CreateTopicsRequestTopic { return newTopic(name, 1) }
	bogus := kmsg.NewCreateTopicsRequestTopicConfig()
	bogus.Name, bogus.Value = "no.such.config", kmsg.StringPtr("1")
	badValue := kmsg.NewCreateTopicsRequestTopicConfig()
	badValue.Name, badValue.Value = "retention.ms", kmsg.StringPtr("soon")
	assign := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	assign.Replicas = []int32{1}
	invalidTopic := kerr.InvalidTopicException.Code
	for _, c := range []struct {
		what  string
		topic kmsg.CreateTopicsRequestTopic
		want  int16
	}{
		{"a name that exists", named(existing.name), kerr.TopicAlreadyExists.Code},
		{"an empty name", named(""), invalidTopic},
		{"one dot", named("."), invalidTopic},
		{"two dots", named(".."), invalidTopic},
		{"a slash", named("a/b"), invalidTopic},
		{"a space", named("a b"), invalidTopic},
		{"a letter beyond ASCII", named("größe"), invalidTopic},
		{"a NUL", named("a\x00b"), invalidTopic},
		{"250 characters", named(strings.Repeat("x", 250)), invalidTopic},
		{"zero partitions", change(func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = 0 }), kerr.InvalidPartitions.Code},
		{"minus two partitions", change(func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = -2 }), kerr.InvalidPartitions.Code},
		{"replication factor 0", change(func(rt *kmsg.CreateTopicsRequestTopic) { rt.ReplicationFactor = 0 }), kerr.InvalidReplicationFactor.Code},
		{"a config nobody knows", change(func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.Configs = append(rt.Configs, bogus)
		}), kerr.InvalidConfig.Code},
		{"a config of the wrong kind", change(func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.Configs = append(rt.Configs, badValue)
		}), kerr.InvalidConfig.Code},
		{"an assignment and a count", change(func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.ReplicaAssignment = append(rt.ReplicaAssignment, assign)
		}), kerr.InvalidRequest.Code},
	} {
		r := ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(false, c.topic), v)
		if len(r.Topics) != 1 {
			t.Fatalf("%s: %d answers", c.what, len(r.Topics))
		}
		t.wantCode(c.what, r.Topics[0].ErrorCode, c.want)
	}
	twice := named(t.name("compat-never"))
	good := named(t.name("compat"))
	t.cleanup(func() { t.deleteTopic(good.Topic) })
	r := ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(false, twice, twice, good, named("a/b")), v)
	codes := make(map[string]int16)
	for _, rt := range r.Topics {
		codes[rt.Topic] = rt.ErrorCode
	}
	t.wantCode("one name twice in a request", codes[twice.Topic], kerr.InvalidRequest.Code)
	t.wantCode("a good one beside bad ones", codes[good.Topic], 0)
	t.wantCode("a bad one beside a good one", codes["a/b"], invalidTopic)
	// Names that differ only in . and _ would collide in metrics.
	base := t.name("compat")
	dotted, underscored := strings.ReplaceAll(base, "-", "."), strings.ReplaceAll(base, "-", "_")
	t.createTopic(dotted, 1, nil)
	r = ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(false, named(underscored)), v)
	t.wantCode("a name that differs only in . and _", r.Topics[0].ErrorCode, invalidTopic)
	long := t.name(strings.Repeat("x", 236))
	if len(long) != 249 {
		t.Fatalf("BUG: %d characters", len(long))
	}
	t.createTopic(long, 1, nil)
}

func validateOnly(ctx context.Context, t *T) {
	v := t.max(kmsg.CreateTopics, newest)
	name := t.name("compat-never")
	w := t.control()
	for range 2 {
		r := ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(true, newTopic(name, 2)), v)
		t.wantCode("validate", r.Topics[0].ErrorCode, 0)
	}
	r := ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(true, newTopic("a/b", 2)), v)
	t.wantCode("validate a bad name", r.Topics[0].ErrorCode, kerr.InvalidTopicException.Code)
	names, err := t.adm().ListTopics(ctx)
	t.must(err, "list topics")
	if names.Has(name) {
		t.Errorf("validating made a topic")
	}
}

func createDefaults(_ context.Context, t *T) {
	v := t.max(kmsg.CreateTopics, newest)
	rt := newTopic(t.name("compat"), -1)
	rt.ReplicationFactor = -1
	r := ask[*kmsg.CreateTopicsResponse](t.control(), createTopicsRequest(false, rt), v)
	t.cleanup(func() { t.deleteTopic(rt.Topic) })
	t.wantCode("create", r.Topics[0].ErrorCode, 0)
	if r.Topics[0].NumPartitions < 1 || r.Topics[0].ReplicationFactor < 1 {
		t.Errorf("defaults are %d partitions, replication factor %d", r.Topics[0].NumPartitions, r.Topics[0].ReplicationFactor)
	}
	t.await(rt.Topic, int(r.Topics[0].NumPartitions))
}

func deleteRefusals(ctx context.Context, t *T) {
	v := t.max(kmsg.DeleteTopics, newest)
	w := t.control()
	missing := t.name("compat-missing")
	d := ask[*kmsg.DeleteTopicsResponse](w, deleteTopicsRequest(missing), v)
	t.wantCode("delete a name nobody has", d.Topics[0].ErrorCode, kerr.UnknownTopicOrPartition.Code)
	if v < 6 {
		return
	}
	byID := func(id [16]byte) int16 {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 15_000
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
		r := ask[*kmsg.DeleteTopicsResponse](w, req, v)
		return r.Topics[0].ErrorCode
	}
	tp := t.topic(1)
	t.wantCode("delete by id", byID(tp.id), 0)
	t.gone(ctx, tp.name)
	t.wantCode("delete by id again", byID(tp.id), kerr.UnknownTopicID.Code)
}

// recreated: nothing of a deleted topic comes back with its name. Case A06.
func recreated(ctx context.Context, t *T) {
	name := t.name("compat")
	old := t.createTopic(name, 1, nil)
	w := t.dialTo(t.leader(name, 0))
	id, epoch := t.newProducer(w)
	v := t.max(kmsg.Produce, newest)
	for seq := int32(0); seq < 100; seq += 10 {
		b := values(strings.Split(strings.Repeat("x ", 9)+"x", " ")...).from(id, epoch, seq)
		got := w.produce(old, v, -1, part{0, b.encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
	}
	group := t.group()
	t.coordinator(group)
	position := make(kadm.Offsets)
	position.AddOffset(name, 0, 100, -1)
	t.must(t.adm().CommitAllOffsets(ctx, group, position), "commit")

	_, err := t.adm().DeleteTopic(ctx, name)
	t.must(err, "delete")
	t.gone(ctx, name)
	// Until the broker has let go of the old one, creating may have to be repeated.
	t.until("the name is free again", func() bool {
		_, err := t.adm().CreateTopic(ctx, 2, -1, nil, name)
		return err == nil
	})
	fresh := t.await(name, 2)
	if fresh.id == old.id {
		t.Errorf("the new topic has the id of the old one")
	}
	for p := range int32(2) {
		t.wantStored(fresh, p, 0)
	}
	w = t.dialTo(t.leader(name, 0))
	f := w.fetch(fresh, t.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 1 << 20}, 0)
	if f.ErrorCode != 0 || f.HighWatermark != 0 || len(f.RecordBatches) != 0 {
		t.Errorf("fetch of the new topic: code %d, high watermark %d, %d bytes", f.ErrorCode, f.HighWatermark, len(f.RecordBatches))
	}
	if fv := t.max(kmsg.Fetch, newest); fv >= 13 {
		f = w.fetch(old, fv, fetchSpec{maxBytes: 1 << 20}, 0)
		t.wantCode("fetch by the old id", f.ErrorCode, kerr.UnknownTopicID.Code, kerr.InconsistentTopicID.Code)
	}
	if v >= 13 {
		got := w.produce(old, v, -1, part{0, values("x").encode()})
		t.wantCode("produce by the old id", got[0].ErrorCode, kerr.UnknownTopicID.Code)
	}
	got := w.produce(fresh, v, -1, part{0, values("y").from(id, epoch, 0).encode()})
	t.wantCode("the same producer from sequence 0", got[0].ErrorCode, 0)
	if got[0].BaseOffset != 0 {
		t.Errorf("it was given offset %d, a memory of the old topic", got[0].BaseOffset)
	}
	t.wantStored(fresh, 0, 1)
	c := t.dialTo(t.coordinator(group)).committed(group, fresh, t.max(kmsg.OffsetFetch, newest))
	if c.groupCode != 0 || c.code != 0 || c.offset != -1 {
		t.Errorf("the group's position in the new topic: %+v, want -1", c)
	}
}

func metadataAllNone(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dial()
	ask1 := func(version int16, topics []kmsg.MetadataRequestTopic) (n int, found bool) {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = topics
		r := ask[*kmsg.MetadataResponse](w, req, version)
		for _, rt := range r.Topics {
			found = found || *rt.Topic == tp.name
		}
		return len(r.Topics), found
	}
	offered, _ := t.offers(kmsg.Metadata)
	for v := offered.min; v <= t.max(kmsg.Metadata, newest); v++ {
		none, all := []kmsg.MetadataRequestTopic{}, []kmsg.MetadataRequestTopic(nil)
		if v == 0 { // has no null: empty is all
			if _, found := ask1(v, none); !found {
				t.Errorf("v0, empty list: %s is not among all topics", tp.name)
			}
			continue
		}
		if n, _ := ask1(v, none); n != 0 {
			t.Errorf("v%d, empty list: %d topics", v, n)
		}
		if _, found := ask1(v, all); !found {
			t.Errorf("v%d, null list: %s is not among all topics", v, tp.name)
		}
	}
}

func describeCluster(_ context.Context, t *T) {
	v := t.max(kmsg.DescribeCluster, newest)
	r := ask[*kmsg.DescribeClusterResponse](t.dial(), kmsg.NewPtrDescribeClusterRequest(), v)
	t.wantCode("describe", r.ErrorCode, 0)
	if r.ClusterID == "" || len(r.Brokers) == 0 {
		t.Fatalf("cluster %q with %d brokers", r.ClusterID, len(r.Brokers))
	}
	known := false
	for _, b := range r.Brokers {
		known = known || b.NodeID == r.ControllerID
		if b.Host == "" || b.Port <= 0 || b.NodeID < 0 {
			t.Errorf("broker %d at %s:%d", b.NodeID, b.Host, b.Port)
		}
	}
	if !known {
		t.Errorf("controller %d is not among the brokers", r.ControllerID)
	}
	md := ask[*kmsg.MetadataResponse](t.dial(), kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
	if md.ClusterID == nil || *md.ClusterID != r.ClusterID {
		t.Errorf("Metadata names another cluster")
	}
}

// namedTwice: what a request names again is answered once, and a delete of it does nothing.
func namedTwice(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dial()
	for _, limit := range []int16{4, newest} {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &tp.name}, {Topic: &tp.name}}
		if got := ask[*kmsg.MetadataResponse](w, req, t.max(kmsg.Metadata, limit)).Topics; len(got) != 1 || got[0].ErrorCode != 0 {
			t.Errorf("Metadata of one topic, named twice: %+v", got)
		}
		v := t.max(kmsg.DeleteTopics, limit)
		if got := ask[*kmsg.DeleteTopicsResponse](w, deleteTopicsRequest(tp.name, tp.name), v).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("DeleteTopics of one topic, named twice: %+v", got)
		}
		got := ask[*kmsg.ListOffsetsResponse](t.dialTo(t.leader(tp.name, 0)), listOffsetsRequest(tp.name, -1, 0, 0), t.max(kmsg.ListOffsets, limit)).Topics
		if len(got) != 1 || len(got[0].Partitions) != 1 || got[0].Partitions[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("ListOffsets of one partition, named twice: %+v", got)
		}
	}
	if end := t.endOffset(tp.name, 0); end != 0 {
		t.Errorf("the topic ends at %d", end)
	}
}
