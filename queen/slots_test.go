package queen

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// The slot of a name is known to all brokers, of all versions: if this fails
// you have changed it, and two brokers would coordinate one group. Another
// implementation of xxh3 (python-xxhash) gave the numbers.
func TestSlotOfAGroupNeverChanges(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]int{"": 2, "g": 23, "orders": 59, "grüße": 45} {
		if got := slotOf(group); got != want {
			t.Errorf("slot of %q is %d, want %d", group, got, want)
		}
	}
}

// A broker that comes or goes moves no slot between others.
func TestSlotsMoveToAndFromWhoComesAndGoesOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Int32Range(1, 1000), 2, 12, rapid.ID[int32]).Draw(t, "ids")
		var live []store.BrokerRow
		for _, id := range ids {
			live = append(live, store.BrokerRow{ID: id, Instance: uuid.UUID{0: 1, 14: byte(id >> 8), 15: byte(id)}})
		}
		last := live[len(live)-1].Instance
		for slot := range store.GroupSlots {
			before, after := ownerOf(slot, live[:len(live)-1]), ownerOf(slot, live)
			if before != after && after != last {
				t.Fatalf("slot %d moved from %v to %v when %v came", slot, before, after, last)
			}
		}
	})
}

// Brokers that follow slotMoves come to agree, never take from the living, and
// then move nothing more.
func TestSlotsSettle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var slots [store.GroupSlots]store.SlotRow
		var live []store.BrokerRow
		alive := func(owner uuid.UUID) bool {
			for _, b := range live {
				if b.Instance == owner {
					return true
				}
			}
			return false
		}
		step := func(self uuid.UUID) int {
			moves := slotMoves(self, &slots, live)
			for slot, to := range moves {
				if had := slots[slot].Owner; had != self && alive(had) {
					t.Fatalf("%v takes slot %d from %v, which lives", self, slot, had)
				}
				slots[slot] = store.SlotRow{Owner: to, Epoch: slots[slot].Epoch + 1}
			}
			return len(moves)
		}
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			if len(live) > 1 && rapid.Bool().Draw(t, "one dies") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "who")
				live = append(live[:i:i], live[i+1:]...)
			} else {
				id := int32(len(live)*100) + rapid.Int32Range(1, 99).Draw(t, "id")
				live = append(live, store.BrokerRow{ID: id, Instance: uuid.New()})
			}
			for _, b := range live {
				step(b.Instance)
			}
			for _, b := range live {
				if n := step(b.Instance); n != 0 {
					t.Fatalf("%d slots still move", n)
				}
			}
			for slot, s := range slots {
				if s.Owner != ownerOf(slot, live) {
					t.Fatalf("slot %d is %v's", slot, s.Owner)
				}
			}
		}
	})
}

// groupOf is the name of a group that the engine coordinates.
func groupOf(t *testing.T, e *Engine) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for i := range 1000 {
			if name := fmt.Sprint("group-", i); e.Coordinator(name).Mine {
				return name
			}
		}
	}
	t.Fatal("it coordinates no group")
	return ""
}

// becomes waits until the group's coordinator is as ok says.
func becomes(t *testing.T, e *Engine, group, what string, ok func(Coordination) bool) Coordination {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if c := e.Coordinator(group); ok(c) {
			return c
		}
	}
	t.Fatalf("not %s within a minute: %+v", what, e.Coordinator(group))
	return Coordination{}
}

// A broker that is started takes its share from the one that lives, both name
// the same coordinators, and an orderly end gives all back at once.
func TestSlotsAreSharedAndGivenBack(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	a := openEngine(t, db)
	createTopic(t, a, "t", 1)
	c := becomes(t, a, "any", "its own", func(c Coordination) bool { return c.Mine })
	if !c.Known || c.Broker.ID != a.Cluster().Self || c.Epoch != 1 {
		t.Fatalf("alone: %+v", c)
	}
	if got := a.Cluster().Brokers[0].Slots; got != store.GroupSlots {
		t.Fatalf("alone it has %d slots", got)
	}
	b := openEngine(t, storetest.Open(t, db))
	group := groupOf(t, b)
	at := becomes(t, a, group, "known to be the other's", func(c Coordination) bool { return c.Known && !c.Mine })
	if at.Broker.ID != b.Cluster().Self || at.Epoch != b.Coordinator(group).Epoch || at.Epoch < 2 {
		t.Fatalf("one says %+v, the other %+v", at, b.Coordinator(group))
	}
	commit := func(e *Engine, under Fence, offset int64) error {
		t.Helper()
		got, err := e.CommitOffsets(t.Context(), group, under, []Cursor{{Partition: PartitionRef{Queue: QueueRef{Name: "t"}}, Offset: offset, Epoch: -1}})
		if err == nil {
			err = got[0].Err
		}
		return err
	}
	if err := commit(b, b.Coordinator(group).Fence, 7); err != nil {
		t.Fatal(err)
	}
	// The first remembers when the group was its own: it is not heard.
	if err := commit(a, Fence{Slot: at.Slot, Epoch: 1}, 3); !errors.Is(err, ErrNotCoordinator) {
		t.Fatalf("a commit under an old epoch: %v", err)
	}
	if err := a.DeleteGroup(t.Context(), group, Fence{Slot: at.Slot, Epoch: 1}); !errors.Is(err, ErrNotCoordinator) {
		t.Fatalf("a deletion under an old epoch: %v", err)
	}
	had := b.Coordinator(group).Fence
	if err := b.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := b.Coordinator(group); c.Mine {
		t.Fatalf("after it resigned: %+v", c)
	}
	now := becomes(t, a, group, "its own again", func(c Coordination) bool { return c.Mine })
	if err := commit(b, had, 4); !errors.Is(err, ErrNotCoordinator) {
		t.Fatalf("a commit of the one that resigned: %v", err)
	}
	if got, err := a.FetchOffsets(t.Context(), group, nil); err != nil || len(got) != 1 || got[0].Offset != 7 {
		t.Fatalf("%+v, %v; want offset 7", got, err)
	}
	if err := commit(a, now.Fence, 8); err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live, err := db.LiveBrokers(t.Context()); err != nil || len(live) != 1 {
		t.Fatalf("%d brokers are listed, %v: the one that resigned came back", len(live), err)
	}
}

// A broker the database has not heard for as long as it takes to be dead acts for
// no group, whoever else lives; heard again, it goes on in the same epoch.
func TestACoordinatorThatIsNotHeardStops(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	mine := func(c Coordination) bool { return c.Mine }
	before := becomes(t, e, "g", "its own", mine)
	e.brokers.turn.Lock() // its next rounds wait
	e.brokers.mu.Lock()
	e.brokers.until = time.Now()
	e.brokers.mu.Unlock()
	if c := e.Coordinator("g"); !c.InDoubt || c.Mine || c.Known {
		t.Fatalf("in doubt: %+v", c)
	}
	e.brokers.turn.Unlock()
	if c := becomes(t, e, "g", "its own again", mine); c != before {
		t.Fatalf("it was %+v, is %+v", before, c)
	}
}
