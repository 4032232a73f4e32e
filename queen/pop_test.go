package queen

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"queenmq/store/storetest"
)

func popBatch(t *testing.T, e *Engine, r PopRequest) Popped {
	t.Helper()
	got, err := e.Pop(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 {
		return Popped{}
	}
	return got[0]
}

func ackAll(t *testing.T, e *Engine, p Popped, status AckStatus) {
	t.Helper()
	var acks []Ack
	for _, m := range p.Messages {
		acks = append(acks, Ack{TransactionID: m.TransactionID, PartitionID: p.PartitionID, LeaseID: p.LeaseID, Group: p.Group, Status: status})
	}
	for i, a := range e.Ack(t.Context(), acks) {
		if a.Err != nil {
			t.Fatalf("ack %q: %v", acks[i].TransactionID, a.Err)
		}
	}
}

// TestKafkaRecordsArePoppedWithMintedIDs is the shape both doors share: identical
// records of a Kafka client are all stored, each with an id that can be acked.
func TestKafkaRecordsArePoppedWithMintedIDs(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	createTopic(t, e, "t", 1)
	for range 10 {
		appendBatch(t, e, at("t", 0), kafkaBatch(t, 100))
	}
	ids := map[string]bool{}
	for len(ids) < 1000 {
		got := popBatch(t, e, PopRequest{Queue: "t", Group: "g", Batch: 300})
		if len(got.Messages) == 0 {
			t.Fatalf("nothing more after %d messages", len(ids))
		}
		for _, m := range got.Messages {
			if string(m.TransactionID) != m.ID.String() || ids[m.ID.String()] {
				t.Fatalf("offset %d: transactionId %s, id %s", m.Offset, m.TransactionID, m.ID)
			}
			ids[m.ID.String()] = true
		}
		// Another broker knows no lease of this one's: the sidecar says where the ids lie.
		ackAll(t, other, got, AckCompleted)
	}
	if got := popBatch(t, e, PopRequest{Queue: "t", Group: "g", Batch: 10}); len(got.Messages) != 0 {
		t.Fatalf("%d messages after the last was completed", len(got.Messages))
	}
}

// A pop with AutoAck that cannot be completed is answered with an error, and what it
// was given is there for the next one, not when its lease has run out.
func TestPopThatCannotBeCompletedGivesBack(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pool := storetest.Pool(t, db)
	pushTo(t, e, "q", "a", 3)
	for _, sql := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no completion'; END $$`,
		`CREATE TRIGGER refuse BEFORE UPDATE ON cursors FOR EACH ROW WHEN (NEW.next_offset > OLD.next_offset) EXECUTE FUNCTION refuse()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := e.Pop(t.Context(), PopRequest{Queue: "q", Batch: 2, AutoAck: true}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("popped%s, %v; want an error", shown(got), err)
	}
	if _, err := pool.Exec(t.Context(), `DROP TRIGGER refuse ON cursors`); err != nil {
		t.Fatal(err)
	}
	if got := popBatch(t, e, PopRequest{Queue: "q", Batch: 3, AutoAck: true}); shown([]Popped{got}) != " q/a:012" {
		t.Errorf("popped%s, want all three", shown([]Popped{got}))
	}
}

func TestPopLeasesAndRedelivers(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	for i := range 4 {
		pushOne(t, e, "q", fmt.Sprint("id-", i))
	}
	first := popBatch(t, e, PopRequest{Queue: "q", Batch: 3})
	if len(first.Messages) != 3 {
		t.Fatalf("%d messages, want 3", len(first.Messages))
	}
	if got := popBatch(t, e, PopRequest{Queue: "q", Batch: 3}); len(got.Messages) != 0 {
		t.Fatalf("%d messages beside a live lease of the partition", len(got.Messages))
	}
	// Another group is not concerned.
	if got := popBatch(t, e, PopRequest{Queue: "q", Group: "g", Batch: 9, AutoAck: true}); len(got.Messages) != 4 {
		t.Fatalf("%d messages for another group, want 4", len(got.Messages))
	}
	middle := Popped{Messages: first.Messages[1:2], PartitionID: first.PartitionID, LeaseID: first.LeaseID}
	ackAll(t, e, middle, AckCompleted)
	ackAll(t, e, Popped{Messages: first.Messages[:1], PartitionID: first.PartitionID, LeaseID: first.LeaseID}, AckRetry)
	again := popBatch(t, e, PopRequest{Queue: "q", Batch: 9})
	var offsets []int64
	for _, m := range again.Messages {
		offsets = append(offsets, m.Offset)
	}
	if fmt.Sprint(offsets) != "[0 2 3]" {
		t.Fatalf("redelivered %v, want all but the completed one", offsets)
	}
	late := e.Ack(t.Context(), []Ack{{TransactionID: []byte("id-2"), PartitionID: first.PartitionID, LeaseID: first.LeaseID, Status: AckCompleted}})
	if !errors.Is(late[0].Err, ErrLeaseLost) {
		t.Fatalf("late ack: %v, want lease lost", late[0].Err)
	}
	unknown := e.Ack(t.Context(), []Ack{{TransactionID: []byte("nobody"), PartitionID: first.PartitionID, LeaseID: again.LeaseID, Status: AckCompleted}})
	if !errors.Is(unknown[0].Err, ErrUnresolvable) {
		t.Fatalf("ack of an unknown id: %v, want unresolvable", unknown[0].Err)
	}
}

func TestPopWaitsForTheQueueAndItsFirstMessage(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	got := make(chan []Popped, 1)
	go func() {
		p, err := e.Pop(t.Context(), PopRequest{Queue: "q", Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	pushOne(t, e, "q", "a")
	if p := <-got; len(p) != 1 || len(p[0].Messages) != 1 || string(p[0].Messages[0].TransactionID) != "a" {
		t.Fatalf("%+v, want the message", p)
	}
}

func TestGroupsPositionIsSharedByBothDoors(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	for i := range 5 {
		pushOne(t, e, "q", fmt.Sprint("id-", i))
	}
	if _, err := e.CommitOffsets(t.Context(), "g", e.Coordinator("g").Fence, []Cursor{{Partition: at("q", 0), Offset: 3, Epoch: -1}}); err != nil {
		t.Fatal(err)
	}
	p := popBatch(t, e, PopRequest{Queue: "q", Group: "g", Batch: 1})
	if len(p.Messages) != 1 || p.Messages[0].Offset != 3 {
		t.Fatalf("%+v, want offset 3 after a Kafka commit of it", p.Messages)
	}
	ackAll(t, e, p, AckCompleted)
	c, err := e.FetchOffsets(t.Context(), "g", []PartitionRef{at("q", 0)})
	if err != nil || c[0].Offset != 4 {
		t.Fatalf("%+v, %v; want 4 after the native ack", c, err)
	}
}

// TestACommitTheLogDoesNotHaveHidesNothing: a Kafka client may commit any position,
// and is told by Fetch where it is wrong. Native consumers are told by nobody.
func TestACommitTheLogDoesNotHaveHidesNothing(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	commit := func(group string, offset int64) {
		t.Helper()
		cs, err := e.CommitOffsets(t.Context(), group, e.Coordinator(group).Fence, []Cursor{{Partition: at("q", 0), Offset: offset, Epoch: -1}})
		if err != nil || cs[0].Err != nil {
			t.Fatal(cs, err)
		}
	}
	committed := func(group string, want int64) {
		t.Helper()
		c, err := e.FetchOffsets(t.Context(), group, []PartitionRef{at("q", 0)})
		if err != nil || c[0].Offset != want {
			t.Errorf("group %q: %+v, %v; want position %d", group, c, err, want)
		}
	}
	given := func(group, want string) Popped {
		t.Helper()
		p := popBatch(t, e, PopRequest{Queue: "q", Group: group, Batch: 9})
		var offsets []int64
		for _, m := range p.Messages {
			offsets = append(offsets, m.Offset)
		}
		if fmt.Sprint(offsets) != want {
			t.Errorf("group %q was given %v, want %s", group, offsets, want)
		}
		return p
	}
	pushTo(t, e, "q", "Default", 3)
	for _, group := range []string{"far", "acks", "leased"} {
		commit(group, 5)
		committed(group, 5)
		given(group, "[]")
	}
	commit("lowest", math.MinInt64)
	committed("lowest", math.MinInt64)
	far := "far"
	if got := depthOf(t, e, "q", &far); got != " Default=0" {
		t.Errorf("at the end: depth%s", got)
	}
	pushTo(t, e, "q", "Default", 4)
	if got := depthOf(t, e, "q", &far); got != " Default=4" {
		t.Errorf("depth%s, want what was written since the commit", got)
	}
	committed("far", 5) // as long as nobody else moved it
	p := given("far", "[3 4 5 6]")
	committed("far", 3)
	ackAll(t, e, p, AckCompleted)
	committed("far", 7)
	given("lowest", "[0 1 2 3 4 5 6]")

	// Without a lease: what is acknowledged must count, and what is not must come.
	seen := given("lowest2", "[0 1 2 3 4 5 6]")
	ack := e.Ack(t.Context(), []Ack{{TransactionID: seen.Messages[4].TransactionID, PartitionID: seen.PartitionID, Group: "acks", Status: AckCompleted}})
	if ack[0].Err != nil {
		t.Fatal(ack[0].Err)
	}
	committed("acks", 3)
	given("acks", "[3 5 6]")

	given("leased", "[3 4 5 6]")

	// What is gone is passed by, and no more.
	commit("below", 1)
	if got := e.Truncate(t.Context(), []Truncation{{Partition: at("q", 0), Before: 6}}); got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	committed("below", 1)
	given("below", "[6]")
}
