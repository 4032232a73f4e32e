package compat

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var idempotenceCases = []Case{
	{"produce/resend-answers-original-offset", resend},
	{"produce/sequence-gap-is-45", sequenceGap},
	{"produce/stale-producer-epoch-is-47", staleEpoch},
	{"produce/sequence-wraps-to-0", sequenceWraps},
	{"produce/five-in-flight-on-one-socket", fiveInFlight},
	{"produce/producer-ids-differ", producerIDs},
	{"produce/idempotent-client-in-order", idempotentClient},
}

// newProducer asks for a producer id of its own; a broker that has just started
// may need a moment for its first.
func (t *T) newProducer(w *wire) (id int64, epoch int16) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	r := ask[*kmsg.InitProducerIDResponse](w, req, t.max(kmsg.InitProducerID, newest))
	for r.ErrorCode == kerr.CoordinatorLoadInProgress.Code && t.pause(100*time.Millisecond) {
		r = ask[*kmsg.InitProducerIDResponse](w, req, t.max(kmsg.InitProducerID, newest))
	}
	if r.ErrorCode != 0 {
		t.Fatalf("InitProducerId answered %s", codeName(r.ErrorCode))
	}
	return r.ProducerID, r.ProducerEpoch
}

func resend(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	id, epoch := t.newProducer(w)
	v := t.max(kmsg.Produce, newest)
	sent := make(map[int32][]byte)
	for seq := int32(0); seq < 15; seq += 3 {
		sent[seq] = values("a", "b", fmt.Sprint(seq)).from(id, epoch, seq).encode()
		got := w.produce(tp, v, -1, part{0, sent[seq]})
		t.wantCode(fmt.Sprintf("sequence %d", seq), got[0].ErrorCode, 0)
		if got[0].BaseOffset != int64(seq) {
			t.Errorf("sequence %d: offset %d", seq, got[0].BaseOffset)
		}
	}
	for _, seq := range []int32{12, 3, 0, 12} {
		got := w.produce(tp, v, -1, part{0, sent[seq]})
		t.wantCode(fmt.Sprintf("sequence %d again", seq), got[0].ErrorCode, 0)
		if got[0].BaseOffset != int64(seq) {
			t.Errorf("sequence %d again: offset %d, want the original's %d", seq, got[0].BaseOffset, seq)
		}
	}
	t.wantStored(tp, 0, 15)
	got := w.produce(tp, v, -1, part{0, values("next").from(id, epoch, 15).encode()})
	t.wantCode("the next sequence", got[0].ErrorCode, 0)
	// Five batches are remembered: the first of six is no longer.
	got = w.produce(tp, v, -1, part{0, sent[0]})
	t.wantCode("the sixth last batch again", got[0].ErrorCode, kerr.OutOfOrderSequenceNumber.Code, kerr.DuplicateSequenceNumber.Code)
	t.wantStored(tp, 0, 16)
}

func sequenceGap(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	id, epoch := t.newProducer(w)
	v := t.max(kmsg.Produce, newest)
	got := w.produce(tp, v, -1, part{0, values("a", "b").from(id, epoch, 0).encode()})
	t.wantCode("sequence 0", got[0].ErrorCode, 0)
	for _, seq := range []int32{3, 1, 100} {
		got = w.produce(tp, v, -1, part{0, values("c", "d").from(id, epoch, seq).encode()})
		t.wantCode(fmt.Sprintf("sequence %d where 2 is due", seq), got[0].ErrorCode, kerr.OutOfOrderSequenceNumber.Code)
	}
	got = w.produce(tp, v, -1, part{0, values("c").from(id, epoch, 2).encode()})
	t.wantCode("sequence 2", got[0].ErrorCode, 0)
	t.wantStored(tp, 0, 3)
}

func staleEpoch(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	id, epoch := t.newProducer(w)
	v := t.max(kmsg.Produce, newest)
	send := func(epoch int16, seq int32) int16 {
		return w.produce(tp, v, -1, part{0, values("x").from(id, epoch, seq).encode()})[0].ErrorCode
	}
	t.wantCode("first", send(epoch, 0), 0)
	t.wantCode("a new epoch that does not start at 0", send(epoch+1, 1), kerr.OutOfOrderSequenceNumber.Code)
	t.wantCode("a new epoch", send(epoch+1, 0), 0)
	t.wantCode("the old epoch", send(epoch, 1), kerr.InvalidProducerEpoch.Code)
	t.wantStored(tp, 0, 2)
}

// sequenceWraps: behind 2,147,483,647 comes 0. A producer nobody remembers may
// begin anywhere.
func sequenceWraps(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	id, epoch := t.newProducer(w)
	v := t.max(kmsg.Produce, newest)
	for _, c := range []struct {
		seq     int32
		records []string
		offset  int64
	}{
		{math.MaxInt32 - 1, []string{"a"}, 0},
		{math.MaxInt32, []string{"b", "c"}, 1}, // 2147483647 and 0
		{1, []string{"d"}, 3},
		{math.MaxInt32, []string{"b", "c"}, 1}, // once more
		{2, []string{"e"}, 4},
	} {
		got := w.produce(tp, v, -1, part{0, values(c.records...).from(id, epoch, c.seq).encode()})
		t.wantCode(fmt.Sprintf("sequence %d", c.seq), got[0].ErrorCode, 0)
		if got[0].BaseOffset != c.offset {
			t.Errorf("sequence %d: offset %d, want %d", c.seq, got[0].BaseOffset, c.offset)
		}
	}
	t.wantStored(tp, 0, 5)
}

// fiveInFlight: five batches of one producer are sent before any is answered,
// and the third twice in a row.
func fiveInFlight(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	id, epoch := t.newProducer(w)
	v := t.max(kmsg.Produce, newest)
	var all []byte
	var reqs []kmsg.Request
	var corrs []int32
	order := []int32{0, 2, 4, 4, 6, 8}
	for _, seq := range order {
		req := produceRequest(tp, -1, part{0, values("x", "y").from(id, epoch, seq).encode()})
		f, corr := w.frame(req, v)
		all, reqs, corrs = append(all, f...), append(reqs, req), append(corrs, corr)
	}
	w.write(all)
	for i, seq := range order {
		r := answer[*kmsg.ProduceResponse](w, reqs[i], corrs[i])
		p := r.Topics[0].Partitions[0]
		t.wantCode(fmt.Sprintf("sequence %d", seq), p.ErrorCode, 0)
		if p.BaseOffset != int64(seq) {
			t.Errorf("sequence %d: offset %d", seq, p.BaseOffset)
		}
	}
	t.wantStored(tp, 0, 10)
}

func producerIDs(_ context.Context, t *T) {
	seen := make(map[int64]bool)
	for range 20 {
		id, epoch := t.newProducer(t.dial())
		if id < 0 || epoch != 0 || seen[id] {
			t.Errorf("producer id %d, epoch %d, seen before: %t", id, epoch, seen[id])
		}
		seen[id] = true
	}
}

// idempotentClient: franz-go as it comes, with batches in flight on three partitions.
func idempotentClient(ctx context.Context, t *T) {
	const n, parts = 20_000, 3
	tp := t.topic(parts)
	cl := t.client(kgo.DefaultProduceTopic(tp.name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(8<<10))
	for i := range n {
		r := &kgo.Record{Partition: int32(i % parts), Value: fmt.Append(nil, i)}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
			}
		})
	}
	t.must(cl.Flush(ctx), "flush")
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for p, rs := range t.collect(ctx, reader, n) {
		for i, r := range rs {
			if want := fmt.Sprint(i*parts + int(p)); string(r.Value) != want || r.Offset != int64(i) {
				t.Fatalf("partition %d offset %d holds %s, want %s", p, r.Offset, r.Value, want)
			}
		}
		t.wantStored(tp, p, int64(len(rs)))
	}
}
