package kafkawire

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// describedPartitionsMax bounds the partitions of one answer, whatever the
// client's limit (Kafka: max.request.partition.size.limit).
const describedPartitionsMax = 2000

// describeTopicPartitions answers DescribeTopicPartitions (75) v0: topics in the
// order of their names, from the cursor on, as many partitions as the limit lets through,
// and a cursor where there is more. No topics named means all. There are no
// replicas to elect from, so eligible and last known leaders are empty, but never
// null, which Java's admin client does not survive.
func (c *conn) describeTopicPartitions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	from, first := "", int32(0)
	if req.Cursor != nil {
		from, first = req.Cursor.Topic, req.Cursor.Partition
		if first < 0 { // as in Kafka: an answer only for topics named
			for _, asked := range req.Topics {
				t := kmsg.NewDescribeTopicPartitionsResponseTopic()
				t.Topic, t.ErrorCode = &asked.Topic, codeInvalidRequest
				resp.Topics = append(resp.Topics, t)
			}
			return resp, nil
		}
	}
	found, err := c.topicsFrom(ctx, r, req.Topics, from)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	left := int(min(max(req.ResponsePartitionLimit, 1), describedPartitionsMax))
	cl := c.srv.engine.Cluster()
	for _, f := range found {
		name := f.Queue.Name
		if left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name}
			break
		}
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.TopicID, t.AuthorizedOperations, t.IsInternal = &name, f.Queue.TopicID, topicOperations, internalTopic(name)
		switch {
		case f.Err != nil:
			t.ErrorCode = metadataCode(f.Err)
		case f.Queue.Partitions > c.srv.cfg.PartitionsMax:
			t.ErrorCode = codeInvalidTopic
		default:
			begin := int32(0)
			if name == from {
				begin = min(first, int32(f.Queue.Partitions))
			}
			ps := partitions(f.Queue, cl)[begin:]
			if len(ps) > left {
				ps = ps[:left]
				resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: begin + int32(left)}
			}
			left -= len(ps)
			for _, p := range ps {
				rp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
				rp.Partition, rp.LeaderID, rp.LeaderEpoch = p.Partition, p.Leader, p.LeaderEpoch
				rp.Replicas, rp.ISR, rp.OfflineReplicas = p.Replicas, p.ISR, p.OfflineReplicas
				rp.EligibleLeaderReplicas, rp.LastKnownELR = []int32{}, []int32{}
				t.Partitions = append(t.Partitions, rp)
			}
		}
		resp.Topics = append(resp.Topics, t)
		if resp.NextCursor != nil {
			break
		}
	}
	return resp, nil
}

// topicsFrom are the topics asked for, or all, by name and from a name on. One
// that there is not is answered with its error.
func (c *conn) topicsFrom(ctx context.Context, r *request, asked []kmsg.DescribeTopicPartitionsRequestTopic, from string) ([]queen.QueueAnswer, error) {
	if len(asked) == 0 {
		all, err := c.srv.listed(ctx)
		return slices.DeleteFunc(all, func(a queen.QueueAnswer) bool { return a.Queue.Name < from }), err
	}
	names := make([]string, 0, len(asked))
	for _, t := range asked {
		if t.Topic >= from {
			names = append(names, t.Topic)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	topics := make([]kmsg.MetadataRequestTopic, len(names))
	for i := range names {
		topics[i].Topic = &names[i]
	}
	found := c.named(ctx, r, topics, false)
	for i := range found {
		found[i].Queue.Name = cmp.Or(found[i].Queue.Name, names[i])
	}
	return found, nil
}
