package kafkawire

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func joinGroup(version int16, group, memberID string) *kmsg.JoinGroupRequest {
	r := at(kmsg.NewPtrJoinGroupRequest(), version)
	r.Group, r.MemberID, r.ProtocolType = group, memberID, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 10_000, 30_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte("topics")
	r.Protocols = append(r.Protocols, p)
	return r
}

func syncGroup(version int16, group, memberID string, generation int32, assign ...string) *kmsg.SyncGroupRequest {
	r := at(kmsg.NewPtrSyncGroupRequest(), version)
	r.Group, r.MemberID, r.Generation = group, memberID, generation
	if version >= 5 {
		r.ProtocolType, r.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	}
	for _, id := range assign {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, []byte("for "+id)
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	return r
}

func beat(group, memberID string, generation int32) *kmsg.HeartbeatRequest {
	r := at(kmsg.NewPtrHeartbeatRequest(), 4)
	r.Group, r.MemberID, r.Generation = group, memberID, generation
	return r
}

func leaveGroup(group string, memberIDs ...string) *kmsg.LeaveGroupRequest {
	r := at(kmsg.NewPtrLeaveGroupRequest(), 5)
	r.Group = group
	for _, id := range memberIDs {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		r.Members = append(r.Members, m)
	}
	return r
}

// keeps checks how many groups the registry keeps that nobody is in any more.
func (d *door) keeps(groups int) {
	d.t.Helper()
	d.holds(0)
	d.groups.mu.Lock()
	defer d.groups.mu.Unlock()
	if d.groups.kept != groups {
		d.t.Errorf("%d groups that nobody is in, want %d", d.groups.kept, groups)
	}
}

// joins brings a client into a group nobody waits for, in one or two steps, and
// returns the last answer.
func (c *client) joins(version int16, group string) *kmsg.JoinGroupResponse {
	c.t.Helper()
	r := ask[*kmsg.JoinGroupResponse](c, joinGroup(version, group, ""))
	if version >= 4 {
		c.want("first JoinGroup", r.ErrorCode, codeMemberIDRequired)
		r = ask[*kmsg.JoinGroupResponse](c, joinGroup(version, group, r.MemberID))
	}
	c.want("JoinGroup", r.ErrorCode, codeNone)
	return r
}

// leads brings a client into an empty group, which is then stable.
func (c *client) leads(group string) *kmsg.JoinGroupResponse {
	c.t.Helper()
	r := c.joins(9, group)
	c.want("SyncGroup", ask[*kmsg.SyncGroupResponse](c, syncGroup(5, group, r.MemberID, r.Generation, r.MemberID)).ErrorCode, codeNone)
	return r
}

func (c *client) want(what string, got, want int16) {
	c.t.Helper()
	if got != want {
		c.t.Fatalf("%s: code %d, want %d", what, got, want)
	}
}

// holds checks what the registry keeps, but for groups that nobody is in any more.
func (d *door) holds(groups int) {
	d.t.Helper()
	d.groups.mu.Lock()
	defer d.groups.mu.Unlock()
	if n := len(d.groups.byName) - d.groups.kept; n != groups || len(d.groups.alarms)-d.groups.kept != groups {
		d.t.Errorf("%d groups with %d alarms, want %d, and %d that nobody is in", n, len(d.groups.alarms), groups, d.groups.kept)
	}
	if groups == 0 && d.groups.bytes != 0 {
		d.t.Errorf("%d bytes are counted for no group", d.groups.bytes)
	}
}

func TestGroupInEveryVersion(t *testing.T) {
	t.Parallel()
	for version := int16(0); version <= 9; version++ {
		t.Run(fmt.Sprintf("JoinGroup v%d", version), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := open(t)
				c := d.dial()
				r := c.joins(version, "g")
				if r.Generation != 1 || r.LeaderID != r.MemberID || !strings.HasPrefix(r.MemberID, "test-") {
					t.Errorf("generation %d, leader %q, member %q", r.Generation, r.LeaderID, r.MemberID)
				}
				if len(r.Members) != 1 || string(r.Members[0].ProtocolMetadata) != "topics" || text(r.Protocol) != "range" {
					t.Errorf("members %v of protocol %q", r.Members, text(r.Protocol))
				}
				if got := text(r.ProtocolType); version >= 7 && got != "consumer" {
					t.Errorf("protocol type %q", got)
				}
				s := ask[*kmsg.SyncGroupResponse](c, syncGroup(min(version, 5), "g", r.MemberID, 1, r.MemberID))
				c.want("SyncGroup", s.ErrorCode, codeNone)
				if got := string(s.MemberAssignment); got != "for "+r.MemberID {
					t.Errorf("assignment %q", got)
				}
				c.want("Heartbeat", ask[*kmsg.HeartbeatResponse](c, at(beat("g", r.MemberID, 1), min(version, 4))).ErrorCode, codeNone)
				l := leaveGroup("g", r.MemberID)
				l.MemberID = r.MemberID
				left := ask[*kmsg.LeaveGroupResponse](c, at(l, min(version, 5)))
				c.want("LeaveGroup", left.ErrorCode, codeNone)
				if version >= 3 && (len(left.Members) != 1 || left.Members[0].ErrorCode != codeNone) {
					t.Errorf("members that left: %v", left.Members)
				}
				d.holds(0)
			})
		})
	}
}

// Case G01: ids that nobody uses leave no trace, and do not keep others out.
func TestUnusedMemberIDsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		ghosts := d.dial()
		seen := map[string]bool{}
		for range 1000 {
			r := ask[*kmsg.JoinGroupResponse](ghosts, joinGroup(9, "g", ""))
			if r.ErrorCode != codeMemberIDRequired || r.MemberID == "" || seen[r.MemberID] {
				t.Fatalf("code %d with id %q", r.ErrorCode, r.MemberID)
			}
			seen[r.MemberID] = true
		}
		_ = ghosts.conn.Close()

		began := time.Now()
		c := d.dial()
		r := c.joins(9, "g")
		if waited := time.Since(began); r.LeaderID != r.MemberID || len(r.Members) != 1 || waited > 30*time.Second {
			t.Errorf("leader %q of %d members after %v", r.LeaderID, len(r.Members), waited)
		}
		ask[*kmsg.LeaveGroupResponse](c, leaveGroup("g", r.MemberID))
		<-time.After(9 * time.Second)
		d.holds(1)
		<-time.After(time.Second)
		synctest.Wait()
		d.holds(0)
	})
}

// Case G07.
func TestMembersThatWaitAreNotExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		a, b := d.dial(), d.dial()
		ra := a.leads("g")
		first := joinGroup(3, "g", "") // in one step
		first.SessionTimeoutMillis = 6_000
		corr := b.send(first)
		synctest.Wait()
		for range 5 { // 20 s, more than b's session
			a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeRebalanceInProgress)
			<-time.After(4 * time.Second)
		}
		ra = ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID))
		rb := b.receive(first, corr).(*kmsg.JoinGroupResponse)
		if ra.Generation != 2 || rb.Generation != 2 || len(ra.Members) != 2 || len(rb.Members) != 0 || rb.LeaderID != ra.MemberID {
			t.Fatalf("leader: %+v\nfollower: %+v", ra, rb)
		}
		if ra.MemberID == rb.MemberID {
			t.Fatal("two clients of one name are one member")
		}
		wait := syncGroup(3, "g", rb.MemberID, 2)
		corr = b.send(wait)
		synctest.Wait()
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 2)).ErrorCode, codeNone)
		a.want("SyncGroup", ask[*kmsg.SyncGroupResponse](a, syncGroup(5, "g", ra.MemberID, 2, ra.MemberID)).ErrorCode, codeNone)
		// The leader left it out: nothing to do is empty, not null.
		if s := b.receive(wait, corr).(*kmsg.SyncGroupResponse); s.ErrorCode != codeNone || s.MemberAssignment == nil || len(s.MemberAssignment) != 0 {
			t.Errorf("follower's SyncGroup: %+v", s)
		}
		a.want("wrong generation", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeIllegalGeneration)
		a.want("unknown member", ask[*kmsg.HeartbeatResponse](a, beat("g", "nobody", 2)).ErrorCode, codeUnknownMemberID)
		a.want("unknown group", ask[*kmsg.HeartbeatResponse](a, beat("other", ra.MemberID, 2)).ErrorCode, codeUnknownMemberID)
		<-time.After(time.Minute) // both are gone now
		synctest.Wait()
		d.holds(0)
	})
}

func TestStaticMemberOverTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		j := joinGroup(9, "g", "")
		j.InstanceID = kmsg.StringPtr("i1")
		first := ask[*kmsg.JoinGroupResponse](c, j)
		c.want("JoinGroup", first.ErrorCode, codeNone)
		if text(first.Members[0].InstanceID) != "i1" {
			t.Errorf("the leader sees instance %q", text(first.Members[0].InstanceID))
		}
		ask[*kmsg.SyncGroupResponse](c, syncGroup(5, "g", first.MemberID, 1, first.MemberID))
		again := ask[*kmsg.JoinGroupResponse](c, j)
		if again.ErrorCode != codeNone || again.Generation != 1 || again.MemberID == first.MemberID || !again.SkipAssignment {
			t.Errorf("after a restart: %+v", again)
		}
		old := beat("g", first.MemberID, 1)
		old.InstanceID = j.InstanceID
		c.want("the old id", ask[*kmsg.HeartbeatResponse](c, old).ErrorCode, codeFencedInstanceID)
		l := leaveGroup("g", "", "nobody")
		l.Members[0].InstanceID = j.InstanceID
		left := ask[*kmsg.LeaveGroupResponse](c, l)
		if left.ErrorCode != codeNone || left.Members[0].ErrorCode != codeNone || left.Members[1].ErrorCode != codeUnknownMemberID ||
			text(left.Members[0].InstanceID) != "i1" || left.Members[1].MemberID != "nobody" {
			t.Errorf("left: %+v", left)
		}
		d.holds(0)
	})
}

func TestJoinsThatAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.Groups.GroupsMax, c.Groups.BytesMax = 2, 10_000 })
		c := d.dial()
		f := func(what string, want int16, change func(*kmsg.JoinGroupRequest)) {
			t.Helper()
			r := joinGroup(9, "g", "")
			change(r)
			got := ask[*kmsg.JoinGroupResponse](c, r)
			c.want(what, got.ErrorCode, want)
			if got.Generation != -1 || len(got.Members) != 0 || got.Protocol != nil {
				t.Errorf("%s: %+v", what, got)
			}
		}
		f("no name", codeInvalidGroupID, func(r *kmsg.JoinGroupRequest) { r.Group = "" })
		f("a long name", codeInvalidGroupID, func(r *kmsg.JoinGroupRequest) { r.Group = strings.Repeat("g", 250) })
		f("a control character", codeInvalidGroupID, func(r *kmsg.JoinGroupRequest) { r.Group = "a\tb" })
		f("a short session", codeInvalidSessionTimeout, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 5_999 })
		f("a long session", codeInvalidSessionTimeout, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 30*60_000 + 1 })
		f("no protocol", codeInconsistentProtocol, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })
		f("a member nobody knows", codeUnknownMemberID, func(r *kmsg.JoinGroupRequest) { r.MemberID = "nobody" })
		d.holds(0)
		c.leads("a")
		c.leads("b")
		f("too many groups", codeCoordinatorNotAvailable, func(*kmsg.JoinGroupRequest) {})
		f("too many bytes", codeCoordinatorNotAvailable, func(r *kmsg.JoinGroupRequest) {
			r.Group, r.Protocols[0].Metadata = "a", make([]byte, 9_000)
		})
		d.holds(2)
	})
}

func TestSyncGroupRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		r := c.leads("g")
		f := func(what string, want int16, change func(*kmsg.SyncGroupRequest)) {
			t.Helper()
			s := syncGroup(5, "g", r.MemberID, 1)
			change(s)
			got := ask[*kmsg.SyncGroupResponse](c, s)
			c.want(what, got.ErrorCode, want)
			if got.MemberAssignment == nil {
				t.Errorf("%s: the assignment is null", what)
			}
		}
		f("as it is", codeNone, func(*kmsg.SyncGroupRequest) {})
		f("another protocol", codeInconsistentProtocol, func(s *kmsg.SyncGroupRequest) { s.Protocol = kmsg.StringPtr("sticky") })
		f("another type", codeInconsistentProtocol, func(s *kmsg.SyncGroupRequest) { s.ProtocolType = kmsg.StringPtr("connect") })
		f("another generation", codeIllegalGeneration, func(s *kmsg.SyncGroupRequest) { s.Generation = 2 })
		f("another member", codeUnknownMemberID, func(s *kmsg.SyncGroupRequest) { s.MemberID = "nobody" })
		f("another group", codeUnknownMemberID, func(s *kmsg.SyncGroupRequest) { s.Group = "other" })
		f("no group", codeInvalidGroupID, func(s *kmsg.SyncGroupRequest) { s.Group = "" })
	})
}

// A rebalance needs frames that come after those that wait for it to end.
func TestWaitingJoinHoldsNoFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.InFlightBytesMax = 1 << 10 }) // one frame's
		a, b := d.dial(), d.dial()
		ra := a.leads("g")
		first := joinGroup(3, "g", "")
		corr := b.send(first)
		synctest.Wait()
		began := time.Now()
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeRebalanceInProgress)
		a.want("JoinGroup", ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID)).ErrorCode, codeNone)
		b.want("JoinGroup", b.receive(first, corr).(*kmsg.JoinGroupResponse).ErrorCode, codeNone)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it took %v", waited)
		}
	})
}

// As in Kafka, a hang-up is no leave: the member may be about to come back.
func TestHangUpWhileJoining(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		a, b := d.dial(), d.dial()
		ra := a.leads("g")
		b.send(joinGroup(3, "g", ""))
		synctest.Wait()
		_ = b.conn.Close()
		synctest.Wait()
		ra = ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID))
		if len(ra.Members) != 2 {
			t.Fatalf("%d members right after the hang-up", len(ra.Members))
		}
		ask[*kmsg.SyncGroupResponse](a, syncGroup(5, "g", ra.MemberID, 2, ra.MemberID))
		for range 3 {
			a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 2)).ErrorCode, codeNone)
			<-time.After(4 * time.Second)
		}
		// The session of who hung up is over.
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 2)).ErrorCode, codeRebalanceInProgress)
		ra = ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID))
		if len(ra.Members) != 1 {
			t.Errorf("%d members after the session", len(ra.Members))
		}
	})
}

// Clients leave and go without waiting for the answer.
func TestLeaveBeforeHangUpCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		a := d.dial()
		ra := a.leads("g")
		b := d.dial()
		b.send(fetchRequest(11, "none", 0, time.Minute))
		b.send(leaveGroup("g", ra.MemberID))
		synctest.Wait()
		_ = b.conn.Close()
		synctest.Wait()
		d.holds(0)
	})
}

// twoBrokers makes this broker one of two, the first, which coordinates all groups.
func (d *door) twoBrokers() {
	d.fake.setBrokers(queen.Broker{ID: 1, Host: "one.test", Port: 9092}, queen.Broker{ID: 2, Host: "two.test", Port: 9093})
}

func TestOnlyTheCoordinatorAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.twoBrokers()
		a, b := d.dial(), d.dial()
		ra := a.leads("g")
		waits := joinGroup(3, "g", "")
		corr := b.send(waits)
		synctest.Wait()

		began := time.Now()
		d.fake.setCoordinator(2)
		b.want("a join that waits", b.receive(waits, corr).(*kmsg.JoinGroupResponse).ErrorCode, codeNotCoordinator)
		if waited := time.Since(began); waited > coordinatorPoll {
			t.Errorf("it was told after %v", waited)
		}
		d.holds(0)
		a.want("JoinGroup", ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID)).ErrorCode, codeNotCoordinator)
		a.want("SyncGroup", ask[*kmsg.SyncGroupResponse](a, syncGroup(5, "g", ra.MemberID, 1)).ErrorCode, codeNotCoordinator)
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeNotCoordinator)
		a.want("LeaveGroup", ask[*kmsg.LeaveGroupResponse](a, leaveGroup("g", ra.MemberID)).ErrorCode, codeNotCoordinator)
		a.want("OffsetFetch", ask[*kmsg.OffsetFetchResponse](a, offsetFetch(10, "g")).Groups[0].ErrorCode, codeNotCoordinator)
		d.fake.topic("t", 1)
		a.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](a, offsetCommit(9, "g", "t", 0, 1))).ErrorCode, codeNotCoordinator)

		// Back again it knows nobody: members join anew.
		d.fake.setCoordinator(1)
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeUnknownMemberID)
		forgotten := offsetCommit(9, "g", "t", 0, 1)
		forgotten.MemberID, forgotten.Generation = ra.MemberID, 1
		a.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](a, forgotten)).ErrorCode, codeUnknownMemberID)
		a.leads("g")
	})
}

// While nobody can tell who coordinates, members are refused, but none is expired
// and none forgotten: afterwards the generation goes on.
func TestGroupsStandStillWhileInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		a, b := d.dial(), d.dial()
		ra := a.leads("g")
		waits := joinGroup(3, "g", "")
		corr := b.send(waits)
		synctest.Wait()
		k := d.dial()
		k.want("ConsumerGroupHeartbeat", k.beats(consumes("k", "m", "t")).ErrorCode, codeNone)
		d.fake.doubt(true)
		for range 20 { // a's session is 10 s, the join phase 30 s
			<-time.After(4 * time.Second)
			a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeNotCoordinator)
		}
		a.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](a, offsetCommit(9, "g", "t", 0, 1))).ErrorCode, codeNotCoordinator)
		find := at(kmsg.NewPtrFindCoordinatorRequest(), 6)
		find.CoordinatorKeys = []string{"g"}
		a.want("FindCoordinator", ask[*kmsg.FindCoordinatorResponse](a, find).Coordinators[0].ErrorCode, codeCoordinatorNotAvailable)
		a.want("ListGroups", ask[*kmsg.ListGroupsResponse](a, at(kmsg.NewPtrListGroupsRequest(), 5)).ErrorCode, codeCoordinatorNotAvailable)
		k.want("ConsumerGroupHeartbeat", k.beats(consume("k", "m", 1)).ErrorCode, codeNotCoordinator)
		d.holds(2)
		d.fake.doubt(false)
		<-time.After(9 * time.Second)
		k.want("ConsumerGroupHeartbeat", k.beats(consume("k", "m", 1)).ErrorCode, codeNone)
		ra = ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID))
		rb := b.receive(waits, corr).(*kmsg.JoinGroupResponse)
		if ra.Generation != 2 || rb.Generation != 2 || len(ra.Members) != 2 {
			t.Errorf("afterwards: %+v and %+v", ra, rb)
		}
	})
}

// A coordinator that lost its slot between its look at the group and the write is
// told so, and tells its client.
func TestACommitUnderAnOldEpochIsAnsweredNotCoordinator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stale := &staleEngine{}
		d := open(t, func(c *Config) {
			stale.fake = c.Engine.(*fake)
			c.Engine = stale
		})
		d.fake.topic("t", 1)
		c := d.dial()
		stale.at.Store(new(d.fake.Coordinator("g")))
		ra := c.leads("g")
		d.fake.setCoordinator(2)
		commit := offsetCommit(9, "g", "t", 0, 5)
		commit.MemberID, commit.Generation = ra.MemberID, 1
		c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, commit)).ErrorCode, codeNotCoordinator)
		del := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
		del.Groups = []string{"h"}
		c.want("DeleteGroups", ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeNotCoordinator)
		if got, err := d.fake.FetchOffsets(context.Background(), "g", nil); err != nil || len(got) != 0 {
			t.Errorf("stored: %+v, %v", got, err)
		}
	})
}

// staleEngine remembers who coordinated.
type staleEngine struct {
	*fake
	at atomic.Pointer[queen.Coordination]
}

func (s *staleEngine) Coordinator(group string) queen.Coordination { return *s.at.Load() }

// A slot that was lost and won again is another one: nobody is known in it.
func TestAGroupLivesInOneEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		a := d.dial()
		ra := a.leads("g")
		d.fake.setCoordinator(2)
		d.fake.setCoordinator(1)
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeUnknownMemberID)
		if r := a.leads("g"); r.Generation != 1 || r.MemberID == ra.MemberID {
			t.Errorf("joined %+v", r)
		}
		d.holds(1)
	})
}

func TestShutdownSendsMembersToAnotherCoordinator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		a, b := d.dial(), d.dial()
		a.leads("g")
		waits := joinGroup(3, "g", "")
		corr := b.send(waits)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		stopped := make(chan error)
		go func() { stopped <- d.Shutdown(ctx) }()
		b.want("JoinGroup", b.receive(waits, corr).(*kmsg.JoinGroupResponse).ErrorCode, codeNotCoordinator)
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

func TestInitialDelayGathersMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.Groups.InitialDelay = 3 * time.Second })
		began := time.Now()
		a, b := d.dial(), d.dial()
		ja, jb := joinGroup(3, "g", ""), joinGroup(3, "g", "")
		ca := a.send(ja)
		synctest.Wait()
		cb := b.send(jb)
		ra, rb := a.receive(ja, ca).(*kmsg.JoinGroupResponse), b.receive(jb, cb).(*kmsg.JoinGroupResponse)
		if ra.Generation != 1 || rb.Generation != 1 || len(ra.Members) != 2 {
			t.Errorf("generations %d and %d, %d members", ra.Generation, rb.Generation, len(ra.Members))
		}
		if waited := time.Since(began); waited < 3*time.Second || waited > 6*time.Second {
			t.Errorf("it took %v", waited)
		}
	})
}

func TestFindCoordinator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.twoBrokers()
		d.fake.setCoordinator(2)
		c := d.dial()
		find := func(version int16, kind int8, keys ...string) *kmsg.FindCoordinatorResponse {
			r := at(kmsg.NewPtrFindCoordinatorRequest(), version)
			r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = kind, keys[0], keys
			return ask[*kmsg.FindCoordinatorResponse](c, r)
		}
		for version := int16(0); version < 4; version++ {
			if r := find(version, 0, "g"); r.ErrorCode != codeNone || r.NodeID != 2 || r.Host != "two.test" || r.Port != 9093 {
				t.Errorf("v%d: %+v", version, r)
			}
		}
		for version := int16(4); version <= 6; version++ {
			r := find(version, 0, "g", "h")
			if len(r.Coordinators) != 2 || r.Coordinators[1].Key != "h" || r.Coordinators[1].NodeID != 2 || r.Coordinators[1].Host != "two.test" {
				t.Errorf("v%d: %+v", version, r)
			}
		}
		c.want("of a transaction", find(6, 1, "x").Coordinators[0].ErrorCode, codeTransactionalIDAuth)
		c.want("of a transaction, before v4", find(2, 1, "x").ErrorCode, codeTransactionalIDAuth)
		c.want("of a share", find(6, 2, "g:t:0").Coordinators[0].ErrorCode, codeInvalidRequest)
		d.fake.setCoordinator(0)
		none := find(6, 0, "g").Coordinators[0]
		c.want("while nobody is", none.ErrorCode, codeCoordinatorNotAvailable)
		if none.NodeID != -1 || none.Port != -1 {
			t.Errorf("nobody is %+v", none)
		}
	})
}

func TestEachGroupKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		first := func(group string, session time.Duration) {
			r := joinGroup(9, group, "")
			r.SessionTimeoutMillis = int32(session.Milliseconds())
			c.want("first JoinGroup", ask[*kmsg.JoinGroupResponse](c, r).ErrorCode, codeMemberIDRequired)
		}
		pending := func(group string) int {
			l := d.groups.find(group, d.fake.Coordinator(group).Fence, false)
			if l == nil {
				return 0
			}
			defer l.mu.Unlock()
			return len(l.group.pending)
		}
		first("c", 10*time.Second)
		first("b", 20*time.Second)
		first("a", 30*time.Second)
		first("a", 6*time.Second) // a is now the first whose time comes
		for _, want := range []struct {
			after   time.Duration
			a, b, c int
		}{{6 * time.Second, 1, 1, 1}, {4 * time.Second, 1, 1, 0}, {10 * time.Second, 1, 0, 0}, {10 * time.Second, 0, 0, 0}} {
			<-time.After(want.after)
			synctest.Wait()
			if a, b, c := pending("a"), pending("b"), pending("c"); a != want.a || b != want.b || c != want.c {
				t.Errorf("%v later: %d, %d and %d ids are pending, want %d, %d and %d", want.after, a, b, c, want.a, want.b, want.c)
			}
		}
		d.holds(0)
	})
}

// A group whose last member went is known for a while, empty and by its protocol
// type, though it never had a position: it is listed, described and deleted.
func TestAGroupIsKnownAfterItsLastMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		state := func() string {
			t.Helper()
			req := at(kmsg.NewPtrDescribeGroupsRequest(), 6)
			req.Groups = []string{"g"}
			g := ask[*kmsg.DescribeGroupsResponse](c, req).Groups[0]
			return fmt.Sprint(g.State, " ", g.ProtocolType, " ", g.ErrorCode)
		}
		listed := func() string {
			t.Helper()
			var all []string
			for _, g := range ask[*kmsg.ListGroupsResponse](c, at(kmsg.NewPtrListGroupsRequest(), 5)).Groups {
				all = append(all, fmt.Sprint(g.Group, " ", g.GroupState, " ", g.ProtocolType, " ", g.GroupType))
			}
			return strings.Join(all, ", ")
		}
		drop := func() int16 {
			t.Helper()
			req := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
			req.Groups = []string{"g"}
			return ask[*kmsg.DeleteGroupsResponse](c, req).Groups[0].ErrorCode
		}
		comeAndGo := func() *kmsg.JoinGroupResponse {
			t.Helper()
			r := c.leads("g")
			c.want("LeaveGroup", ask[*kmsg.LeaveGroupResponse](c, leaveGroup("g", r.MemberID)).ErrorCode, codeNone)
			d.keeps(1)
			return r
		}
		first := comeAndGo()
		if got := state(); got != "Empty consumer 0" {
			t.Errorf("described as %q", got)
		}
		if got := listed(); got != "g Empty consumer classic" {
			t.Errorf("listed as %q", got)
		}
		if again := comeAndGo(); again.Generation <= first.Generation {
			t.Errorf("generation %d after %d", again.Generation, first.Generation)
		}
		c.want("DeleteGroups", drop(), codeNone)
		c.want("DeleteGroups again", drop(), codeGroupIDNotFound)
		if got := state(); got != "Dead  69" {
			t.Errorf("described as %q when deleted", got)
		}
		comeAndGo()
		<-time.After(11 * time.Minute)
		synctest.Wait()
		d.keeps(0)
		c = d.dial() // the first was idle for too long
		if got := listed(); got != "" {
			t.Errorf("listed as %q after a while", got)
		}
	})
}
