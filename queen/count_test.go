package queen

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// TestCountsAreTheSameInAnySteps: a group may have its positions in one of the steps and
// owe all of the others; pages are what one answer would be.
func TestCountsAreTheSameInAnySteps(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	whole, small := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	small.steps = countSteps{1, 1, 1}
	for _, q := range []string{"p", "q", "r"} {
		for i := range 5 {
			pushTo(t, whole, q, fmt.Sprint("part", i), i)
		}
	}
	createTopic(t, whole, "none", 3) // nothing in it
	// "first" and "last" are in one partition of q each, "all" in every one, "late" has a subscription
	// alone. First's position is a Kafka client's, so it has none.
	commit := func(group string, cs ...Cursor) {
		t.Helper()
		if _, err := whole.CommitOffsets(t.Context(), group, Fence{}, cs); err != nil {
			t.Fatal(err)
		}
	}
	commit("first", Cursor{Partition: at("q", 0), Offset: 1, Epoch: -1})
	// Each is where the other one is not, and at the end there.
	commit("x", Cursor{Partition: at("r", 0), Offset: 1, Epoch: -1})
	commit("y", Cursor{Partition: at("r", 1), Offset: 2, Epoch: -1}, Cursor{Partition: at("r", 2), Offset: 3, Epoch: -1}, Cursor{Partition: at("r", 3), Offset: 4, Epoch: -1})
	pops := []PopRequest{
		{Queue: "q", Partition: "part4", Group: "last", Batch: 3},
		{Queue: "p", Group: "late", FromEnd: true},
	}
	for i := 1; i < 5; i++ {
		pops = append(pops, PopRequest{Queue: "q", Partition: fmt.Sprint("part", i), Group: "all", Batch: 1, AutoAck: true})
	}
	for _, r := range pops {
		popBatch(t, whole, r)
	}
	pushTo(t, whole, "p", "part2", 2)

	want, err := whole.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := func(c *Count) string {
		s := ""
		for _, q := range c.Queues {
			s += fmt.Sprintf("%+v\n", q)
		}
		for _, g := range c.Groups {
			g.OldestAge = 0 // as of another moment
			s += fmt.Sprintf("%+v\n", g)
		}
		return s
	}
	if got, err := small.Count(t.Context()); err != nil || text(got) != text(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, text(got), text(want))
	}
	if q := want.Queues[slices.IndexFunc(want.Queues, func(q QueueTotals) bool { return q.Queue == "q" })]; q !=
		(QueueTotals{Queue: "q", Partitions: 4, Messages: 10, Pending: 10, Groups: 3}) { // "last" owes 1, 2 and 3, "first" the 4
		t.Errorf("q: %+v", q)
	}
	if got, err := small.CountQueue(t.Context(), "q"); err != nil || len(got.Queues) != 1 || len(got.Groups) != 3 {
		t.Errorf("q alone: %+v, %v", got, err)
	}

	lags := func(all []PartitionLag) string {
		s := ""
		for _, l := range all {
			l.OldestAge = 0
			s += fmt.Sprintf("%+v\n", l)
		}
		return s
	}
	longest, _, err := whole.Lagging(t.Context(), 0)
	if err != nil || len(longest) != 15 {
		t.Errorf("%d partitions lag, %v; want 3 each of all, first and x, 4 of last, one of late and y:\n%s", len(longest), err, lags(longest))
	}
	if got, at, err := small.Lagging(t.Context(), 0); err != nil || lags(got) != lags(longest) || time.Since(at) > time.Minute {
		t.Errorf("%v\n%s\nwant\n%s", err, lags(got), lags(longest))
	}

	for _, queue := range []string{"", "q", "p"} {
		all, err := whole.GroupPositions(t.Context(), PositionsQuery{Group: "all", Queue: queue})
		if err != nil || all.More {
			t.Fatal(all, err)
		}
		var paged []PartitionLag
		pages := 0
		for page := (&PositionsPage{More: true}); page.More; pages++ {
			if page, err = whole.GroupPositions(t.Context(), PositionsQuery{
				Group: "all", Queue: queue, Limit: 3, FromQueue: page.NextQueue, From: page.Next,
			}); err != nil || len(page.Partitions) == 0 {
				t.Fatal(page, err)
			}
			paged = append(paged, page.Partitions...)
		}
		if lags(paged) != lags(all.Partitions) || pages != 2 {
			t.Errorf("queue %q in %d pages:\n%swant\n%s", queue, pages, lags(paged), lags(all.Partitions))
		}
	}
	for _, group := range []*string{nil, new(string)} {
		all, next, err := whole.Depth(t.Context(), "q", group, 0, 0)
		if err != nil || next != 0 || len(all) != 4 {
			t.Fatal(all, next, err)
		}
		var paged []Depth
		for more := true; more; more = next > 0 {
			var page []Depth
			if page, next, err = whole.Depth(t.Context(), "q", group, next, 1); err != nil {
				t.Fatal(err)
			}
			paged = append(paged, page...)
		}
		if !slices.Equal(paged, all) {
			t.Errorf("depth in pages %v, want %v", paged, all)
		}
	}
}
