package compat

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var sessionCases = []Case{
	{"fetch-session/answers-only-what-changed", sessionChanges},
	{"fetch-session/forgotten-partitions-are-gone", sessionForgets},
	{"fetch-session/wrong-id-and-epoch", sessionErrors},
	{"fetch-session/new-data-wakes-an-incremental-fetch", sessionWakes},
}

// session opens a fetch session over partitions; without one the case is skipped,
// since refusing to keep sessions is always allowed.
func (t *T) session(w *wire, tp topic, version int16, partitions ...int32) int32 {
	r := ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, open: true}, partitions...), version)
	t.wantCode("open a session", r.ErrorCode, 0)
	if r.SessionID == 0 {
		t.Skipf("the broker keeps no fetch sessions")
	}
	if n := partitionsIn(r); n != len(partitions) {
		t.Errorf("a full fetch of %d partitions answered %d", len(partitions), n)
	}
	return r.SessionID
}

func partitionsIn(r *kmsg.FetchResponse) (n int) {
	for _, t := range r.Topics {
		n += len(t.Partitions)
	}
	return n
}

func sessionChanges(_ context.Context, t *T) {
	tp := t.topic(3)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Fetch, newest)
	id := t.session(w, tp, v, 0, 1, 2)
	r := ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: id, turn: 1}), v)
	if r.ErrorCode != 0 || r.SessionID != id || partitionsIn(r) != 0 {
		t.Errorf("nothing changed: code %d, session %d of %d, %d partitions", r.ErrorCode, r.SessionID, id, partitionsIn(r))
	}
	got := t.dial().produce(tp, t.max(kmsg.Produce, newest), -1, part{1, values("x").encode()})
	t.wantCode("produce", got[0].ErrorCode, 0)
	r = ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: id, turn: 2}), v)
	if partitionsIn(r) != 1 || r.Topics[0].Partitions[0].Partition != 1 || len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("partition 1 changed: answered %+v", r.Topics)
	}
	// The position is the client's: until it moves it, the data comes again.
	r = ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: id, turn: 3}), v)
	if partitionsIn(r) != 1 {
		t.Errorf("the position did not move, yet %d partitions came", partitionsIn(r))
	}
	r = ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: id, turn: 4, offset: 1}, 1), v)
	if n := partitionsIn(r); n != 0 {
		t.Errorf("the position is at the end, yet %d partitions came: %+v", n, r.Topics)
	}
}

func sessionForgets(_ context.Context, t *T) {
	tp := t.topic(2)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Fetch, newest)
	id := t.session(w, tp, v, 0, 1)
	req := fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: id, turn: 1})
	gone := kmsg.NewFetchRequestForgottenTopic()
	gone.Topic, gone.TopicID, gone.Partitions = tp.name, tp.id, []int32{0}
	req.ForgottenTopics = append(req.ForgottenTopics, gone)
	r := ask[*kmsg.FetchResponse](w, req, v)
	t.wantCode("forget", r.ErrorCode, 0)
	for _, p := range t.dial().produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("x").encode()}, part{1, values("y").encode()}) {
		t.wantCode("produce", p.ErrorCode, 0)
	}
	r = ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: id, turn: 2}), v)
	if partitionsIn(r) != 1 || r.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("partition 0 is forgotten, answered %+v", r.Topics)
	}
}

func sessionErrors(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Fetch, newest)
	id := t.session(w, tp, v, 0)
	code := func(session, turn int32) int16 {
		return ask[*kmsg.FetchResponse](w, fetchRequest(tp, fetchSpec{maxBytes: 1 << 20, session: session, turn: turn}, 0), v).ErrorCode
	}
	other := id ^ 0x2aaaaaaa
	t.wantCode("a session nobody has", code(other, 1), kerr.FetchSessionIDNotFound.Code)
	t.wantCode("an epoch too far", code(id, 5), kerr.InvalidFetchSessionEpoch.Code)
	t.wantCode("the right one after a wrong one", code(id, 1), 0)
	t.wantCode("the same one twice", code(id, 1), kerr.InvalidFetchSessionEpoch.Code)
	t.wantCode("close it", code(id, -1), 0)
	t.wantCode("it is closed", code(id, 2), kerr.FetchSessionIDNotFound.Code)
}

func sessionWakes(_ context.Context, t *T) {
	tp := t.topic(2)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Fetch, newest)
	id := t.session(w, tp, v, 0, 1)
	req := fetchRequest(tp, fetchSpec{maxWait: 30 * time.Second, minBytes: 1, maxBytes: 1 << 20, session: id, turn: 1})
	corr := w.send(req, v)
	t.pause(500 * time.Millisecond)
	got := t.dial().produce(tp, t.max(kmsg.Produce, newest), -1, part{1, values("x").encode()})
	t.wantCode("produce", got[0].ErrorCode, 0)
	start := time.Now()
	r := answer[*kmsg.FetchResponse](w, req, corr)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("woke up %s after the record was stored", took)
	}
	if partitionsIn(r) != 1 || r.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("woke up with %+v", r.Topics)
	}
}
