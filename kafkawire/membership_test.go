package kafkawire

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
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

// Assignments are held by the group, so they count against what all groups hold.
func TestAssignmentsShareTheBoundOnBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(c *Config) { c.Groups.BytesMax = 20_000 })
		c := d.dial()
		sync := func(r *kmsg.JoinGroupResponse, group string, n int) int16 {
			s := syncGroup(5, group, r.MemberID, 1, r.MemberID)
			s.GroupAssignment[0].MemberAssignment = make([]byte, n)
			return ask[*kmsg.SyncGroupResponse](c, s).ErrorCode
		}
		a, b := c.joins(9, "a"), c.joins(9, "b")
		c.want("as much as there may be", sync(a, "a", 15_000), codeNone)
		c.want("more", sync(b, "b", 15_000), codeCoordinatorNotAvailable)
		c.want("less", sync(b, "b", 1000), codeNone)
	})
}

// Comparing lists with each other, name by name, would take minutes for two of these, and
// everybody in the group waited.
func TestLongListsOfProtocolsAreComparedQuickly(t *testing.T) {
	t.Parallel()
	d := open(t)
	long := func(prefix string, n int) *kmsg.JoinGroupRequest {
		r := joinGroup(3, "g", "")
		r.Protocols = nil
		for i := range n {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name = prefix + strconv.FormatInt(int64(i), 36)
			r.Protocols = append(r.Protocols, p)
		}
		return r
	}
	began := time.Now()
	a, b := d.dial(), d.dial()
	a.want("who is first", ask[*kmsg.JoinGroupResponse](a, long("a", 90_000)).ErrorCode, codeNone)
	b.want("who has nothing in common", ask[*kmsg.JoinGroupResponse](b, long("b", 90_000)).ErrorCode, codeInconsistentProtocol)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("two joins took %v", took)
	}
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
