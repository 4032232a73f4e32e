package kafkawire

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// groupNameMax is the bound on group names and instance ids. Kafka has none
// but a string's; names longer than this are INVALID_GROUP_ID.
const groupNameMax = 249

// legalGroup says whether a group may have this name, the same rules as a queue's.
func legalGroup(name string) bool {
	return name != "" && len(name) <= groupNameMax && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 })
}

// guard says whether requests about the group are answered here, and what is
// written for it is written under. Between guard and the write the group may
// become another broker's: then the write is refused, see queen.Fence.
func (c *conn) guard(group string) (under queen.Fence, code int16) {
	if !legalGroup(group) {
		return under, codeInvalidGroupID
	}
	at := c.srv.engine.Coordinator(group)
	if !at.Mine {
		return under, codeNotCoordinator
	}
	return at.Fence, codeNone
}

// unload gives the room of a request's frame back before a wait that may be
// long: the frames that end the wait need it. Nothing may alias the frame any more.
func (c *conn) unload(r *request) {
	c.srv.room.leave(&r.share)
	r.body = nil
}

// interrupted turns the end of a wait into an answer if somebody is left to
// read it: when this broker stops, another coordinates.
func interrupted(err error) (int16, error) {
	if errors.Is(err, queen.ErrClosing) {
		return coordinatorCode(err), nil
	}
	return codeNone, err
}

// joinGroup answers JoinGroup (11) v0–9. From v4 a new dynamic member is first
// told its id (KIP-394), v5 knows static members (KIP-345), v9 leaders that need
// not assign (KIP-814). The reasons of v8 go to the log. The wait for the other
// members is the group's; a client that hangs up stays a member until its
// session, or the join phase, ends, as in Kafka.
func (c *conn) joinGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.JoinGroupRequest)
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation, resp.MemberID = -1, req.MemberID
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	bounds := c.srv.cfg.Groups
	var under queen.Fence
	if under, resp.ErrorCode = c.guard(req.Group); resp.ErrorCode != codeNone {
		return resp, nil
	}
	switch instance := text(req.InstanceID); {
	case session < bounds.SessionMin || session > bounds.SessionMax:
		resp.ErrorCode = codeInvalidSessionTimeout
		return resp, nil
	case len(instance) > groupNameMax:
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	if req.Reason != nil && *req.Reason != "" {
		c.log.Debug("a member joins", "group", req.Group, "member", req.MemberID, "reason", *req.Reason)
	}
	join := joinFrom(req, r.clientID)
	join.clientHost, join.session = c.clientHost(), session
	group := req.Group
	c.unload(r)
	a, err := c.srv.groups.join(ctx, group, under, join)
	if err != nil {
		resp.ErrorCode, err = interrupted(err)
		return resp, err
	}
	resp.ErrorCode, resp.MemberID = a.code, a.memberID
	if a.code != codeNone {
		return resp, nil
	}
	resp.Generation, resp.LeaderID, resp.SkipAssignment = a.generation, a.leader, a.skip
	resp.ProtocolType, resp.Protocol = &a.protocolType, &a.protocol
	for _, m := range a.members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ProtocolMetadata = m.id, optional(m.instance), m.metadata(a.protocol)
		resp.Members = append(resp.Members, rm)
	}
	return resp, nil
}

// joinFrom is the request in the group's words; it shares nothing with the frame.
func joinFrom(req *kmsg.JoinGroupRequest, clientID string) joinRequest {
	j := joinRequest{
		memberID: strings.Clone(req.MemberID), newID: newMemberID(clientID),
		instance: strings.Clone(text(req.InstanceID)),
		clientID: strings.Clone(clientID), protocolType: strings.Clone(req.ProtocolType),
		rebalance: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		twoSteps:  req.Version >= 4, knowsSkip: req.Version >= 9,
	}
	if j.rebalance <= 0 { // v0 has none
		j.rebalance = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	}
	for _, p := range req.Protocols {
		j.protocols = append(j.protocols, groupProtocol{
			name: strings.Clone(p.Name), metadata: append([]byte{}, p.Metadata...),
		})
	}
	return j
}

// newMemberID makes a member id of a client's name and something unique: two
// clients of one name are two members.
func newMemberID(clientID string) string {
	if len(clientID) > groupNameMax {
		clientID = strings.ToValidUTF8(clientID[:groupNameMax], "")
	}
	return clientID + "-" + uuid.Must(uuid.NewV7()).String()
}

// mintedMemberID says whether an id has the form of newMemberID's.
func mintedMemberID(id string) bool {
	at := len(id) - 37
	if at < 0 || id[at] != '-' {
		return false
	}
	u, err := uuid.Parse(id[at+1:])
	return err == nil && u.Version() == 7
}

// syncGroup answers SyncGroup (14) v0–5. The assignment is never null. From v5
// the protocol must be the group's.
func (c *conn) syncGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.SyncGroupRequest)
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.MemberAssignment = []byte{}
	var under queen.Fence
	if under, resp.ErrorCode = c.guard(req.Group); resp.ErrorCode != codeNone {
		return resp, nil
	}
	sync := syncRequest{
		memberID: req.MemberID, instance: text(req.InstanceID), generation: req.Generation,
		protocolType: req.ProtocolType, protocol: req.Protocol,
		assignments: make(map[string][]byte, len(req.GroupAssignment)),
	}
	for _, a := range req.GroupAssignment {
		sync.assignments[a.MemberID] = a.MemberAssignment
	}
	group := req.Group
	c.unload(r)
	a, err := c.srv.groups.sync(ctx, group, under, sync)
	if err != nil {
		resp.ErrorCode, err = interrupted(err)
		return resp, err
	}
	resp.ErrorCode, resp.MemberAssignment = a.code, a.assignment
	if a.code == codeNone {
		resp.ProtocolType, resp.Protocol = &a.protocolType, &a.protocol
	}
	return resp, nil
}

// heartbeat answers Heartbeat (12) v0–4.
func (c *conn) heartbeat(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.HeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	var under queen.Fence
	if under, resp.ErrorCode = c.guard(req.Group); resp.ErrorCode == codeNone {
		resp.ErrorCode = c.srv.groups.heartbeat(req.Group, under, req.MemberID, text(req.InstanceID), req.Generation)
	}
	return resp, nil
}

// leaveGroup answers LeaveGroup (13) v0–5. From v3 several members leave at
// once, each with its own code, and a static one may be named by its instance alone.
func (c *conn) leaveGroup(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.LeaveGroupRequest)
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	var under queen.Fence
	if under, resp.ErrorCode = c.guard(req.Group); resp.ErrorCode != codeNone {
		return resp, nil
	}
	if req.Version < 3 {
		resp.ErrorCode = c.srv.groups.leave(req.Group, under, []leaver{{memberID: req.MemberID}})[0]
		return resp, nil
	}
	who := make([]leaver, len(req.Members))
	for i, m := range req.Members {
		who[i] = leaver{memberID: m.MemberID, instance: text(m.InstanceID)}
	}
	for i, code := range c.srv.groups.leave(req.Group, under, who) {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ErrorCode = req.Members[i].MemberID, req.Members[i].InstanceID, code
		resp.Members = append(resp.Members, rm)
	}
	return resp, nil
}

// text is a nullable string in which null and empty say the same.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// optional is a string that is null when it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
