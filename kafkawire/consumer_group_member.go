package kafkawire

import (
	"slices"
	"strings"
	"time"
)

// reconcileState is how far a member of a consumer group is from what it is to have:
//
//	reconcileStable      it has everything, at the epoch of the assignment
//	reconcileRevoking    it has to let go of partitions first, and keeps its epoch until it says that it did
//	reconcileWaiting     it is at the new epoch, and partitions it is to have are still others'
type reconcileState int8

const (
	reconcileStable reconcileState = iota
	reconcileRevoking
	reconcileWaiting
)

// consumerMember is a member of a consumer group. It belongs to its group.
type consumerMember struct {
	id         string
	instance   string // "" for a dynamic member
	rack       *string
	clientID   string
	clientHost string
	rebalance  time.Duration
	assignor   string   // "" where it leaves the choice to others
	names      []string // subscribed to, ordered
	regex      string   // subscribed to; "" for none

	arrival uint64
	state   reconcileState
	// epoch is that of the assignment the member has, or epochAway; previous is
	// the one before, with which the member may still come if our answer was lost.
	epoch, previous int32
	target          partitionSet // to have
	assigned        partitionSet // has, or may take
	revoking        partitionSet // must let go of, while reconcileRevoking

	deadline time.Time // of the session
	revokeBy time.Time // of reconcileRevoking, else zero
}

// The epochs of a heartbeat that leaves; the second one keeps a static member's
// place, and is its epoch while it is away.
const (
	epochLeave int32 = -1
	epochAway  int32 = -2
)

// size is what the member counts against the bound on bytes. Its partitions are
// not what its client sent, and bounded by the catalog.
func (m *consumerMember) size() int {
	if m == nil {
		return 0
	}
	n := memberBytes + len(m.id) + len(m.instance) + len(m.clientID) + len(m.regex)
	if m.rack != nil {
		n += len(*m.rack)
	}
	for _, name := range m.names {
		n += 16 + len(name)
	}
	return n
}

// subscription tells subscriptions apart: members with the same one subscribe to
// the same topics.
func (m *consumerMember) subscription() string {
	return m.regex + "\x00" + strings.Join(m.names, "\x00")
}

// settled says whether the member has what it is to have at an epoch.
func (m *consumerMember) settled(epoch int32) bool {
	return m.state == reconcileStable && m.epoch == epoch
}

// reach moves the member to an epoch, perhaps the one it is at.
func (m *consumerMember) reach(epoch int32) {
	m.previous, m.epoch = m.epoch, epoch
}

// consumerHeartbeat is ConsumerGroupHeartbeat in the group's words. Nil says
// that nothing has changed since the member said it last.
type consumerHeartbeat struct {
	memberID   string
	instance   string // "" for a dynamic member
	epoch      int32
	rack       *string
	rebalance  time.Duration // negative where it is not said
	names      []string      // nil, or ordered
	regex      *string       // valid, see checkSubscription
	assignor   *string       // one that there is
	owned      partitionSet  // see knowsOwned
	knowsOwned bool
	clientID   string
	clientHost string
}

// size is about what the heartbeat brings to keep.
func (r *consumerHeartbeat) size() int {
	n := memberBytes + len(r.memberID) + len(r.instance) + len(r.clientID) + len(text(r.rack)) + len(text(r.regex))
	for _, name := range r.names {
		n += 16 + len(name)
	}
	return n
}

// full says whether the member told everything, so that it is told everything.
func (r *consumerHeartbeat) full() bool {
	return r.rebalance >= 0 && (r.names != nil || r.regex != nil) && r.knowsOwned
}

// apply takes over what the heartbeat says; it reports whether the member now
// subscribes to something else.
func (m *consumerMember) apply(r *consumerHeartbeat) (changed bool) {
	m.clientID, m.clientHost = r.clientID, r.clientHost
	if r.instance != "" {
		m.instance = r.instance
	}
	if r.rack != nil {
		m.rack = r.rack
	}
	if r.rebalance >= 0 {
		m.rebalance = r.rebalance
	}
	if r.assignor != nil {
		m.assignor = *r.assignor
	}
	if r.names != nil && !slices.Equal(r.names, m.names) {
		m.names, changed = r.names, true
	}
	if r.regex != nil && *r.regex != m.regex {
		m.regex, changed = *r.regex, true
	}
	return changed
}
