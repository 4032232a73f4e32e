package kafkawire

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// The bounds of what a consumer group's member says of itself. Kafka has none
// but a string's; longer is INVALID_REQUEST, an expression INVALID_REGULAR_EXPRESSION.
const (
	memberTextMax  = 249
	regexLengthMax = 4096
)

// consumerGroupHeartbeat answers ConsumerGroupHeartbeat (68) v0–1 (KIP-848): a
// member joins, stays, tells what it owns and learns what it is to have, or
// leaves. From v1 a client makes its member id itself. A group that is not here
// answers a member UNKNOWN_MEMBER_ID, where Kafka says GROUP_ID_NOT_FOUND: the
// coordinator has moved, and members shall join again. A classic group that has
// members is not converted (Kafka's migration policy "disabled").
func (c *conn) consumerGroupHeartbeat(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ConsumerGroupHeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	a := checkHeartbeat(req)
	var under queen.Fence
	if a.code == codeNone {
		under, a.code = c.guard(req.Group)
	}
	var image *topicImage
	beat := beatFrom(req, r.clientID, c.clientHost())
	joins := req.MemberEpoch >= 0
	if a.code == codeNone && joins {
		var err error
		if image, err = c.srv.imageFor(ctx, req.Group, under, beat); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			a = consumerAnswer{code: coordinatorCode(c.note(r, err)), message: text(message(err))}
		}
	}
	switch {
	case a.code != codeNone:
	case joins:
		a = c.srv.groups.consume(req.Group, under, beat, image)
	default:
		a = c.srv.groups.consumerLeave(req.Group, under, beat.memberID, beat.instance, req.MemberEpoch)
	}
	resp.ErrorCode, resp.ErrorMessage = a.code, optional(a.message)
	if a.code != codeNone {
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch = &a.memberID, a.epoch
	if !joins {
		return resp, nil
	}
	resp.HeartbeatIntervalMillis = int32(c.srv.cfg.Groups.ConsumerHeartbeat / time.Millisecond)
	if a.told {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		for _, ps := range byTopic(a.assignment) {
			t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			t.TopicID, t.Partitions = ps[0].topic, numbers(ps)
			resp.Assignment.Topics = append(resp.Assignment.Topics, t)
		}
	}
	return resp, nil
}

// checkHeartbeat says what is wrong with a heartbeat by itself.
func checkHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) consumerAnswer {
	bad := func(why string) consumerAnswer { return consumerAnswer{code: codeInvalidRequest, message: why} }
	said := func(s *string) bool { return s == nil || *s != "" && len(*s) <= memberTextMax }
	switch {
	case req.MemberID == "" && (req.Version >= 1 || req.MemberEpoch > 0 || req.MemberEpoch == epochLeave):
		return bad("the member id is empty")
	case len(req.MemberID) > memberTextMax:
		return bad("the member id has more than 249 bytes")
	case req.Group == "":
		return bad("the group id is empty")
	case !said(req.InstanceID):
		return bad("the instance id is empty or has more than 249 bytes")
	case !said(req.RackID):
		return bad("the rack id is empty or has more than 249 bytes")
	case req.MemberEpoch < epochAway:
		return bad("the member epoch is below -2")
	case req.MemberEpoch == epochAway && req.InstanceID == nil:
		return bad("a member without an instance id cannot leave for a while")
	case req.MemberEpoch == 0 && req.RebalanceTimeoutMillis < 0:
		return bad("a member joins with a rebalance timeout")
	case req.MemberEpoch == 0 && (req.Topics == nil || len(req.Topics) > 0):
		return bad("a member joins with an empty list of owned partitions")
	case req.MemberEpoch == 0 && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return bad("a member joins with topic names or with a regular expression")
	case req.ServerAssignor != nil && assignorNamed(*req.ServerAssignor) == nil:
		return refuse(codeUnsupportedAssignor, "there is no server-side assignor %.100q, only %s and %s",
			*req.ServerAssignor, assignors[0].name, assignors[1].name)
	case len(text(req.SubscribedTopicRegex)) > regexLengthMax:
		return refuse(codeInvalidRegularExpression, "the regular expression has more than %d bytes", regexLengthMax)
	}
	if req.SubscribedTopicRegex != nil {
		if _, err := checkSubscription(*req.SubscribedTopicRegex); err != nil {
			return refuse(codeInvalidRegularExpression, "%v", err)
		}
	}
	return consumerAnswer{}
}

// beatFrom is the request in the group's words; it shares nothing with the frame.
func beatFrom(req *kmsg.ConsumerGroupHeartbeatRequest, clientID, host string) *consumerHeartbeat {
	clone := func(s *string) *string {
		if s == nil {
			return nil
		}
		c := strings.Clone(*s)
		return &c
	}
	b := &consumerHeartbeat{
		memberID: strings.Clone(req.MemberID), instance: strings.Clone(text(req.InstanceID)), epoch: req.MemberEpoch,
		rack: clone(req.RackID), rebalance: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		regex: clone(req.SubscribedTopicRegex), assignor: clone(req.ServerAssignor), knowsOwned: req.Topics != nil,
		clientID: strings.Clone(clientID), clientHost: host,
	}
	if b.memberID == "" { // v0
		b.memberID = uuid.NewString()
	}
	if req.SubscribedTopicNames != nil {
		b.names = make([]string, 0, len(req.SubscribedTopicNames))
		for _, name := range req.SubscribedTopicNames {
			b.names = append(b.names, strings.Clone(name))
		}
		slices.Sort(b.names)
		b.names = slices.Compact(b.names)
	}
	var owned []topicPartition
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			owned = append(owned, topicPartition{t.TopicID, p})
		}
	}
	b.owned = setOf(owned)
	return b
}

// imageFor answers the topics a heartbeat is judged by. Whoever subscribes to
// something new sees every topic made before.
func (s *Server) imageFor(ctx context.Context, group string, under queen.Fence, b *consumerHeartbeat) (*topicImage, error) {
	if s.groups.subscribesAnew(group, under, b) {
		return s.images.fresh(ctx)
	}
	return s.images.current(ctx)
}

// byTopic cuts a set into runs of one topic each.
func byTopic(s partitionSet) []partitionSet {
	var runs []partitionSet
	for len(s) > 0 {
		n := slices.IndexFunc(s, func(p topicPartition) bool { return p.topic != s[0].topic })
		if n < 0 {
			n = len(s)
		}
		runs = append(runs, s[:n])
		s = s[n:]
	}
	return runs
}

func numbers(s partitionSet) []int32 {
	ns := make([]int32, len(s))
	for i, p := range s {
		ns[i] = p.number
	}
	return ns
}
