package kafkawire

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// groupState is where a classic group stands:
//
//	              a member joins                    every member has joined,
//	              (waits for others)                or waited long enough
//	groupEmpty ──────────────────► groupPreparing ─────────────────────────► groupCompleting
//	    ▲                            ▲   │  ▲                                     │
//	    └─── nobody is left ─────────┼───┘  └── a member joins, changes, leaves ──┤
//	                                 │           or does not sync in time         │ the leader's
//	                                 │                                            ▼ assignments
//	                                 └── a member joins, changes or leaves ── groupStable
type groupState int8

const (
	groupEmpty groupState = iota
	groupPreparing
	groupCompleting
	groupStable
)

// String is Kafka's name of the state.
func (s groupState) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

// ticket names a caller that waits for an answer; 0 is nobody.
type ticket uint64

// groupAnswer is what a caller of join or sync waits for.
type groupAnswer struct {
	to           ticket
	code         int16
	memberID     string
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      []*member // of the generation, for its leader only
	skip         bool      // the leader need not assign (KIP-814)
	assignment   []byte    // never nil in an answer to a sync
}

// groupLimits are the bounds of one group; see Config for what they mean.
type groupLimits struct {
	membersMax   int
	pendingMax   int
	bytesMax     int
	initialDelay time.Duration
	newcomerWait time.Duration
	emptyKeep    time.Duration // 0: a group is over with its last member
}

// group is one classic consumer group: a value without lock, clock or
// goroutine. Its methods take the time and return who is to be answered; every
// ticket given to join or sync is answered exactly once, at once or by a later
// call. Between calls next says when tick has something to do.
type group struct {
	limits groupLimits

	state        groupState
	generation   int32
	protocolType string
	protocol     string // chosen for the generation; "" without one
	leader       string // member id; "" without members

	members map[string]*member
	static  map[string]string    // instance id → member id
	pending map[string]time.Time // ids given out and not yet used (KIP-394) → when they are forgotten
	arrived uint64               // members ever added: gives them an order
	bytes   int                  // held for members and pending ids, see member.size and pendingSize

	// The join phase, while groupPreparing.
	first    bool          // the group was empty: wait for the whole initial delay
	joinBy   time.Time     // the phase ends here at the latest
	joinLeft time.Duration // how far newcomers may still push joinBy, while first
	newcomer bool          // somebody came since joinBy was set, while first

	// After the last member went the group is kept for a while; over ends that.
	emptied time.Time
	over    bool

	// syncBy ends the wait for members that have a generation but did not ask for
	// their assignment; zero when all have.
	syncBy time.Time

	due []groupAnswer // collected by the call in progress
}

func newGroup(l groupLimits) *group {
	return &group{
		limits: l, members: map[string]*member{},
		static: map[string]string{}, pending: map[string]time.Time{},
	}
}

// forgettable reports whether nothing would be lost with the group.
func (g *group) forgettable() bool {
	return g.idle() && (g.generation == 0 || g.over)
}

// idle reports whether nobody is in the group or about to be.
func (g *group) idle() bool {
	return g.state == groupEmpty && len(g.members) == 0 && len(g.pending) == 0
}

// sync hands over the leader's assignments and asks for the member's own.
func (g *group) sync(now time.Time, t ticket, r syncRequest) []groupAnswer {
	code := g.mayAct(r.memberID, r.instance, r.generation)
	switch {
	case code != 0:
	case r.protocolType != nil && *r.protocolType != g.protocolType,
		r.protocol != nil && *r.protocol != g.protocol:
		code = codeInconsistentProtocol
	case g.state == groupPreparing:
		code = codeRebalanceInProgress
	case g.state == groupCompleting && r.memberID == g.leader && g.bytes+g.grows(r.assignments) > g.limits.bytesMax:
		code = codeGroupMaxSizeReached // the leader may come again with less
	}
	if code != 0 {
		g.answer(t, groupAnswer{code: code, assignment: []byte{}})
		return g.take()
	}
	m := g.members[r.memberID]
	g.synced(m)
	if g.state == groupStable {
		m.deadline = now.Add(m.session)
		g.answer(t, g.assigned(m))
		return g.take()
	}
	g.answer(m.sync, groupAnswer{code: codeRebalanceInProgress, assignment: []byte{}}) // an earlier try of the same member
	m.sync = t
	if r.memberID == g.leader {
		g.assign(now, r.assignments)
	}
	return g.take()
}

// grows is by how much the group gets larger with these assignments.
func (g *group) grows(assignments map[string][]byte) int {
	n := 0
	for id, m := range g.members {
		n += len(assignments[id]) - len(m.assignment)
	}
	return n
}

// assign gives everybody what the leader decided and makes the group stable.
func (g *group) assign(now time.Time, assignments map[string][]byte) {
	g.state = groupStable
	for _, m := range g.inOrder() {
		g.bytes -= m.size()
		m.assignment = append([]byte{}, assignments[m.id]...)
		g.bytes += m.size()
		if m.sync != 0 {
			t := m.sync
			m.sync = 0
			m.deadline = now.Add(m.session)
			g.answer(t, g.assigned(m))
		}
	}
}

func (g *group) assigned(m *member) groupAnswer {
	return groupAnswer{
		memberID: m.id, generation: g.generation, protocolType: g.protocolType, protocol: g.protocol,
		assignment: append([]byte{}, m.assignment...),
	}
}

// synced notes that m asked for its assignment of this generation.
func (g *group) synced(m *member) {
	m.owesSync = false
	for _, other := range g.members {
		if other.owesSync {
			return
		}
	}
	g.syncBy = time.Time{}
}

// heartbeat keeps a member and says whether it must join again.
func (g *group) heartbeat(now time.Time, memberID, instance string, generation int32) int16 {
	if code := g.mayAct(memberID, instance, generation); code != 0 {
		return code
	}
	m := g.members[memberID]
	m.deadline = now.Add(m.session)
	if g.state == groupPreparing {
		return codeRebalanceInProgress
	}
	return 0
}

// commit says whether a commit may be stored, and counts it as a heartbeat.
// Without a generation it comes from somebody who assigns partitions to
// himself, which only an empty group allows.
func (g *group) commit(now time.Time, memberID, instance string, generation int32) int16 {
	if generation < 0 && g.state == groupEmpty {
		return 0
	}
	if generation < 0 && memberID == "" && instance == "" {
		return codeUnknownMemberID
	}
	if code := g.mayAct(memberID, instance, generation); code != 0 {
		return code
	}
	m := g.members[memberID]
	m.deadline = now.Add(m.session)
	if g.state == groupCompleting {
		return codeRebalanceInProgress
	}
	return 0
}

// mayAct checks who speaks and for which generation.
func (g *group) mayAct(memberID, instance string, generation int32) int16 {
	if code := g.isMember(memberID, instance); code != 0 {
		return code
	}
	if generation != g.generation {
		return codeIllegalGeneration
	}
	return 0
}

func (g *group) isMember(memberID, instance string) int16 {
	if instance != "" {
		switch id, ok := g.static[instance]; {
		case !ok:
			return codeUnknownMemberID
		case id != memberID:
			return codeFencedInstanceID
		}
	}
	if g.members[memberID] == nil {
		return codeUnknownMemberID
	}
	return 0
}

// leaver names a member that leaves, by member id or by instance id alone.
type leaver struct{ memberID, instance string }

// leave removes members; the codes are in the order of who.
func (g *group) leave(now time.Time, who []leaver) ([]int16, []groupAnswer) {
	codes := make([]int16, len(who))
	removed := false
	for i, l := range who {
		id := l.memberID
		if id == "" && l.instance != "" { // an operator removes a static member
			id = g.static[l.instance]
		}
		if g.unexpect(id) {
			removed = true
			continue
		}
		if codes[i] = g.isMember(id, l.instance); codes[i] == 0 {
			g.remove(g.members[id])
			removed = true
		}
	}
	if removed {
		g.shrunk(now)
	}
	return codes, g.take()
}

// tick does what is due at now.
func (g *group) tick(now time.Time) []groupAnswer {
	removed := false
	for id, by := range g.pending {
		if !now.Before(by) {
			g.unexpect(id)
			removed = true
		}
	}
	for _, m := range g.inOrder() {
		if m.mortal() && !now.Before(m.deadline) {
			g.remove(m)
			removed = true
		}
	}
	if removed {
		g.shrunk(now)
	}
	if !g.syncBy.IsZero() && !now.Before(g.syncBy) {
		for _, m := range g.inOrder() {
			if m.owesSync {
				g.remove(m)
			}
		}
		g.syncBy = time.Time{}
		g.prepare(now)
	}
	if g.idle() && !now.Before(g.emptied.Add(g.limits.emptyKeep)) {
		g.over = true
	}
	if g.state == groupPreparing && !now.Before(g.joinBy) {
		if g.first && g.newcomer && g.joinLeft > 0 {
			step := min(g.limits.initialDelay, g.joinLeft)
			g.newcomer = false
			g.joinLeft = max(g.joinLeft-g.limits.initialDelay, 0)
			g.joinBy = now.Add(step)
		} else {
			g.completeJoin(now)
		}
	}
	return g.take()
}

// resume gives everybody time again after members could not reach the group.
func (g *group) resume(now time.Time) {
	later := func(t *time.Time, d time.Duration) {
		if by := now.Add(d); !t.IsZero() && t.Before(by) {
			*t = by
		}
	}
	for _, m := range g.members {
		later(&m.deadline, m.session)
	}
	if g.state == groupPreparing && !g.first {
		later(&g.joinBy, g.rebalanceTimeout())
	}
	later(&g.syncBy, g.rebalanceTimeout())
}

// next is when tick has something to do; zero for never.
func (g *group) next() time.Time {
	if g.idle() && g.generation > 0 && !g.over {
		return g.emptied.Add(g.limits.emptyKeep)
	}
	var at time.Time
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, m := range g.members {
		if m.mortal() {
			sooner(m.deadline)
		}
	}
	for _, by := range g.pending {
		sooner(by)
	}
	if g.state == groupPreparing {
		sooner(g.joinBy)
	}
	if !g.syncBy.IsZero() {
		sooner(g.syncBy)
	}
	return at
}

// shrunk continues after members or pending ids went away.
func (g *group) shrunk(now time.Time) {
	switch g.state {
	case groupCompleting, groupStable:
		g.prepare(now)
	case groupPreparing:
		g.maybeCompleteJoin(now)
	}
}

// prepare starts a rebalance: everybody has to join again.
func (g *group) prepare(now time.Time) {
	for _, m := range g.inOrder() {
		if g.state == groupCompleting {
			g.bytes -= len(m.assignment)
			m.assignment = nil
		}
		if m.sync != 0 {
			t := m.sync
			m.sync = 0
			m.deadline = now.Add(m.session)
			g.answer(t, groupAnswer{code: codeRebalanceInProgress, assignment: []byte{}})
		}
		m.owesSync = false
	}
	g.syncBy = time.Time{}
	g.first = g.state == groupEmpty
	g.state = groupPreparing
	if !g.first {
		g.joinBy = now.Add(g.rebalanceTimeout())
		g.maybeCompleteJoin(now)
		return
	}
	delay := g.limits.initialDelay
	if delay <= 0 {
		g.completeJoin(now)
		return
	}
	g.joinBy = now.Add(delay)
	g.joinLeft = max(g.rebalanceTimeout()-delay, 0)
	g.newcomer = false
}

// maybeCompleteJoin ends the join phase early when nobody is missing.
func (g *group) maybeCompleteJoin(now time.Time) {
	if g.state != groupPreparing || g.first || len(g.pending) > 0 {
		return
	}
	for _, m := range g.members {
		if m.join == 0 {
			return
		}
	}
	g.completeJoin(now)
}

// completeJoin ends the join phase: who did not join is out, unless static, and
// the rest becomes a generation.
func (g *group) completeJoin(now time.Time) {
	for _, m := range g.inOrder() {
		if m.join == 0 && m.instance == "" {
			g.remove(m)
		}
	}
	if len(g.members) > 0 && !g.electJoined() {
		// Only static members that are away: wait on, until they expire or come back.
		g.first = false
		g.joinBy = now.Add(g.rebalanceTimeout())
		return
	}
	if g.generation++; g.generation < 0 || g.generation == math.MaxInt32 {
		g.generation = 1
	}
	g.first, g.newcomer, g.joinBy = false, false, time.Time{}
	if len(g.members) == 0 {
		g.state, g.protocol = groupEmpty, ""
		g.emptied, g.over = now, g.limits.emptyKeep == 0
		return
	}
	g.state = groupCompleting
	g.protocol = g.vote()
	g.syncBy = now.Add(g.rebalanceTimeout())
	for _, m := range g.inOrder() {
		m.owesSync = true
		m.fresh = false
		m.deadline = now.Add(m.session)
		t := m.join
		m.join = 0
		g.answer(t, g.joined(m))
	}
}

// joined answers a member with the current generation.
func (g *group) joined(m *member) groupAnswer {
	a := groupAnswer{
		memberID: m.id, generation: g.generation, leader: g.leader,
		protocolType: g.protocolType, protocol: g.protocol,
	}
	if m.id == g.leader {
		a.members = g.snapshot()
	}
	return a
}

// electJoined makes sure that the leader is a member that has joined.
func (g *group) electJoined() bool {
	if m := g.members[g.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range g.inOrder() {
		if m.join != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// rebalanceTimeout is the most patient member's.
func (g *group) rebalanceTimeout() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// inOrder lists the members by arrival.
func (g *group) inOrder() []*member {
	all := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return cmp.Compare(a.arrival, b.arrival) })
	return all
}

// answer notes what the caller t is to be told; nobody is told nothing.
func (g *group) answer(t ticket, a groupAnswer) {
	if t != 0 {
		a.to = t
		g.due = append(g.due, a)
	}
}

func (g *group) take() []groupAnswer {
	due := g.due
	g.due = nil
	return due
}
