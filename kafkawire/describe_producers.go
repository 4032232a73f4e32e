package kafkawire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeProducers answers DescribeProducers (61) v0: the idempotent producers a
// partition remembers, which it does for a day after their last batch. None has a
// transaction. A partition that is named again is INVALID_REQUEST there: each has up to
// 10,000 producers for four bytes of a request.
func (c *conn) describeProducers(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	type place struct {
		topic  string
		number int32
	}
	seen := make(map[place]bool)
	for _, t := range req.Topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, number := range t.Partitions {
			rp := kmsg.NewDescribeProducersResponseTopicPartition()
			rp.Partition = number
			switch at := (place{t.Topic, number}); {
			case !legalTopic(t.Topic):
				rp.ErrorCode = codeInvalidTopic
			case seen[at]:
				rp.ErrorCode = codeInvalidRequest
			default:
				seen[at] = true
			}
			if rp.ErrorCode != codeNone {
				rt.Partitions = append(rt.Partitions, rp)
				continue
			}
			producers, err := c.srv.engine.Producers(ctx, partitionRef(t.Topic, [16]byte{}, number))
			if err != nil {
				rp.ErrorCode, rp.ErrorMessage = codeOf(c.note(r, err)), message(err)
			}
			for _, p := range producers {
				ap := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				ap.ProducerID, ap.ProducerEpoch, ap.LastSequence = p.ID, int32(p.Epoch), p.LastSequence
				ap.LastTimestamp, ap.CoordinatorEpoch, ap.CurrentTxnStartOffset = p.LastWrite.UnixMilli(), -1, -1
				rp.ActiveProducers = append(rp.ActiveProducers, ap)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}
