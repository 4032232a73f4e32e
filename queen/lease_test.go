package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// popAll is a pop of several partitions.
func popAll(t *testing.T, e *Engine, r PopRequest) []Popped {
	t.Helper()
	got, err := e.Pop(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// shown lists what was popped: partition:offsets.
func shown(got []Popped) string {
	s := ""
	for _, p := range got {
		s += " " + p.Queue + "/" + p.Partition + ":"
		for _, m := range p.Messages {
			s += fmt.Sprint(m.Offset)
		}
	}
	return s
}

func TestPopOfManyPartitionsHasOneLease(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	for _, p := range []string{"a", "b", "c"} {
		pushTo(t, e, "q", p, 2)
	}
	first := popAll(t, e, PopRequest{Queue: "q", Partitions: 2, Batch: 9})
	if shown(first) != " q/a:01 q/b:01" || first[0].LeaseID == uuid.Nil || first[0].LeaseID != first[1].LeaseID {
		t.Fatalf("popped%s, %+v", shown(first), first)
	}
	rest := popAll(t, e, PopRequest{Queue: "q", Partitions: 9, Batch: 1})
	if shown(rest) != " q/c:0" {
		t.Fatalf("popped%s beside a live lease", shown(rest))
	}
	lease := first[0].LeaseID
	x, err := e.Extend(t.Context(), lease, time.Hour)
	if err != nil || x.Partitions != 2 || time.Until(x.Until) < 50*time.Minute {
		t.Fatalf("extended: %+v, %v", x, err)
	}
	ackAll(t, e, first[0], AckCompleted)
	e.Release(t.Context(), lease)
	if again := popAll(t, e, PopRequest{Queue: "q", Partitions: 9, Batch: 9}); shown(again) != " q/b:01" {
		t.Fatalf("popped%s after the rest was given back", shown(again))
	}
	if x, err = e.Extend(t.Context(), lease, 0); err != nil || x.Partitions != 0 {
		t.Fatalf("a lease that is over was extended: %+v, %v", x, err)
	}
}

// TestPopByLabels also of queues that are made while it waits.
func TestPopByLabels(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	ns, task := "n", "t"
	f := func(queue string, p OptionsPatch) {
		t.Helper()
		if _, err := e.Configure(t.Context(), queue, p); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan []Popped, 1)
	go func() {
		p, err := e.Pop(t.Context(), PopRequest{Namespace: ns, Task: task, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	f("other", OptionsPatch{Namespace: &ns})
	pushOne(t, e, "other", "x")
	f("q", OptionsPatch{Namespace: &ns, Task: &task})
	pushOne(t, e, "q", "x")
	if p := <-got; shown(p) != " q/Default:0" {
		t.Errorf("popped%s", shown(p))
	}
	if p := popAll(t, e, PopRequest{Namespace: ns, Partitions: 9, Group: "g", Batch: 9}); shown(p) != " other/Default:0 q/Default:0" {
		t.Errorf("popped%s of the namespace", shown(p))
	}
	if p := popAll(t, e, PopRequest{Queue: "other", Task: task, Group: "h"}); shown(p) != "" {
		t.Errorf("popped%s of a queue without that label", shown(p))
	}
	if _, err := e.Pop(t.Context(), PopRequest{}); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("nothing named: %v", err)
	}
}

// TestFailuresEndAsDeadLetters: the words of the API, as the database counts.
func TestFailuresEndAsDeadLetters(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	limit, delay := 1, int64(3_600_000)
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{RetryLimit: &limit}); err != nil {
		t.Fatal(err)
	}
	pushTo(t, e, "q", "a", 3)
	f := func(status AckStatus, dead bool, want string) {
		t.Helper()
		p := popBatch(t, e, PopRequest{Queue: "q", Batch: 9})
		if shown([]Popped{p}) != want {
			t.Fatalf("popped%s, want%s", shown([]Popped{p}), want)
		}
		a := e.Ack(t.Context(), []Ack{{TransactionID: p.Messages[0].TransactionID, PartitionID: p.PartitionID, LeaseID: p.LeaseID, Status: status, Reason: "a\x00b\xff"}})
		if a[0].Err != nil || a[0].Dead != dead {
			t.Fatalf("%s: %+v, want dead %v", status, a[0], dead)
		}
		e.Release(t.Context(), p.LeaseID)
	}
	f(AckFailed, false, " q/a:012")
	f(AckRetry, false, " q/a:012")
	f(AckFailed, true, " q/a:012")
	f(AckDead, true, " q/a:12")
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{RetryDelayMs: &delay}); err != nil {
		t.Fatal(err)
	}
	f(AckFailed, false, " q/a:2")
	if p := popAll(t, e, PopRequest{Queue: "q"}); len(p) != 0 {
		t.Errorf("popped%s before the delay has passed", shown(p))
	}
}

// TestWhatCanBeReadCanBeAcked: the sidecar has forgotten the ids of a backlog, and
// another broker is told.
func TestWhatCanBeReadCanBeAcked(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	for i := range 4 {
		pushOne(t, e, "q", fmt.Sprint("id-", i))
	}
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `DELETE FROM log_txns WHERE end_offset < 3`); err != nil {
		t.Fatal(err)
	}
	p := popBatch(t, e, PopRequest{Queue: "q", Batch: 2})
	outside := Ack{TransactionID: []byte("id-2"), PartitionID: p.PartitionID, LeaseID: p.LeaseID, Status: AckCompleted}
	if a := other.Ack(t.Context(), []Ack{outside}); !errors.Is(a[0].Err, ErrUnresolvable) {
		t.Errorf("aged out and outside the lease: %v", a[0].Err)
	}
	unleased := Ack{TransactionID: []byte("id-0"), PartitionID: p.PartitionID, Status: AckCompleted}
	if a := other.Ack(t.Context(), []Ack{unleased}); a[0].Err != nil {
		t.Errorf("under the live lease, which is not named: %v", a[0].Err)
	}
	ackAll(t, other, Popped{Messages: p.Messages[1:], PartitionID: p.PartitionID, LeaseID: p.LeaseID}, AckCompleted)
	if rest := popAll(t, other, PopRequest{Queue: "q", Batch: 9}); shown(rest) != " q/Default:23" {
		t.Errorf("popped%s", shown(rest))
	}
}

// TestAcksUnderALeaseThatIsOver are told so at every broker, also of messages
// that another consumer has completed meanwhile.
func TestAcksUnderALeaseThatIsOver(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pushTo(t, e, "q", "p", 3)
	late := popBatch(t, e, PopRequest{Queue: "q", Batch: 2})
	e.Release(t.Context(), late.LeaseID)
	ackAll(t, e, popBatch(t, e, PopRequest{Queue: "q", Batch: 1}), AckCompleted)
	ack := func(m StoredMessage, lease uuid.UUID) Ack {
		return Ack{TransactionID: m.TransactionID, PartitionID: late.PartitionID, LeaseID: lease, Status: AckCompleted}
	}
	other := openEngine(t, storetest.Open(t, db))
	for name, at := range map[string]*Engine{"that gave it": e, "that never heard of it": other} {
		for i, m := range late.Messages {
			a := ack(m, late.LeaseID)
			if got := at.Ack(t.Context(), []Ack{a}); !errors.Is(got[0].Err, ErrLeaseLost) {
				t.Errorf("message %d at the broker %s: %v, want ErrLeaseLost", i, name, got[0].Err)
			}
			if got := transact(t, at, Transaction{Operations: []Operation{{Ack: &a}}}); !errors.Is(got.Err, ErrLeaseLost) {
				t.Errorf("message %d in a transaction at the broker %s: %+v, want ErrLeaseLost", i, name, got)
			}
		}
	}
	got := other.Ack(t.Context(), []Ack{ack(late.Messages[0], uuid.Nil), ack(late.Messages[1], uuid.Nil)})
	if !errors.Is(got[0].Err, ErrUnresolvable) || got[1].Err != nil {
		t.Errorf("without a lease: %v and %v, want ErrUnresolvable of what was completed, and the rest done", got[0].Err, got[1].Err)
	}
}

// TestPopThatHangsUpGetsNoLease (H07): whoever comes next gets the message at
// once, with a lease and without, however close the hang-up and the push are.
func TestPopThatHangsUpGetsNoLease(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushOne(t, e, "q", "first")
	popAll(t, e, PopRequest{Queue: "q", AutoAck: true})
	for i := range 60 {
		auto := i%2 == 1
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan []Popped, 1)
		go func() {
			p, _ := e.Pop(ctx, PopRequest{Queue: "q", Wait: time.Minute, AutoAck: auto})
			left <- p
		}()
		if i < 20 {
			cancel() // before
		}
		pushed := make(chan struct{})
		go func() {
			defer close(pushed)
			pushOne(t, e, "q", fmt.Sprint("id-", i))
		}()
		if i >= 40 {
			<-pushed
		}
		cancel()
		<-pushed
		gone := <-left
		if len(gone) > 0 && auto {
			continue // it was there to the end, and has it
		}
		if len(gone) > 0 {
			e.Release(t.Context(), gone[0].LeaseID) // as the door does when it finds nobody
		}
		next := popAll(t, e, PopRequest{Queue: "q", Wait: time.Minute, Batch: 9, AutoAck: true})
		if len(next) != 1 || string(next[0].Messages[0].TransactionID) != fmt.Sprint("id-", i) {
			t.Fatalf("round %d: popped%s", i, shown(next))
		}
	}
	e.hotlist.mu.Lock()
	defer e.hotlist.mu.Unlock()
	for _, s := range e.hotlist.sets {
		if s.users != 0 || s.waiting.Len() != 0 {
			t.Errorf("%d pops and %d waiters are left", s.users, s.waiting.Len())
		}
	}
}

// A claim may give something of one queue, and find that the group is unknown at
// another. Where that cannot be mended, since its caller has gone, what was given is
// given back.
func TestClaimThatCannotSubscribeGivesBackItsLease(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushTo(t, e, "known", "a", 1)
	pushTo(t, e, "unknown", "a", 1)
	var parts []*partition
	for _, queue := range []string{"known", "unknown"} {
		p, err := e.lookupNamed(t.Context(), queue, "a")
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	if err := e.db.Subscribe(t.Context(), []int64{parts[0].queue.id}, "g", store.Subscription{}); err != nil {
		t.Fatal(err)
	}
	r := PopRequest{Namespace: "n", Group: "g", Partitions: 2, Batch: 10, MaxBytes: popBytesMax, Lease: time.Hour}
	key, err := r.key()
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.hotlist.enter(key, r.start())
	if err != nil {
		t.Fatal(err)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if got, err := e.claim(gone, &r, s, parts); err == nil {
		t.Fatalf("popped%s for a caller that has gone", shown(got))
	}
	if got := popBatch(t, e, PopRequest{Queue: "known", Group: "g"}); len(got.Messages) != 1 {
		t.Fatalf("%d messages, want the one that was given back", len(got.Messages))
	}
}

// TestParkedPopsSeeOtherBrokers: their pushes, and the end of their leases.
func TestParkedPopsSeeOtherBrokers(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db))
	got := make(chan []Popped, 1)
	pop := func() {
		p, err := e.Pop(t.Context(), PopRequest{Queue: "q", Wait: time.Minute, Lease: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- p
	}
	go pop()
	pushOne(t, other, "q", "a")
	p := <-got
	if shown(p) != " q/Default:0" {
		t.Fatalf("popped%s", shown(p))
	}
	go pop()
	pushOne(t, other, "q", "b")
	ackAll(t, other, p[0], AckRetry) // ends the lease there
	if p = <-got; shown(p) != " q/Default:0" {
		t.Fatalf("popped%s after it was given back", shown(p))
	}
	go pop()
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE cursors SET lease_until = clock_timestamp() + interval '50 ms'`); err != nil {
		t.Fatal(err)
	}
	if p = <-got; shown(p) != " q/Default:0" {
		t.Fatalf("popped%s after the lease ran out", shown(p))
	}
}

// TestWhoWaitsSeesItsGroupDeleted: it begins anew.
func TestWhoWaitsSeesItsGroupDeleted(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushTo(t, e, "q", "a", 2)
	popAll(t, e, PopRequest{Queue: "q", Group: "g", Batch: 2, AutoAck: true})
	got := make(chan []Popped, 1)
	go func() {
		p, err := e.Pop(t.Context(), PopRequest{Queue: "q", Group: "g", Batch: 9, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	if err := e.DeleteGroupFrom(t.Context(), "g", "q", true); err != nil {
		t.Fatal(err)
	}
	if p := <-got; shown(p) != " q/a:01" {
		t.Errorf("popped%s", shown(p))
	}
}

// TestSubscriptionsStart: where the first request of a group says.
func TestSubscriptionsStart(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushOne(t, e, "q", "old")
	f := func(r PopRequest, want string) {
		t.Helper()
		r.Queue, r.Batch = "q", 9
		if p := popAll(t, e, r); shown(p) != want {
			t.Errorf("%+v: popped%s, want%s", r, shown(p), want)
		}
	}
	f(PopRequest{Group: "new", FromEnd: true}, "")
	f(PopRequest{Group: "future", From: time.Now().Add(time.Hour)}, "")
	pushOne(t, e, "q", "fresh")
	f(PopRequest{Group: "new"}, " q/Default:1")
	f(PopRequest{Group: "all"}, " q/Default:01")
	f(PopRequest{Group: "since", From: time.Now().Add(-time.Hour)}, " q/Default:01")
	f(PopRequest{Group: "future"}, "")
	pushTo(t, e, "q", "born later", 1)
	f(PopRequest{Group: "new"}, " q/born later:0")
}

// TestManyWaitersShareWhatComes: each message wakes one of them, and none is left.
func TestManyWaitersShareWhatComes(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	const n = 40
	got := make(chan []Popped, n)
	for range n {
		go func() {
			p, err := e.Pop(t.Context(), PopRequest{Queue: "q", Wait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
	}
	for i := range n {
		pushTo(t, e, "q", fmt.Sprint(i), 1)
	}
	var names []string
	for range n {
		for _, p := range <-got {
			names = append(names, p.Partition)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) != n {
		t.Errorf("%d of %d were served", len(names), n)
	}
}

// TestLostAnswersOfClaimsAndAcks: what was done is found again, and counts once.
func TestLostAnswersOfClaimsAndAcks(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db)
	const group = "group whose answers are lost"
	pushTo(t, e, "q", "a", 3)
	first := popBatch(t, e, PopRequest{Queue: "q", Group: group, Batch: 2})
	e.Release(t.Context(), first.LeaseID)

	l.lose(group)
	p := popBatch(t, e, PopRequest{Queue: "q", Group: group, Batch: 2})
	if l.count() != 1 || shown([]Popped{p}) != " q/a:01" {
		t.Fatalf("%d answers were lost; popped%s, want both messages", l.count(), shown([]Popped{p}))
	}
	l.lose(group)
	a := e.Ack(t.Context(), []Ack{
		{TransactionID: p.Messages[0].TransactionID, PartitionID: p.PartitionID, LeaseID: p.LeaseID, Group: group, Status: AckCompleted},
		{TransactionID: p.Messages[1].TransactionID, PartitionID: p.PartitionID, LeaseID: p.LeaseID, Group: group, Status: AckFailed},
	})
	if l.count() != 2 || a[0].Err != nil || a[1].Err != nil {
		t.Fatalf("%d answers were lost; %+v", l.count(), a)
	}
	if n := query[int](t, db, `SELECT sum(failures) FROM retries`); n != 1 {
		t.Errorf("the failure counts %d times", n)
	}
	if p := popBatch(t, e, PopRequest{Queue: "q", Group: group, Batch: 9}); shown([]Popped{p}) != " q/a:12" {
		t.Errorf("popped%s", shown([]Popped{p}))
	}
}

// A partition whose making may have been lost is made again, by us: whoever pushes to it is told no doubt.
func TestLostAnswersOfMakingPartitions(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db)
	for lost, names := range [][]string{{"lost alone"}, {"lost with another", "another"}} {
		l.lose(names[0])
		var msgs []Message
		for _, p := range names {
			msgs = append(msgs, Message{Queue: "q", Partition: p, ID: []byte("id"), Value: []byte("1")})
		}
		for i, p := range e.Push(t.Context(), msgs) {
			if p.Err != nil || p.Offset != 0 || p.Status != Queued {
				t.Errorf("pushed to %q: %+v", names[i], p)
			}
		}
		if got := l.count(); got != lost+1 {
			t.Errorf("%d answers were lost, want %d", got, lost+1)
		}
	}
}
