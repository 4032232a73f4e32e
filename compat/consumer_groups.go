package compat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The group protocol of KIP-848. A coordinator may take its time to make an
// assignment, and epochs are its own affair: the cases ask until it is there.
var consumerGroupCases = []Case{
	{"consumer-groups/a-member-has-everything", soleConsumer},
	{"consumer-groups/nothing-is-given-before-it-is-let-go-of", revokeFirst},
	{"consumer-groups/heartbeats-that-are-refused", heartbeatRefusals},
	{"consumer-groups/epochs-fence-and-zero-starts-over", memberEpochs},
	{"consumer-groups/a-static-member-finds-its-place", staticConsumer},
	{"consumer-groups/commits-need-the-members-epoch", memberCommits},
	{"consumer-groups/range-and-uniform", serverAssignors},
	{"consumer-groups/an-expression-finds-topics", regexSubscription},
	{"consumer-groups/new-partitions-are-assigned", newPartitions},
	{"consumer-groups/what-admins-see-and-may", consumerAdmin},
	{"consumer-groups/an-empty-group-changes-protocol", changesProtocol},
	{"consumer-groups/two-clients-split-the-partitions", twoConsumers},
}

// consumerMember is a member of a consumer group, driven by hand.
type consumerMember struct {
	t     *T
	w     *wire
	group string
	id    string
	epoch int32
	owns  []string // topic-partition, ordered

	instance string
	topics   []string
	regex    string
	assignor string
	names    map[[16]byte]topic
}

// consumer is a member that has not joined yet.
func (t *T) consumer(w *wire, group string, topics ...topic) *consumerMember {
	m := &consumerMember{t: t, w: w, group: group, id: t.name("member"), names: map[[16]byte]topic{}, topics: []string{}}
	for _, tp := range topics {
		m.knows(tp)
		m.topics = append(m.topics, tp.name)
	}
	return m
}

func (m *consumerMember) knows(tp topic) { m.names[tp.id] = tp }

// request is a heartbeat that says everything.
func (m *consumerMember) request(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = m.group, m.id, epoch, 60_000
	if m.instance != "" {
		r.InstanceID = &m.instance
	}
	if m.regex != "" {
		r.SubscribedTopicRegex = &m.regex
	} else {
		r.SubscribedTopicNames = m.topics
	}
	if m.assignor != "" {
		r.ServerAssignor = &m.assignor
	}
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for id, tp := range m.names {
		rt := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		rt.TopicID = id
		for _, o := range m.owns {
			if p, ok := strings.CutPrefix(o, tp.name+"/"); ok && epoch != 0 {
				var n int32
				_, _ = fmt.Sscan(p, &n)
				rt.Partitions = append(rt.Partitions, n)
			}
		}
		if len(rt.Partitions) > 0 {
			r.Topics = append(r.Topics, rt)
		}
	}
	return r
}

func (m *consumerMember) send(r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](m.w, r, m.t.max(kmsg.ConsumerGroupHeartbeat, newest))
}

// beat says everything and answers what the member may have, without taking it.
func (m *consumerMember) beat() []string {
	r := m.send(m.request(m.epoch))
	if r.ErrorCode != 0 {
		m.t.Fatalf("heartbeat of %s at epoch %d answered %s: %s", m.id, m.epoch, codeName(r.ErrorCode), deref(r.ErrorMessage))
	}
	if r.Assignment == nil {
		m.t.Fatalf("a heartbeat that says everything is not told the assignment")
	}
	if r.MemberEpoch < m.epoch || r.HeartbeatIntervalMillis <= 0 {
		m.t.Errorf("epoch %d after %d, interval %d ms", r.MemberEpoch, m.epoch, r.HeartbeatIntervalMillis)
	}
	m.epoch = r.MemberEpoch
	given := []string{}
	for _, at := range r.Assignment.Topics {
		tp, ok := m.names[at.TopicID]
		if !ok {
			m.t.Fatalf("assigned a topic that nobody subscribes to: %x", at.TopicID)
		}
		for _, p := range at.Partitions {
			given = append(given, fmt.Sprintf("%s/%d", tp.name, p))
		}
	}
	slices.Sort(given)
	return given
}

// until beats, taking and letting go as told, until it owns n partitions.
func (m *consumerMember) until(n int, others ...*consumerMember) {
	m.t.until(fmt.Sprintf("%s owns %d partitions", m.id, n), func() bool {
		for _, o := range append(others, m) {
			o.owns = o.beat()
		}
		return len(m.owns) == n
	})
}

// leave sends a heartbeat of epoch -1 or -2.
func (m *consumerMember) leave(epoch int32) {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = m.group, m.id, epoch
	if m.instance != "" {
		r.InstanceID = &m.instance
	}
	a := m.send(r)
	m.t.wantCode("leave", a.ErrorCode, 0)
	if a.MemberEpoch != epoch {
		m.t.Errorf("left at epoch %d, told %d", epoch, a.MemberEpoch)
	}
	m.owns = nil
}

// describeConsumer asks for one consumer group.
func (t *T) describeConsumer(w *wire, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{group}
	gs := ask[*kmsg.ConsumerGroupDescribeResponse](w, r, t.max(kmsg.ConsumerGroupDescribe, newest)).Groups
	if len(gs) != 1 {
		t.Fatalf("%d descriptions of one group", len(gs))
	}
	return gs[0]
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// place is where a case keeps its group: a connection to its coordinator.
func (t *T) place() (*wire, string) {
	t.max(kmsg.ConsumerGroupHeartbeat, newest)
	group := t.group()
	return t.dialTo(t.coordinator(group)), group
}

func soleConsumer(_ context.Context, t *T) {
	tp := t.topic(4)
	w, group := t.place()
	m := t.consumer(w, group, tp)
	m.until(4)
	t.until("the group is stable", func() bool { m.beat(); return t.describeConsumer(w, group).State == "Stable" })
	g := t.describeConsumer(w, group)
	if g.ErrorCode != 0 || g.AssignorName != "uniform" || g.Epoch < 1 || g.AssignmentEpoch != g.Epoch || len(g.Members) != 1 {
		t.Fatalf("described as %+v", g)
	}
	d := g.Members[0]
	if d.MemberID != m.id || d.MemberEpoch != m.epoch || d.ClientID != "compat" || !strings.HasPrefix(d.ClientHost, "/") ||
		!slices.Equal(d.SubscribedTopics, []string{tp.name}) || deref(d.SubscribedTopicRegex) != "" || d.InstanceID != nil {
		t.Errorf("member described as %+v", d)
	}
	for what, a := range map[string]kmsg.Assignment{"assignment": d.Assignment, "target": d.TargetAssignment} {
		if len(a.TopicPartitions) != 1 || a.TopicPartitions[0].Topic != tp.name || a.TopicPartitions[0].TopicID != tp.id || len(a.TopicPartitions[0].Partitions) != 4 {
			t.Errorf("%s described as %+v", what, a)
		}
	}
	// A heartbeat that says nothing new is told nothing new.
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = group, m.id, m.epoch
	if a := m.send(r); a.ErrorCode != 0 || a.Assignment != nil || a.MemberEpoch != m.epoch {
		t.Errorf("a short heartbeat: %+v", a)
	}
}

func revokeFirst(_ context.Context, t *T) {
	tp := t.topic(4)
	w, group := t.place()
	a, b := t.consumer(w, group, tp), t.consumer(w, group, tp)
	a.until(4)
	b.owns = b.beat()
	all := a.owns
	var keeps []string
	t.until("the first member is asked to let go", func() bool { keeps = a.beat(); b.owns = b.beat(); return len(keeps) == 2 })
	for range 5 { // it still owns all four
		if given := b.beat(); len(given) != 0 {
			t.Fatalf("the second member was given %v, which the first one owns", given)
		}
		if again := a.beat(); !slices.Equal(again, keeps) {
			t.Fatalf("asked to keep %v, then %v", keeps, again)
		}
	}
	a.owns = keeps
	b.until(2, a)
	if both := slices.Sorted(slices.Values(slices.Concat(a.owns, b.owns))); !slices.Equal(both, all) || !slices.Equal(a.owns, keeps) {
		t.Errorf("the members own %v and %v", a.owns, b.owns)
	}
	a.leave(-1)
	b.until(4)
}

func heartbeatRefusals(_ context.Context, t *T) {
	tp := t.topic(1)
	w, group := t.place()
	m := t.consumer(w, group, tp)
	f := func(what string, want int16, change func(*kmsg.ConsumerGroupHeartbeatRequest)) {
		r := m.request(0)
		change(r)
		a := m.send(r)
		t.wantCode(what, a.ErrorCode, want)
		if deref(a.ErrorMessage) == "" || a.Assignment != nil {
			t.Errorf("%s: message %q, assignment %v", what, deref(a.ErrorMessage), a.Assignment)
		}
	}
	invalid := kerr.InvalidRequest.Code
	f("an empty group", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" })
	f("no member id", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" })
	f("no rebalance timeout", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })
	f("no list of what is owned", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
	f("joining and owning", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: tp.id, Partitions: []int32{0}})
	})
	f("no subscription", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil })
	f("an empty instance id", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = new(string) })
	f("an empty rack id", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = new(string) })
	f("epoch -2 of a dynamic member", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 })
	f("epoch -3", invalid, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 })
	f("an assignor nobody knows", kerr.UnsupportedAssignor.Code, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("nope") })
	f("leaving a group that is not there", kerr.GroupIDNotFound.Code, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -1 })
	m.until(1)
	f("a bad expression", kerr.InvalidRegularExpression.Code, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.MemberID, r.SubscribedTopicRegex = t.name("other"), kmsg.StringPtr("a(")
	})
	f("a member nobody knows", kerr.UnknownMemberID.Code, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "stranger", 1 })
	f("a stranger leaves", kerr.UnknownMemberID.Code, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID, r.MemberEpoch = "stranger", -1 })
}

func memberEpochs(_ context.Context, t *T) {
	tp := t.topic(2)
	w, group := t.place()
	a, b := t.consumer(w, group, tp), t.consumer(w, group, tp)
	a.until(2)
	was := a.epoch
	b.until(1, a)
	t.until("both are at one epoch", func() bool { a.beat(); b.beat(); return a.epoch == b.epoch && a.epoch > was })
	t.wantCode("an epoch to come", a.send(a.request(a.epoch+1)).ErrorCode, kerr.FencedMemberEpoch.Code)
	t.wantCode("an epoch long gone", a.send(a.request(1)).ErrorCode, kerr.FencedMemberEpoch.Code, 0)
	keeps := slices.Clone(a.owns)
	// Whoever starts over under its id gets back what it had.
	r := a.send(a.request(0))
	t.wantCode("starting over", r.ErrorCode, 0)
	if r.Assignment == nil || r.MemberEpoch < a.epoch {
		t.Fatalf("starting over: epoch %d after %d, assignment %v", r.MemberEpoch, a.epoch, r.Assignment)
	}
	a.owns, a.epoch = nil, r.MemberEpoch
	a.until(1, b)
	if !slices.Equal(a.owns, keeps) {
		t.Errorf("it had %v and has %v", keeps, a.owns)
	}
}

func staticConsumer(_ context.Context, t *T) {
	tp := t.topic(4)
	w, group := t.place()
	a, b := t.consumer(w, group, tp), t.consumer(w, group, tp)
	a.instance = t.name("instance")
	a.until(4)
	b.until(2, a)
	had := slices.Clone(a.owns)
	next := t.consumer(w, group, tp)
	next.instance = a.instance
	t.wantCode("a second one of the name", next.send(next.request(0)).ErrorCode, kerr.UnreleasedInstanceID.Code)
	t.wantCode("another's instance", next.send(next.request(a.epoch)).ErrorCode, kerr.FencedInstanceID.Code)
	unknown := t.consumer(w, group, tp)
	unknown.instance = t.name("instance")
	t.wantCode("an instance nobody has", unknown.send(unknown.request(a.epoch)).ErrorCode, kerr.UnknownMemberID.Code)
	a.leave(-2)
	if given := b.beat(); len(given) != 2 {
		t.Errorf("while a static member is away another has %v", given)
	}
	next.until(2, b)
	if !slices.Equal(next.owns, had) {
		t.Errorf("it had %v, and has %v", had, next.owns)
	}
	t.wantCode("the old id", a.send(a.request(a.epoch)).ErrorCode, kerr.FencedInstanceID.Code)
	next.leave(-1)
	b.until(4)
}

func memberCommits(_ context.Context, t *T) {
	tp := t.topic(2)
	w, group := t.place()
	v := t.max(kmsg.OffsetCommit, 9)
	t.wantCode("before there is a group", w.commit(group, tp, v, commit{offset: 1}), 0)
	a, b := t.consumer(w, group, tp), t.consumer(w, group, tp)
	a.until(2)
	was := a.epoch
	b.until(1, a)
	t.until("both are at one epoch", func() bool { a.beat(); b.beat(); return a.epoch == b.epoch && a.epoch > was })
	t.wantCode("a member", w.commit(group, tp, v, commit{offset: 5, member: a.id, generation: a.epoch}), 0)
	t.wantCode("an epoch to come", w.commit(group, tp, v, commit{offset: 9, member: a.id, generation: a.epoch + 1}), kerr.StaleMemberEpoch.Code)
	t.wantCode("without an epoch", w.commit(group, tp, v, commit{offset: 9, member: a.id, generation: -1}), kerr.StaleMemberEpoch.Code)
	t.wantCode("a stranger", w.commit(group, tp, v, commit{offset: 9, member: "stranger", generation: a.epoch}), kerr.UnknownMemberID.Code)
	t.wantCode("an admin", w.commit(group, tp, v, commit{offset: 9}), kerr.UnknownMemberID.Code)
	// Partition 0 is one of theirs: who has had it since before may name the older
	// epoch, who got it later may not.
	owner, late := a, false
	if len(b.owns) == 1 && b.owns[0] == tp.name+"/0" {
		owner, late = b, true
	}
	code := w.commit(group, tp, v, commit{offset: 6, member: owner.id, generation: was})
	if late {
		t.wantCode("an older epoch, of what it has had for less", code, kerr.StaleMemberEpoch.Code)
	} else {
		t.wantCode("an older epoch, of what it has had since", code, 0) // KIP-1251
	}
	fetch := func(member *string, epoch int32) int16 {
		r := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberID, g.MemberEpoch = group, member, epoch
		r.Groups = append(r.Groups, g)
		return ask[*kmsg.OffsetFetchResponse](w, r, min(t.max(kmsg.OffsetFetch, newest), 9)).Groups[0].ErrorCode
	}
	stranger := "stranger"
	t.wantCode("an admin asks", fetch(nil, -1), 0)
	t.wantCode("a member asks", fetch(&a.id, a.epoch), 0)
	t.wantCode("a member asks at another epoch", fetch(&a.id, a.epoch+1), kerr.StaleMemberEpoch.Code)
	t.wantCode("a stranger asks", fetch(&stranger, a.epoch), kerr.UnknownMemberID.Code)
}

// serverAssignors: with range everybody has the same numbers of both topics, with
// uniform everybody has as many as the other.
func serverAssignors(_ context.Context, t *T) {
	for _, assignor := range []string{"range", "uniform"} {
		one, two := t.topic(3), t.topic(3)
		w, group := t.place()
		a, b := t.consumer(w, group, one, two), t.consumer(w, group, one, two)
		a.assignor, b.assignor = assignor, assignor
		a.owns = a.beat()
		t.until(assignor+": all is assigned", func() bool {
			a.owns, b.owns = a.beat(), b.beat()
			return len(a.owns)+len(b.owns) == 6 && len(a.owns) > 0 && len(b.owns) > 0
		})
		if name := t.describeConsumer(w, group).AssignorName; name != assignor {
			t.Errorf("the assignor is %s, wanted %s", name, assignor)
		}
		for _, m := range []*consumerMember{a, b} {
			var of [2][]string
			for _, o := range m.owns {
				if p, ok := strings.CutPrefix(o, one.name); ok {
					of[0] = append(of[0], p)
				} else {
					of[1] = append(of[1], strings.TrimPrefix(o, two.name))
				}
			}
			switch assignor {
			case "range":
				if !slices.Equal(of[0], of[1]) {
					t.Errorf("range gave %v", m.owns)
				}
			case "uniform":
				if len(m.owns) != 3 {
					t.Errorf("uniform gave %v", m.owns)
				}
			}
		}
	}
}

func regexSubscription(_ context.Context, t *T) {
	prefix := t.name("compat-regex")
	one := t.createTopic(prefix+"-a1", 1, nil)
	t.createTopic("x"+prefix+"-a2", 1, nil) // names must match whole
	t.createTopic(prefix+"-b", 1, nil)
	w, group := t.place()
	m := t.consumer(w, group)
	m.knows(one)
	m.regex = prefix + "-a[0-9]"
	m.until(1)
	for range 3 {
		if m.owns = m.beat(); len(m.owns) != 1 {
			t.Fatalf("assigned %v", m.owns)
		}
	}
	two := t.createTopic(prefix+"-a3", 2, nil)
	m.knows(two)
	start := time.Now()
	t.until("a new topic is found", func() bool { t.pause(200 * time.Millisecond); m.owns = m.beat(); return len(m.owns) == 3 })
	t.Notef("new topic found after %s", time.Since(start).Round(10*time.Millisecond))
}

func newPartitions(ctx context.Context, t *T) {
	tp := t.topic(1)
	w, group := t.place()
	m := t.consumer(w, group, tp)
	m.until(1)
	_, err := t.adm().CreatePartitions(ctx, 2, tp.name)
	t.must(err, "create partitions")
	t.until("they are assigned", func() bool { t.pause(200 * time.Millisecond); m.owns = m.beat(); return len(m.owns) == 3 })
}

// listedGroup is how ListGroups shows a group, empty if it does not.
func (t *T) listedGroup(w *wire, group string, types ...string) string {
	r := kmsg.NewPtrListGroupsRequest()
	r.TypesFilter = types
	for _, g := range ask[*kmsg.ListGroupsResponse](w, r, t.max(kmsg.ListGroups, newest)).Groups {
		if g.Group == group {
			return g.GroupType + " " + g.ProtocolType + " " + g.GroupState
		}
	}
	return ""
}

func (t *T) deleteGroup(w *wire, group string) int16 {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{group}
	return ask[*kmsg.DeleteGroupsResponse](w, r, t.max(kmsg.DeleteGroups, newest)).Groups[0].ErrorCode
}

func consumerAdmin(_ context.Context, t *T) {
	tp, other := t.topic(1), t.topic(1)
	w, group := t.place()
	if g := t.describeConsumer(w, group); g.ErrorCode != kerr.GroupIDNotFound.Code {
		t.Errorf("a group that is not there is described as %+v", g)
	}
	t.wantCode("the empty name", t.describeConsumer(w, "").ErrorCode, kerr.InvalidGroupID.Code)
	v := t.max(kmsg.OffsetCommit, 9)
	m := t.consumer(w, group, tp)
	m.until(1)
	for _, c := range []topic{tp, other} {
		t.wantCode("commit", w.commit(group, c, v, commit{offset: 1, member: m.id, generation: m.epoch}), 0)
	}
	if got := t.listedGroup(w, group); got != "consumer consumer Stable" {
		t.Errorf("listed as %q", got)
	}
	if got := t.listedGroup(w, group, "classic"); got != "" {
		t.Errorf("listed among classic groups as %q", got)
	}
	d := kmsg.NewPtrDescribeGroupsRequest()
	d.Groups = []string{group}
	g := ask[*kmsg.DescribeGroupsResponse](w, d, t.max(kmsg.DescribeGroups, newest)).Groups[0]
	t.wantCode("DescribeGroups", g.ErrorCode, kerr.GroupIDNotFound.Code)
	if g.State != "Dead" {
		t.Errorf("DescribeGroups: %+v", g)
	}
	t.wantCode("deleting it", t.deleteGroup(w, group), kerr.NonEmptyGroup.Code)
	od := kmsg.NewPtrOffsetDeleteRequest()
	od.Group = group
	for _, c := range []topic{tp, other} {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic, rt.Partitions = c.name, []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
		od.Topics = append(od.Topics, rt)
	}
	for _, rt := range ask[*kmsg.OffsetDeleteResponse](w, od, 0).Topics {
		want := int16(0)
		if rt.Topic == tp.name {
			want = kerr.GroupSubscribedToTopic.Code
		}
		t.wantCode("OffsetDelete of "+rt.Topic, rt.Partitions[0].ErrorCode, want)
	}
	// An admin removes the member with the request of the other protocol.
	l := kmsg.NewPtrLeaveGroupRequest()
	l.Group = group
	for _, id := range []string{"stranger", m.id} {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID = id
		l.Members = append(l.Members, lm)
	}
	left := ask[*kmsg.LeaveGroupResponse](w, l, t.max(kmsg.LeaveGroup, newest)).Members
	if len(left) != 2 || left[0].ErrorCode != kerr.UnknownMemberID.Code || left[1].ErrorCode != 0 {
		t.Errorf("LeaveGroup: %+v", left)
	}
	t.wantCode("its heartbeat after", m.send(m.request(m.epoch)).ErrorCode, kerr.UnknownMemberID.Code)
	if got := t.listedGroup(w, group); got != "consumer consumer Empty" {
		t.Errorf("listed as %q", got)
	}
	if g := t.describeConsumer(w, group); g.State != "Empty" || len(g.Members) != 0 {
		t.Errorf("described as %+v", g)
	}
	t.wantCode("deleting it, now that it is empty", t.deleteGroup(w, group), 0)
	if got := t.listedGroup(w, group); got != "" {
		t.Errorf("after deletion listed as %q", got)
	}
}

func changesProtocol(_ context.Context, t *T) {
	tp := t.topic(1)
	w, group := t.place()
	v := t.max(kmsg.OffsetCommit, 9)
	m := t.consumer(w, group, tp)
	m.until(1)
	t.wantCode("commit", w.commit(group, tp, v, commit{offset: 7, member: m.id, generation: m.epoch}), 0)
	odd := joinRequest(group, "", 6*time.Second)
	odd.ProtocolType = "connect"
	t.wantCode("another protocol type", t.joinWith(w, odd, t.max(kmsg.JoinGroup, newest)).ErrorCode, kerr.InconsistentGroupProtocol.Code)
	t.wantCode("a classic heartbeat", t.heartbeat(w, group, m.id, m.epoch), kerr.UnknownMemberID.Code)
	m.leave(-1)
	j := t.stable(w, group)
	if got := t.listedGroup(w, group); got != "classic consumer Stable" {
		t.Errorf("listed as %q", got)
	}
	t.wantCode("described as a consumer group", t.describeConsumer(w, group).ErrorCode, kerr.GroupIDNotFound.Code)
	if got := w.committed(group, tp, t.max(kmsg.OffsetFetch, newest)); got.offset != 7 {
		t.Errorf("committed %d, want 7", got.offset)
	}
	l := kmsg.NewPtrLeaveGroupRequest()
	l.Group, l.MemberID = group, j.MemberID
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = j.MemberID
	l.Members = append(l.Members, lm)
	t.wantCode("leave", ask[*kmsg.LeaveGroupResponse](w, l, t.max(kmsg.LeaveGroup, newest)).ErrorCode, 0)
	m.epoch = 0
	m.until(1)
	if got := w.committed(group, tp, t.max(kmsg.OffsetFetch, newest)); got.offset != 7 {
		t.Errorf("committed %d, want 7", got.offset)
	}
}

// twoConsumers: franz-go's consumers share the partitions, and one takes all again.
func twoConsumers(ctx context.Context, t *T) {
	t.max(kmsg.ConsumerGroupHeartbeat, newest)
	t.split(ctx, kgo.CooperativeStickyBalancer(), kgo.ServerSideBalancer())
}
