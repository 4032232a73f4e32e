package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// The types of groups, by their protocol.
const (
	groupClassic  = "classic"
	groupConsumer = "consumer"
)

// listGroups answers ListGroups (16) v0–5: the groups this broker coordinates,
// with members or with positions. The filters of v4 and v5 do not mind case. Of a
// group that nobody has been in for some time only the positions are known, so it
// is told as a classic one without a protocol type.
func (c *conn) listGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	names, err := c.srv.engine.Groups(ctx)
	if err != nil {
		resp.ErrorCode = coordinatorCode(c.note(r, err))
		return resp, nil
	}
	listed := c.srv.groups.list()
	for _, name := range names {
		if _, ok := listed[name]; !ok {
			listed[name] = listedGroup{state: groupEmpty.String(), kind: groupClassic}
		}
	}
	has := func(filter []string, v string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, v) })
	}
	for name, g := range listed {
		at := c.srv.engine.Coordinator(name)
		if at.InDoubt { // a list with holes would look like groups that are gone
			return &kmsg.ListGroupsResponse{Version: resp.Version, ErrorCode: codeCoordinatorNotAvailable}, nil
		}
		if !at.Mine || !has(req.StatesFilter, g.state) || !has(req.TypesFilter, g.kind) {
			continue
		}
		rg := kmsg.NewListGroupsResponseGroup()
		rg.Group, rg.ProtocolType, rg.GroupState, rg.GroupType = name, g.protocolType, g.state, g.kind
		resp.Groups = append(resp.Groups, rg)
	}
	slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return resp, nil
}

// listedGroup is what ListGroups tells of a group.
type listedGroup struct{ state, protocolType, kind string }

// list tells the groups that have members, and those that had some a while ago.
func (s *groups) list() map[string]listedGroup {
	all := s.all()
	out := make(map[string]listedGroup, len(all))
	for _, l := range all {
		l.mu.Lock()
		switch {
		case l.gone:
		case l.consumer != nil:
			out[l.name] = listedGroup{l.consumer.state(), consumerProtocol, groupConsumer}
		case len(l.group.members) > 0 || l.kept():
			out[l.name] = listedGroup{l.group.state.String(), l.group.protocolType, groupClassic}
		}
		l.mu.Unlock()
	}
	return out
}

// subscriptions are the topics that a group's members subscribe to; known is false where
// somebody's cannot be told, empty says that there is nobody.
func (s *groups) subscriptions(name string, under queen.Fence) (topics map[string]bool, known, empty bool) {
	l := s.find(name, under, false)
	if l == nil {
		return nil, true, true
	}
	defer l.mu.Unlock()
	if l.consumer != nil {
		topics = make(map[string]bool)
		for id := range l.consumer.topics {
			topics[l.consumer.image.names[id]] = true
		}
		return topics, true, len(l.consumer.members) == 0
	}
	if len(l.group.members) == 0 {
		return nil, true, true
	}
	if l.group.protocolType != consumerProtocol {
		return nil, false, false
	}
	topics = make(map[string]bool)
	for _, m := range l.group.inOrder() {
		for _, p := range m.protocols {
			names, ok := subscribedTopics(p.metadata)
			if !ok {
				return nil, false, false
			}
			for _, name := range names {
				topics[name] = true
			}
		}
	}
	return topics, true, false
}

// consumerProtocol is the protocol type of consumers, whose metadata is public.
const consumerProtocol = "consumer"

// subscribedTopics reads the topics of a consumer's metadata, which begin it in all
// versions: int16 version, topics. kmsg would read all of it, and believe its counts,
// which nobody has stepped over: 64 bytes for each that was sent.
func subscribedTopics(metadata []byte) (names []string, ok bool) {
	w := walker{b: metadata}
	w.skip(2)
	for n := w.count(); n > 0 && w.err == nil; n-- {
		at := w.b
		w.text()
		if w.err == nil {
			name := at[2 : len(at)-len(w.b)]
			names = append(names, string(name))
		}
	}
	return names, w.err == nil
}

// deleteGroups answers DeleteGroups (42) v0–2: a group's positions go, and with
// them the group. One that has members, or native leases, is refused.
func (c *conn) deleteGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DeleteGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	ctx, cancel := within(ctx, 0)
	defer cancel()
	seen := make(map[string]bool)
	for _, name := range req.Groups {
		if seen[name] {
			continue
		}
		seen[name] = true
		rg := kmsg.NewDeleteGroupsResponseGroup()
		rg.Group = name
		var under queen.Fence
		under, rg.ErrorCode = c.guard(name)
		if name == "" && rg.ErrorCode == codeInvalidGroupID {
			rg.ErrorCode = codeGroupIDNotFound // so says Kafka, here alone
		}
		if rg.ErrorCode == codeNone {
			err := c.deleteGroup(ctx, name, under)
			rg.ErrorCode, rg.ErrorMessage = coordinatorCode(c.note(r, err)), message(err)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp, nil
}

func (c *conn) deleteGroup(ctx context.Context, name string, under queen.Fence) error {
	if _, _, empty := c.srv.groups.subscriptions(name, under); !empty {
		return fmt.Errorf("%w: %q has members", queen.ErrGroupNotEmpty, name)
	}
	err := c.srv.engine.DeleteGroup(ctx, name, under)
	if err != nil && !errors.Is(err, queen.ErrUnknownGroup) {
		return err
	}
	if c.srv.groups.dropEmpty(name, under) {
		return nil
	}
	return err
}

// offsetDelete answers OffsetDelete (47) v0. A consumer group may have members,
// but not ones that subscribe to the topic; any other group must have none.
func (c *conn) offsetDelete(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var under queen.Fence
	if under, resp.ErrorCode = c.guard(req.Group); resp.ErrorCode != codeNone {
		return resp, nil
	}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	subscribed, known, empty := c.srv.groups.subscriptions(req.Group, under)
	if !known {
		resp.ErrorCode = codeNonEmptyGroup
		return resp, nil
	}
	if empty && !c.srv.groups.remembers(req.Group, under) {
		if has, err := c.srv.engine.HasPositions(ctx, req.Group); err != nil || !has {
			resp.ErrorCode = codeGroupIDNotFound
			if err != nil {
				resp.ErrorCode = coordinatorCode(c.note(r, err))
			}
			return resp, nil
		}
	}
	var refs []queen.PartitionRef
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if legalTopic(t.Topic) && !subscribed[t.Topic] {
				refs = append(refs, partitionRef(t.Topic, [16]byte{}, p.Partition))
			}
		}
	}
	errs, err := c.srv.engine.DeleteOffsets(ctx, req.Group, under, refs)
	if err != nil {
		resp.ErrorCode = coordinatorCode(c.note(r, err))
		return resp, nil
	}
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetDeleteResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetDeleteResponseTopicPartition()
			rp.Partition = p.Partition
			switch {
			case !legalTopic(t.Topic):
				rp.ErrorCode = codeUnknownTopicOrPartition
			case subscribed[t.Topic]:
				rp.ErrorCode = codeGroupSubscribedToTopic
			default:
				rp.ErrorCode = coordinatorCode(c.note(r, errs[0]))
				errs = errs[1:]
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil
}
