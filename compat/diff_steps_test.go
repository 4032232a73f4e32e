//go:build java

package compat

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// conversations cover the requests that both serve: valid ones at every version,
// and what may be wrong with them at the oldest and the newest.
var conversations = []conversation{
	{"metadata", diffMetadata},
	{"topics", diffTopics},
	{"produce", diffProduce},
	{"idempotence", diffIdempotence},
	{"fetch", diffFetch},
	{"offsets", diffOffsets},
	{"groups", diffGroups},
	{"commits", diffCommits},
	{"consumer-groups", diffConsumerGroups},
	{"configs", diffConfigs},
	{"partitions", diffPartitions},
	{"inspection", diffInspection},
}

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

func diffProduce(s *side) {
	tp := s.made("produce", 1, nil)
	good := values("a", "b").encode()
	send := func(t topic, acks int16, parts ...part) func() kmsg.Request {
		return func() kmsg.Request { return produceRequest(t, acks, parts...) }
	}
	s.each("good", send(tp, -1, part{0, good}))
	s.each("acks-1", send(tp, 1, part{0, good}))
	s.each("no-such-topic", send(noTopic, -1, part{0, good}))
	s.ends("no-such-partition", send(tp, -1, part{7, good}))
	s.ends("partition-minus-1", send(tp, -1, part{-1, good}))
	s.ends("acks-2", send(tp, 2, part{0, good}))
	s.ends("no-partitions", send(tp, -1))
	mangled := func(f func(*kmsg.RecordBatch)) []byte {
		b := values("a", "b")
		b.mangle = f
		return b.encode()
	}
	bad := good
	bad = append([]byte(nil), bad...)
	bad[len(bad)-1] ^= 1
	magic := append([]byte(nil), good...)
	magic[batchMagicAt] = 3
	old := append([]byte(nil), good...)
	old[batchMagicAt] = 1
	for _, c := range []struct {
		label   string
		records []byte
	}{
		{"null-records", nil},
		{"no-records", []byte{}},
		{"two-batches", append(append([]byte(nil), good...), good...)},
		{"wrong-crc", bad},
		{"magic-3", magic},
		{"magic-1", old},
		{"cut-short", good[:len(good)-3]},
		{"control", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 5 })},
		{"transactional", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 4 })},
		{"codec-7", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 7 })},
		{"count-too-high", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 3, 2 })},
		{"count-too-low", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 1, 0 })},
		{"count-0", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 0, -1 })},
		{"last-delta", mangled(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 9 })},
		{"future", values("a").at(time.Now().Add(48 * time.Hour).UnixMilli()).encode()},
		{"time-minus-1", values("a").at(-1).encode()},
		{"too-large", values(strings.Repeat("x", 1_100_000)).encode()},
	} {
		s.ends(c.label, send(tp, -1, part{0, c.records}))
	}
	s.ends("good-beside-bad", send(tp, -1, part{0, good}, part{7, good}))
	for _, c := range codecs {
		b := values("a", "b")
		b.codec = codec(c.codec)
		records := b.encode()
		s.ends("codec-"+c.name, send(tp, -1, part{0, records}))
	}
	s.last("end", listOffsetsRequest(tp.name, -1, 0))

	compacted := s.made("produce-compacted", 1, map[string]*string{"cleanup.policy": kmsg.StringPtr("compact")})
	s.ends("null-key", send(compacted, -1, part{0, good}))
}

func diffIdempotence(s *side) {
	tp := s.made("idempotence", 1, nil)
	s.each("new-id", func() kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() })
	s.ends("new-id-timeout-0", func() kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis = 0
		return req
	})
	empty := kmsg.NewPtrInitProducerIDRequest()
	empty.TransactionalID = kmsg.StringPtr("")
	s.last("empty-transactional-id", empty)
	half := kmsg.NewPtrInitProducerIDRequest()
	half.ProducerID = 5
	s.last("id-without-epoch", half)

	init, ok := s.last("id", kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
	if !ok || init.ErrorCode != 0 {
		s.Fatalf("no producer id: %+v", init)
	}
	put := func(label string, epoch int16, seq int32, n int) {
		vs := make([]string, n)
		s.last(label, produceRequest(tp, -1, part{0, values(vs...).from(init.ProducerID, epoch, seq).encode()}))
	}
	for i := range 6 {
		put(fmt.Sprint("in-order-", i), 0, int32(3*i), 3)
	}
	put("resent-last", 0, 15, 3)
	put("resent-fifth", 0, 3, 3)
	put("resent-sixth", 0, 0, 3)
	put("part-of-last", 0, 15, 2)
	put("gap", 0, 21, 1)
	put("next", 0, 18, 1)
	put("new-epoch-not-at-0", 1, 5, 1)
	put("new-epoch", 1, 0, 1)
	put("old-epoch", 0, 19, 1)
	s.last("end", listOffsetsRequest(tp.name, -1, 0))
	unknown := values("a").from(1<<40, 0, 7).encode()
	s.ends("never-given-out", func() kmsg.Request { return produceRequest(tp, -1, part{0, unknown}) })
	negative := values("a").from(init.ProducerID, -1, 7).encode()
	s.ends("epoch-minus-1", func() kmsg.Request { return produceRequest(tp, -1, part{0, negative}) })
	seq := values("a").from(init.ProducerID, 1, -1).encode()
	s.ends("sequence-minus-1", func() kmsg.Request { return produceRequest(tp, -1, part{0, seq}) })
}

func diffFetch(s *side) {
	tp := s.made("fetch", 2, nil)
	for i := range 3 {
		s.last(fmt.Sprint("fill-", i), produceRequest(tp, -1, part{0, values("a", "b", "c").encode()}))
	}
	get := func(f fetchSpec, change func(*kmsg.FetchRequest), partitions ...int32) func() kmsg.Request {
		if f.maxBytes == 0 {
			f.maxBytes = 1 << 20
		}
		return func() kmsg.Request {
			req := fetchRequest(tp, f, partitions...)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	s.each("all", get(fetchSpec{}, nil, 0))
	s.each("inside", get(fetchSpec{offset: 4}, nil, 0))
	s.each("at-end", get(fetchSpec{offset: 9}, nil, 0))
	s.each("beyond-end", get(fetchSpec{offset: 10}, nil, 0))
	s.each("no-such-topic", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = noTopic.name, noTopic.id }, 0))
	s.ends("offset-minus-1", get(fetchSpec{offset: -1}, nil, 0))
	s.ends("no-such-partition", get(fetchSpec{}, nil, 9))
	s.ends("partition-minus-1", get(fetchSpec{}, nil, -1))
	s.ends("two", get(fetchSpec{}, nil, 0, 1))
	s.ends("one-byte", get(fetchSpec{maxBytes: 1}, nil, 0))
	s.ends("one-byte-of-a-partition", get(fetchSpec{partMax: 1}, nil, 0))
	s.ends("read-committed", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }, 0))
	s.ends("isolation-7", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.IsolationLevel = 7 }, 0))
	s.last("newer-epoch", get(fetchSpec{epoch: 1000}, nil, 0)())
	s.last("diverging", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].LastFetchedEpoch = 1000 }, 0)())
	s.last("nothing", get(fetchSpec{}, nil)())
	s.last("no-such-session", get(fetchSpec{session: 12345, turn: 3}, nil, 0)())
	s.last("session-0-turn-1", get(fetchSpec{}, func(r *kmsg.FetchRequest) { r.SessionEpoch = 1 }, 0)())
	opened, ok := s.last("open", get(fetchSpec{open: true}, nil, 0, 1)()).(*kmsg.FetchResponse)
	if !ok {
		s.Fatalf("no session")
	}
	id := opened.SessionID
	s.last("turn-1", get(fetchSpec{session: id, turn: 1}, nil)())
	s.last("turn-2-again-from-9", get(fetchSpec{session: id, turn: 2, offset: 9}, nil, 0)())
	s.last("turn-3", get(fetchSpec{session: id, turn: 3}, nil)())
	s.last("wrong-turn", get(fetchSpec{session: id, turn: 9}, nil)())
	s.last("close", get(fetchSpec{session: id, turn: -1}, nil)())
	s.last("closed", get(fetchSpec{session: id, turn: 4}, nil)())
}

func diffOffsets(s *side) {
	tp := s.made("offsets", 2, nil)
	for i := range 3 {
		s.last(fmt.Sprint("fill-", i), produceRequest(tp, -1, part{0, values("a", "b").at(int64(1000 * (i + 1))).encode()}))
	}
	for _, at := range []int64{-1, -2, -3, -4, -5, -6, -7, 0, 1000, 1001, 3000, 3001} {
		s.each(fmt.Sprint("at-", at), func() kmsg.Request { return listOffsetsRequest(tp.name, at, 0) })
		s.ends(fmt.Sprint("empty-at-", at), func() kmsg.Request { return listOffsetsRequest(tp.name, at, 1) })
	}
	s.ends("no-such-topic", func() kmsg.Request { return listOffsetsRequest(noTopic.name, -1, 0) })
	s.ends("no-such-partition", func() kmsg.Request { return listOffsetsRequest(tp.name, -1, 9) })
	s.ends("twice", func() kmsg.Request { return listOffsetsRequest(tp.name, -1, 0, 0) })
	newer := listOffsetsRequest(tp.name, -1, 0)
	newer.Topics[0].Partitions[0].CurrentLeaderEpoch = 1000
	s.last("newer-epoch", newer)
	committed := listOffsetsRequest(tp.name, -1, 0)
	committed.IsolationLevel = 1
	s.last("read-committed", committed)

	// The epoch in force, as the broker tells it.
	end := ask[*kmsg.ListOffsetsResponse](s.w, listOffsetsRequest(tp.name, -1, 0), s.served[kmsg.ListOffsets.Int16()].max)
	epoch := end.Topics[0].Partitions[0].LeaderEpoch
	s.each("epoch", func() kmsg.Request { return leaderEpochRequest(tp.name, epoch, 0) })
	s.ends("next-epoch", func() kmsg.Request { return leaderEpochRequest(tp.name, epoch+1, 0) })
	s.ends("epoch-minus-1", func() kmsg.Request { return leaderEpochRequest(tp.name, -1, 0) })
	s.ends("epoch-of-no-topic", func() kmsg.Request { return leaderEpochRequest(noTopic.name, epoch, 0) })
	s.ends("epoch-of-no-partition", func() kmsg.Request { return leaderEpochRequest(tp.name, epoch, 9) })
	ahead := leaderEpochRequest(tp.name, epoch, 0)
	ahead.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch + 5
	s.last("epoch-ahead", ahead)
}

func diffGroups(s *side) {
	s.coordinator("diff-group") // waits until there is one
	find := func(kind int8, keys ...string) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType, req.CoordinatorKeys = kind, keys
			if len(keys) > 0 {
				req.CoordinatorKey = keys[0]
			}
			return req
		}
	}
	s.each("coordinator", find(0, "diff-group"))
	s.ends("coordinator-of-empty", find(0, ""))
	s.last("coordinators", find(0, "diff-group", "diff-other")())
	s.last("coordinator-of-kind-9", find(9, "x")())
	s.last("coordinator-of-nobody", find(0)())

	join := func(group, member string, session time.Duration, change func(*kmsg.JoinGroupRequest)) func() kmsg.Request {
		return func() kmsg.Request {
			req := joinRequest(group, member, session)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	half := time.Second * 30
	s.ends("join-short-session", join("diff-joins", "", time.Second, nil))
	s.ends("join-long-session", join("diff-joins", "", time.Hour, nil))
	s.ends("join-empty-group", join("", "", half, nil))
	s.ends("join-unknown-member", join("diff-joins", "who", half, nil))
	s.last("join-no-protocols", join("diff-joins", "m", half, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })())
	s.last("join-no-type", join("diff-joins", "m", half, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })())
	s.last("join-half", join("diff-halves", "", half, nil)())

	for v := s.served[kmsg.JoinGroup.Int16()].min; v <= s.served[kmsg.JoinGroup.Int16()].max; v++ {
		group := fmt.Sprint("diff-group-", v)
		s.version = v
		first, _ := s.ask("join", v, join(group, "", half, nil)()).(*kmsg.JoinGroupResponse)
		if v >= 4 {
			s.members[first.MemberID] = "member-1"
			first, _ = s.ask("join-with-id", v, join(group, first.MemberID, half, nil)()).(*kmsg.JoinGroupResponse)
		}
		id, generation := first.MemberID, first.Generation
		s.members[id] = "member-1"
		lesser := func(key kmsg.Key) int16 { return min(v, s.served[key.Int16()].max) }
		describe := func(label string) {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups, req.IncludeAuthorizedOperations = []string{group}, v%2 == 1
			s.ask(label, lesser(kmsg.DescribeGroups), req)
		}
		beat := func(label, member string, generation int32) {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = group, member, generation
			s.ask(label, lesser(kmsg.Heartbeat), req)
		}
		synced := func(label, member string, generation int32, change func(*kmsg.SyncGroupRequest)) {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID, req.Generation = group, member, generation
			req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = member, []byte("all of it")
			req.GroupAssignment = append(req.GroupAssignment, a)
			if change != nil {
				change(req)
			}
			s.ask(label, lesser(kmsg.SyncGroup), req)
		}
		describe("describe-completing")
		beat("beat-completing", id, generation)
		synced("sync-old-generation", id, generation-1, nil)
		synced("sync-unknown", "who", generation, nil)
		if v >= 5 {
			synced("sync-other-type", id, generation, func(r *kmsg.SyncGroupRequest) { r.ProtocolType = kmsg.StringPtr("other") })
			synced("sync-other-protocol", id, generation, func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("other") })
		}
		synced("sync", id, generation, nil)
		synced("sync-again", id, generation, nil)
		describe("describe-stable")
		beat("beat", id, generation)
		beat("beat-old", id, generation-1)
		beat("beat-newer", id, generation+1)
		beat("beat-unknown", "who", generation)
		s.ask("join-other-type", v, join(group, id, half, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "other" })())
		s.ask("join-other-protocol", v, join(group, id, half, func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "other" })())
		leave := func(label, member string) {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = group, member
			rm := kmsg.NewLeaveGroupRequestMember()
			rm.MemberID = member
			req.Members = append(req.Members, rm)
			s.ask(label, lesser(kmsg.LeaveGroup), req)
		}
		drop := func(label string) {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{group}
			s.ask(label, lesser(kmsg.DeleteGroups), req)
		}
		drop("delete-with-member")
		leave("leave-unknown", "who")
		leave("leave", id)
		leave("leave-again", id)
		describe("describe-empty")
		beat("beat-empty", id, generation)
		drop("delete")
		drop("delete-again")
		describe("describe-deleted")
		beat("beat-deleted", id, generation)
	}
	static := join("diff-static", "", half, func(r *kmsg.JoinGroupRequest) { r.InstanceID = kmsg.StringPtr("one") })
	first, _ := s.last("static", static()).(*kmsg.JoinGroupResponse)
	s.members[first.MemberID] = "member-1"
	again, _ := s.last("static-again", static()).(*kmsg.JoinGroupResponse)
	s.members[again.MemberID] = "member-2"
	fenced := kmsg.NewPtrHeartbeatRequest()
	fenced.Group, fenced.MemberID, fenced.Generation, fenced.InstanceID = "diff-static", first.MemberID, again.Generation, kmsg.StringPtr("one")
	s.last("static-fenced", fenced)
	gone := kmsg.NewPtrLeaveGroupRequest()
	gone.Group = "diff-static"
	for _, instance := range []string{"one", "two"} {
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.InstanceID = kmsg.StringPtr(instance)
		gone.Members = append(gone.Members, rm)
	}
	s.last("static-removed", gone)
	for _, filter := range []string{"Stable", "Empty", "nonsense"} {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = []string{filter}, []string{"nonsense"}
		s.last("list-"+filter, req)
	}
}

func diffCommits(s *side) {
	tp := s.made("commits", 2, nil)
	const group = "diff-commits"
	s.coordinator(group)
	put := func(c commit, change func(*kmsg.OffsetCommitRequest)) func() kmsg.Request {
		return func() kmsg.Request {
			req := offsetCommitRequest(group, tp, c)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	get := func(group string, t topic) func() kmsg.Request {
		return func() kmsg.Request { return offsetFetchRequest(group, s.version, t) }
	}
	s.each("none-yet", get(group, tp))
	s.each("commit", put(commit{offset: 5, leaderEpoch: -1, metadata: kmsg.StringPtr("m")}, nil))
	s.each("fetch", get(group, tp))
	s.each("fetch-of-nobody", get("diff-nobody", tp))
	s.each("fetch-no-topic", get(group, noTopic))
	s.ends("commit-null-metadata", put(commit{partition: 1, offset: 5, leaderEpoch: 0}, nil))
	s.ends("commit-minus-2", put(commit{partition: 1, offset: -2, leaderEpoch: -1}, nil))
	s.ends("commit-no-partition", put(commit{partition: 9, offset: 5, leaderEpoch: -1}, nil))
	s.each("commit-no-topic", put(commit{offset: 5, leaderEpoch: -1}, func(r *kmsg.OffsetCommitRequest) {
		r.Topics[0].Topic, r.Topics[0].TopicID = noTopic.name, noTopic.id
	}))
	s.ends("commit-long-metadata", put(commit{offset: 5, leaderEpoch: -1, metadata: kmsg.StringPtr(strings.Repeat("x", 4097))}, nil))
	s.each("commit-unknown-member", put(commit{offset: 5, leaderEpoch: -1, member: "who", generation: 3}, nil))
	s.each("commit-unknown-group", put(commit{offset: 5, leaderEpoch: -1, member: "who", generation: 3}, func(r *kmsg.OffsetCommitRequest) { r.Group = "diff-no-group" }))
	s.ends("commit-nothing", put(commit{}, func(r *kmsg.OffsetCommitRequest) { r.Topics = nil }))
	all := func() kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = group
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group, rg.Topics = group, nil
		req.Groups = append(req.Groups, rg)
		return req
	}
	s.ask("all", 2, all())
	s.ask("all", 7, all())
	s.last("all", all())
	member := all().(*kmsg.OffsetFetchRequest)
	member.Groups[0].MemberID, member.Groups[0].MemberEpoch = kmsg.StringPtr("who"), 3
	s.last("all-of-a-member", member)
	drop := func(group, topic string, partition int32) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = group
			req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}}}}
			return req
		}
	}
	s.each("delete", drop(group, tp.name, 0))
	s.each("delete-again", drop(group, tp.name, 0))
	s.each("delete-no-topic", drop(group, noTopic.name, 0))
	s.each("delete-of-nobody", drop("diff-nobody", tp.name, 0))
	s.each("fetch-deleted", get(group, tp))
	groups := func(names ...string) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = names
			return req
		}
	}
	s.last("delete-group", groups(group)())
	s.each("delete-unknown-group", groups("diff-nobody"))
	s.ends("delete-empty-name", groups(""))
	s.each("fetch-after", get(group, tp))
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group, "", "diff-nobody"}
	s.last("describe", describe)
}

func diffConsumerGroups(s *side) {
	tp := s.made("consumers", 2, nil)
	const group, id = "diff-consumers", "AAAAAAAAAAAAAAAAAAAAAA"
	s.coordinator(group)
	beat := func(label string, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = group, id, 0
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, []string{tp.name}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if change != nil {
			change(req)
		}
		got, _ := s.last(label, req).(*kmsg.ConsumerGroupHeartbeatResponse)
		return got
	}
	type hb = *kmsg.ConsumerGroupHeartbeatRequest
	beat("empty-group", func(r hb) { r.Group = "" })
	beat("no-member-id", func(r hb) { r.MemberID = "" })
	beat("no-timeout", func(r hb) { r.RebalanceTimeoutMillis = -1 })
	beat("no-subscription", func(r hb) { r.SubscribedTopicNames = nil })
	beat("no-partitions", func(r hb) { r.Topics = nil })
	beat("partitions-at-join", func(r hb) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: tp.id, Partitions: []int32{0}}}
	})
	beat("unknown-assignor", func(r hb) { r.ServerAssignor = kmsg.StringPtr("nonsense") })
	beat("bad-regex", func(r hb) { r.SubscribedTopicRegex, r.SubscribedTopicNames = kmsg.StringPtr("["), nil })
	beat("empty-instance", func(r hb) { r.InstanceID = kmsg.StringPtr("") })
	beat("epoch-minus-3", func(r hb) { r.MemberEpoch = -3 })
	beat("unknown-member", func(r hb) { r.MemberEpoch = 3 })
	beat("leave-unknown-group", func(r hb) { r.MemberEpoch, r.Group = -1, "diff-nobody" })
	joined := beat("join", nil)
	epoch := joined.MemberEpoch
	beat("owns-all", func(r hb) {
		r.MemberEpoch = epoch
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: tp.id, Partitions: []int32{0, 1}}}
	})
	beat("keep", func(r hb) {
		r.MemberEpoch, r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = epoch, -1, nil, nil
	})
	beat("epoch-ahead", func(r hb) { r.MemberEpoch = epoch + 5 })
	beat("epoch-behind", func(r hb) { r.MemberEpoch = epoch - 1; r.Topics = nil })
	describe := func(label string, groups ...string) {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups, req.IncludeAuthorizedOperations = groups, true
		s.last(label, req)
	}
	describe("describe", group)
	describe("describe-unknown", "diff-nobody")
	describe("describe-empty-name", "")
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{group}
	s.last("describe-as-classic", classic)
	s.ask("commit-of-member", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1, member: id, generation: epoch}))
	s.ask("commit-of-old-epoch", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1, member: id, generation: epoch - 1}))
	s.ask("commit-of-nobody", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1, member: "who", generation: epoch}))
	s.ask("commit-from-outside", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1}))
	beat("leave", func(r hb) { r.MemberEpoch = -1 })
	beat("leave-again", func(r hb) { r.MemberEpoch = -1 })
	describe("describe-left", group)
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = []string{group}
	s.last("delete", drop)
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
		return func() kmsg.Request {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.TimeoutMillis = 15_000
			rt := kmsg.NewDeleteRecordsRequestTopic()
			rt.Topic = name
			rp := kmsg.NewDeleteRecordsRequestTopicPartition()
			rp.Partition, rp.Offset = partition, to
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			return req
		}
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
