package kafkawire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// createPartitions answers CreatePartitions (37) v0–3. An assignment must name
// live brokers for each new partition; it is checked and has no effect.
func (c *conn) createPartitions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	times := make(map[string]int)
	for _, t := range req.Topics {
		times[t.Topic]++
	}
	for _, t := range req.Topics {
		if times[t.Topic] == 0 {
			continue // the second of two: one answer for both
		}
		rt := kmsg.NewCreatePartitionsResponseTopic()
		rt.Topic = t.Topic
		err := fmt.Errorf("%w: the request names topic %q more than once", queen.ErrInvalidRequest, t.Topic)
		if times[t.Topic] == 1 {
			err = c.widen(ctx, t, req.ValidateOnly)
		}
		times[t.Topic] = 0
		if err != nil {
			rt.ErrorCode, rt.ErrorMessage = codeOf(c.note(r, err)), message(err)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func (c *conn) widen(ctx context.Context, t kmsg.CreatePartitionsRequestTopic, validate bool) error {
	if !legalTopic(t.Topic) {
		return fmt.Errorf("%w: %q", queen.ErrUnknownQueue, t.Topic)
	}
	if int(t.Count) > c.srv.cfg.PartitionsMax {
		return fmt.Errorf("%w: %d, at most %d", queen.ErrInvalidPartitions, t.Count, c.srv.cfg.PartitionsMax)
	}
	q, err := c.srv.engine.AddPartitions(ctx, t.Topic, int(t.Count), true)
	if err != nil {
		return err
	}
	if t.Assignment != nil {
		if err := c.checkReplicas(t.Assignment, int(t.Count)-q.Partitions); err != nil {
			return err
		}
	}
	if validate {
		return nil
	}
	_, err = c.srv.engine.AddPartitions(ctx, t.Topic, int(t.Count), false)
	return err
}

// checkReplicas checks the assignment of n new partitions.
func (c *conn) checkReplicas(as []kmsg.CreatePartitionsRequestTopicAssignment, n int) error {
	if len(as) != n {
		return fmt.Errorf("%w: %d partitions are added, %d are assigned", errAssignment, n, len(as))
	}
	live := brokers(c.srv.engine.Cluster())
	for i, a := range as {
		if len(a.Replicas) == 0 {
			return fmt.Errorf("%w: new partition %d has no replicas", errAssignment, i)
		}
		if err := checkBrokers(a.Replicas, live); err != nil {
			return fmt.Errorf("%w: new partition %d: %w", errAssignment, i, err)
		}
	}
	return nil
}

// deleteRecords answers DeleteRecords (21) v0–2: offset −1 stands for the high
// watermark. An offset below the log start changes nothing, as in Kafka.
func (c *conn) deleteRecords(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	var asked []queen.Truncation
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if legalTopic(t.Topic) {
				asked = append(asked, queen.Truncation{Partition: partitionRef(t.Topic, [16]byte{}, p.Partition), Before: p.Offset})
			}
		}
	}
	answers := c.srv.engine.Truncate(ctx, asked)
	for _, t := range req.Topics {
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition, rp.LowWatermark = p.Partition, -1
			if !legalTopic(t.Topic) {
				rp.ErrorCode = codeUnknownTopicOrPartition
			} else {
				a := answers[0]
				answers = answers[1:]
				rp.LowWatermark, rp.ErrorCode = a.LogStart, codeOf(c.note(r, a.Err))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}
