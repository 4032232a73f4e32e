package kafkawire

import (
	"encoding/base64"
	"slices"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// consume is a ConsumerGroupHeartbeat that does not leave. A classic group
// nobody is in becomes a consumer group; one that has members does not.
func (s *groups) consume(name string, under queen.Fence, r *consumerHeartbeat, image *topicImage) consumerAnswer {
	joins := r.epoch == 0
	s.mu.Lock()
	full := s.bytes+r.size() > s.cfg.BytesMax
	s.mu.Unlock()
	if full && (joins || r.names != nil || r.regex != nil) { // others bring nothing to keep
		return refuse(codeCoordinatorNotAvailable, "this broker holds as much for groups as it may; try again")
	}
	l := s.find(name, under, joins)
	if l == nil && joins {
		return refuse(codeCoordinatorNotAvailable, "this broker has as many groups as it may; try again")
	}
	if l == nil {
		return refuse(codeUnknownMemberID, "the group has no members here; join again")
	}
	defer l.mu.Unlock()
	if l.consumer == nil {
		switch {
		case len(l.group.members) > 0:
			s.settle(l)
			return refuse(codeGroupIDNotFound, "group %q uses the classic protocol and has members; it can be converted when they have left", name)
		case !joins:
			return refuse(codeUnknownMemberID, "the group has no members here; join again")
		}
		l.consumer, l.group = newConsumerGroup(s.cfg.consumerLimits()), nil
	}
	a := l.consumer.heartbeat(time.Now(), r, image)
	s.settle(l)
	return a
}

// consumerLeave is a ConsumerGroupHeartbeat that leaves.
func (s *groups) consumerLeave(name string, under queen.Fence, memberID, instance string, epoch int32) consumerAnswer {
	l := s.findConsumer(name, under)
	if l == nil {
		return refuse(codeGroupIDNotFound, "there is no consumer group %q", name)
	}
	defer l.mu.Unlock()
	a := l.consumer.leave(time.Now(), memberID, instance, epoch)
	s.settle(l)
	return a
}

// findConsumer returns the named group, locked, if it is a consumer group.
func (s *groups) findConsumer(name string, under queen.Fence) *liveGroup {
	l := s.find(name, under, false)
	if l != nil && l.consumer == nil {
		l.mu.Unlock()
		return nil
	}
	return l
}

// subscribesAnew says whether a heartbeat brings a subscription that the group
// does not know of this member.
func (s *groups) subscribesAnew(name string, under queen.Fence, r *consumerHeartbeat) bool {
	if r.epoch == 0 {
		return true
	}
	l := s.findConsumer(name, under)
	if l == nil {
		return false
	}
	defer l.mu.Unlock()
	m := l.consumer.members[r.memberID]
	return m != nil && (r.names != nil && !slices.Equal(r.names, m.names) || r.regex != nil && *r.regex != m.regex)
}

// fetch says whether positions of a group may be told to somebody who names a
// member of it. A group that is not here has positions all the same.
func (s *groups) fetch(name string, under queen.Fence, memberID *string, epoch int32) int16 {
	l := s.findConsumer(name, under)
	if l == nil {
		return codeNone
	}
	defer l.mu.Unlock()
	return l.consumer.fetch(memberID, epoch)
}

// dropEmpty forgets a group that is kept although nobody is in it.
func (s *groups) dropEmpty(name string, under queen.Fence) bool {
	l := s.find(name, under, false)
	if l == nil {
		return false
	}
	defer l.mu.Unlock()
	if !l.kept() {
		return false
	}
	if l.consumer != nil {
		l.consumer.over = true
	} else {
		l.group.over = true
	}
	s.settle(l)
	return true
}

// remembers says whether the named group is kept although nobody is in it.
func (s *groups) remembers(name string, under queen.Fence) bool {
	l := s.find(name, under, false)
	if l == nil {
		return false
	}
	defer l.mu.Unlock()
	return l.kept()
}

// classic makes sure that l is a classic group, which a consumer group becomes
// when nobody is in it and somebody joins.
func (s *groups) classic(l *liveGroup, joins bool) bool {
	if l.consumer != nil && joins && len(l.consumer.members) == 0 {
		l.group, l.consumer = newGroup(s.cfg.limits()), nil
	}
	return l.consumer == nil
}

// madeMemberID says whether an id has the form of those that clients of the
// consumer protocol make: a UUID, as text or as Java writes it.
func madeMemberID(id string) bool {
	if len(id) == 36 {
		_, err := uuid.Parse(id)
		return err == nil
	}
	b, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && len(b) == 16
}
