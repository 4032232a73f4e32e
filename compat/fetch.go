package compat

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var fetchCases = []Case{
	{"fetch/empty-partitions-really-wait", reallyWaits},
	{"fetch/new-data-wakes-a-waiting-fetch", wakes},
	{"fetch/too-little-data-answers-at-the-deadline", deadlineAnswers},
	{"fetch/three-hundred-waiters-all-wake", manyWaiters},
	{"fetch/first-batch-comes-whole-whatever-the-limits", firstBatchWhole},
	{"fetch/past-the-end-is-1-at-once", pastTheEnd},
	{"fetch/clients-reset-from-past-the-end", clientsReset},
	{"fetch/middle-of-a-batch-answers-the-whole-batch", middleOfBatch},
	{"fetch/every-partition-gets-its-turn", everyPartition},
	{"fetch/marks-are-always-set", marks},
	{"fetch/unknown-topics-and-partitions", fetchUnknown},
	{"fetch/leader-epochs-are-checked", fetchEpochs},
	{"fetch/read-committed-reads-plain-records", readCommitted},
}

// namedFetch are Fetch versions in use that name topics: kafka-python 4, kcat
// and kafkajs 11, the first flexible one.
var namedFetch = []int16{4, 11, 12}

// reallyWaits counts the answers an idle consumer gets in ten seconds. A broker
// that answers at once gives thousands; the last of three loops waits through an
// incremental session, where waiting is easily forgotten.
func reallyWaits(_ context.Context, t *T) {
	tp := t.topic(3)
	addr := t.leader(tp.name, 0)
	v := t.max(kmsg.Fetch, newest)
	const span = 10 * time.Second
	count := func(spec fetchSpec, after func(*kmsg.FetchResponse) *kmsg.FetchRequest) (n int) {
		w := t.dialTo(addr)
		end := time.Now().Add(span)
		req := fetchRequest(tp, spec, 0, 1, 2)
		for time.Now().Before(end) {
			r := ask[*kmsg.FetchResponse](w, req, v)
			t.wantCode("fetch", r.ErrorCode, 0)
			n++
			if after != nil {
				req = after(r)
			}
		}
		return n
	}
	half := fetchSpec{maxWait: 500 * time.Millisecond, minBytes: 1, maxBytes: 1 << 20}
	long := half
	long.maxWait = 5 * time.Second
	opening := half
	opening.open = true
	turn := int32(0)
	incremental := func(r *kmsg.FetchResponse) *kmsg.FetchRequest {
		turn++
		next := half
		next.session, next.turn = r.SessionID, turn
		if r.SessionID == 0 { // no session was given, which is allowed
			return fetchRequest(tp, opening, 0, 1, 2)
		}
		return fetchRequest(tp, next)
	}
	var atHalf, atLong, inSession int
	var wg sync.WaitGroup
	for _, f := range []func(){
		func() { atHalf = count(half, nil) },
		func() { atLong = count(long, nil) },
		func() { inSession = count(opening, incremental) },
	} {
		wg.Go(func() {
			defer func() { _ = recover() }() // Fatalf is noted already
			f()
		})
	}
	wg.Wait()
	t.Notef("%d and %d in a session at 500 ms, %d at 5 s", atHalf, inSession, atLong)
	// One more than span / wait may begin inside the span; a session's first
	// answer may come at once.
	if atHalf > 22 || atHalf < 8 {
		t.Errorf("%d answers in 10s at 500ms, want about 20", atHalf)
	}
	if inSession > 23 || inSession < 8 {
		t.Errorf("%d answers in 10s at 500ms through a session, want about 20", inSession)
	}
	if atLong > 3 || atLong < 1 {
		t.Errorf("%d answers in 10s at 5s, want 2 or 3", atLong)
	}
}

// wakes: the waiting fetch comes back with the record long before its deadline.
func wakes(ctx context.Context, t *T) {
	tp := t.topic(1)
	addr := t.leader(tp.name, 0)
	for _, limit := range []int16{4, 11, newest} {
		v := t.max(kmsg.Fetch, limit)
		offset := t.endOffset(tp.name, 0)
		w := t.dialTo(addr)
		req := fetchRequest(tp, fetchSpec{maxWait: 30 * time.Second, minBytes: 1, maxBytes: 1 << 20, offset: offset}, 0)
		corr := w.send(req, v)
		t.pause(time.Second) // so that it waits by now
		got := t.dialTo(addr).produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("wake up").encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
		stored := time.Now()
		r := answer[*kmsg.FetchResponse](w, req, corr)
		took := time.Since(stored)
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("v%d woke up with nothing", v)
		}
		// 200 ms is what a free machine must do; ten times that is still far
		// from a deadline of 30 s.
		if took > 2*time.Second {
			t.Errorf("v%d woke up %s after the record was stored", v, took)
		}
		t.Notef("v%d %s", v, took.Round(100*time.Microsecond))
	}
}

// deadlineAnswers: what is there, though less than asked for, comes at the deadline.
func deadlineAnswers(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values(string(make([]byte, 100))).encode()})
	t.wantCode("produce", got[0].ErrorCode, 0)
	start := time.Now()
	p := w.fetch(tp, t.max(kmsg.Fetch, newest), fetchSpec{maxWait: 2 * time.Second, minBytes: 100_000, maxBytes: 1 << 20}, 0)
	took := time.Since(start)
	if len(p.RecordBatches) < 100 {
		t.Errorf("%d bytes at the deadline, want the record", len(p.RecordBatches))
	}
	if took < 1900*time.Millisecond || took > 6*time.Second {
		t.Errorf("answered after %s, want 2s", took)
	}
	t.Notef("%s", took.Round(time.Millisecond))
}

func manyWaiters(_ context.Context, t *T) {
	const n = 300
	tp := t.topic(n)
	addr := t.leader(tp.name, 0)
	v := t.max(kmsg.Fetch, newest)
	var woken atomic.Int32
	var wg sync.WaitGroup
	start := time.Now()
	for i := range int32(n) {
		w := t.dialTo(addr)
		req := fetchRequest(tp, fetchSpec{maxWait: 60 * time.Second, minBytes: 1, maxBytes: 1 << 20}, i)
		corr := w.send(req, v)
		wg.Go(func() {
			defer func() { _ = recover() }() // Fatalf is noted already
			r := answer[*kmsg.FetchResponse](w, req, corr)
			if len(r.Topics) == 1 && len(r.Topics[0].Partitions[0].RecordBatches) > 0 {
				woken.Add(1)
			}
		})
	}
	t.pause(time.Second) // so that most of them wait by now
	var parts []part
	for i := range int32(n) {
		parts = append(parts, part{i, values("wake up").encode()})
	}
	for _, p := range t.dialTo(addr).produce(tp, t.max(kmsg.Produce, newest), -1, parts...) {
		t.wantCode(fmt.Sprintf("partition %d", p.Partition), p.ErrorCode, 0)
	}
	wg.Wait()
	if woken.Load() != n {
		t.Errorf("%d of %d waiters woke up with a record", woken.Load(), n)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the last woke up after %s", took)
	}
}

// firstBatchWhole: a batch above every limit still comes, or the consumer never advances.
func firstBatchWhole(ctx context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	produceV := t.max(kmsg.Produce, newest)
	big := values()
	big.records = []kmsg.Record{{Value: noise(900_000, 7)}}
	sent := big.encode()
	t.wantCode("produce", w.produce(tp, produceV, -1, part{0, sent})[0].ErrorCode, 0)
	for i := range 10 {
		t.wantCode("produce", w.produce(tp, produceV, -1, part{0, values(fmt.Sprint(i)).encode()})[0].ErrorCode, 0)
	}
	for _, limit := range append(namedFetch, newest) {
		v := t.max(kmsg.Fetch, limit)
		for _, spec := range []fetchSpec{
			{maxBytes: 1024, partMax: 1024},
			{maxBytes: 1 << 20, partMax: 1024},
			{maxBytes: 1, partMax: 1},
			{maxBytes: 1024, partMax: 1024, minBytes: 1, maxWait: 20 * time.Second},
		} {
			p := w.fetch(tp, v, spec, 0)
			t.wantCode("fetch", p.ErrorCode, 0)
			if len(p.RecordBatches) < len(sent) || !bytes.Equal(p.RecordBatches[batchMagicAt:len(sent)], sent[batchMagicAt:]) {
				t.Errorf("v%d, limits %d and %d: %d bytes, want the first batch of %d",
					v, spec.maxBytes, spec.partMax, len(p.RecordBatches), len(sent))
			}
		}
	}
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(1000), kgo.FetchMaxBytes(1000))
	if rs := t.collect(ctx, reader, 11)[0]; len(rs) != 11 || len(rs[0].Value) != 900_000 {
		t.Errorf("a consumer with small limits read %d records", len(rs))
	}
}

func pastTheEnd(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("a", "b", "c").encode()})
	t.wantCode("produce", got[0].ErrorCode, 0)
	for _, limit := range append(namedFetch, newest) {
		v := t.max(kmsg.Fetch, limit)
		for _, offset := range []int64{4, 1000} {
			start := time.Now()
			p := w.fetch(tp, v, fetchSpec{maxWait: 20 * time.Second, minBytes: 1, maxBytes: 1 << 20, offset: offset}, 0)
			t.wantCode(fmt.Sprintf("v%d, offset %d of 3", v, offset), p.ErrorCode, kerr.OffsetOutOfRange.Code)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("v%d, offset %d: waited %s for it", v, offset, took)
			}
		}
		p := w.fetch(tp, v, fetchSpec{maxBytes: 1 << 20, offset: 3}, 0)
		t.wantCode(fmt.Sprintf("v%d at the end", v), p.ErrorCode, 0)
	}
}

// clientsReset: a group whose committed offset lies beyond the log starts over
// as its reset policy says.
func clientsReset(ctx context.Context, t *T) {
	tp := t.topic(1)
	cl := t.client(kgo.DefaultProduceTopic(tp.name))
	for _, v := range []string{"a", "b", "c"} {
		t.must(cl.ProduceSync(ctx, kgo.StringRecord(v)).FirstErr(), "produce")
	}
	group := t.group()
	t.coordinator(group)
	stale := make(kadm.Offsets)
	stale.AddOffset(tp.name, 0, 1000, -1)
	t.must(t.adm().CommitAllOffsets(ctx, group, stale), "commit 1000")
	reader := t.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp.name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if rs := t.collect(ctx, reader, 3)[0]; len(rs) != 3 || string(rs[0].Value) != "a" {
		t.Errorf("read %d records after the reset", len(rs))
	}
}

func middleOfBatch(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	for range 2 {
		got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("a", "b", "c").encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
	}
	for offset, first := range []int64{0, 0, 0, 3, 3, 3} {
		p := w.fetch(tp, t.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 1 << 20, offset: int64(offset)}, 0)
		if len(p.RecordBatches) == 0 || baseOffset(p.RecordBatches) != first {
			t.Errorf("at %d: %d bytes, want the batch that begins at %d", offset, len(p.RecordBatches), first)
		}
	}
}

// everyPartition: with room for one batch at a time, a reader of four partitions
// still gets to the end of all.
func everyPartition(ctx context.Context, t *T) {
	const parts, each = 4, 30
	tp := t.topic(parts)
	w := t.dialTo(t.leader(tp.name, 0))
	for range each {
		var ps []part
		for p := range int32(parts) {
			b := values()
			b.records = []kmsg.Record{{Value: noise(2000, uint64(p))}}
			ps = append(ps, part{p, b.encode()})
		}
		for _, p := range w.produce(tp, t.max(kmsg.Produce, newest), -1, ps...) {
			t.wantCode("produce", p.ErrorCode, 0)
		}
	}
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(3000), kgo.FetchMaxPartitionBytes(3000))
	for p, rs := range t.collect(ctx, reader, parts*each) {
		if len(rs) != each {
			t.Errorf("partition %d: %d records, want %d", p, len(rs), each)
		}
	}
}

func marks(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Fetch, newest)
	for n := int64(0); n < 3; n++ {
		p := w.fetch(tp, v, fetchSpec{maxBytes: 1 << 20, offset: n}, 0)
		if p.HighWatermark != n || p.LastStableOffset != n || p.LogStartOffset != 0 {
			t.Errorf("after %d records: high watermark %d, last stable offset %d, log start %d",
				n, p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
		}
		if p.PreferredReadReplica != -1 {
			t.Errorf("preferred read replica %d", p.PreferredReadReplica)
		}
		got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("x").encode()})
		t.wantCode("produce", got[0].ErrorCode, 0)
	}
}

func fetchUnknown(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	spec := fetchSpec{maxWait: 20 * time.Second, minBytes: 1, maxBytes: 1 << 20}
	start := time.Now()
	for _, limit := range append(namedFetch, newest) {
		v := t.max(kmsg.Fetch, limit)
		p := w.fetch(tp, v, spec, 5)
		t.wantCode(fmt.Sprintf("v%d, partition 5 of 1", v), p.ErrorCode, kerr.UnknownTopicOrPartition.Code)
		p = w.fetch(topic{name: t.name("compat-missing"), id: [16]byte{9, 9}}, v, spec, 0)
		want := kerr.UnknownTopicOrPartition.Code
		if v >= 13 {
			want = kerr.UnknownTopicID.Code
		}
		t.wantCode(fmt.Sprintf("v%d, a topic nobody has", v), p.ErrorCode, want)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("errors waited for data: %s", took)
	}
}

func fetchEpochs(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	md := metadataOf(w, t.max(kmsg.Metadata, newest), tp.name, false)
	epoch := md.Partitions[0].LeaderEpoch
	v := t.max(kmsg.Fetch, newest)
	p := w.fetch(tp, v, fetchSpec{maxBytes: 1 << 20, epoch: epoch}, 0)
	t.wantCode("the epoch of Metadata", p.ErrorCode, 0)
	p = w.fetch(tp, v, fetchSpec{maxBytes: 1 << 20, epoch: epoch + 1}, 0)
	t.wantCode("one epoch ahead", p.ErrorCode, kerr.UnknownLeaderEpoch.Code)
}

func readCommitted(ctx context.Context, t *T) {
	tp := t.topic(1)
	cl := t.client(kgo.DefaultProduceTopic(tp.name))
	for range 10 {
		t.must(cl.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(), "produce")
	}
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	t.collect(ctx, reader, 10)
}
