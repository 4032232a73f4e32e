package kafkawire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// Brokers behind one advertised address: a client that is told a group's
// coordinator connects to that address and may reach any of them. One that is not
// the coordinator relays requests about groups to the address the coordinator has
// of its own, and the answer back:
//
//	client ──► advertised address ──► some broker ── relay ──► the group's coordinator
//
// A client's connection has a link of its own to each coordinator it needs, so a
// join that waits keeps nobody else waiting, and a hang-up is seen over there too.

const (
	// peerSoftware is how a broker introduces itself in ApiVersions; as its version
	// it tells the address of the client it speaks for. It is never relayed on.
	peerSoftware = "queen-broker"
	// relayTimeout bounds connecting to a coordinator and writing a request to it.
	relayTimeout = 5 * time.Second
	// relayPoll is how often the wait for an answer looks whether its sender still
	// is the coordinator.
	relayPoll = time.Second
	// relayedBytesMax bounds an answer; a larger one ends the link.
	relayedBytesMax = 64 << 20
)

// link is a connection to a coordinator, for the client of one connection. Like
// the handlers that use it, it belongs to the write loop.
type link struct {
	nc   net.Conn
	in   *bufio.Reader
	corr int32
}

// relay answers a request about groups that other brokers behind the same address
// coordinate. ok is false where it is to be handled here.
func (c *conn) relay(ctx context.Context, r *request) (resp kmsg.Response, ok bool) {
	if c.peer || !r.api.groups {
		return nil, false
	}
	switch req := r.body.(type) {
	case *kmsg.ListGroupsRequest:
		return c.relayList(ctx, r, req)
	case *kmsg.OffsetFetchRequest, *kmsg.DescribeGroupsRequest, *kmsg.DeleteGroupsRequest, *kmsg.ConsumerGroupDescribeRequest:
		if names := groupsOf(req); len(names) > 0 {
			return c.relayMany(ctx, r, names)
		}
	}
	names := groupsOf(r.body)
	if len(names) != 1 {
		return nil, false
	}
	at, away := c.away(names[0])
	if !away {
		return nil, false
	}
	switch r.body.(type) {
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest:
		c.park(r, 0) // the frames that end such a wait need the room
	}
	resp, err := c.ask(ctx, r, r.body, at, names[0])
	if err != nil {
		c.log.Debug("not relayed", "request", r.api.name, "group", names[0], "to", at.PeerAddr, "reason", err)
		return notCoordinator(r.body), true
	}
	return resp, true
}

// away is the coordinator of a group, if it is another broker behind our own
// advertised address.
func (c *conn) away(group string) (queen.Broker, bool) {
	if !legalGroup(group) {
		return queen.Broker{}, false
	}
	at := c.srv.engine.Coordinator(group)
	if at.Mine || !at.Known || at.Broker.PeerAddr == "" {
		return queen.Broker{}, false
	}
	return at.Broker, c.srv.besides(at.Broker)
}

// besides says whether a broker is another one behind our own advertised address.
func (s *Server) besides(b queen.Broker) bool {
	cl := s.engine.Cluster()
	return b.ID != cl.Self && slices.ContainsFunc(cl.Brokers, func(self queen.Broker) bool {
		return self.ID == cl.Self && self.Host == b.Host && self.Port == b.Port
	})
}

// groupsOf are the groups that a request about some names.
func groupsOf(req kmsg.Request) []string {
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return []string{req.Group}
	case *kmsg.JoinGroupRequest:
		return []string{req.Group}
	case *kmsg.SyncGroupRequest:
		return []string{req.Group}
	case *kmsg.HeartbeatRequest:
		return []string{req.Group}
	case *kmsg.LeaveGroupRequest:
		return []string{req.Group}
	case *kmsg.OffsetDeleteRequest:
		return []string{req.Group}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return []string{req.Group}
	case *kmsg.OffsetFetchRequest:
		if req.Version < 8 {
			return []string{req.Group}
		}
		names := make([]string, len(req.Groups))
		for i, g := range req.Groups {
			names[i] = g.Group
		}
		return names
	case *kmsg.DescribeGroupsRequest:
		return req.Groups
	case *kmsg.DeleteGroupsRequest:
		return req.Groups
	case *kmsg.ConsumerGroupDescribeRequest:
		return req.Groups
	}
	return nil
}

// notCoordinator is the answer to a request about one group that could not be
// relayed: its client asks for the coordinator again.
func notCoordinator(req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode, resp.Generation, resp.MemberID = codeNotCoordinator, -1, req.MemberID
		return resp
	case *kmsg.SyncGroupRequest:
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode, resp.MemberAssignment = codeNotCoordinator, []byte{}
		return resp
	case *kmsg.HeartbeatRequest:
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = codeNotCoordinator
		return resp
	case *kmsg.LeaveGroupRequest:
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = codeNotCoordinator
		return resp
	case *kmsg.OffsetDeleteRequest:
		resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
		resp.ErrorCode = codeNotCoordinator
		return resp
	case *kmsg.ConsumerGroupHeartbeatRequest:
		resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode = codeNotCoordinator
		return resp
	case *kmsg.OffsetCommitRequest:
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, codeNotCoordinator
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp
	}
	panic("BUG: a request of one group without an answer to it")
}

// relayMany cuts a request by coordinators: what is this broker's, or cannot be
// relayed, is answered here, the rest by them.
func (c *conn) relayMany(ctx context.Context, r *request, names []string) (kmsg.Response, bool) {
	remote := make(map[string]queen.Broker)
	theirs := make(map[string][]string)
	for _, name := range names {
		if at, away := c.away(name); away {
			remote[at.PeerAddr] = at
			theirs[at.PeerAddr] = append(theirs[at.PeerAddr], name)
		}
	}
	if len(remote) == 0 {
		return nil, false
	}
	var answers []kmsg.Response
	relayed := make(map[string]bool)
	for addr, at := range remote {
		resp, err := c.ask(ctx, r, someGroups(r.body, theirs[addr]), at, theirs[addr][0])
		if err != nil {
			c.log.Debug("not relayed", "request", r.api.name, "groups", len(theirs[addr]), "to", addr, "reason", err)
			continue
		}
		answers = append(answers, resp)
		for _, name := range theirs[addr] {
			relayed[name] = true
		}
	}
	ours := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return relayed[name] })
	if len(answers) == 0 {
		return nil, false
	}
	resp := answers[0]
	if len(ours) > 0 {
		here := *r
		here.share = share{} // it stays r's
		here.body = someGroups(r.body, ours)
		own, err := r.api.handle(c, ctx, &here)
		if err != nil {
			return nil, false
		}
		answers = append(answers, own)
	}
	for _, more := range answers[1:] {
		merge(resp, more)
	}
	return resp, true
}

// someGroups is a request for some of its groups.
func someGroups(req kmsg.Request, names []string) kmsg.Request {
	switch req := req.(type) {
	case *kmsg.OffsetFetchRequest:
		if req.Version < 8 {
			return req
		}
		chosen := make(map[string]bool, len(names)) // there may be very many of them
		for _, name := range names {
			chosen[name] = true
		}
		some := *req
		some.Groups = slices.DeleteFunc(slices.Clone(req.Groups), func(g kmsg.OffsetFetchRequestGroup) bool { return !chosen[g.Group] })
		return &some
	case *kmsg.DescribeGroupsRequest:
		some := *req
		some.Groups = names
		return &some
	case *kmsg.DeleteGroupsRequest:
		some := *req
		some.Groups = names
		return &some
	case *kmsg.ConsumerGroupDescribeRequest:
		some := *req
		some.Groups = names
		return &some
	}
	panic("BUG: a request that is not about several groups is cut")
}

// merge adds the groups of another answer.
func merge(into, more kmsg.Response) {
	switch into := into.(type) {
	case *kmsg.OffsetFetchResponse:
		into.Groups = append(into.Groups, more.(*kmsg.OffsetFetchResponse).Groups...)
	case *kmsg.DescribeGroupsResponse:
		into.Groups = append(into.Groups, more.(*kmsg.DescribeGroupsResponse).Groups...)
	case *kmsg.DeleteGroupsResponse:
		into.Groups = append(into.Groups, more.(*kmsg.DeleteGroupsResponse).Groups...)
	case *kmsg.ConsumerGroupDescribeResponse:
		into.Groups = append(into.Groups, more.(*kmsg.ConsumerGroupDescribeResponse).Groups...)
	}
}

// relayList answers with the groups of all brokers behind our address: whichever
// of them a client asks, it cannot ask the others.
func (c *conn) relayList(ctx context.Context, r *request, req *kmsg.ListGroupsRequest) (kmsg.Response, bool) {
	var others []queen.Broker
	for _, b := range c.srv.engine.Cluster().Brokers {
		if b.PeerAddr != "" && c.srv.besides(b) {
			others = append(others, b)
		}
	}
	if len(others) == 0 {
		return nil, false
	}
	resp, err := c.listGroups(ctx, r)
	if err != nil {
		return nil, false
	}
	all := resp.(*kmsg.ListGroupsResponse)
	for _, b := range others {
		more, err := c.ask(ctx, r, req, b, "")
		if err != nil { // a list with holes would look like groups that are gone
			all.ErrorCode = codeCoordinatorNotAvailable
			continue
		}
		from := more.(*kmsg.ListGroupsResponse)
		if all.ErrorCode == codeNone {
			all.ErrorCode = from.ErrorCode
		}
		all.Groups = append(all.Groups, from.Groups...)
	}
	if all.ErrorCode != codeNone {
		all.Groups = nil
	}
	return all, true
}

// ask sends a request to a broker and waits for its answer, until the client hangs
// up or the broker does not coordinate the group any more; with "" for no group, until
// the broker is not alive any more.
func (c *conn) ask(ctx context.Context, r *request, req kmsg.Request, at queen.Broker, group string) (kmsg.Response, error) {
	l, err := c.linkTo(ctx, at.PeerAddr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.nc.Close() })
	defer stop()
	resp, err := l.roundTrip(req, r.clientID, func() error {
		if group == "" {
			if slices.ContainsFunc(c.srv.engine.Cluster().Brokers, func(b queen.Broker) bool { return b.ID == at.ID }) {
				return nil
			}
			return errors.New("the broker is not alive any more")
		}
		if now := c.srv.engine.Coordinator(group); now.Known && now.Broker.ID == at.ID || now.InDoubt {
			return nil
		}
		return errors.New("another broker coordinates the group by now")
	})
	if err != nil {
		c.unlink(at.PeerAddr)
	}
	return resp, err
}

// linkTo gives the link to a broker, which it makes when there is none.
func (c *conn) linkTo(ctx context.Context, addr string) (*link, error) {
	if l := c.links[addr]; l != nil {
		return l, nil
	}
	dial, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	nc, err := c.srv.cfg.PeerDial(dial, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to a coordinator: %w", err)
	}
	l := newLink(nc)
	hello := kmsg.NewPtrApiVersionsRequest()
	hello.Version, hello.ClientSoftwareName = 3, peerSoftware
	if host := c.clientHost(); net.ParseIP(host) != nil {
		hello.ClientSoftwareVersion = host
	}
	if _, err := l.roundTrip(hello, peerSoftware, func() error { return nil }); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("introduce this broker to a coordinator: %w", err)
	}
	if c.links == nil {
		c.links = make(map[string]*link)
	}
	c.links[addr] = l
	return l, nil
}

func newLink(nc net.Conn) *link { return &link{nc: nc, in: bufio.NewReader(nc)} }

func (c *conn) unlink(addr string) {
	_ = c.links[addr].nc.Close()
	delete(c.links, addr)
}

// roundTrip sends a request and reads its answer. While it waits, look says now
// and then whether that is worth while.
func (l *link) roundTrip(req kmsg.Request, clientID string, look func() error) (kmsg.Response, error) {
	l.corr++
	form := kmsg.NewRequestFormatter()
	if clientID != "" {
		form = kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	}
	if err := l.nc.SetWriteDeadline(time.Now().Add(relayTimeout)); err != nil {
		return nil, err
	}
	if _, err := l.nc.Write(form.AppendRequest(nil, req, l.corr)); err != nil {
		return nil, fmt.Errorf("write to a coordinator: %w", err)
	}
	for {
		if err := l.nc.SetReadDeadline(time.Now().Add(relayPoll)); err != nil {
			return nil, err
		}
		_, err := l.in.Peek(4)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("read from a coordinator: %w", err)
		}
		if err := look(); err != nil {
			return nil, err
		}
	}
	if err := l.nc.SetReadDeadline(time.Now().Add(relayTimeout)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return nil, err
	}
	size, corr := int32(binary.BigEndian.Uint32(head[:])), int32(binary.BigEndian.Uint32(head[4:]))
	if size < 4 || size > relayedBytesMax || corr != l.corr {
		return nil, fmt.Errorf("an answer of %d bytes to request %d, not to %d", size, corr, l.corr)
	}
	body, err := readBody(l.in, int(size)-4, func(next int) error {
		return l.nc.SetReadDeadline(time.Now().Add(relayTimeout + time.Duration(next>>20)*time.Second))
	})
	if err != nil {
		return nil, fmt.Errorf("read from a coordinator: %w", err)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("an answer cannot be decoded: %w", err)
	}
	return resp, nil
}

// introduced takes note of another broker at the far end, and of the client it
// speaks for; false is for anybody else.
func (c *conn) introduced(req *kmsg.ApiVersionsRequest) bool {
	if req.ClientSoftwareName != peerSoftware || net.ParseIP(req.ClientSoftwareVersion) == nil && req.ClientSoftwareVersion != "" {
		return false
	}
	c.peer, c.peerFor = true, req.ClientSoftwareVersion
	return true
}

// clientHost is the address of the client, also where another broker speaks for it.
func (c *conn) clientHost() string {
	if c.peerFor != "" {
		return c.peerFor
	}
	return c.host
}
