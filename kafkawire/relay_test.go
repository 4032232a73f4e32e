package kafkawire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// behindOne opens two brokers behind one advertised address; the second one
// coordinates all groups.
func behindOne(t *testing.T) (front, owner *door) {
	t.Helper()
	both := []queen.Broker{
		{ID: 1, Host: "front.test", Port: 9092, PeerAddr: "one"}, {ID: 2, Host: "front.test", Port: 9092, PeerAddr: "two"},
	}
	owner = open(t, func(c *Config) {
		c.PeerDial = func(_ context.Context, addr string) (net.Conn, error) {
			t.Errorf("what was relayed is relayed on, to %q", addr)
			return nil, net.ErrClosed
		}
	})
	owner.fake.setBrokers(both...)
	owner.fake.cluster.Self = 2
	owner.fake.setCoordinator(2)
	front = open(t, func(c *Config) {
		c.PeerDial = func(_ context.Context, addr string) (net.Conn, error) {
			if addr != "two" {
				return nil, fmt.Errorf("nobody is at %q", addr)
			}
			return owner.pipes.dial(), nil
		}
	})
	front.fake.setBrokers(both...)
	front.fake.setCoordinator(2)
	return front, owner
}

// A client that reaches another broker than its coordinator at the address they
// share is answered by the coordinator.
func TestGroupsAreServedBehindOneAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front, owner := behindOne(t)
		owner.fake.topic("t", 1)
		a, b := front.dial(), front.dial()
		ra := a.leads("g")
		if front.holds(0); ra.MemberID == "" {
			t.Fatalf("%+v", ra)
		}
		waits := joinGroup(3, "g", "")
		corr := b.send(waits)
		synctest.Wait()
		a.want("Heartbeat", ask[*kmsg.HeartbeatResponse](a, beat("g", ra.MemberID, 1)).ErrorCode, codeRebalanceInProgress)
		<-time.After(5 * time.Second) // longer than relayPoll
		ra = ask[*kmsg.JoinGroupResponse](a, joinGroup(9, "g", ra.MemberID))
		rb := b.receive(waits, corr).(*kmsg.JoinGroupResponse)
		if ra.Generation != 2 || rb.Generation != 2 || len(ra.Members) != 2 {
			t.Fatalf("%+v and %+v", ra, rb)
		}
		sync := syncGroup(5, "g", ra.MemberID, 2, ra.MemberID, rb.MemberID)
		if s := ask[*kmsg.SyncGroupResponse](a, sync); string(s.MemberAssignment) != "for "+ra.MemberID {
			t.Errorf("%+v", s)
		}
		commit := offsetCommit(9, "g", "t", 0, 5)
		commit.MemberID, commit.Generation = ra.MemberID, 2
		a.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](a, commit)).ErrorCode, codeNone)
		for version := int16(1); version <= 10; version++ {
			fetch := offsetFetch(version, "g", "t")
			if version >= 10 {
				fetch.Groups[0].Topics[0].TopicID = owner.fake.queues["t"].TopicID
			}
			if _, p := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](a, fetch)); p.Offset != 5 {
				t.Errorf("OffsetFetch v%d: %+v", version, p)
			}
		}
		describe := at(kmsg.NewPtrDescribeGroupsRequest(), 5)
		describe.Groups = []string{"g", "", "h"}
		got := map[string]string{}
		for _, g := range ask[*kmsg.DescribeGroupsResponse](a, describe).Groups {
			got[g.Group] = fmt.Sprint(g.State, " ", len(g.Members), " ", g.ErrorCode)
		}
		if len(got) != 3 || got["g"] != "CompletingRebalance 2 0" && got["g"] != "Stable 2 0" || got["h"] != "Dead 0 0" || got[""] != " 0 24" {
			t.Errorf("described %q", got)
		}
		list := ask[*kmsg.ListGroupsResponse](a, at(kmsg.NewPtrListGroupsRequest(), 5))
		if len(list.Groups) != 1 || list.Groups[0].Group != "g" {
			t.Errorf("listed %+v", list)
		}
		del := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
		del.Groups = []string{"g"}
		a.want("DeleteGroups", ask[*kmsg.DeleteGroupsResponse](a, del).Groups[0].ErrorCode, codeNonEmptyGroup)
		a.want("ConsumerGroupHeartbeat", a.beats(consumes("k", "m", "t")).ErrorCode, codeNone)
		a.want("LeaveGroup", ask[*kmsg.LeaveGroupResponse](a, leaveGroup("g", ra.MemberID, rb.MemberID)).ErrorCode, codeNone)
		a.want("DeleteGroups", ask[*kmsg.DeleteGroupsResponse](a, del).Groups[0].ErrorCode, codeNone)
	})
}

// A join that is relayed ends when its client goes, over there as well, and when
// the group is taken over by somebody else.
func TestARelayedJoinDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front, owner := behindOne(t)
		a, b, c := front.dial(), front.dial(), front.dial()
		a.leads("g")
		gone, waits := joinGroup(3, "g", ""), joinGroup(3, "g", "")
		b.send(gone)
		corr := c.send(waits)
		synctest.Wait()
		if n := conns(owner); n != 3 {
			t.Fatalf("%d connections to the coordinator, want one for each client", n)
		}
		_ = b.conn.Close()
		synctest.Wait()
		if n := conns(owner); n != 2 {
			t.Errorf("%d connections to the coordinator after one client went, want 2", n)
		}
		front.fake.setCoordinator(3)
		c.want("JoinGroup", c.receive(waits, corr).(*kmsg.JoinGroupResponse).ErrorCode, codeNotCoordinator)
	})
}

// A broker that died without closing its connections does not hold up a list of all
// brokers' groups for longer than it counts as alive.
func TestAListOfGroupsDoesNotWaitForADeadBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front, _ := behindOne(t)
		hello := make(chan struct{})
		front.Server.cfg.PeerDial = func(context.Context, string) (net.Conn, error) {
			here, there := net.Pipe()
			t.Cleanup(func() { _ = there.Close() })
			go mute(t, there, hello)
			return here, nil
		}
		c := front.dial()
		list := at(kmsg.NewPtrListGroupsRequest(), 5)
		corr := c.send(list)
		<-hello
		front.fake.setBrokers(queen.Broker{ID: 1, Host: "front.test", Port: 9092, PeerAddr: "one"})
		c.want("ListGroups", c.receive(list, corr).(*kmsg.ListGroupsResponse).ErrorCode, codeCoordinatorNotAvailable)
	})
}

// mute answers the greeting of a broker, and then nothing; it reads a request before
// it says so.
func mute(t *testing.T, nc net.Conn, asked chan<- struct{}) {
	read := func() {
		var size [4]byte
		if _, err := io.ReadFull(nc, size[:]); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(size[:])))
	}
	read()
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	body := resp.AppendTo([]byte{0, 0, 0, 1}) // to the link's first request
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		t.Error(err)
	}
	read()
	close(asked)
}

func conns(d *door) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}

// What cannot be relayed is NOT_COORDINATOR, and nothing is relayed twice.
func TestWhatCannotBeRelayedIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front, owner := behindOne(t)
		c := front.dial()
		refused := func(when string) {
			t.Helper()
			c.want(when+", JoinGroup", ask[*kmsg.JoinGroupResponse](c, joinGroup(9, "g", "")).ErrorCode, codeNotCoordinator)
			c.want(when+", SyncGroup", ask[*kmsg.SyncGroupResponse](c, syncGroup(5, "g", "m", 1)).ErrorCode, codeNotCoordinator)
			c.want(when+", Heartbeat", ask[*kmsg.HeartbeatResponse](c, beat("g", "m", 1)).ErrorCode, codeNotCoordinator)
			c.want(when+", LeaveGroup", ask[*kmsg.LeaveGroupResponse](c, leaveGroup("g", "m")).ErrorCode, codeNotCoordinator)
			c.want(when+", OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(9, "g", "t", 0, 1))).ErrorCode, codeNotCoordinator)
			c.want(when+", ConsumerGroupHeartbeat", c.beats(consumes("g", "m", "t")).ErrorCode, codeNotCoordinator)
			c.want(when+", OffsetFetch", ask[*kmsg.OffsetFetchResponse](c, offsetFetch(9, "g")).Groups[0].ErrorCode, codeNotCoordinator)
			describe := at(kmsg.NewPtrDescribeGroupsRequest(), 5)
			describe.Groups = []string{"g"}
			c.want(when+", DescribeGroups", ask[*kmsg.DescribeGroupsResponse](c, describe).Groups[0].ErrorCode, codeNotCoordinator)
			del := at(kmsg.NewPtrOffsetDeleteRequest(), 0)
			del.Group = "g"
			c.want(when+", OffsetDelete", ask[*kmsg.OffsetDeleteResponse](c, del).ErrorCode, codeNotCoordinator)
		}
		owner.fake.setCoordinator(1) // it believes that the first one is: they would go round in circles
		refused("while they disagree")
		owner.fake.setCoordinator(2)
		front.fake.setBrokers(queen.Broker{ID: 1, Host: "one.test", Port: 9092, PeerAddr: "one"}, queen.Broker{ID: 2, Host: "two.test", Port: 9092, PeerAddr: "two"})
		refused("with addresses of their own")
		front.fake.setBrokers(
			queen.Broker{ID: 1, Host: "front.test", Port: 9092, PeerAddr: "one"}, queen.Broker{ID: 2, Host: "front.test", Port: 9092, PeerAddr: "nobody"})
		refused("while the coordinator cannot be reached")
		list := ask[*kmsg.ListGroupsResponse](c, at(kmsg.NewPtrListGroupsRequest(), 5))
		c.want("ListGroups", list.ErrorCode, codeCoordinatorNotAvailable)
	})
}

// The coordinator shows the client's address, not that of the broker in between.
func TestARelayedMemberKeepsItsAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		c := d.dial()
		hello := at(kmsg.NewPtrApiVersionsRequest(), 3)
		hello.ClientSoftwareName, hello.ClientSoftwareVersion = peerSoftware, "2001:db8::7"
		c.want("ApiVersions", ask[*kmsg.ApiVersionsResponse](c, hello).ErrorCode, codeNone)
		c.leads("g")
		describe := at(kmsg.NewPtrDescribeGroupsRequest(), 5)
		describe.Groups = []string{"g"}
		if got := ask[*kmsg.DescribeGroupsResponse](c, describe).Groups[0].Members[0].ClientHost; got != "/2001:db8::7" {
			t.Errorf("its address is %q", got)
		}
		hello.ClientSoftwareVersion = "no address!"
		c.want("ApiVersions", ask[*kmsg.ApiVersionsResponse](d.dial(), hello).ErrorCode, codeInvalidRequest)
	})
}

// An answer that is none ends the link, whatever it claims.
func TestLinkRefusesForeignAnswers(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"\x7f\xff\xff\xff\x00\x00\x00\x01", // too large
		"\x00\x00\x00\x01\x00\x00\x00\x01",
		"\x00\x00\x00\x06\x00\x00\x00\x02\x00\x00",     // to another request
		"\x00\x00\x00\x05\x00\x00\x00\x01\x00",         // cut short
		"\x00\x00\x00\x0a\x00\x00\x00\x01\xff\xff\xff", // and the rest never comes
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _ = ours.Close(); _ = theirs.Close() }()
			go func() {
				b := make([]byte, 1<<10)
				_, _ = theirs.Read(b)
				_, _ = theirs.Write([]byte(answer))
			}()
			l := newLink(ours)
			if resp, err := l.roundTrip(beat("g", "m", 1), "c", func() error { return nil }); err == nil {
				t.Errorf("%q is taken for %+v", answer, resp)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer func() { _ = ours.Close(); _ = theirs.Close() }()
		go func() { _, _ = theirs.Read(make([]byte, 1<<10)) }()
		over := errors.New("over")
		began := time.Now()
		_, err := newLink(ours).roundTrip(beat("g", "m", 1), "c", func() error {
			if time.Since(began) < 3*relayPoll {
				return nil
			}
			return over
		})
		if !errors.Is(err, over) || time.Since(began) != 3*relayPoll {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Every request about groups can be relayed, and refused.
func TestEveryRequestAboutGroupsNamesThem(t *testing.T) {
	t.Parallel()
	var none []string
	for _, a := range table(Config{}.withDefaults()) {
		if !a.groups || a.key == int16(kmsg.ListGroups) {
			continue
		}
		req := kmsg.RequestForKey(a.key)
		req.SetVersion(a.max)
		switch req := req.(type) {
		case *kmsg.OffsetFetchRequest:
			req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
		case *kmsg.DescribeGroupsRequest:
			req.Groups = []string{"g"}
		case *kmsg.DeleteGroupsRequest:
			req.Groups = []string{"g"}
		case *kmsg.ConsumerGroupDescribeRequest:
			req.Groups = []string{"g"}
		default:
			if notCoordinator(req) == nil {
				t.Errorf("%s cannot be refused", a.name)
			}
		}
		if len(groupsOf(req)) != 1 {
			none = append(none, a.name)
		}
	}
	if !slices.Equal(none, nil) {
		t.Errorf("%q name no group", none)
	}
}
