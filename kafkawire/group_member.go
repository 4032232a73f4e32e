package kafkawire

import (
	"bytes"
	"slices"
	"time"
)

// groupProtocol is one way of assigning a member can take part in, with what
// the leader has to know about the member. The metadata is never changed.
type groupProtocol struct {
	name     string
	metadata []byte
}

// member is one consumer in a group. It belongs to its group.
type member struct {
	id         string
	instance   string // "" for a dynamic member
	clientID   string
	clientHost string
	session    time.Duration
	rebalance  time.Duration
	protocols  []groupProtocol
	assignment []byte

	arrival  uint64
	fresh    bool   // has not been told its first generation
	join     ticket // waits for the join phase to end
	sync     ticket // waits for the leader's assignments
	owesSync bool   // has not asked for its assignment in this generation
	deadline time.Time
}

// mortal reports whether the member's deadline counts: one that waits for us
// cannot send heartbeats. A fresh one has a longer deadline of another kind.
func (m *member) mortal() bool {
	return m.fresh || m.join == 0 && m.sync == 0
}

// renew takes over what a JoinGroup says.
func (m *member) renew(r joinRequest) {
	m.session, m.rebalance, m.protocols = r.session, r.rebalance, r.protocols
}

// offers reports whether the member's protocols are these, in this order.
func (m *member) offers(protocols []groupProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b groupProtocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// metadata is what the member says for the named protocol.
func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return []byte{}
}

// memberBytes is about what a member costs besides what its client sent.
const memberBytes = 512

// size is what the member counts against the bound on bytes; 0 for nobody.
func (m *member) size() int {
	if m == nil {
		return 0
	}
	n := memberBytes + len(m.id) + len(m.instance) + len(m.clientID) + len(m.assignment)
	return n + protocolsSize(m.protocols)
}

// size is what the member made of r will count.
func (r joinRequest) size() int {
	id := max(len(r.memberID), len(r.newID))
	return memberBytes + id + len(r.instance) + len(r.clientID) + protocolsSize(r.protocols)
}

// pendingSize is what an id that was given out counts against that bound.
func pendingSize(id string) int { return pendingBytes + len(id) }

// pendingBytes is about what such an id costs besides itself.
const pendingBytes = 128

func protocolsSize(protocols []groupProtocol) int {
	n := 0
	for _, p := range protocols {
		n += 64 + len(p.name) + len(p.metadata)
	}
	return n
}
