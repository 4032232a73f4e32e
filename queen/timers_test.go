package queen

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store/storetest"
)

func schedule(t *testing.T, e *Engine, ops ...TimerOp) []TimerResult {
	t.Helper()
	got, err := e.Timers(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// pending lists a queue's timers.
func pending(t *testing.T, e *Engine, queue string) []PendingTimer {
	t.Helper()
	page, more, err := e.ListTimers(t.Context(), queue, "", 0)
	if err != nil || more {
		t.Fatal(err, more)
	}
	return page
}

// untilFired waits until a queue has no timers.
func untilFired(t *testing.T, e *Engine, queue string) {
	t.Helper()
	ctx, cancel := contextWithTimeout()
	defer cancel()
	for {
		page, _, err := e.ListTimers(ctx, queue, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return
		}
	}
}

// untilStored waits until a partition has n messages, and says which.
func untilStored(t *testing.T, e *Engine, queue, partition string, n int) []StoredMessage {
	t.Helper()
	ctx, cancel := contextWithTimeout()
	defer cancel()
	for {
		parts, _, err := e.Partitions(ctx, queue, 0, 0)
		if err != nil && !errors.Is(err, ErrUnknownQueue) {
			t.Fatal(err)
		}
		for _, p := range parts {
			if p.Name == partition && p.LogEnd == int64(n) {
				return untilRead(t, e, queue, partition, n)
			}
			if p.Name == partition && p.LogEnd > int64(n) {
				t.Fatalf("%s/%s ends at %d, want %d", queue, partition, p.LogEnd, n)
			}
		}
	}
}

func untilRead(t *testing.T, e *Engine, queue, partition string, n int) []StoredMessage {
	t.Helper()
	for {
		if got := fetchAll(t, e, queue, partition); len(got) == n {
			return got
		}
	}
}

// TestTimersFireOnceOnManyBrokers: every timer becomes one message, with the id that
// was promised, not before its time, whatever the queue's window.
func TestTimersFireOnceOnManyBrokers(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	brokers := []*Engine{openEngine(t, db), openEngine(t, storetest.Open(t, db)), openEngine(t, storetest.Open(t, db))}
	zero := 0
	if _, err := brokers[0].Configure(t.Context(), "off", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	type promise struct {
		id  uuid.UUID
		due time.Time
	}
	promised := map[string]promise{}
	const each = 30
	for i := range 3 * each {
		o := TimerOp{
			Queue: []string{"wide", "off", "wide"}[i%3], Partition: []string{"", "", "p"}[i%3], Key: fmt.Sprint("t", i),
			ID: fmt.Append(nil, "id-", i), Payload: fmt.Append(nil, i), Delay: time.Duration(i%4-1) * 100 * time.Millisecond,
		}
		got := schedule(t, brokers[i%len(brokers)], o)[0]
		if got.Status != TimerScheduled || string(got.ID) != string(o.ID) {
			t.Fatalf("scheduled: %+v", got)
		}
		promised[string(o.ID)] = promise{got.MessageID, got.DeliverAt}
	}
	untilFired(t, brokers[0], "wide")
	untilFired(t, brokers[0], "off")
	for _, at := range [][2]string{{"wide", DefaultPartition}, {"off", DefaultPartition}, {"wide", "p"}} {
		for i, m := range untilStored(t, brokers[1], at[0], at[1], each) {
			p, known := promised[string(m.TransactionID)]
			if !known || m.ID != p.id || m.Offset != int64(i) || string(m.Value) != string(m.TransactionID[3:]) {
				t.Errorf("%s/%s: %+v, want the id %v that was promised", at[0], at[1], m, p.id)
			}
			if m.CreatedAt.Before(p.due.Truncate(time.Microsecond)) {
				t.Errorf("%s fired at %v, before %v", m.TransactionID, m.CreatedAt, p.due)
			}
			delete(promised, string(m.TransactionID))
		}
	}
	for _, e := range brokers {
		if s := e.cache.Stats(); s.Contradictions != 0 {
			t.Errorf("the memory of ids saw %d contradictions", s.Contradictions)
		}
	}
}

func TestTimersAreReplacedCancelledAndListed(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	later := func(key, id string) TimerOp {
		return TimerOp{Queue: "q", Key: key, ID: []byte(id), Payload: []byte(id), Delay: time.Hour}
	}
	got := schedule(t, e, later("b", "1"), later("a/x", "2"), later("b", "3"), later("c", "4"), TimerOp{Queue: "q", Key: "d", Cancel: true})
	var status []TimerStatus
	for _, r := range got {
		status = append(status, r.Status)
	}
	if want := []TimerStatus{TimerScheduled, TimerScheduled, TimerRescheduled, TimerScheduled, TimerAbsent}; !slices.Equal(status, want) {
		t.Fatalf("%v, want %v", status, want)
	}
	one, found, err := e.Timer(t.Context(), "q", "b")
	if err != nil || !found || string(one.Payload) != "3" || one.MessageID != got[2].MessageID || !one.DeliverAt.Equal(got[2].DeliverAt) {
		t.Errorf("timer b: %+v %v %v, want the second schedule, %+v", one, found, err, got[2])
	}
	page, more, err := e.ListTimers(t.Context(), "q", "a/x", 1)
	if err != nil || !more || len(page) != 1 || page[0].Key != "b" {
		t.Errorf("after a/x: %+v %v %v, want b and more", page, more, err)
	}
	if r := schedule(t, e, TimerOp{Queue: "q", Key: "b", Cancel: true})[0]; r.Status != TimerCancelled || !r.DeliverAt.Equal(got[2].DeliverAt) {
		t.Errorf("cancelled: %+v", r)
	}
	if r := schedule(t, e, TimerOp{Queue: "q", Key: "b", Cancel: true})[0]; r.Status != TimerAbsent {
		t.Errorf("cancelled twice: %+v", r)
	}
	if _, found, err := e.Timer(t.Context(), "q", "b"); found || err != nil {
		t.Errorf("timer b: %v, %v; want none", found, err)
	}
	// Made due by its next schedule.
	schedule(t, e, TimerOp{Queue: "q", Key: "c", Payload: []byte("now"), Delay: -time.Hour})
	if m := untilStored(t, e, "q", DefaultPartition, 1)[0]; string(m.Value) != "now" || string(m.TransactionID) != m.ID.String() {
		t.Errorf("%+v, want what was scheduled last, named by its message id", m)
	}
	if left := pending(t, e, "q"); len(left) != 1 || left[0].Key != "a/x" {
		t.Errorf("%+v are left, want a/x", left)
	}
}

// TestTimerOfAnIDThatIsStoredStoresNothing: the queue's window holds for timers too.
func TestTimerOfAnIDThatIsStoredStoresNothing(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushOne(t, e, "q", "a")
	schedule(t, e, TimerOp{Queue: "q", Key: "1", ID: []byte("a"), Payload: []byte("2")}, TimerOp{Queue: "q", Key: "2", ID: []byte("b"), Payload: []byte("3")},
		TimerOp{Queue: "q", Key: "3", ID: []byte("b"), Payload: []byte("4")})
	untilFired(t, e, "q")
	if got := untilStored(t, e, "q", DefaultPartition, 2); string(got[0].TransactionID) != "a" || string(got[1].TransactionID) != "b" {
		t.Errorf("%+v, want a and one b", got)
	}
}

func TestTimerThatCannotBeStoredSaysWhyAndWaits(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	limit := func(n int) {
		t.Helper()
		if _, err := e.Configure(t.Context(), "q", OptionsPatch{MaxMessageBytes: &n}); err != nil {
			t.Fatal(err)
		}
	}
	limit(MessageBytesMin)
	schedule(t, e, TimerOp{Queue: "q", Key: "large", Payload: []byte(strings.Repeat("x", MessageBytesMin+1)), Delay: -1})
	schedule(t, e, TimerOp{Queue: "q", Key: "small", Payload: []byte("x"), Delay: -1})
	untilStored(t, e, "q", DefaultPartition, 1)
	ctx, cancel := contextWithTimeout()
	defer cancel()
	for {
		one, found, err := e.Timer(ctx, "q", "large")
		if err != nil || !found {
			t.Fatalf("%v, %v; want it to stay", found, err)
		}
		if one.Attempts > 0 {
			if !strings.Contains(one.LastError, "maxMessageBytes") {
				t.Errorf("%+v, want to read why", one)
			}
			break
		}
	}
	limit(DefaultMaxMessageBytes)
	untilStored(t, e, "q", DefaultPartition, 2)
	untilFired(t, e, "q")
}

// TestTimerLooksAgainWhenTheNextIsDue: the loop sleeps no longer than that, and no
// longer than what another broker may schedule meanwhile allows.
func TestTimerLooksAgainWhenTheNextIsDue(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	if wait, err := e.fireDue(t.Context(), 0); err != nil || wait != timersEvery {
		t.Errorf("nothing there: %v, %v; want %v", wait, err, timersEvery)
	}
	schedule(t, e, TimerOp{Queue: "q", Key: "1", Payload: []byte("x"), Delay: time.Hour})
	if wait, err := e.fireDue(t.Context(), 0); err != nil || wait != timersEvery {
		t.Errorf("in an hour: %v, %v; want %v", wait, err, timersEvery)
	}
	schedule(t, e, TimerOp{Queue: "q", Key: "2", Payload: []byte("x"), Delay: timersEvery / 2})
	if wait, err := e.fireDue(t.Context(), 0); err != nil || wait > timersEvery/2 && len(pending(t, e, "q")) == 2 {
		t.Errorf("soon: %v, %v; want at most %v", wait, err, timersEvery/2)
	}
	untilStored(t, e, "q", DefaultPartition, 1)
}

// TestTimerFiresOnceWhenTheAnswerIsLost, in a queue without a window: only the
// call itself can be what keeps it from firing twice.
func TestTimerFiresOnceWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db)
	zero := 0
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	got := schedule(t, e, TimerOp{Queue: "q", Key: "lost", Payload: []byte("fired-and-lost"), Delay: time.Hour})
	l.lose("fired-and-lost") // the firing carries the payload as it is
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE timers SET due_at = now()`); err != nil {
		t.Fatal(err)
	}
	untilFired(t, e, "q")
	m := untilStored(t, e, "q", DefaultPartition, 1)
	if l.count() != 1 || m[0].ID != got[0].MessageID {
		t.Errorf("%+v, %d answers lost; want one message, %v", m, l.count(), got[0].MessageID)
	}
	// The next one follows it.
	schedule(t, e, TimerOp{Queue: "q", Key: "next", Payload: []byte("x"), Delay: -1})
	untilStored(t, e, "q", DefaultPartition, 2)
}

// TestTimerOutlivesItsQueue: it names the queue, which comes into being again.
func TestTimerOutlivesItsQueue(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	pushOne(t, e, "q", "a")
	schedule(t, e, TimerOp{Queue: "q", Key: "k", Payload: []byte("later"), Delay: time.Hour})
	if _, err := e.DeleteQueue(t.Context(), QueueRef{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	schedule(t, e, TimerOp{Queue: "q", Key: "k", Payload: []byte("now"), Delay: -1})
	if m := untilStored(t, e, "q", DefaultPartition, 1)[0]; string(m.Value) != "now" {
		t.Errorf("%+v", m)
	}
}
