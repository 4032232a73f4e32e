package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// metadata answers Metadata (3) v0–13. Every partition has one replica, its
// leader, chosen by rendezvous among the live brokers: a hint that spreads
// clients, since any broker serves any partition. A missing topic is created
// when the request asks for it (always, below v4) and the configuration allows
// it; the answer then has it. Queues whose name is no legal topic name are not
// listed; one wider than PartitionsMax answers error 17, never a part of itself.
func (c *conn) metadata(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	cl := c.srv.engine.Cluster()
	resp.ClusterID, resp.ControllerID = &cl.ID, controller(cl)
	for _, b := range brokers(cl) {
		rb := kmsg.NewMetadataResponseBroker()
		rb.NodeID, rb.Host, rb.Port = b.ID, b.Host, b.Port
		resp.Brokers = append(resp.Brokers, rb)
	}
	resp.AuthorizedOperations = operations(req.IncludeClusterAuthorizedOperations, clusterOperations)

	all := listsAll(req)
	var found []queen.QueueAnswer
	var err error
	if all {
		found, err = c.srv.listed(ctx)
		if err != nil {
			// There is no code for "ask later" in most versions, and an empty list
			// would tell regex consumers that their topics are gone.
			return nil, fmt.Errorf("list topics: %w", err)
		}
	} else {
		create := c.srv.cfg.AutoCreate && (req.AllowAutoTopicCreation || req.Version < 4)
		req.Topics = distinct(req.Topics)
		found = c.named(ctx, r, req.Topics, create)
	}
	for i, f := range found {
		t := kmsg.NewMetadataResponseTopic()
		t.AuthorizedOperations = operations(req.IncludeTopicAuthorizedOperations, topicOperations)
		switch {
		case f.Err != nil:
			asked := req.Topics[i]
			t.ErrorCode, t.Topic, t.TopicID = metadataCode(f.Err), asked.Topic, asked.TopicID
			if asked.Topic == nil && req.Version < 12 {
				t.Topic = new(string) // not nullable before
			}
		case f.Queue.Partitions > c.srv.cfg.PartitionsMax:
			t.ErrorCode, t.Topic, t.TopicID = codeInvalidTopic, &f.Queue.Name, f.Queue.TopicID
		default:
			t.Topic, t.TopicID, t.IsInternal = &f.Queue.Name, f.Queue.TopicID, internalTopic(f.Queue.Name)
			t.Partitions = partitions(f.Queue, cl)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// listsAll says whether a request asks for all topics: with null, or, in v0, none.
func listsAll(req *kmsg.MetadataRequest) bool {
	return req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
}

// distinct leaves out what a request names again: it is answered once.
func distinct(topics []kmsg.MetadataRequestTopic) []kmsg.MetadataRequestTopic {
	type named struct {
		id   [16]byte
		name string
		null bool
	}
	seen := make(map[named]bool, len(topics))
	return slices.DeleteFunc(topics, func(t kmsg.MetadataRequestTopic) bool {
		n := named{t.TopicID, text(t.Topic), t.Topic == nil}
		again := seen[n]
		seen[n] = true
		return again
	})
}

// partitions describes a queue's partitions.
func partitions(q queen.Queue, cl queen.Cluster) []kmsg.MetadataResponseTopicPartition {
	live := brokers(cl)
	ps := make([]kmsg.MetadataResponseTopicPartition, q.Partitions)
	replicas := make([]int32, q.Partitions)
	for n := range ps {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(n), leader(q.TopicID, int32(n), live), cl.Epoch
		replicas[n] = p.Leader
		p.Replicas, p.ISR = replicas[n:n+1:n+1], replicas[n:n+1:n+1]
		p.OfflineReplicas = []int32{}
		ps[n] = p
	}
	return ps
}

// named looks the topics asked for up, and creates what may be created.
func (c *conn) named(ctx context.Context, r *request, topics []kmsg.MetadataRequestTopic, create bool) []queen.QueueAnswer {
	found := make([]queen.QueueAnswer, len(topics))
	var refs []queen.QueueRef
	var at []int
	for i, t := range topics {
		switch {
		case t.Topic == nil && uuid.UUID(t.TopicID) == uuid.Nil,
			r.version < 12 && (t.Topic == nil || uuid.UUID(t.TopicID) != uuid.Nil):
			found[i].Err = fmt.Errorf("%w: a topic without a name", queen.ErrInvalidRequest)
		case t.Topic != nil && !legalTopic(*t.Topic):
			found[i].Err = queen.ErrInvalidName
		default:
			ref := queen.QueueRef{TopicID: t.TopicID}
			if t.Topic != nil {
				ref = queen.QueueRef{Name: *t.Topic}
			}
			refs, at = append(refs, ref), append(at, i)
		}
	}
	if len(refs) == 0 {
		return found
	}
	answers, err := c.srv.engine.Queues(ctx, refs)
	for j, i := range at {
		if err != nil {
			found[i].Err = c.note(r, err)
			continue
		}
		found[i] = answers[j]
		switch {
		case create && refs[j].Name != "" && errors.Is(answers[j].Err, queen.ErrUnknownQueue):
			found[i].Queue, found[i].Err = c.srv.autoCreate(ctx, refs[j].Name)
		case answers[j].Err == nil && !legalTopic(answers[j].Queue.Name): // by id
			found[i].Err = queen.ErrUnknownQueueID
		}
		_ = c.note(r, found[i].Err)
	}
	return found
}

// metadataCode is codeOf where a topic's metadata cannot be had for now:
// clients ask again after LEADER_NOT_AVAILABLE.
func metadataCode(err error) int16 {
	switch code := codeOf(err); code {
	case codeNotLeaderOrFollower, codeRequestTimedOut, codeKafkaStorage:
		return codeLeaderNotAvailable
	default:
		return code
	}
}

// brokers are the live brokers; this one is always among them.
func brokers(cl queen.Cluster) []queen.Broker {
	for _, b := range cl.Brokers {
		if b.ID == cl.Self {
			return cl.Brokers
		}
	}
	return append([]queen.Broker{{ID: cl.Self}}, cl.Brokers...)
}

// controller names a listed broker on which all agree: that of the lowest id.
// There is no such role here; clients send it what any broker does.
func controller(cl queen.Cluster) int32 {
	id := cl.Self
	for _, b := range cl.Brokers {
		id = min(id, b.ID)
	}
	return id
}

// leader chooses a broker for a partition by rendezvous: the highest hash wins,
// so that a broker coming or going moves only its own share.
func leader(topic uuid.UUID, number int32, live []queen.Broker) int32 {
	best, most := live[0].ID, uint64(0)
	if len(live) == 1 {
		return best
	}
	for _, b := range live {
		h := uint64(14695981039346656037) // FNV-1a, then mixed: FNV alone is weak in its last bytes
		for _, x := range topic {
			h = (h ^ uint64(x)) * 1099511628211
		}
		h = mix(h ^ uint64(uint32(number))<<32 ^ uint64(uint32(b.ID)))
		if h > most {
			best, most = b.ID, h
		}
	}
	return best
}

// mix spreads every bit of x over the whole word (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// What a client may do, as bits numbered by Kafka's ACL operations. Without
// authorisation that is everything the kind of resource knows.
const (
	operationsNotAsked int32 = math.MinInt32
	topicOperations    int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	clusterOperations  int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

func operations(asked bool, all int32) int32 {
	if !asked {
		return operationsNotAsked
	}
	return all
}
