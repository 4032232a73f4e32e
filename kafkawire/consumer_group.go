package kafkawire

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
)

// consumerLimits are the bounds and times of one consumer group; see Config.
type consumerLimits struct {
	membersMax int
	bytesMax   int
	regexesMax int
	session    time.Duration
	emptyKeep  time.Duration
}

// consumerGroup is one group of the protocol of KIP-848: a value without lock,
// clock or goroutine. Its methods take the time and the topics there are, and
// answer the caller at once: members learn what changed by their next heartbeat.
//
//	a member comes, goes or subscribes anew,        epoch + 1
//	a topic it subscribes to comes, goes or grows
//	the next heartbeat of anybody                   everybody's target anew, targetEpoch = epoch
//	each member's heartbeats                        assigned moves towards target: first it lets
//	                                                go, then it takes what others have let go of
type consumerGroup struct {
	limits consumerLimits

	epoch       int32 // 0 before the first member
	targetEpoch int32 // of the members' targets

	members map[string]*consumerMember
	static  map[string]string // instance id → member id
	arrived uint64            // members ever added: gives them an order
	bytes   int               // held for members, see consumerMember.size

	// owners says who has a partition, or has not yet let go of it: never two.
	owners map[topicPartition]owner

	names   map[string]int // subscribed by name → by how many members
	regexes map[string]*regexSubscription
	image   *topicImage
	topics  map[uuid.UUID]int32 // subscribed to in image, however → partitions

	emptied time.Time // when the last member went; the group is kept for a while
	over    bool      // nothing would be lost with the group
}

// owner is who has a partition, since which epoch.
type owner struct {
	member *consumerMember
	since  int32
}

// consumerAnswer is what a heartbeat is told.
type consumerAnswer struct {
	code     int16
	message  string // with a code
	memberID string
	epoch    int32
	// assignment is what the member has or may take, and told says that the
	// answer has it.
	assignment partitionSet
	told       bool
}

func refuse(code int16, format string, args ...any) consumerAnswer {
	return consumerAnswer{code: code, message: fmt.Sprintf(format, args...)}
}

func newConsumerGroup(l consumerLimits) *consumerGroup {
	return &consumerGroup{
		limits: l, members: map[string]*consumerMember{}, static: map[string]string{},
		owners: map[topicPartition]owner{}, names: map[string]int{}, regexes: map[string]*regexSubscription{},
	}
}

// forgettable reports whether nothing would be lost with the group.
func (g *consumerGroup) forgettable() bool {
	return len(g.members) == 0 && (g.epoch == 0 || g.over)
}

// heartbeat adds or renews a member and moves it towards what it is to have.
func (g *consumerGroup) heartbeat(now time.Time, r *consumerHeartbeat, image *topicImage) consumerAnswer {
	m, refused := g.speaker(r)
	if m == nil {
		return refused
	}
	next := *m
	changed := next.apply(r)
	added := g.members[m.id] != m
	size := m.size()
	if added {
		size = 0
	}
	regex := 0
	if next.regex != "" && g.regexes[next.regex] == nil {
		steps, _ := checkSubscription(next.regex) // it was right when it came
		regex = steps * regexStepBytes
	}
	switch {
	case g.bytes+next.size()-size+regex > g.limits.bytesMax:
		return refuse(codeGroupMaxSizeReached, "the group's subscriptions are above its bound of %d bytes", g.limits.bytesMax)
	case next.regex != "" && g.regexes[next.regex] == nil && g.regexesWithout(m) >= g.limits.regexesMax:
		return refuse(codeInvalidRequest, "the group subscribes to %d regular expressions already, no more are allowed", g.limits.regexesMax)
	}
	before := m.assigned
	g.renew(m, next, r)
	changed = changed || added && g.epoch == 0
	if g.meet(image, changed || added) || changed {
		g.bump()
	}
	if g.epoch > g.targetEpoch {
		g.reassign()
	}
	if !m.settled(g.targetEpoch) || changed {
		g.reconcile(now, m, changed, r)
	}
	m.deadline = now.Add(g.limits.session)
	return consumerAnswer{
		memberID: m.id, epoch: m.epoch, assignment: m.assigned,
		told: r.epoch == 0 || r.full() || !slices.Equal(before, m.assigned),
	}
}

// resume gives everybody time again after members could not reach the group.
func (g *consumerGroup) resume(now time.Time) {
	for _, m := range g.members {
		if by := now.Add(g.limits.session); m.deadline.Before(by) {
			m.deadline = by
		}
		if by := now.Add(m.rebalance); !m.revokeBy.IsZero() && m.revokeBy.Before(by) {
			m.revokeBy = by
		}
	}
}

// speaker is the member that a heartbeat comes from, made where it joins; nil
// with the refusal.
func (g *consumerGroup) speaker(r *consumerHeartbeat) (*consumerMember, consumerAnswer) {
	m := g.members[r.memberID]
	if r.instance != "" {
		s := g.members[g.static[r.instance]]
		switch {
		case s == nil && r.epoch != 0:
			return nil, refuse(codeUnknownMemberID, "the group has no member with instance id %q", r.instance)
		case s != nil && r.epoch == 0 && s.epoch != epochAway:
			return nil, refuse(codeUnreleasedInstanceID, "instance id %q is used by member %q, which has not left", r.instance, s.id)
		case s != nil && r.epoch != 0 && s.id != r.memberID:
			return nil, refuse(codeFencedInstanceID, "instance id %q is used by member %q", r.instance, s.id)
		case s != nil && m != nil && s != m:
			return nil, refuse(codeInvalidRequest, "member id %q is that of another member", r.memberID)
		case s != nil:
			m = s
		}
	}
	switch {
	case m == nil && r.epoch != 0:
		return nil, refuse(codeUnknownMemberID, "the group has no member %q", r.memberID)
	case m == nil && len(g.members) >= g.limits.membersMax:
		return nil, refuse(codeGroupMaxSizeReached, "the group has %d members, no more are allowed", len(g.members))
	case m == nil:
		return &consumerMember{id: r.memberID, rebalance: -1}, consumerAnswer{}
	case r.epoch == 0 || r.epoch == m.epoch:
	case r.epoch > m.epoch:
		return nil, refuse(codeFencedMemberEpoch, "epoch %d is above the member's, which is %d: give up all partitions and join again", r.epoch, m.epoch)
	case r.epoch != m.previous || !r.knowsOwned || !r.owned.within(m.assigned):
		return nil, refuse(codeFencedMemberEpoch, "epoch %d is below the member's, which is %d: give up all partitions and join again", r.epoch, m.epoch)
	}
	return m, consumerAnswer{}
}

// renew makes m what next says, files it, and counts what it subscribes to. A
// static member that comes back takes its place under a new id.
func (g *consumerGroup) renew(m *consumerMember, next consumerMember, r *consumerHeartbeat) {
	if s := g.regexes[next.regex]; s != nil { // not to be made anew with each heartbeat
		s.members++
		defer func() { s.members-- }()
	}
	if g.members[m.id] == m {
		g.unfile(m)
	} else {
		g.arrived++
		next.arrival = g.arrived
	}
	*m = next
	if m.id != r.memberID || m.epoch == epochAway {
		m.id, m.epoch, m.previous, m.state, m.revokeBy = r.memberID, 0, 0, reconcileStable, time.Time{}
	}
	if r.epoch == 0 && !r.knowsOwned {
		panic("BUG: a member joins without saying that it owns nothing")
	}
	g.file(m)
}

// bump asks for new targets.
func (g *consumerGroup) bump() {
	if g.epoch == math.MaxInt32 { // members come down with it, one heartbeat each
		g.epoch, g.targetEpoch = 0, 0
	}
	g.epoch++
}

// reassign gives everybody a new target. Static members that are away keep their share.
func (g *consumerGroup) reassign() {
	members := make([]*consumerMember, 0, len(g.members))
	for _, m := range g.members {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b *consumerMember) int { return cmp.Compare(a.id, b.id) })
	same := map[string][]uuid.UUID{} // most members of a group subscribe to the same
	as := make([]assignee, len(members))
	for i, m := range members {
		topics, ok := same[m.subscription()]
		if !ok {
			topics = g.topicsOf(m)
			same[m.subscription()] = topics
		}
		as[i] = assignee{id: m.id, topics: topics, holds: m.target}
	}
	for i, target := range assignorNamed(g.assignor())(as, g.topics) {
		members[i].target = target
	}
	g.targetEpoch = g.epoch
}

// assignor is the name of the one that most members want, of those who want one.
func (g *consumerGroup) assignor() string {
	votes := map[string]int{}
	for _, m := range g.members {
		if m.assignor != "" {
			votes[m.assignor]++
		}
	}
	best := assignors[0].name
	for _, a := range assignors {
		if votes[a.name] > votes[best] {
			best = a.name
		}
	}
	return best
}

// state is Kafka's name of the group's state.
func (g *consumerGroup) state() string {
	if len(g.members) == 0 {
		return groupEmpty.String()
	}
	if g.epoch > g.targetEpoch {
		return "Assigning"
	}
	for _, m := range g.members {
		if !m.settled(g.targetEpoch) {
			return "Reconciling"
		}
	}
	return groupStable.String()
}

// inOrder lists the members by arrival.
func (g *consumerGroup) inOrder() []*consumerMember {
	all := make([]*consumerMember, 0, len(g.members))
	for _, m := range g.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *consumerMember) int { return cmp.Compare(a.arrival, b.arrival) })
	return all
}
