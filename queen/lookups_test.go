package queen

import (
	"errors"
	"fmt"
	"testing"
)

// A request that names what does not exist asks for all of it in few statements, and
// answers each item as one that names it alone.
func TestWhatDoesNotExistIsAskedForOnce(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db)
	createTopic(t, e, "t", 2)
	appendBatch(t, e, at("t", 1), kafkaBatch(t, 3))
	const n = lookupsStep + 100
	var items []ReadItem
	ask := func(p PartitionRef) {
		items = append(items, ReadItem{Partition: p, MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1})
	}
	for i := range n {
		ask(at(fmt.Sprint("nobody-", i), 0))
		ask(at(fmt.Sprint("nobody-", i), 1))
		ask(at("t", int32(2+i)))
	}
	ask(at("t", -1))
	ask(at("t", 1))
	names := l.watch("nobody-")
	q, err := e.catalog.queue(t.Context(), QueueRef{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	topics := l.watch(string(q.topic[:]))
	answers, err := e.Read(t.Context(), ReadRequest{Items: items, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		switch ref := items[i].Partition; {
		case ref.Queue.Name != "t":
			if !errors.Is(a.Err, ErrUnknownQueue) {
				t.Fatalf("%v: %v, want an unknown queue", ref, a.Err)
			}
		case ref.Number != 1:
			if !errors.Is(a.Err, ErrUnknownPartition) {
				t.Fatalf("%v: %v, want an unknown partition", ref, a.Err)
			}
		case a.Err != nil || len(a.Batches) != 1:
			t.Errorf("%v: %d batches, %v, want the one it has", ref, len(a.Batches), a.Err)
		}
	}
	if names() == 0 || names() > 10 || topics() == 0 || topics() > 10 {
		t.Errorf("%d and %d messages to the database ask for what does not exist", names(), topics())
	}
	createTopic(t, e, "nobody-7", 1) // nobody remembers that it was not there
	if a, err := e.Read(t.Context(), ReadRequest{Items: items[:1], MaxBytes: 1}); err != nil || !errors.Is(a[0].Err, ErrUnknownQueue) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := e.Read(t.Context(), ReadRequest{Items: items[3*7 : 3*7+1], MaxBytes: 1}); err != nil || a[0].Err != nil {
		t.Errorf("%+v, %v, want the queue that is there by now", a, err)
	}
}
