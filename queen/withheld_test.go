package queen

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queenmq/store"
	"queenmq/store/storetest"
)

// handFlight is a flight that no flusher carries: new-1, old, new-2, of which
// old is stored at offset 0. The partition is left to it.
func handFlight(t *testing.T, e *Engine) (f *flight, out []Pushed) {
	t.Helper()
	pushOne(t, e, "q", "old")
	p, err := e.catalog.named(t.Context(), "q", DefaultPartition)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"new-1", "old", "new-2"}
	out = make([]Pushed, len(ids))
	en := &entry{ref: QueueRef{Name: "q"}}
	pu := &push{done: make(chan struct{})}
	pu.open.Store(int64(len(ids)))
	for i, id := range ids {
		m := &Message{Queue: "q", ID: []byte(id), Value: []byte("x")}
		it := newPushItem(m, nativeSize(m), &out[i], pu)
		en.items = append(en.items, &it)
	}
	f = &flight{p: p, seg: &openSegment{entries: []*entry{en}}}
	if !e.writer.prepare(t.Context(), f) {
		t.Fatal("nothing to send")
	}
	if len(f.call.Withheld) != 1 || f.call.Parts[0].Records != 2 {
		t.Fatalf("%d withheld, %+v; want the stored id withheld and two records", len(f.call.Withheld), f.call.Parts)
	}
	return f, out
}

func wantPushed(t *testing.T, out []Pushed, original uuid.UUID, status []PushStatus, offsets []int64) {
	t.Helper()
	for i, p := range out {
		if p.Status != status[i] || p.Offset != offsets[i] || p.Err != nil {
			t.Errorf("message %d: %+v, want status %v at %d", i, p, status[i], offsets[i])
		}
		if p.Status == Duplicate && p.MessageID != original {
			t.Errorf("message %d: original %s, want %s", i, p.MessageID, original)
		}
	}
}

// calls is how many calls of the ledger were answered.
func (e *Engine) calls(t *testing.T) uint64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(e.metrics.flushSeconds)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetHistogram().GetSampleCount()
}

func TestMixOfOldAndNewIDsTakesOneCall(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	old := pushOne(t, e, "q", "old")
	before := e.calls(t)
	var msgs []Message
	for i := range 3 {
		msgs = append(msgs, Message{Queue: "q", ID: fmt.Appendf(nil, "new-%d", i), Value: []byte("x")})
	}
	msgs[1].ID = []byte("old")
	wantPushed(t, e.Push(t.Context(), msgs), old.MessageID, []PushStatus{Queued, Duplicate, Queued}, []int64{1, 0, 2})
	if n := e.calls(t) - before; n != 1 {
		t.Errorf("%d calls, want one: what is stored already is not sent", n)
	}
}

// The first attempt stores the new messages and its answer, with what became of
// the withheld one, is lost.
func TestWithheldMessageIsJudgedAgainAfterALostAnswer(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	f, out := handFlight(t, e)
	res, err := e.db.Append(t.Context(), []store.Segment{f.call}, true)
	if err != nil || res[0].Status != store.SegmentStored || len(res[0].Withheld) != 1 {
		t.Fatalf("%+v, %v; want it stored, and the withheld id found", res, err)
	}
	original := IDBase{Hi: res[0].Withheld[0].IDHi, Lo: res[0].Withheld[0].IDLo}.ID(0)
	f.unknown = true
	again := []*flight{f}
	for range 2 {
		if again, err = e.writer.call(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	if len(again) != 0 {
		t.Fatal("not done after two calls")
	}
	wantPushed(t, out, original, []PushStatus{Queued, Duplicate, Queued}, []int64{1, 0, 2})
	e.writer.count(1) // finish counted a segment that nobody opened
}

// A withheld id that is not stored after all keeps its place in the request.
func TestWithheldMessageThatIsNewKeepsItsPlace(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	f, out := handFlight(t, e)
	if _, err := storetest.Pool(t, e.db).Exec(t.Context(), `UPDATE log_txns SET created_at = created_at - interval '2 hours'`); err != nil {
		t.Fatal(err)
	}
	again := []*flight{f}
	var err error
	for n := 0; len(again) > 0; n++ {
		if n == 2 {
			t.Fatal("not done after two calls")
		}
		if again, err = e.writer.call(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	wantPushed(t, out, uuid.UUID{}, []PushStatus{Queued, Queued, Queued}, []int64{1, 2, 3})
	e.writer.count(1)
}
