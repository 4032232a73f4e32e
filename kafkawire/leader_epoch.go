package kafkawire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// leaderEpoch answers OffsetForLeaderEpoch (23) v2–4: where the largest epoch
// not above the one asked ended, or −1, −1.
func (c *conn) leaderEpoch(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	var queries []queen.EpochQuery
	var at [][2]int
	for i, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for j, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, -1, -1
			if legalTopic(t.Topic) {
				queries = append(queries, queen.EpochQuery{
					Partition:    partitionRef(t.Topic, [16]byte{}, p.Partition),
					CurrentEpoch: p.CurrentLeaderEpoch, Epoch: p.LeaderEpoch,
				})
				at = append(at, [2]int{i, j})
			} else {
				rp.ErrorCode = codeUnknownTopicOrPartition
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(queries) == 0 {
		return resp, nil
	}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	answers, err := c.srv.engine.EpochEnds(ctx, queries)
	for k, where := range at {
		rp := &resp.Topics[where[0]].Partitions[where[1]]
		var a queen.EpochAnswer
		if a.Err = err; err == nil {
			a = answers[k]
		}
		if a.Err != nil {
			rp.ErrorCode = codeOf(c.note(r, a.Err))
			continue
		}
		rp.LeaderEpoch, rp.EndOffset = a.End.Epoch, a.End.EndOffset
	}
	return resp, nil
}
