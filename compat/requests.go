package compat

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// part is what a Produce sends to one partition.
type part struct {
	partition int32
	records   []byte
}

// produceRequest names the topic both ways; the version decides which is sent.
func produceRequest(tp topic, acks int16, parts ...part) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = acks
	req.TimeoutMillis = 30_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = tp.name, tp.id
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.partition, p.records
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// produce sends batches and answers what became of each, in the order sent.
func (w *wire) produce(tp topic, version, acks int16, parts ...part) []kmsg.ProduceResponseTopicPartition {
	r := ask[*kmsg.ProduceResponse](w, produceRequest(tp, acks, parts...), version)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != len(parts) {
		w.t.Fatalf("Produce v%d of %d partitions answered %+v", version, len(parts), r.Topics)
	}
	return r.Topics[0].Partitions
}

// fetchSpec is what a Fetch asks for; the zero value never waits.
type fetchSpec struct {
	maxWait  time.Duration
	minBytes int32
	maxBytes int32 // of the answer
	partMax  int32 // of one partition; 0: as maxBytes
	offset   int64 // in every partition
	epoch    int32 // current leader epoch; 0 is sent as −1, unknown
	session  int32
	turn     int32 // session epoch
	open     bool  // with session 0: ask for a session; otherwise there is none
}

func fetchRequest(tp topic, s fetchSpec, partitions ...int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(s.maxWait.Milliseconds())
	req.MinBytes, req.MaxBytes = s.minBytes, s.maxBytes
	req.SessionID, req.SessionEpoch = s.session, s.turn
	if s.session == 0 && !s.open {
		req.SessionEpoch = -1
	}
	if len(partitions) == 0 {
		return req
	}
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = tp.name, tp.id
	for _, p := range partitions {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset = p, s.offset
		rp.PartitionMaxBytes = s.partMax
		if s.partMax == 0 {
			rp.PartitionMaxBytes = s.maxBytes
		}
		if s.epoch != 0 {
			rp.CurrentLeaderEpoch = s.epoch
		}
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// fetch asks for one partition and answers it.
func (w *wire) fetch(tp topic, version int16, s fetchSpec, partition int32) kmsg.FetchResponseTopicPartition {
	r := ask[*kmsg.FetchResponse](w, fetchRequest(tp, s, partition), version)
	w.t.wantCode("Fetch", r.ErrorCode, 0)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		w.t.Fatalf("Fetch v%d of one partition answered %+v", version, r.Topics)
	}
	return r.Topics[0].Partitions[0]
}

func listOffsetsRequest(topic string, timestamp int64, partitions ...int32) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, timestamp
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// offsetAt looks a timestamp up in one partition.
func (w *wire) offsetAt(topic string, version int16, partition int32, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	r := ask[*kmsg.ListOffsetsResponse](w, listOffsetsRequest(topic, timestamp, partition), version)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		w.t.Fatalf("ListOffsets v%d of one partition answered %+v", version, r.Topics)
	}
	return r.Topics[0].Partitions[0]
}

func deleteRecordsRequest(topic string, partition int32, before int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 15_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rt.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: before}}
	req.Topics = append(req.Topics, rt)
	return req
}

// deleteRecords deletes those of one partition below an offset.
func (w *wire) deleteRecords(topic string, version int16, partition int32, before int64) kmsg.DeleteRecordsResponseTopicPartition {
	r := ask[*kmsg.DeleteRecordsResponse](w, deleteRecordsRequest(topic, partition, before), version)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		w.t.Fatalf("DeleteRecords v%d of one partition answered %+v", version, r.Topics)
	}
	return r.Topics[0].Partitions[0]
}

func leaderEpochRequest(topic string, epoch int32, partitions ...int32) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	for _, p := range partitions {
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.Partition, rp.LeaderEpoch = p, epoch
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// commit is a group's position in one partition.
type commit struct {
	partition   int32
	offset      int64
	leaderEpoch int32
	metadata    *string
	generation  int32 // with member; empty member commits from outside the group
	member      string
}

func offsetCommitRequest(group string, tp topic, c commit) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = group, -1, c.member
	if c.member != "" {
		req.Generation = c.generation
	}
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = tp.name, tp.id
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = c.partition, c.offset, c.leaderEpoch, c.metadata
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// commit stores one position and answers the code.
func (w *wire) commit(group string, tp topic, version int16, c commit) int16 {
	r := ask[*kmsg.OffsetCommitResponse](w, offsetCommitRequest(group, tp, c), version)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		w.t.Fatalf("OffsetCommit v%d of one partition answered %+v", version, r.Topics)
	}
	return r.Topics[0].Partitions[0].ErrorCode
}

// offsetFetchRequest asks for partition 0: by one group up to version 7, by a
// list of one from 8, by topic id from 10.
func offsetFetchRequest(group string, version int16, tp topic) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	if version < 8 {
		req.Group = group
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = tp.name, []int32{0}
		req.Topics = append(req.Topics, rt)
		return req
	}
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.TopicID, rt.Partitions = tp.name, tp.id, []int32{0}
	rg.Topics = append(rg.Topics, rt)
	req.Groups = append(req.Groups, rg)
	return req
}

// committed is a stored position as OffsetFetch tells it.
type committed struct {
	groupCode, code int16
	offset          int64
	leaderEpoch     int32
	metadata        *string
}

// committed asks for a group's position in partition 0, whatever shape the version has.
func (w *wire) committed(group string, tp topic, version int16) committed {
	r := ask[*kmsg.OffsetFetchResponse](w, offsetFetchRequest(group, version, tp), version)
	if version < 8 {
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			w.t.Fatalf("OffsetFetch v%d of one partition answered %+v", version, r)
		}
		p := r.Topics[0].Partitions[0]
		return committed{r.ErrorCode, p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata}
	}
	if len(r.Groups) != 1 {
		w.t.Fatalf("OffsetFetch v%d of one group answered %+v", version, r)
	}
	g := r.Groups[0]
	if g.ErrorCode != 0 {
		return committed{groupCode: g.ErrorCode}
	}
	if len(g.Topics) != 1 || len(g.Topics[0].Partitions) != 1 {
		w.t.Fatalf("OffsetFetch v%d of one partition answered %+v", version, r)
	}
	p := g.Topics[0].Partitions[0]
	return committed{0, p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata}
}

// joinRequest joins with one protocol named "range" and no metadata.
func joinRequest(group, member string, session time.Duration) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID = group, member
	req.SessionTimeoutMillis = int32(session.Milliseconds())
	req.RebalanceTimeoutMillis = 10_000
	req.ProtocolType = "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	return req
}

func newTopic(name string, partitions int32) kmsg.CreateTopicsRequestTopic {
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	return rt
}

func createTopicsRequest(validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly, req.Topics, req.TimeoutMillis = validateOnly, topics, 15_000
	return req
}

func deleteTopicsRequest(names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames, req.TimeoutMillis = names, 15_000
	for _, n := range names {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, rt)
	}
	return req
}
