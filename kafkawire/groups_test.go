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

// A group may be large, and what is done with it take long: the others' time passes.
func TestABusyGroupStopsNoClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		c.leads("busy")
		c.leads("g")
		l := d.groups.find("busy", d.fake.Coordinator("busy").Fence, false)
		<-time.After(time.Minute) // longer than a session
		if n := len(l.group.members); n != 1 {
			t.Errorf("the group that somebody is at has %d members, want the one it had", n)
		}
		l.mu.Unlock()
		other := d.groups.find("g", d.fake.Coordinator("g").Fence, false)
		if n := len(other.group.members); n != 0 {
			t.Errorf("the other group has %d members, want none: its session is over", n)
		}
		other.mu.Unlock()
		<-time.After(busyPause)
		synctest.Wait()
		l = d.groups.find("busy", d.fake.Coordinator("busy").Fence, false)
		if n := len(l.group.members); n != 0 {
			t.Errorf("when nobody is at it any more it has %d members, want none", n)
		}
		l.mu.Unlock()
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
