package kafkawire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// electLeaders answers ElectLeaders (43) v0–2. Every partition has the leader that it is
// to have, always: 84. Asked for all partitions, which is null, Kafka leaves
// those out that need none.
func (c *conn) electLeaders(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ElectLeadersRequest)
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	if req.ElectionType != 0 && req.ElectionType != 1 {
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	for _, t := range req.Topics {
		rt := kmsg.NewElectLeadersResponseTopic()
		rt.Topic = t.Topic
		q, err := c.placed(ctx, r, t.Topic)
		for _, number := range t.Partitions {
			rp := kmsg.NewElectLeadersResponseTopicPartition()
			rp.Partition = number
			perr := err
			if perr == nil {
				if perr = hasPartition(q, number); perr == nil {
					perr = errNoElection
				}
			}
			rp.ErrorCode, rp.ErrorMessage = codeOf(perr), message(perr)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

// alterReassignments answers AlterPartitionAssignments (45) v0–1. PostgreSQL holds
// the data and a hash spreads the leaders, so there is nothing to move: a partition
// may be assigned to the broker that leads it, anything else is refused, and there is no
// reassignment to cancel.
func (c *conn) alterReassignments(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for _, t := range req.Topics {
		rt := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		rt.Topic = t.Topic
		q, err := c.placed(ctx, r, t.Topic)
		for _, p := range t.Partitions {
			rp := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			rp.Partition = p.Partition
			perr := err
			if perr == nil {
				perr = c.checkReassignment(q, p.Partition, p.Replicas)
			}
			if perr != nil {
				rp.ErrorCode, rp.ErrorMessage = codeOf(perr), message(perr)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}

func (c *conn) checkReassignment(q queen.Queue, number int32, replicas []int32) error {
	if err := hasPartition(q, number); err != nil {
		return err
	}
	if replicas == nil {
		return errNoReassignment
	}
	live := brokers(c.srv.engine.Cluster())
	if err := checkBrokers(replicas, live); err != nil {
		return fmt.Errorf("%w: %w", errAssignment, err)
	}
	if now := leader(q.TopicID, number, live); len(replicas) != 1 || replicas[0] != now {
		return fmt.Errorf("%w: the partition is led by broker %d alone; leaders are spread by hash and PostgreSQL replicates", errAssignment, now)
	}
	return nil
}

// listReassignments answers ListPartitionReassignments (46) v0: there never are any.
func (c *conn) listReassignments(_ context.Context, r *request) (kmsg.Response, error) {
	return r.body.(*kmsg.ListPartitionReassignmentsRequest).ResponseKind(), nil
}

// placed looks a topic up.
func (c *conn) placed(ctx context.Context, r *request, topic string) (queen.Queue, error) {
	if !legalTopic(topic) {
		return queen.Queue{}, fmt.Errorf("%w: no topic can be named %q", queen.ErrUnknownQueue, topic)
	}
	got, err := c.srv.engine.Queues(ctx, []queen.QueueRef{{Name: topic}})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return queen.Queue{}, c.note(r, err)
	}
	return got[0].Queue, nil
}

func hasPartition(q queen.Queue, number int32) error {
	if number < 0 || int(number) >= q.Partitions {
		return fmt.Errorf("%w: %s has no partition %d", queen.ErrUnknownPartition, q.Name, number)
	}
	return nil
}
