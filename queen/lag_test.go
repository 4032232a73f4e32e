package queen

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// pushTo pushes n messages to a partition.
func pushTo(t *testing.T, e *Engine, queue, partition string, n int) {
	t.Helper()
	for range n {
		if got := e.Push(t.Context(), []Message{{Queue: queue, Partition: partition, Value: []byte("1")}}); got[0].Err != nil {
			t.Fatal(got[0].Err)
		}
	}
}

func depthOf(t *testing.T, e *Engine, queue string, group *string) string {
	t.Helper()
	got, next, err := e.Depth(t.Context(), queue, group, 0, 0)
	if err != nil || next != 0 {
		t.Fatal(next, err)
	}
	text := ""
	for _, d := range got {
		text += fmt.Sprintf(" %s=%d", d.Partition, d.Pending)
	}
	return text
}

// TestLagCountsWhatAGroupOwes: completed ahead is not owed, a partition without a
// position is owed whole, and a group subscribed to new messages owes only those.
func TestLagCountsWhatAGroupOwes(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	none, g, late := "", "g", "late"
	pushTo(t, e, "q", "a", 5)
	if got := depthOf(t, other, "q", nil); got != " a=5" {
		t.Fatalf("without a group: depth%s, want all that is stored", got)
	}
	if got := depthOf(t, other, "q", &g); got != " a=5" {
		t.Fatalf("a group that was never here: depth%s", got)
	}
	if got := popBatch(t, e, PopRequest{Queue: "q", Group: late, FromEnd: true}); len(got.Messages) != 0 {
		t.Fatalf("%d messages from before the subscription", len(got.Messages))
	}
	pushTo(t, e, "q", "b", 2)
	batch := popBatch(t, e, PopRequest{Queue: "q", Partition: "a", Group: g, Batch: 4})
	ackAll(t, e, Popped{Messages: batch.Messages[:1], PartitionID: batch.PartitionID, LeaseID: batch.LeaseID, Group: g}, AckCompleted)
	ackAll(t, e, Popped{Messages: batch.Messages[2:3], PartitionID: batch.PartitionID, LeaseID: batch.LeaseID, Group: g}, AckCompleted)
	popBatch(t, e, PopRequest{Queue: "q", Partition: "a", Batch: 9, AutoAck: true})

	f := func(group *string, want string) {
		t.Helper()
		if got := depthOf(t, other, "q", group); got != want {
			t.Errorf("depth%s, want%s", got, want)
		}
	}
	f(&g, " a=3 b=2")
	f(&late, " a=0 b=2")
	f(&none, " a=0 b=2")
	f(nil, " a=3 b=2")

	page, err := other.GroupPositions(t.Context(), PositionsQuery{Group: g})
	if err != nil || len(page.Partitions) != 2 || page.More {
		t.Fatalf("%+v, %v", page, err)
	}
	ps := page.Partitions
	if a := ps[0]; !a.Known || a.Position != 1 || fmt.Sprint(a.Ahead) != "[2]" || a.LeaseEnd != 3 || a.LogEnd != 5 || a.OldestAge < 0 || a.OldestAt.IsZero() {
		t.Errorf("partition a: %+v", a)
	}
	if b := ps[1]; b.Known || b.Position != 0 || b.LeaseEnd != -1 || b.Pending != 2 {
		t.Errorf("partition b: %+v", b)
	}
	count, err := other.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, l := range count.Groups {
		text += fmt.Sprintf("%q %s: %d of %d, %d behind by %d, %d leased\n", l.Group, l.Queue, l.Positions, l.Partitions, l.Behind, l.Pending, l.Leases)
	}
	want := `"" q: 1 of 2, 1 behind by 2, 0 leased
"g" q: 1 of 2, 2 behind by 5, 1 leased
"late" q: 0 of 2, 1 behind by 2, 0 leased
`
	if text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	if totals := count.Queues; len(totals) != 1 || totals[0] != (QueueTotals{Queue: "q", Partitions: 2, Messages: 7, Pending: 5, Groups: 3}) {
		t.Errorf("totals %+v", totals)
	}
	all, _, err := other.Lagging(t.Context(), 0)
	if err != nil || len(all) != 4 {
		t.Errorf("lagging at once: %+v, %v; want the four partitions that owe something", all, err)
	}
	if none, _, err := other.Lagging(t.Context(), time.Hour); err != nil || len(none) != 0 {
		t.Errorf("lagging for an hour: %+v, %v", none, err)
	}
	if _, _, err := e.Depth(t.Context(), "nope", nil, 0, 0); !errors.Is(err, ErrUnknownQueue) {
		t.Errorf("depth of nothing: %v", err)
	}
}

func TestSeekMovesAGroup(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db), func(c *Config) { c.CatalogEvery = 1 << 50 })
	pushTo(t, e, "q", "a", 3)
	// other knows the queue as it is now, and finds b by itself.
	depthOf(t, other, "q", nil)
	pushTo(t, e, "q", "b", 2)
	leased := popBatch(t, e, PopRequest{Queue: "q", Partition: "a", Group: "g", Batch: 2})
	first := leased.Messages[0].Timestamp

	f := func(partition string, to SeekTo, want string) {
		t.Helper()
		got, err := other.Seek(t.Context(), "g", "q", partition, to)
		text := ""
		for _, s := range got {
			text += fmt.Sprintf(" %s=%d", s.Partition, s.Offset)
		}
		if err != nil || text != want {
			t.Errorf("to %+v:%s, %v; want%s", to, text, err, want)
		}
	}
	offset := func(n int64) SeekTo { return SeekTo{Offset: &n} }
	f("", SeekTo{End: true}, " a=3 b=2")
	// The lease is lost: what was under it is not completed by a late ack.
	late := e.Ack(t.Context(), []Ack{{TransactionID: leased.Messages[0].TransactionID, PartitionID: leased.PartitionID, LeaseID: leased.LeaseID, Group: "g", Status: AckCompleted}})
	if !errors.Is(late[0].Err, ErrLeaseLost) {
		t.Errorf("ack after the seek: %v, want lease lost", late[0].Err)
	}
	f("", SeekTo{Time: first}, " a=0 b=0")
	f("", SeekTo{Time: time.Now().Add(24 * time.Hour)}, " a=3 b=2")
	f("", SeekTo{Start: true}, " a=0 b=0")
	f("a", offset(2), " a=2")
	if got := popBatch(t, e, PopRequest{Queue: "q", Partition: "a", Group: "g", Batch: 9}); len(got.Messages) != 1 || got.Messages[0].Offset != 2 {
		t.Errorf("popped %+v, want offset 2", got.Messages)
	}
	for _, n := range []int64{-1, 4} {
		if _, err := e.Seek(t.Context(), "g", "q", "a", offset(n)); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("to offset %d: %v", n, err)
		}
	}
	if _, err := e.Seek(t.Context(), "g", "nope", "", SeekTo{End: true}); !errors.Is(err, ErrUnknownQueue) {
		t.Errorf("in no queue: %v", err)
	}
	if _, err := e.Seek(t.Context(), "g", "q", "nope", SeekTo{End: true}); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("in no partition: %v", err)
	}
	if _, err := e.Seek(t.Context(), "a\nb", "q", "", SeekTo{End: true}); !errors.Is(err, ErrInvalidGroup) {
		t.Errorf("a bad name: %v", err)
	}
}

// TestWhoWaitsSeesASeekBack: somebody who waits at the end is served then.
func TestWhoWaitsSeesASeekBack(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushTo(t, e, "q", "a", 1)
	popBatch(t, e, PopRequest{Queue: "q", Group: "g", AutoAck: true})
	got := make(chan []Popped, 1)
	go func() {
		p, err := e.Pop(t.Context(), PopRequest{Queue: "q", Group: "g", Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	if _, err := e.Seek(t.Context(), "g", "q", "", SeekTo{Start: true}); err != nil {
		t.Fatal(err)
	}
	if p := <-got; len(p) != 1 || len(p[0].Messages) != 1 || p[0].Messages[0].Offset != 0 {
		t.Errorf("%+v", p)
	}
}

func TestGroupIsDeletedFromOneQueue(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	for _, q := range []string{"p", "q"} {
		pushTo(t, e, q, "a", 2)
		popBatch(t, e, PopRequest{Queue: q, Group: "g", Batch: 2, FromEnd: true})
		pushTo(t, e, q, "a", 1)
		popBatch(t, e, PopRequest{Queue: q, Group: "g", Batch: 2, AutoAck: true})
	}
	f := func(queue string, subscriptions bool, want error) {
		t.Helper()
		if err := e.DeleteGroupFrom(t.Context(), "g", queue, subscriptions); !errors.Is(err, want) {
			t.Errorf("delete from %q: %v, want %v", queue, err, want)
		}
	}
	g := "g"
	f("q", false, nil)
	if got := depthOf(t, e, "q", &g); got != " a=1" {
		t.Errorf("its subscription was kept: depth%s, want what came since", got)
	}
	f("q", true, nil)
	if got := depthOf(t, e, "q", &g); got != " a=3" {
		t.Errorf("its subscription is gone: depth%s, want all", got)
	}
	if got := depthOf(t, e, "p", &g); got != " a=0" {
		t.Errorf("the other queue: depth%s", got)
	}
	f("q", true, ErrUnknownGroup)
	f("nope", true, ErrUnknownQueue)
	leased := popBatch(t, e, PopRequest{Queue: "q", Group: "g"})
	f("q", true, ErrGroupNotEmpty)
	f("", true, ErrGroupNotEmpty)
	ackAll(t, e, leased, AckCompleted)
	f("", true, nil)
	f("", true, ErrUnknownGroup)
	// The group-less mode is a group without a name.
	popBatch(t, e, PopRequest{Queue: "q", AutoAck: true})
	if err := e.DeleteGroupFrom(t.Context(), "", "q", true); err != nil {
		t.Error(err)
	}
}

func TestSubscriptionIsMoved(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushTo(t, e, "q", "a", 2)
	if got := popBatch(t, e, PopRequest{Queue: "q", Group: "g", Batch: 9, FromEnd: true}); len(got.Messages) != 0 {
		t.Fatalf("%d messages from before the subscription", len(got.Messages))
	}
	if err := e.SetSubscription(t.Context(), "g", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	got := popBatch(t, e, PopRequest{Queue: "q", Group: "g", Batch: 9, AutoAck: true})
	if len(got.Messages) != 2 {
		t.Fatalf("%d messages after the subscription was moved back, want 2", len(got.Messages))
	}
	// Now it has a position, which stays.
	if err := e.SetSubscription(t.Context(), "g", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if got := popBatch(t, e, PopRequest{Queue: "q", Group: "g", Batch: 9}); len(got.Messages) != 0 {
		t.Errorf("%d messages again", len(got.Messages))
	}
	if err := e.SetSubscription(t.Context(), "nobody", time.Unix(0, 0)); !errors.Is(err, ErrUnknownGroup) {
		t.Errorf("of nobody: %v", err)
	}
}
