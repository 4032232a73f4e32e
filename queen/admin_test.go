package queen

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store/storetest"
)

func TestTopicIsWidenedOnEveryBroker(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db), func(c *Config) { c.CatalogEvery = 1 << 50 })
	createTopic(t, e, "t", 2)
	appendBatch(t, other, at("t", 1), kafkaBatch(t, 1))
	f := func(count int, validate bool, want int, is error) {
		t.Helper()
		q, err := e.AddPartitions(t.Context(), "t", count, validate)
		if !errors.Is(err, is) || is == nil && q.Partitions != want {
			t.Fatalf("to %d (validate %v): %d partitions, %v; want %d, %v", count, validate, q.Partitions, err, want, is)
		}
	}
	f(2, false, 0, ErrInvalidPartitions)
	f(1, true, 0, ErrInvalidPartitions)
	f(-1, false, 0, ErrInvalidPartitions)
	f(5, true, 2, nil)
	f(5, false, 5, nil)
	f(5, false, 0, ErrInvalidPartitions)
	// A broker that was not told finds them when asked for them.
	for i := range int32(5) {
		appendBatch(t, other, at("t", i), kafkaBatch(t, 1))
	}
	if got, _, err := e.Partitions(t.Context(), "t", 0, 0); err != nil || len(got) != 5 || got[1].LogEnd != 2 || got[4].LogEnd != 1 || got[4].Name != "4" {
		t.Fatalf("partitions %+v, %v", got, err)
	}
	page := func(from, limit int, want []int32, wantNext int) {
		t.Helper()
		got, next, err := e.Partitions(t.Context(), "t", from, limit)
		var numbers []int32
		for _, p := range got {
			numbers = append(numbers, int32(p.Number))
		}
		if err != nil || next != wantNext || !slices.Equal(numbers, want) {
			t.Fatalf("page from %d of %d: %v, next %d, %v; want %v, %d", from, limit, numbers, next, err, want, wantNext)
		}
	}
	page(0, 2, []int32{0, 1}, 2)
	page(2, 3, []int32{2, 3, 4}, 0)
	page(4, 0, []int32{4}, 0)
	page(5, 2, nil, 0)
	page(math.MaxInt32, 2, nil, 0)
	if _, err := e.AddPartitions(t.Context(), "absent", 5, false); !errors.Is(err, ErrUnknownQueue) {
		t.Fatalf("a queue that is not there: %v", err)
	}
	pushOne(t, e, "native", "a")
	if _, err := e.AddPartitions(t.Context(), "native", 5, false); !errors.Is(err, ErrInvalidRequest) {
		t.Fatalf("a native queue: %v", err)
	}
}

func TestTruncateHidesWhatIsBelow(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	createTopic(t, e, "t", 1)
	for range 4 {
		appendBatch(t, e, at("t", 0), kafkaBatch(t, 5))
		appendBatch(t, other, at("t", 0), kafkaBatch(t, 5)) // both have a tail
	}
	f := func(before, want int64, is error) {
		t.Helper()
		got := e.Truncate(t.Context(), []Truncation{{Partition: at("t", 0), Before: before}})[0]
		if !errors.Is(got.Err, is) || got.LogStart != want {
			t.Fatalf("before %d: %+v, want %d, %v", before, got, want, is)
		}
	}
	f(41, -1, ErrOffsetOutOfRange)
	f(-2, -1, ErrOffsetOutOfRange)
	f(12, 12, nil)
	f(3, 12, nil) // never back
	f(12, 12, nil)
	for name, b := range map[string]*Engine{"here": e, "fresh": openEngine(t, storetest.Open(t, db))} {
		for offset, bad := range map[int64]bool{11: true, 12: false} {
			got, err := b.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at("t", 0), Offset: offset, CurrentEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
			if err != nil || errors.Is(got[0].Err, ErrOffsetOutOfRange) != bad {
				t.Fatalf("%s, offset %d: %v, %v", name, offset, got[0].Err, err)
			}
		}
	}
	if got := fetchFrom(t, e, "t", "0", 12); len(got) != 28 || got[0].Offset != 12 {
		t.Fatalf("%d messages from %d on, want 28 from 12", len(got), got[0].Offset)
	}
	f(ToLogEnd, 40, nil)
	f(ToLogEnd, 40, nil)
	if got := appendBatch(t, other, at("t", 0), kafkaBatch(t, 1)); got.BaseOffset != 40 || got.LogStart != 40 {
		t.Fatalf("%+v, want the offsets to go on", got)
	}
	if got := e.Truncate(t.Context(), []Truncation{{Partition: at("t", 7)}, {Partition: at("none", 0)}}); !errors.Is(got[0].Err, ErrUnknownPartition) || !errors.Is(got[1].Err, ErrUnknownQueue) {
		t.Fatalf("%+v", got)
	}
}

// TestTruncateForgetsNoID: a duplicate whose original was deleted is still one.
func TestTruncateForgetsNoID(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	first := pushOne(t, e, "q", "a")
	if got := e.Truncate(t.Context(), []Truncation{{Partition: at("q", 0), Before: ToLogEnd}})[0]; got.Err != nil || got.LogStart != 1 {
		t.Fatalf("%+v", got)
	}
	if again := pushOne(t, e, "q", "a"); again.Status != Duplicate || again.Offset != first.Offset || again.MessageID != uuid.Nil {
		t.Fatalf("%+v, want a duplicate at %d without an id", again, first.Offset)
	}
}

func TestGroupsAreListedAndDeleted(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	createTopic(t, e, "t", 2)
	createTopic(t, e, "gone", 1)
	commit := func(group, queue string, partition int32) {
		t.Helper()
		got, err := e.CommitOffsets(t.Context(), group, e.Coordinator(group).Fence, []Cursor{{Partition: at(queue, partition), Offset: 5, Epoch: -1}})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
	}
	commit("b", "t", 0)
	commit("b", "t", 1)
	commit("a", "t", 1)
	commit("of the deleted", "gone", 0)
	if _, err := e.DeleteQueue(t.Context(), QueueRef{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	pushOne(t, e, "n", "1")
	leased := popBatch(t, e, PopRequest{Queue: "n", Group: "native", Lease: time.Hour})
	popBatch(t, e, PopRequest{Queue: "n", Lease: time.Hour}) // of no group
	wantGroups := func(want ...string) {
		t.Helper()
		if got, err := e.Groups(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("groups %q, %v; want %q", got, err, want)
		}
	}
	wantGroups("a", "b", "native")
	offsets := func(group string) (out []string) {
		t.Helper()
		cs, err := e.FetchOffsets(t.Context(), group, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cs {
			out = append(out, fmt.Sprint(c.Partition.Queue.Name, "/", c.Partition.Number))
		}
		return out
	}
	errs, err := e.DeleteOffsets(t.Context(), "b", e.Coordinator("b").Fence, []PartitionRef{at("t", 1), at("t", 9), at("none", 0), at("n", 0)})
	if err != nil || errs[0] != nil || !errors.Is(errs[1], ErrUnknownPartition) || !errors.Is(errs[2], ErrUnknownQueue) || errs[3] != nil {
		t.Fatalf("%v, %v", errs, err)
	}
	if got := offsets("b"); !slices.Equal(got, []string{"t/0"}) {
		t.Fatalf("left are %q", got)
	}
	if got := offsets("a"); !slices.Equal(got, []string{"t/1"}) {
		t.Fatalf("of another group are left %q", got)
	}
	if err := e.DeleteGroup(t.Context(), "native", e.Coordinator("native").Fence); !errors.Is(err, ErrGroupNotEmpty) {
		t.Fatalf("with a lease: %v", err)
	}
	ackAll(t, e, leased, AckCompleted)
	for _, name := range []string{"native", "b"} {
		if err := e.DeleteGroup(t.Context(), name, e.Coordinator(name).Fence); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := e.DeleteGroup(t.Context(), name, e.Coordinator(name).Fence); !errors.Is(err, ErrUnknownGroup) {
			t.Fatalf("%s again: %v", name, err)
		}
	}
	wantGroups("a")
	// A native group starts over at the log's start.
	if got := popBatch(t, e, PopRequest{Queue: "n", Group: "native"}); len(got.Messages) != 1 || got.Messages[0].Offset != 0 {
		t.Fatalf("%+v, want the first message again", got.Messages)
	}
}

func TestQueueLabelsAreOptions(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	ns, task := "billing", "invoice"
	f := func(p OptionsPatch, wantNS, wantTask string) {
		t.Helper()
		if _, err := e.Configure(t.Context(), "q", p); err != nil {
			t.Fatal(err)
		}
		all, err := other.AllQueues(t.Context())
		if err != nil || len(all) != 1 || all[0].Options.Namespace != wantNS || all[0].Options.Task != wantTask {
			t.Errorf("after %+v: %+v, %v; want %q and %q", p, all, err, wantNS, wantTask)
		}
	}
	f(OptionsPatch{Namespace: &ns, Task: &task}, ns, task)
	f(OptionsPatch{Merge: true}, ns, task)
	f(OptionsPatch{Task: &task}, "", task)
	f(OptionsPatch{}, "", "")
	bad := "a\nb"
	for _, p := range []OptionsPatch{{Namespace: &bad}, {Task: &bad}} {
		if _, err := e.Configure(t.Context(), "q", p); !errors.Is(err, ErrInvalidName) {
			t.Errorf("%+v: %v, want ErrInvalidName", p, err)
		}
	}
}

// The list of all queues is kept, and never older than what was answered before.
func TestAllQueuesIsAsNewAsTheDatabase(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	a, b := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	names := func(e *Engine) (out []string) {
		t.Helper()
		all, err := e.AllQueues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range all {
			out = append(out, fmt.Sprintf("%s %d %d", q.Name, q.Partitions, q.Options.RetentionMs))
		}
		return out
	}
	check := func(want ...string) {
		t.Helper()
		for i, e := range []*Engine{a, b, a} {
			if got := names(e); !slices.Equal(got, want) {
				t.Errorf("broker %d lists %v, want %v", i, got, want)
			}
		}
	}
	check()
	createTopic(t, a, "t", 1)
	check("t 1 604800000")
	if _, err := b.AddPartitions(t.Context(), "t", 2, false); err != nil {
		t.Fatal(err)
	}
	check("t 2 604800000")
	pushOne(t, b, "q", "")
	check("q 1 -1", "t 2 604800000")
	ms := int64(5)
	if _, err := a.Configure(t.Context(), "q", OptionsPatch{Merge: true, RetentionMs: &ms}); err != nil {
		t.Fatal(err)
	}
	check("q 1 5", "t 2 604800000")
	if _, err := b.DeleteQueue(t.Context(), QueueRef{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	check("q 1 5")
}
