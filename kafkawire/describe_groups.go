package kafkawire

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// groupOperations are the ACL operations a group knows, as Metadata tells
// those of topics: read, delete, describe, describe and alter configs.
const groupOperations int32 = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

// groupGone is Kafka's name for the state of a group that does not exist.
const groupGone = "Dead"

// errNoGroup is the door's own: the room does not know who is in a group.
var errNoGroup = errors.New("no such group")

var errConsumerGroup = errors.New("the group uses the consumer protocol")

// describeGroups answers DescribeGroups (15) v0–6. A group nobody is in exists
// while it has positions, and for a while after its last member went. One that does not exist is Dead, from v6 with an error
// (KIP-1043). Metadata and assignments are shown while the group is stable. A
// name given several times is described once, which bounds the reply by what the
// groups hold. A group of the consumer protocol is described by
// ConsumerGroupDescribe and does not exist here.
func (c *conn) describeGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	seen := make(map[string]bool, len(req.Groups))
	for _, name := range req.Groups {
		if seen[name] {
			continue
		}
		seen[name] = true
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group = name
		g.AuthorizedOperations = operations(req.IncludeAuthorizedOperations, groupOperations)
		var under queen.Fence
		if under, g.ErrorCode = c.guard(name); g.ErrorCode == codeNone {
			switch c.srv.groups.describe(name, under, &g) {
			case hasNoMembers:
				c.describeEmpty(ctx, r, &g)
			case usesConsumerProtocol:
				describeGone(r, &g, errConsumerGroup)
			}
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

// describeEmpty describes a group without members.
func (c *conn) describeEmpty(ctx context.Context, r *request, g *kmsg.DescribeGroupsResponseGroup) {
	has, err := c.srv.engine.HasPositions(ctx, g.Group)
	switch {
	case err != nil:
		g.ErrorCode = coordinatorCode(c.note(r, err))
	case has:
		g.State = groupEmpty.String()
	default:
		describeGone(r, g, errNoGroup)
	}
}

func describeGone(r *request, g *kmsg.DescribeGroupsResponseGroup, why error) {
	g.State = groupGone
	if r.version >= 6 {
		g.ErrorCode, g.ErrorMessage = codeGroupIDNotFound, message(why)
		g.AuthorizedOperations = operations(false, groupOperations)
	}
}

// What describe found.
const (
	hasNoMembers = iota
	hasMembers
	usesConsumerProtocol
)

// describe fills in a classic group that has members, or had some a while ago.
func (s *groups) describe(name string, under queen.Fence, d *kmsg.DescribeGroupsResponseGroup) int {
	l := s.find(name, under, false)
	if l == nil {
		return hasNoMembers
	}
	defer l.mu.Unlock()
	if l.consumer != nil {
		return usesConsumerProtocol
	}
	g := l.group
	if len(g.members) == 0 && !l.kept() {
		return hasNoMembers
	}
	d.State, d.ProtocolType = g.state.String(), g.protocolType
	if g.state == groupStable {
		d.Protocol = g.protocol
	}
	for _, m := range g.inOrder() {
		rm := kmsg.NewDescribeGroupsResponseGroupMember()
		rm.MemberID, rm.InstanceID, rm.ClientID, rm.ClientHost = m.id, optional(m.instance), m.clientID, "/"+m.clientHost
		rm.ProtocolMetadata, rm.MemberAssignment = []byte{}, []byte{}
		if g.state == groupStable {
			rm.ProtocolMetadata, rm.MemberAssignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, rm)
	}
	return hasMembers
}
