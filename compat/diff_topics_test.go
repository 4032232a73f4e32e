//go:build java

package compat

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// made makes a topic of a name that is the same at both brokers.
func (s *side) made(name string, partitions int32, configs map[string]*string) topic {
	name = "diff-" + name
	if configs == nil { // records of the suite are of 2023, and must stay
		configs = map[string]*string{"retention.ms": kmsg.StringPtr("-1")}
	}
	_, _ = s.adm().DeleteTopic(s.ctx, name) // one that a run cut short left
	var tp topic
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		_, err := s.adm().CreateTopic(s.ctx, partitions, 1, configs, name)
		if err == nil {
			break
		}
		if !s.pause(wait) {
			s.Fatalf("create %s: %v", name, err)
		}
	}
	s.cleanup(func() { s.deleteTopic(name) })
	tp = s.await(name, int(partitions))
	s.topics[tp.id] = name
	return tp
}

var noTopic = topic{"diff-nobody-made-this", [16]byte{1, 2, 3}}

func diffMetadata(s *side) {
	tp := s.made("metadata", 2, nil)
	ask := func(t topic, change func(*kmsg.MetadataRequest)) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(t.name)
			req.Topics = append(req.Topics, rt)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	s.each("one", ask(tp, nil))
	s.each("none-such", func() kmsg.Request {
		if s.version < 4 { // asks for the topic to be made, which each does in its own time
			return ask(tp, nil)()
		}
		return ask(noTopic, nil)()
	})
	s.ends("bad-name", ask(topic{name: "a b"}, nil))
	s.ends("empty-name", ask(topic{name: ""}, nil))
	s.last("by-id", ask(tp, func(r *kmsg.MetadataRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = nil, tp.id })())
	s.last("by-unknown-id", ask(tp, func(r *kmsg.MetadataRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = nil, noTopic.id })())
	s.last("operations", ask(tp, func(r *kmsg.MetadataRequest) { r.IncludeTopicAuthorizedOperations = true })())
	s.ask("with-cluster-operations", 8, ask(tp, func(r *kmsg.MetadataRequest) { r.IncludeClusterAuthorizedOperations = true })())
	s.ends("twice", ask(tp, func(r *kmsg.MetadataRequest) { r.Topics = append(r.Topics, r.Topics[0]) }))
	s.ask("no-topics", 4, ask(tp, func(r *kmsg.MetadataRequest) { r.Topics = []kmsg.MetadataRequestTopic{} })())

	s.each("cluster", func() kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() })
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.IncludeClusterAuthorizedOperations = true
	s.last("cluster-operations", cluster)
	controllers := kmsg.NewPtrDescribeClusterRequest()
	controllers.EndpointType = 2
	s.last("cluster-of-controllers", controllers)
}

func diffTopics(s *side) {
	existing := s.made("topics.existing", 1, nil)
	n := 0
	create := func(change func(*kmsg.CreateTopicsRequestTopic)) func() kmsg.Request {
		return func() kmsg.Request {
			n++
			rt := newTopic(fmt.Sprintf("diff-topics-%d", n), 2)
			if change != nil {
				change(&rt)
			}
			return createTopicsRequest(true, rt)
		}
	}
	for _, c := range []struct {
		label  string
		change func(*kmsg.CreateTopicsRequestTopic)
	}{
		{"checked", nil},
		{"exists", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = existing.name }},
		{"empty-name", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = "" }},
		{"dot", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = "." }},
		{"dots", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = ".." }},
		{"slash", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = "a/b" }},
		{"long-name", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = strings.Repeat("x", 250) }},
		{"collides", func(rt *kmsg.CreateTopicsRequestTopic) { rt.Topic = strings.ReplaceAll(existing.name, ".", "_") }},
		{"no-partitions", func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = 0 }},
		{"partitions-minus-2", func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions = -2 }},
		{"default-partitions", func(rt *kmsg.CreateTopicsRequestTopic) { rt.NumPartitions, rt.ReplicationFactor = -1, -1 }},
		{"replicas-0", func(rt *kmsg.CreateTopicsRequestTopic) { rt.ReplicationFactor = 0 }},
		{"replicas-3", func(rt *kmsg.CreateTopicsRequestTopic) { rt.ReplicationFactor = 3 }},
		{"unknown-config", withConfig("no.such", "1")},
		{"config-of-wrong-kind", withConfig("retention.ms", "soon")},
		{"config-out-of-range", withConfig("retention.ms", "-2")},
		{"policy-nonsense", withConfig("cleanup.policy", "nonsense")},
		{"null-config", func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"})
		}},
		{"assignment-and-count", func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}}
		}},
		{"assignment-with-hole", func(rt *kmsg.CreateTopicsRequestTopic) {
			rt.NumPartitions, rt.ReplicationFactor = -1, -1
			rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}}
		}},
	} {
		s.ends(c.label, create(c.change))
	}
	s.ends("twice-in-one", func() kmsg.Request {
		return createTopicsRequest(true, newTopic("diff-topics-twice", 1), newTopic("diff-topics-twice", 1))
	})
	s.ends("none", func() kmsg.Request { return createTopicsRequest(false) })
	s.each("create-and-drop", func() kmsg.Request {
		name := fmt.Sprintf("diff-topics-real-%d", s.version)
		s.cleanup(func() { s.deleteTopic(name) })
		return createTopicsRequest(false, newTopic(name, 1))
	})
	s.ends("drop-unknown", func() kmsg.Request { return deleteTopicsRequest(noTopic.name) })
	s.ends("drop-bad-name", func() kmsg.Request { return deleteTopicsRequest("a b") })
	s.ends("drop-none", func() kmsg.Request { return deleteTopicsRequest() })
	s.ends("drop-twice-in-one", func() kmsg.Request { return deleteTopicsRequest(noTopic.name, noTopic.name) })
	byID := kmsg.NewPtrDeleteTopicsRequest()
	byID.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: noTopic.id}}
	s.last("drop-unknown-id", byID)
	both := kmsg.NewPtrDeleteTopicsRequest()
	both.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: existing.id, Topic: kmsg.StringPtr(existing.name)}}
	s.last("drop-by-name-and-id", both)
	neither := kmsg.NewPtrDeleteTopicsRequest()
	neither.Topics = []kmsg.DeleteTopicsRequestTopic{{}}
	s.last("drop-by-nothing", neither)
	id := kmsg.NewPtrDeleteTopicsRequest()
	id.TimeoutMillis = 15_000
	id.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: existing.id}}
	s.last("drop-by-id", id)
}

func withConfig(name, value string) func(*kmsg.CreateTopicsRequestTopic) {
	return func(rt *kmsg.CreateTopicsRequestTopic) {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
}

func diffConfigs(s *side) {
	tp := s.made("configs", 1, map[string]*string{"retention.ms": kmsg.StringPtr("600000")})
	names := []string{
		"cleanup.policy", "compression.type", "delete.retention.ms", "flush.messages", "flush.ms", "max.message.bytes",
		"message.timestamp.type", "min.insync.replicas", "retention.bytes", "retention.ms", "segment.bytes", "segment.ms", "no.such",
	}
	describe := func(kind kmsg.ConfigResourceType, name string, keys []string) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
			req.Resources = append(req.Resources, r)
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			return req
		}
	}
	topics, brokers := kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	s.each("describe", describe(topics, tp.name, names))
	s.last("describe-all", describe(topics, tp.name, nil)())
	s.last("describe-nothing", describe(topics, tp.name, []string{})())
	s.ends("describe-no-topic", describe(topics, noTopic.name, names))
	s.ends("describe-bad-name", describe(topics, "a b", names))
	s.ends("describe-broker", describe(brokers, "1", []string{"num.partitions", "auto.create.topics.enable", "default.replication.factor", "log.retention.ms", "nope"}))
	s.ends("describe-all-brokers", describe(brokers, "", nil))
	s.ends("describe-no-broker", describe(brokers, "99", nil))
	s.ends("describe-bad-broker", describe(brokers, "abc", nil))
	s.ends("describe-kind-3", describe(3, "x", nil))
	alter := func(kind kmsg.ConfigResourceType, name string, validate bool, changes ...change) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.Resources = append(req.Resources, alteration(kind, name, changes...))
			req.ValidateOnly = validate
			return req
		}
	}
	for _, c := range []struct {
		label string
		c     []change
	}{
		{"set", []change{{"retention.ms", opSet, "700000"}}},
		{"delete", []change{{"retention.ms", opDelete, ""}}},
		{"delete-not-set", []change{{"flush.ms", opDelete, ""}}},
		{"append", []change{{"cleanup.policy", opAppend, "compact"}}},
		{"subtract", []change{{"cleanup.policy", opSubtract, "compact"}}},
		{"append-to-no-list", []change{{"retention.ms", opAppend, "1"}}},
		{"operation-9", []change{{"retention.ms", 9, "1"}}},
		{"unknown", []change{{"no.such", opSet, "1"}}},
		{"wrong-kind", []change{{"retention.ms", opSet, "soon"}}},
		{"out-of-range", []change{{"segment.bytes", opSet, "1"}}},
		{"policy-nonsense", []change{{"cleanup.policy", opSet, "nonsense"}}},
		{"twice", []change{{"retention.ms", opSet, "1"}, {"retention.ms", opSet, "2"}}},
		{"nothing", nil},
	} {
		s.ends("alter-"+c.label, alter(topics, tp.name, false, c.c...))
		s.ends("check-"+c.label, alter(topics, tp.name, true, c.c...))
	}
	s.ends("alter-no-topic", alter(topics, noTopic.name, false, change{"retention.ms", opSet, "1"}))
	s.ends("alter-kind-3", alter(3, "x", false, change{"a", opSet, "1"}))
	s.last("described-after", describe(topics, tp.name, names)())
	replace := func(name string, kv ...string) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrAlterConfigsRequest()
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = topics, name
			for i := 0; i < len(kv); i += 2 {
				r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: kv[i], Value: &kv[i+1]})
			}
			req.Resources = append(req.Resources, r)
			return req
		}
	}
	s.each("replace", replace(tp.name, "flush.ms", "5000"))
	s.ends("replace-unknown", replace(tp.name, "no.such", "1"))
	s.ends("replace-bad", replace(tp.name, "retention.ms", "soon"))
	s.ends("replace-no-topic", replace(noTopic.name, "flush.ms", "5000"))
	s.last("described-replaced", describe(topics, tp.name, names)())
}

func diffPartitions(s *side) {
	tp := s.made("partitions", 2, nil)
	s.last("fill", produceRequest(tp, -1, part{0, values("a", "b", "c").encode()}))
	n := int32(2)
	grow := func(name string, count func() int32, change func(*kmsg.CreatePartitionsRequest)) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis = 15_000
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = name, count()
			req.Topics = append(req.Topics, rt)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	fixed := func(n int32) func() int32 { return func() int32 { return n } }
	s.each("grow", grow(tp.name, func() int32 { n++; return n }, nil))
	s.ends("grow-not", grow(tp.name, func() int32 { return n }, nil))
	s.ends("shrink", grow(tp.name, fixed(1), nil))
	s.ends("grow-to-0", grow(tp.name, fixed(0), nil))
	s.ends("grow-to-minus-1", grow(tp.name, fixed(-1), nil))
	s.ends("grow-no-topic", grow(noTopic.name, fixed(5), nil))
	s.ends("grow-checked", grow(tp.name, fixed(20), func(r *kmsg.CreatePartitionsRequest) { r.ValidateOnly = true }))
	s.ends("grow-twice-in-one", grow(tp.name, fixed(20), func(r *kmsg.CreatePartitionsRequest) { r.Topics = append(r.Topics, r.Topics[0]) }))
	s.ends("grow-wrong-assignment", grow(tp.name, fixed(20), func(r *kmsg.CreatePartitionsRequest) {
		r.Topics[0].Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1}}}
	}))
	trim := func(name string, partition int32, to int64) func() kmsg.Request {
		return func() kmsg.Request { return deleteRecordsRequest(name, partition, to) }
	}
	s.each("trim-1", trim(tp.name, 0, 1))
	s.ends("trim-back", trim(tp.name, 0, 0))
	s.ends("trim-beyond", trim(tp.name, 0, 9))
	s.ends("trim-minus-2", trim(tp.name, 0, -2))
	s.ends("trim-all", trim(tp.name, 0, -1))
	s.ends("trim-no-topic", trim(noTopic.name, 0, 1))
	s.ends("trim-no-partition", trim(tp.name, 99, 1))
	s.last("start", listOffsetsRequest(tp.name, -2, 0))
	compacted := s.made("partitions-compacted", 1, map[string]*string{"cleanup.policy": kmsg.StringPtr("compact")})
	s.last("trim-compacted", trim(compacted.name, 0, 0)())
}

func diffInspection(s *side) {
	tp := s.made("inspection", 2, nil)
	for _, f := range []func(name string, partition int32) kmsg.Request{
		func(name string, partition int32) kmsg.Request {
			req := kmsg.NewPtrDescribeProducersRequest()
			req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: name, Partitions: []int32{partition}}}
			return req
		},
		func(name string, partition int32) kmsg.Request {
			req := kmsg.NewPtrElectLeadersRequest()
			req.TimeoutMillis = 15_000
			req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{partition}}}
			return req
		},
		func(name string, partition int32) kmsg.Request {
			req := kmsg.NewPtrListPartitionReassignmentsRequest()
			req.TimeoutMillis = 15_000
			req.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: name, Partitions: []int32{partition}}}
			return req
		},
		func(name string, _ int32) kmsg.Request {
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit = 100
			req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: name}}
			return req
		},
	} {
		s.each("one", func() kmsg.Request { return f(tp.name, 1) })
		s.each("no-such-topic", func() kmsg.Request { return f(noTopic.name, 0) })
		s.each("no-such-partition", func() kmsg.Request { return f(tp.name, 9) })
	}
}
