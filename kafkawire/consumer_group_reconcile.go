package kafkawire

import (
	"slices"
	"time"
)

// reconcile takes a member one step towards its target, given what it says it
// owns. A partition it loses is free when the member no longer names it, and one
// it gains is its own when whoever had it has let go.
func (g *consumerGroup) reconcile(now time.Time, m *consumerMember, changed bool, r *consumerHeartbeat) {
	owns := func(s partitionSet) bool { return !r.knowsOwned || s.meets(r.owned) }
	was, revoking := m.state, m.revoking
	switch {
	case m.state == reconcileStable && m.epoch == g.targetEpoch,
		m.state == reconcileRevoking && owns(m.revoking):
		if changed {
			g.prune(m, owns)
		}
	default:
		g.advance(m, owns)
	}
	switch {
	case m.state != reconcileRevoking:
		m.revokeBy = time.Time{}
	case was != reconcileRevoking || !slices.Equal(revoking, m.revoking):
		m.revokeBy = now.Add(m.rebalance)
	}
}

// advance gives m what it may have of its target.
func (g *consumerGroup) advance(m *consumerMember, owns func(partitionSet) bool) {
	topics := g.topicsOf(m)
	target := m.target.only(func(p topicPartition) bool {
		_, ok := slices.BinarySearchFunc(topics, p.topic, compareIDs)
		return ok
	})
	keeps := m.assigned.and(target)
	loses := m.assigned.minus(keeps)
	if len(loses) > 0 && owns(loses) {
		g.hold(m, keeps, loses)
		m.state = reconcileRevoking
		m.reach(m.epoch)
		return
	}
	wants := target.minus(keeps)
	free := wants.only(func(p topicPartition) bool {
		o, taken := g.owners[p]
		return !taken || o.member == m // what it has just let go of
	})
	g.hold(m, keeps.or(free), nil)
	for _, p := range free {
		g.owners[p] = owner{m, g.targetEpoch}
	}
	m.state = reconcileStable
	if len(free) < len(wants) {
		m.state = reconcileWaiting
	}
	m.reach(g.targetEpoch)
}

// prune takes from m what it no longer subscribes to, without waiting for a
// new target.
func (g *consumerGroup) prune(m *consumerMember, owns func(partitionSet) bool) {
	topics := g.topicsOf(m)
	keeps := m.assigned.only(func(p topicPartition) bool {
		_, ok := slices.BinarySearchFunc(topics, p.topic, compareIDs)
		return ok
	})
	if len(keeps) == len(m.assigned) {
		return
	}
	revoking := m.revoking.or(m.assigned.minus(keeps))
	if !owns(revoking) {
		revoking = nil
	} else {
		m.state = reconcileRevoking
	}
	g.hold(m, keeps, revoking)
	m.reach(m.epoch)
}

// hold makes m the owner of these partitions and of no others.
func (g *consumerGroup) hold(m *consumerMember, assigned, revoking partitionSet) {
	had, has := m.assigned.or(m.revoking), assigned.or(revoking)
	for _, p := range had.minus(has) {
		delete(g.owners, p)
	}
	for _, p := range has.minus(had) {
		if o, taken := g.owners[p]; taken && o.member != m {
			panic("BUG: a partition has two owners")
		}
		g.owners[p] = owner{m, g.targetEpoch}
	}
	m.assigned, m.revoking = assigned, revoking
}

// leave removes a member, or marks a static one as away.
func (g *consumerGroup) leave(now time.Time, memberID, instance string, epoch int32) consumerAnswer {
	m := g.members[memberID]
	if instance != "" {
		m = g.members[g.static[instance]]
		switch {
		case m == nil:
			return refuse(codeUnknownMemberID, "the group has no member with instance id %q", instance)
		case m.id != memberID:
			return refuse(codeFencedInstanceID, "instance id %q is used by member %q", instance, m.id)
		}
	}
	if m == nil {
		return refuse(codeUnknownMemberID, "the group has no member %q", memberID)
	}
	if epoch == epochAway {
		// It has let go of everything, and finds what it had if it is back before
		// its session ends.
		g.hold(m, m.assigned, nil)
		m.epoch, m.state, m.revokeBy = epochAway, reconcileStable, time.Time{}
	} else {
		g.remove(now, m)
	}
	return consumerAnswer{memberID: memberID, epoch: epoch}
}

// evict removes a member named in a LeaveGroup, by its id or its instance id
// alone: that is how operators remove members of any group.
func (g *consumerGroup) evict(now time.Time, l leaver) int16 {
	m := g.members[l.memberID]
	if l.instance != "" {
		m = g.members[g.static[l.instance]]
	}
	switch {
	case m == nil:
		return codeUnknownMemberID
	case l.memberID != "" && m.id != l.memberID:
		return codeFencedInstanceID
	}
	g.remove(now, m)
	return codeNone
}

// remove forgets a member. Its partitions are free, and others get them with the
// next heartbeat of anybody.
func (g *consumerGroup) remove(now time.Time, m *consumerMember) {
	g.hold(m, nil, nil)
	g.unfile(m)
	g.bump()
	g.topics = g.subscribed()
	if len(g.members) == 0 {
		g.targetEpoch, g.emptied = g.epoch, now
	}
}

// tick removes members whose session, or whose time to let go of partitions,
// has ended, and says when an empty group has been kept for long enough.
func (g *consumerGroup) tick(now time.Time) {
	for _, m := range g.inOrder() {
		if !now.Before(m.deadline) || !m.revokeBy.IsZero() && !now.Before(m.revokeBy) {
			g.remove(now, m)
		}
	}
	if len(g.members) == 0 && !now.Before(g.emptied.Add(g.limits.emptyKeep)) {
		g.over = true
	}
}

// next is when tick has something to do; zero for never.
func (g *consumerGroup) next() time.Time {
	if len(g.members) == 0 {
		return g.emptied.Add(g.limits.emptyKeep)
	}
	var at time.Time
	for _, m := range g.members {
		for _, t := range []time.Time{m.deadline, m.revokeBy} {
			if !t.IsZero() && (at.IsZero() || t.Before(at)) {
				at = t
			}
		}
	}
	return at
}

// commit says whether a commit may be stored. A member whose epoch has been
// raised since it sent one may still commit what it has had all the while
// (KIP-1251). It is no heartbeat.
func (g *consumerGroup) commit(memberID string, epoch int32, version int16, refs func() []topicPartition) int16 {
	if epoch < 0 && len(g.members) == 0 {
		return codeNone
	}
	m := g.members[memberID]
	switch {
	case m == nil:
		return codeUnknownMemberID
	case version < 9:
		return codeUnsupportedVersion
	case epoch == m.epoch:
		return codeNone
	case epoch < 0 || epoch > m.epoch:
		return codeStaleMemberEpoch
	}
	for _, p := range refs() {
		if o, ok := g.owners[p]; !ok || o.member != m || o.since > epoch {
			return codeStaleMemberEpoch
		}
	}
	return codeNone
}

// fetch says whether positions may be told to somebody who names a member.
func (g *consumerGroup) fetch(memberID *string, epoch int32) int16 {
	if memberID == nil && epoch < 0 {
		return codeNone
	}
	m := g.members[text(memberID)]
	switch {
	case m == nil:
		return codeUnknownMemberID
	case epoch != m.epoch:
		return codeStaleMemberEpoch
	}
	return codeNone
}
