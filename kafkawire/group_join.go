package kafkawire

import (
	"slices"
	"time"
)

// joinRequest is JoinGroup in the group's words.
type joinRequest struct {
	memberID     string // "" for somebody new
	newID        string // the id somebody new gets
	instance     string // static membership (KIP-345); "" without
	clientID     string
	clientHost   string
	protocolType string
	protocols    []groupProtocol // in order of preference
	session      time.Duration
	rebalance    time.Duration
	twoSteps     bool // a new dynamic member is told its id first (KIP-394)
	knowsSkip    bool // a leader can be told not to assign (KIP-814)
}

// syncRequest is SyncGroup in the group's words; nil protocols are not checked.
type syncRequest struct {
	memberID     string
	instance     string
	generation   int32
	protocolType *string
	protocol     *string
	assignments  map[string][]byte // by member id; from the leader only
}

// size is about what the request brings to keep.
func (r syncRequest) size() int {
	n := 0
	for _, a := range r.assignments {
		n += len(a)
	}
	return n
}

// join adds or renews a member and returns the answers that are now due.
func (g *group) join(now time.Time, t ticket, r joinRequest) []groupAnswer {
	refuse := func(code int16, memberID string) []groupAnswer {
		g.answer(t, groupAnswer{code: code, memberID: memberID})
		return g.take()
	}
	pending := g.isPending(r.memberID)
	m := g.members[r.memberID]
	held := m.size() // which the join takes the place of
	if pending {
		held += pendingSize(r.memberID)
	}
	switch {
	case !g.hasRoom(m):
		g.turnAway(now, m, r.memberID)
		return refuse(codeGroupMaxSizeReached, "")
	case !g.supports(r.protocolType, r.protocols):
		return refuse(codeInconsistentProtocol, r.memberID)
	case g.bytes+r.size()-held > g.limits.bytesMax:
		g.turnAway(now, nil, r.memberID)
		return refuse(codeGroupMaxSizeReached, r.memberID)
	}
	switch {
	case r.memberID == "" && r.instance != "":
		if old := g.members[g.static[r.instance]]; old != nil {
			g.replace(now, t, old, r)
		} else {
			g.add(now, t, r.newID, r)
		}
	case r.memberID == "" && r.twoSteps:
		if len(g.pending) >= g.limits.pendingMax {
			return refuse(codeCoordinatorNotAvailable, "")
		}
		g.expect(r.newID, now.Add(r.session))
		return refuse(codeMemberIDRequired, r.newID)
	case r.memberID == "":
		g.add(now, t, r.newID, r)
	case pending && r.instance == "":
		g.add(now, t, r.memberID, r)
	default:
		if code := g.isMember(r.memberID, r.instance); code != 0 {
			return refuse(code, r.memberID)
		}
		g.rejoin(now, t, m, r)
	}
	return g.take()
}

func (g *group) isPending(id string) bool {
	_, ok := g.pending[id]
	return ok
}

// expect notes an id that was given out, until it is used or its time is over.
func (g *group) expect(id string, by time.Time) {
	g.unexpect(id)
	g.pending[id] = by
	g.bytes += pendingSize(id)
}

// unexpect forgets such an id, and says whether it was one.
func (g *group) unexpect(id string) bool {
	if !g.isPending(id) {
		return false
	}
	delete(g.pending, id)
	g.bytes -= pendingSize(id)
	return true
}

// hasRoom reports whether m, nil for somebody new, may join. During a rebalance
// those who have already joined count, so that a group over its bound loses the
// members that come back last.
func (g *group) hasRoom(m *member) bool {
	switch g.state {
	case groupEmpty:
		return true
	case groupPreparing:
		if m != nil && m.join != 0 {
			return true
		}
		waiting := 0
		for _, other := range g.members {
			if other.join != 0 {
				waiting++
			}
		}
		return waiting < g.limits.membersMax
	}
	return m != nil || len(g.members) < g.limits.membersMax
}

// turnAway forgets whoever found no room: the last to come back pays.
func (g *group) turnAway(now time.Time, m *member, id string) {
	if m == nil && !g.isPending(id) {
		return
	}
	g.unexpect(id)
	if m != nil {
		g.remove(m)
	}
	g.shrunk(now)
}

// supports reports whether one of the protocols is known to every member.
func (g *group) supports(protocolType string, protocols []groupProtocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	common := g.common()
	return slices.ContainsFunc(protocols, func(p groupProtocol) bool { return common[p.name] })
}

// common are the protocols that every member knows. Members may know very many: each
// is looked at once, however long the lists of the others are.
func (g *group) common() map[string]bool {
	var common map[string]bool
	for _, m := range g.members {
		known := make(map[string]bool, len(m.protocols))
		for _, p := range m.protocols {
			if common == nil || common[p.name] {
				known[p.name] = true
			}
		}
		common = known
	}
	return common
}

// vote chooses the protocol: each member votes for its favourite among the
// common ones, a draw goes to the one the leader prefers.
func (g *group) vote() string {
	votes, common := map[string]int{}, g.common()
	for _, m := range g.members {
		for _, p := range m.protocols {
			if common[p.name] {
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for _, p := range g.members[g.leader].protocols {
		if votes[p.name] > votes[best] {
			best = p.name
		}
	}
	return best
}

func (g *group) add(now time.Time, t ticket, id string, r joinRequest) {
	g.unexpect(id)
	if len(g.members) == 0 {
		g.protocolType, g.leader = r.protocolType, id
	}
	g.arrived++
	m := &member{
		id: id, instance: r.instance, clientID: r.clientID, clientHost: r.clientHost,
		arrival: g.arrived, fresh: true, join: t,
		// It cannot send heartbeats before it knows its id, and its hang-up is not
		// seen: a member that nobody answers in this time is asked to try again.
		deadline: now.Add(g.limits.newcomerWait),
	}
	m.renew(r)
	g.members[id] = m
	g.bytes += m.size()
	if m.instance != "" {
		g.static[m.instance] = id
	}
	if g.state == groupPreparing {
		g.newcomer = g.first
		g.maybeCompleteJoin(now)
		return
	}
	g.prepare(now)
}

// rejoin is a JoinGroup of a known member.
func (g *group) rejoin(now time.Time, t ticket, m *member, r joinRequest) {
	same := m.offers(r.protocols)
	switch {
	case g.state == groupCompleting && same, // the first answer was lost
		g.state == groupStable && same && m.id != g.leader:
		m.deadline = now.Add(m.session)
		g.answer(t, g.joined(m))
		return
	}
	// The leader joins again when something outside the metadata changed, such as
	// the number of partitions: it wants to assign anew.
	g.wait(t, m, r)
	if g.state == groupPreparing {
		g.maybeCompleteJoin(now)
		return
	}
	g.prepare(now)
}

// wait makes m wait for the join phase to end, with what r says about it.
func (g *group) wait(t ticket, m *member, r joinRequest) {
	g.bytes -= m.size()
	m.renew(r)
	g.bytes += m.size()
	g.answer(m.join, groupAnswer{code: codeRebalanceInProgress, memberID: m.id}) // an earlier try of the same member
	m.join = t
}

// replace gives a static member that came back a new id: whoever still uses the
// old one is fenced, and a stable group stays stable as long as its protocol
// would not change.
func (g *group) replace(now time.Time, t ticket, old *member, r joinRequest) {
	fenced := groupAnswer{code: codeFencedInstanceID, memberID: old.id, assignment: []byte{}}
	g.answer(old.join, fenced)
	g.answer(old.sync, fenced)
	leader := g.leader
	m := *old
	m.id, m.join, m.sync = r.newID, 0, 0
	m.clientID, m.clientHost = r.clientID, r.clientHost
	m.deadline = now.Add(r.session)
	g.bytes -= old.size()
	g.bytes += m.size()
	delete(g.members, old.id)
	g.members[m.id] = &m
	g.static[m.instance] = m.id
	if leader == old.id {
		g.leader = m.id
	}
	g.wait(t, &m, r)
	switch {
	case g.state == groupPreparing:
		g.maybeCompleteJoin(now)
	case g.state == groupStable && g.vote() == g.protocol:
		m.join = 0
		a := g.joined(&m)
		if m.id == g.leader && r.knowsSkip {
			a.skip = true
		} else if m.id == g.leader {
			// An older leader would assign again: it is told that somebody else leads.
			a.leader, a.members = leader, nil
		}
		g.answer(t, a)
	default:
		// The leader may be assigning to the old id at this moment.
		g.prepare(now)
	}
}

// remove forgets a member and answers its callers.
func (g *group) remove(m *member) {
	gone := groupAnswer{code: codeUnknownMemberID, memberID: m.id, assignment: []byte{}}
	g.answer(m.join, gone)
	g.answer(m.sync, gone)
	m.join, m.sync = 0, 0
	delete(g.members, m.id)
	if m.instance != "" {
		delete(g.static, m.instance)
	}
	g.bytes -= m.size()
	if g.leader == m.id {
		g.leader = ""
		if rest := g.inOrder(); len(rest) > 0 {
			g.leader = rest[0].id
		}
	}
}

// snapshot copies the members, so that an answer can be encoded while the group goes on.
func (g *group) snapshot() []*member {
	all := g.inOrder()
	for i, m := range all {
		c := *m
		all[i] = &c
	}
	return all
}
