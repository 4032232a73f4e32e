package queen

import (
	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"queenmq/store"
)

// Fence is what a coordinator writes a group's positions under: its slot, and the
// epoch in which it is this broker's. Once another has taken the slot, what is
// written under it is refused with ErrNotCoordinator. The zero Fence is that of
// callers outside of any group, and asks for nothing. The engine numbers what is
// written under it: see begun.
type Fence = store.Fence

// Coordination says who coordinates a group. It is answered from memory.
type Coordination struct {
	// Fence is what this broker may write under, while Mine.
	Fence
	Mine bool
	// Broker is who coordinates the group as far as is known; with Known false
	// nobody does at this moment, or this broker cannot tell.
	Broker Broker
	Known  bool
	// InDoubt: the database has not heard this broker for so long that others may
	// count it as dead. It acts for no group until it knows better.
	InDoubt bool
}

// slotOf is the slot of a group. All brokers must agree on it: it never changes.
func slotOf(group string) int {
	return int(xxh3.HashString(group) % store.GroupSlots)
}

// ownerOf chooses among live brokers by rendezvous: the highest hash wins, so a
// broker that comes or goes moves only its own share. Zero when there is none.
func ownerOf(slot int, live []store.BrokerRow) uuid.UUID {
	var best uuid.UUID
	var most uint64
	for _, b := range live {
		if h := mix(mix(uint64(slot)+1) ^ uint64(uint32(b.ID))); best == uuid.Nil || h > most {
			best, most = b.Instance, h
		}
	}
	return best
}

// mix spreads every bit of x over the whole word (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// slotMoves says which slots self is to give to whom, and which it is to take,
// so that each comes to be its rendezvous' among live: what a dead broker had goes
// straight to who is to have it, what another live one has is left to that one.
func slotMoves(self uuid.UUID, slots *[store.GroupSlots]store.SlotRow, live []store.BrokerRow) map[int]uuid.UUID {
	alive := make(map[uuid.UUID]bool, len(live))
	for _, b := range live {
		alive[b.Instance] = true
	}
	moves := make(map[int]uuid.UUID)
	for i, s := range slots {
		to := ownerOf(i, live)
		if s.Owner != to && (s.Owner == self || !alive[s.Owner]) {
			moves[i] = to
		}
	}
	return moves
}
