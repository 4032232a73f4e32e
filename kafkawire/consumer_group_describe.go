package kafkawire

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// Kinds of members, from v1 of ConsumerGroupDescribe.
const memberConsumer int8 = 1

// consumerGroupDescribe answers ConsumerGroupDescribe (69) v0–1. A classic group
// is GROUP_ID_NOT_FOUND here, as in Kafka. A group nobody is in is known for ten
// minutes. A name given several times is described once.
func (c *conn) consumerGroupDescribe(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ConsumerGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	seen := make(map[string]bool, len(req.Groups))
	for _, name := range req.Groups {
		if seen[name] {
			continue
		}
		seen[name] = true
		g := kmsg.NewConsumerGroupDescribeResponseGroup()
		g.Group = name
		g.AuthorizedOperations = operations(req.IncludeAuthorizedOperations, groupOperations)
		var under queen.Fence
		if under, g.ErrorCode = c.guard(name); g.ErrorCode == codeNone && !c.srv.groups.describeConsumer(name, under, &g) {
			g.ErrorCode, g.ErrorMessage = codeGroupIDNotFound, message(fmt.Errorf("%w of the consumer protocol", errNoGroup))
		}
		if g.ErrorCode != codeNone {
			g.AuthorizedOperations = operations(false, groupOperations)
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

// describeConsumer fills in a consumer group; false if there is none of that name.
func (s *groups) describeConsumer(name string, under queen.Fence, d *kmsg.ConsumerGroupDescribeResponseGroup) bool {
	l := s.findConsumer(name, under)
	if l == nil {
		return false
	}
	defer l.mu.Unlock()
	g := l.consumer
	d.State, d.Epoch, d.AssignmentEpoch, d.AssignorName = g.state(), g.epoch, g.targetEpoch, g.assignor()
	for _, m := range g.inOrder() {
		rm := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.RackID, rm.MemberEpoch = m.id, optional(m.instance), m.rack, m.epoch
		rm.ClientID, rm.ClientHost = m.clientID, "/"+m.clientHost
		regex := m.regex
		rm.SubscribedTopics, rm.SubscribedTopicRegex = slices.Clone(m.names), &regex
		rm.Assignment.TopicPartitions = assignedTopics(g.image, m.assigned)
		rm.TargetAssignment.TopicPartitions = assignedTopics(g.image, m.target)
		rm.MemberType = memberConsumer
		d.Members = append(d.Members, rm)
	}
	return true
}

// assignedTopics names the topics of a set; those that are gone are left out.
func assignedTopics(image *topicImage, s partitionSet) []kmsg.AssignmentTopicPartition {
	ts := []kmsg.AssignmentTopicPartition{}
	for _, ps := range byTopic(s) {
		if name, ok := image.names[ps[0].topic]; ok {
			t := kmsg.NewAssignmentTopicPartition()
			t.TopicID, t.Topic, t.Partitions = ps[0].topic, name, numbers(ps)
			ts = append(ts, t)
		}
	}
	return ts
}
