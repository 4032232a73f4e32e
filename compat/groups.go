package compat

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var groupCases = []Case{
	{"groups/coordinator-lookup", coordinatorLookup},
	{"groups/new-member-gets-79-and-an-id", memberIDRequired},
	{"groups/old-join-versions-get-an-id-at-once", joinAtOnce},
	{"groups/a-thousand-half-joins-leave-no-phantom", halfJoins},
	{"groups/join-refusals", joinRefusals},
	{"groups/heartbeat-codes", heartbeatCodes},
	{"groups/commit-needs-the-current-generation", commitGeneration},
	{"groups/resume-where-it-stopped", resumes},
	{"groups/two-members-split-the-partitions", twoMembers},
	{"groups/a-silent-member-is-expelled", silentMember},
	{"groups/known-after-its-last-member", knownAfterLast},
}

// group makes the name of a group of its own.
func (t *T) group() string { return t.name("compat-group") }

func coordinatorLookup(_ context.Context, t *T) {
	group := t.group()
	addr := t.coordinator(group)
	w := t.dial()
	offered, _ := t.offers(kmsg.FindCoordinator)
	for v := offered.min; v <= t.max(kmsg.FindCoordinator, newest); v++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = group, []string{group, group + "-2"}
		r := ask[*kmsg.FindCoordinatorResponse](w, req, v)
		if v < 4 {
			if got := fmt.Sprintf("%s:%d", r.Host, r.Port); r.ErrorCode != 0 || got != addr {
				t.Errorf("v%d: code %d, %s; want %s", v, r.ErrorCode, got, addr)
			}
			continue
		}
		if len(r.Coordinators) != 2 {
			t.Errorf("v%d: %d answers for 2 groups", v, len(r.Coordinators))
			continue
		}
		for _, c := range r.Coordinators {
			t.wantCode(fmt.Sprintf("v%d, %s", v, c.Key), c.ErrorCode, 0)
			if got := fmt.Sprintf("%s:%d", c.Host, c.Port); c.Key == group && got != addr {
				t.Errorf("v%d: %s, want %s", v, got, addr)
			}
		}
	}
}

// join takes both steps of joining and answers the second reply.
func (t *T) join(w *wire, group, member string, version int16) *kmsg.JoinGroupResponse {
	return t.joinWith(w, joinRequest(group, member, 6*time.Second), version)
}

func (t *T) joinWith(w *wire, req *kmsg.JoinGroupRequest, version int16) *kmsg.JoinGroupResponse {
	r := ask[*kmsg.JoinGroupResponse](w, req, version)
	if r.ErrorCode == kerr.MemberIDRequired.Code && r.MemberID != "" {
		req.MemberID = r.MemberID
		r = ask[*kmsg.JoinGroupResponse](w, req, version)
	}
	return r
}

// sync gives every member an assignment of its own name, if it leads.
func (t *T) sync(w *wire, group string, j *kmsg.JoinGroupResponse) *kmsg.SyncGroupResponse {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, j.MemberID, j.Generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), j.Protocol
	for _, m := range j.Members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.MemberID, []byte("for "+m.MemberID)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return ask[*kmsg.SyncGroupResponse](w, req, t.max(kmsg.SyncGroup, newest))
}

// stable joins as the only member and syncs.
func (t *T) stable(w *wire, group string) *kmsg.JoinGroupResponse {
	j := t.join(w, group, "", t.max(kmsg.JoinGroup, newest))
	if j.ErrorCode != 0 {
		t.Fatalf("join answered %s", codeName(j.ErrorCode))
	}
	if s := t.sync(w, group, j); s.ErrorCode != 0 || string(s.MemberAssignment) != "for "+j.MemberID {
		t.Fatalf("sync answered %s, %q", codeName(s.ErrorCode), s.MemberAssignment)
	}
	return j
}

// memberIDRequired: the first step gives an id and no membership, so a client
// that dies between the steps holds nobody up.
func memberIDRequired(_ context.Context, t *T) {
	offered, _ := t.offers(kmsg.JoinGroup)
	for v := max(offered.min, 4); v <= t.max(kmsg.JoinGroup, newest); v++ {
		group := t.group()
		addr := t.coordinator(group)
		w := t.dialTo(addr)
		r := ask[*kmsg.JoinGroupResponse](w, joinRequest(group, "", 6*time.Second), v)
		t.wantCode(fmt.Sprintf("v%d, first step", v), r.ErrorCode, kerr.MemberIDRequired.Code)
		if r.MemberID == "" {
			t.Errorf("v%d, first step: no member id", v)
		}
		w.close()
		start := time.Now()
		second := t.join(t.dialTo(addr), group, "", v)
		if second.ErrorCode != 0 || second.LeaderID != second.MemberID || len(second.Members) != 1 || second.Generation != 1 {
			t.Errorf("v%d, second client: code %d, member %s, leader %s, %d members, generation %d",
				v, second.ErrorCode, second.MemberID, second.LeaderID, len(second.Members), second.Generation)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("v%d, second client joined after %s", v, took)
		}
	}
}

func joinAtOnce(_ context.Context, t *T) {
	offered, ok := t.offers(kmsg.JoinGroup)
	if !ok || offered.min > 3 {
		t.Skipf("JoinGroup below 4 is not offered")
	}
	for v := offered.min; v <= min(t.max(kmsg.JoinGroup, newest), 3); v++ {
		group := t.group()
		r := ask[*kmsg.JoinGroupResponse](t.dialTo(t.coordinator(group)), joinRequest(group, "", 6*time.Second), v)
		if r.ErrorCode != 0 || r.MemberID == "" || r.LeaderID != r.MemberID || len(r.Members) != 1 {
			t.Errorf("v%d: code %d, member %q, leader %q, %d members", v, r.ErrorCode, r.MemberID, r.LeaderID, len(r.Members))
		}
	}
}

func halfJoins(_ context.Context, t *T) {
	group := t.group()
	addr := t.coordinator(group)
	w := t.dialTo(addr)
	v := t.max(kmsg.JoinGroup, newest)
	ids := make(map[string]bool)
	for range 1000 {
		r := ask[*kmsg.JoinGroupResponse](w, joinRequest(group, "", 6*time.Second), v)
		t.wantCode("first step", r.ErrorCode, kerr.MemberIDRequired.Code)
		ids[r.MemberID] = true
	}
	if len(ids) != 1000 {
		t.Errorf("%d different ids in 1000 first steps", len(ids))
	}
	j := t.join(t.dialTo(addr), group, "", v)
	if j.ErrorCode != 0 || len(j.Members) != 1 {
		t.Errorf("a client that goes on: code %s, %d members", codeName(j.ErrorCode), len(j.Members))
	}
}

func joinRefusals(_ context.Context, t *T) {
	group := t.group()
	w := t.dialTo(t.coordinator(group))
	v := t.max(kmsg.JoinGroup, newest)
	t.wantCode("empty group id", t.join(w, "", "", v).ErrorCode, kerr.InvalidGroupID.Code)
	for _, session := range []time.Duration{time.Second, time.Hour} {
		r := t.joinWith(w, joinRequest(group, "", session), v)
		t.wantCode("session timeout "+session.String(), r.ErrorCode, kerr.InvalidSessionTimeout.Code)
	}
	t.wantCode("a member id nobody has", t.join(w, group, "stranger", v).ErrorCode, kerr.UnknownMemberID.Code)
	t.stable(w, group)
	odd := joinRequest(group, "", 6*time.Second)
	odd.ProtocolType = "connect"
	t.wantCode("another protocol type", t.joinWith(t.dialTo(t.coordinator(group)), odd, v).ErrorCode, kerr.InconsistentGroupProtocol.Code)
	odd = joinRequest(group, "", 6*time.Second)
	odd.Protocols[0].Name = "unheard-of"
	t.wantCode("no protocol in common", t.joinWith(t.dialTo(t.coordinator(group)), odd, v).ErrorCode, kerr.InconsistentGroupProtocol.Code)
}

func (t *T) heartbeat(w *wire, group, member string, generation int32) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	return ask[*kmsg.HeartbeatResponse](w, req, t.max(kmsg.Heartbeat, newest)).ErrorCode
}

// heartbeatCodes: a member is told by its heartbeat that someone joins, and the
// one who joins may wait longer than its session.
func heartbeatCodes(_ context.Context, t *T) {
	group := t.group()
	addr := t.coordinator(group)
	a, v := t.dialTo(addr), t.max(kmsg.JoinGroup, newest)
	j := t.stable(a, group)
	t.wantCode("stable", t.heartbeat(a, group, j.MemberID, j.Generation), 0)
	t.wantCode("wrong generation", t.heartbeat(a, group, j.MemberID, j.Generation+1), kerr.IllegalGeneration.Code)
	t.wantCode("unknown member", t.heartbeat(a, group, "stranger", j.Generation), kerr.UnknownMemberID.Code)
	t.wantCode("unknown group", t.heartbeat(a, t.group(), "stranger", 1), kerr.UnknownMemberID.Code)

	b := t.dialTo(addr)
	second := make(chan *kmsg.JoinGroupResponse, 1)
	go func() {
		defer close(second)
		defer func() { _ = recover() }() // Fatalf is noted already
		req := joinRequest(group, "", 6*time.Second)
		req.RebalanceTimeoutMillis = 60_000
		second <- t.joinWith(b, req, v)
	}()
	// B's join reaches the coordinator at some time; from then on A hears of it.
	told := int16(0)
	for told == 0 && t.pause(50*time.Millisecond) {
		told = t.heartbeat(a, group, j.MemberID, j.Generation)
	}
	t.wantCode("while B joins", told, kerr.RebalanceInProgress.Code)
	// Longer than B's session, A only beats. (A's own rebalance timeout is 10 s.)
	for range 16 {
		t.pause(500 * time.Millisecond)
		t.wantCode("still joining", t.heartbeat(a, group, j.MemberID, j.Generation), kerr.RebalanceInProgress.Code)
	}
	again := t.join(a, group, j.MemberID, v)
	bj, ok := <-second
	if !ok {
		return
	}
	if again.ErrorCode != 0 || bj.ErrorCode != 0 || again.Generation != bj.Generation || again.Generation <= j.Generation {
		t.Errorf("after the rebalance: codes %d and %d, generations %d and %d, before %d",
			again.ErrorCode, bj.ErrorCode, again.Generation, bj.Generation, j.Generation)
	}
	if n, m := len(again.Members), len(bj.Members); n+m != 2 {
		t.Errorf("the leader alone hears of the two members, here %d and %d", n, m)
	}
}

func commitGeneration(_ context.Context, t *T) {
	tp := t.topic(1)
	group := t.group()
	w := t.dialTo(t.coordinator(group))
	j := t.stable(w, group)
	v := t.max(kmsg.OffsetCommit, 9)
	mine := commit{offset: 5, member: j.MemberID, generation: j.Generation}
	t.wantCode("the current generation", w.commit(group, tp, v, mine), 0)
	old := mine
	old.generation, old.offset = j.Generation-1, 9
	t.wantCode("the generation before", w.commit(group, tp, v, old), kerr.IllegalGeneration.Code)
	stranger := mine
	stranger.member, stranger.offset = "stranger", 9
	t.wantCode("a stranger", w.commit(group, tp, v, stranger), kerr.UnknownMemberID.Code)
	t.wantCode("someone outside a group that has members", w.commit(group, tp, v, commit{offset: 9}), kerr.UnknownMemberID.Code)
	if got := w.committed(group, tp, t.max(kmsg.OffsetFetch, newest)); got.offset != 5 {
		t.Errorf("committed %d, want 5", got.offset)
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, j.MemberID
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = j.MemberID
	req.Members = append(req.Members, m)
	r := ask[*kmsg.LeaveGroupResponse](w, req, t.max(kmsg.LeaveGroup, newest))
	t.wantCode("leave", r.ErrorCode, 0)
	t.wantCode("a heartbeat after leaving", t.heartbeat(w, group, j.MemberID, j.Generation), kerr.UnknownMemberID.Code)
	t.wantCode("from outside, now that it is empty", w.commit(group, tp, v, commit{offset: 7}), 0)
}

// resumes: what was committed before the members left is where the next begins.
func resumes(ctx context.Context, t *T) {
	tp := t.topic(2)
	group := t.group()
	producer := t.client(kgo.DefaultProduceTopic(tp.name))
	next := 0
	produce := func(n int) {
		var rs []*kgo.Record
		for range n {
			rs = append(rs, &kgo.Record{Value: fmt.Append(nil, next)})
			next++
		}
		t.must(producer.ProduceSync(ctx, rs...).FirstErr(), "produce")
	}
	seen := make(map[string]int)
	for range 3 {
		produce(100)
		cl := t.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp.name),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		for _, rs := range t.collect(ctx, cl, 100) {
			for _, r := range rs {
				seen[string(r.Value)]++
			}
		}
		t.must(cl.CommitUncommittedOffsets(ctx), "commit")
		cl.Close() // leaves the group
	}
	if len(seen) != next {
		t.Errorf("%d of %d records were seen", len(seen), next)
	}
	for v, n := range seen {
		if n != 1 {
			t.Errorf("record %s was seen %d times", v, n)
		}
	}
}

// member is a consumer that counts what it owns and what it saw.
type member struct {
	cl    *kgo.Client
	mu    sync.Mutex
	owned map[int32]bool
	seen  map[string]int
}

func (t *T) member(ctx context.Context, group, topic string, opts ...kgo.Opt) *member {
	m := &member{owned: make(map[int32]bool), seen: make(map[string]int)}
	lost := func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, p := range ps[topic] {
			delete(m.owned, p)
		}
	}
	m.cl = t.client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.AutoCommitInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range ps[topic] {
				m.owned[p] = true
			}
		}),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
	}, opts...)...)
	go func() {
		for {
			fs := m.cl.PollFetches(ctx)
			if fs.IsClientClosed() || ctx.Err() != nil {
				return
			}
			m.mu.Lock()
			fs.EachRecord(func(r *kgo.Record) { m.seen[string(r.Value)]++ })
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *member) owns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owned)
}

func (m *member) saw(values map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for v := range m.seen {
		values[v] = true
	}
}

// until looks again and again until something holds.
func (t *T) until(what string, holds func() bool) {
	for !holds() {
		if !t.pause(50 * time.Millisecond) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

func twoMembers(ctx context.Context, t *T) {
	for _, balancer := range []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()} {
		t.split(ctx, balancer)
	}
}

// split has two members share four partitions, and one take all again.
func (t *T) split(ctx context.Context, balancer kgo.GroupBalancer, opts ...kgo.Opt) {
	const parts, n = 4, 400
	name := balancer.ProtocolName()
	opts = append(opts, kgo.Balancers(balancer))
	tp := t.topic(parts)
	group := t.group()
	producer := t.client(kgo.DefaultProduceTopic(tp.name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produced := 0
	produce := func() {
		for range n {
			r := &kgo.Record{Partition: int32(produced % parts), Value: fmt.Append(nil, produced)}
			producer.Produce(ctx, r, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
			})
			produced++
		}
		t.must(producer.Flush(ctx), "flush")
	}
	produce()
	a := t.member(ctx, group, tp.name, opts...)
	t.until(name+": the first member has all", func() bool { return a.owns() == parts })
	b := t.member(ctx, group, tp.name, opts...)
	t.until(name+": each has two", func() bool { return a.owns() == parts/2 && b.owns() == parts/2 })
	produce()
	all := func() bool {
		values := make(map[string]bool)
		a.saw(values)
		b.saw(values)
		return len(values) == produced
	}
	t.until(name+": both together saw every record", all)
	a.cl.Close()
	t.until(name+": the one left has all", func() bool { return b.owns() == parts })
	produce()
	t.until(name+": it sees every record", all)
}

// silentMember: who neither beats nor leaves is expelled after its session, and
// its partitions go to the others.
func silentMember(ctx context.Context, t *T) {
	tp := t.topic(2)
	group := t.group()
	addr := t.coordinator(group)
	w := t.dialTo(addr)
	j := t.stable(w, group)
	start := time.Now()
	m := t.dialTo(addr)
	again := t.join(m, group, "", t.max(kmsg.JoinGroup, newest)) // waits for the silent one
	took := time.Since(start)
	if again.ErrorCode != 0 || len(again.Members) != 1 || again.LeaderID != again.MemberID {
		t.Errorf("after %s: code %s, %d members, leader %s of %s",
			took, codeName(again.ErrorCode), len(again.Members), again.LeaderID, again.MemberID)
	}
	if took < 4*time.Second {
		t.Errorf("expelled after %s, its session is 6s", took)
	}
	t.wantCode("the expelled one's heartbeat", t.heartbeat(w, group, j.MemberID, j.Generation), kerr.UnknownMemberID.Code)
	old := commit{offset: 3, member: j.MemberID, generation: j.Generation}
	t.wantCode("its commit", t.dialTo(addr).commit(group, tp, t.max(kmsg.OffsetCommit, 9), old),
		kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code)
	if strings.TrimSpace(again.MemberID) == "" {
		t.Errorf("no member id")
	}
	_ = ctx
}

// knownAfterLast: a group that never had a position is still there when its last
// member has gone, empty. Admin clients describe and delete groups right then.
func knownAfterLast(_ context.Context, t *T) {
	group := t.name("compat-group")
	w := t.dialTo(t.coordinator(group))
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group}
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = []string{group}
	v := t.max(kmsg.DescribeGroups, newest)

	join := ask[*kmsg.JoinGroupResponse](w, joinRequest(group, "", 30*time.Second), 2)
	t.wantCode("join", join.ErrorCode, 0)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group, leave.MemberID = group, join.MemberID
	t.wantCode("leave", ask[*kmsg.LeaveGroupResponse](w, leave, 1).ErrorCode, 0)

	g := ask[*kmsg.DescribeGroupsResponse](w, describe, v).Groups[0]
	if g.ErrorCode != 0 || g.State != "Empty" || g.ProtocolType != "consumer" || len(g.Members) > 0 {
		t.Errorf("described as %+v", g)
	}
	found := false
	for _, l := range ask[*kmsg.ListGroupsResponse](w, kmsg.NewPtrListGroupsRequest(), t.max(kmsg.ListGroups, newest)).Groups {
		found = found || l.Group == group && l.GroupState == "Empty" && l.ProtocolType == "consumer"
	}
	if !found {
		t.Errorf("not listed as empty")
	}
	t.wantCode("delete", ask[*kmsg.DeleteGroupsResponse](w, drop, t.max(kmsg.DeleteGroups, newest)).Groups[0].ErrorCode, 0)
	t.wantCode("delete again", ask[*kmsg.DeleteGroupsResponse](w, drop, t.max(kmsg.DeleteGroups, newest)).Groups[0].ErrorCode, kerr.GroupIDNotFound.Code)
}
