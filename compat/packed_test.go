package compat

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// What producers leave uncompressed lies packed in its row (queen D37). These tests
// read such rows with clients, from brokers that have nothing but the database.

const noReadCache = "QUEEN_READ_CACHE_MB=0"

// orders is JSON of about n bytes, as applications send it.
func orders(r *rand.Rand, n int) []byte {
	b := []byte(`{"orders":[`)
	for len(b) < n {
		b = fmt.Appendf(b, `{"id":"%08x","status":"shipped","amount":%d,"currency":"EUR"},`, r.Uint32(), r.IntN(10_000))
	}
	return append(b[:len(b)-1], "]}"...)
}

// packedLog is what was sent to the one partition of a topic.
type packedLog struct {
	tp      topic
	batches [][]byte
	records []*kgo.Record
}

// produce sends a batch by the very broker that is asked.
func (l *packedLog) produce(k *T, w *wire, b batch) {
	sent := b.encode()
	got := w.produce(l.tp, k.max(kmsg.Produce, newest), -1, part{0, sent})[0]
	if got.ErrorCode != 0 || got.BaseOffset != int64(len(l.records)) {
		k.Fatalf("produce: code %d, offset %d, want %d", got.ErrorCode, got.BaseOffset, len(l.records))
	}
	l.batches = append(l.batches, sent)
	for _, r := range b.records {
		record := &kgo.Record{
			Offset: int64(len(l.records)), Timestamp: time.UnixMilli(b.timestamp + r.TimestampDelta64), Key: r.Key, Value: r.Value,
		}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader(h))
		}
		l.records = append(l.records, record)
	}
}

// batchOf makes a batch of JSON records whose times go back and forth.
func (l *packedLog) batchOf(r *rand.Rand, n int) batch {
	b := values()
	b.timestamp = 1_700_000_000_000 + int64(len(l.records))*1000
	for i := range n {
		rec := kmsg.Record{Value: orders(r, 100+r.IntN(1500)), TimestampDelta64: int64(i)*1000 + r.Int64N(5000)}
		if i%3 > 0 {
			rec.Key = fmt.Appendf(nil, "customer-%d", r.IntN(100))
		}
		if i%4 > 0 {
			rec.Headers = []kmsg.Header{{Key: "trace", Value: fmt.Appendf(nil, "%x", r.Uint64())}, {Key: "trace", Value: []byte("again")}}
		}
		b.records = append(b.records, rec)
	}
	return b
}

// at is the offset of the first record of a time or later, from start on.
func (l *packedLog) at(ts, start int64) int64 {
	for _, r := range l.records[start:] {
		if r.Timestamp.UnixMilli() >= ts {
			return r.Offset
		}
	}
	return -1
}

// wantServed fetches all from an offset on, from the very broker that is asked: whole
// batches, byte for byte as they were sent but for what the log decides.
func (l *packedLog) wantServed(k *T, from int64) {
	w := k.dial()
	var got [][]byte
	for offset := from; ; {
		f := w.fetch(l.tp, k.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 200 << 10, offset: offset}, 0)
		k.wantCode("fetch", f.ErrorCode, 0)
		if f.HighWatermark != int64(len(l.records)) {
			k.Errorf("the log ends at %d, want %d", f.HighWatermark, len(l.records))
		}
		if len(f.RecordBatches) == 0 {
			break
		}
		for b := f.RecordBatches; len(b) > 0; {
			size := 12 + int(binary.BigEndian.Uint32(b[8:]))
			got = append(got, b[:size])
			offset = baseOffset(b) + int64(binary.BigEndian.Uint32(b[23:])) + 1
			b = b[size:]
		}
	}
	base, i := int64(0), 0
	for _, sent := range l.batches {
		next := base + int64(binary.BigEndian.Uint32(sent[23:])) + 1
		if next > from {
			switch {
			case i == len(got):
				k.Fatalf("from %d: %d batches, and none at %d", from, i, base)
			case baseOffset(got[i]) != base || !bytes.Equal(got[i][8:12], sent[8:12]) || !bytes.Equal(got[i][batchMagicAt:], sent[batchMagicAt:]):
				k.Fatalf("from %d: batch %d is at %d with %d bytes, want that of %d with %d as sent", from, i, baseOffset(got[i]), len(got[i]), base, len(sent))
			}
			i++
		}
		base = next
	}
	if i != len(got) {
		k.Errorf("from %d: %d batches too many", from, len(got)-i)
	}
}

// wantTimes looks times up in a log that begins at start, also those of before.
func (l *packedLog) wantTimes(k *T, start int64) {
	w := k.dial()
	for i := max(0, start-100); i < int64(len(l.records)); i += 37 {
		for _, off := range []int64{0, 1} {
			ts := l.records[i].Timestamp.UnixMilli() + off
			got := w.offsetAt(l.tp.name, k.max(kmsg.ListOffsets, newest), 0, ts)
			if want := l.at(ts, start); got.ErrorCode != 0 || got.Offset != want {
				k.Errorf("at %d: offset %d, code %d; want %d", ts, got.Offset, got.ErrorCode, want)
			}
		}
	}
}

// line is a record as kcat is told to show it.
func line(r *kgo.Record) string {
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, h.Key+"="+string(h.Value))
	}
	return fmt.Sprintf("%d|%d|%s|%s|%s\n", r.Offset, r.Timestamp.UnixMilli(), r.Key, strings.Join(headers, ","), r.Value)
}

// wantRead reads all from an offset on by stock clients and over HTTP.
func (l *packedLog) wantRead(ctx context.Context, t *testing.T, p *broker.Process, from int64, group string) {
	t.Helper()
	var want bytes.Buffer
	for _, r := range l.records[from:] {
		want.WriteString(line(r))
	}
	var got bytes.Buffer
	for _, r := range readAll(ctx, t, p, l.tp.name, len(l.records)-int(from)) {
		got.WriteString(line(r))
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("franz-go from %d: %s", from, firstDifference(got.Bytes(), want.Bytes()))
	}
	if got := kcat(ctx, t, "-C", "-q", "-b", p.Kafka, "-t", l.tp.name, "-p", "0", "-o", "beginning", "-e", "-f", "%o|%T|%k|%h|%s\n"); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("kcat from %d: %s", from, firstDifference(got, want.Bytes()))
	}
	native := func(how string, offset int64, d door) {
		t.Helper()
		r := l.records[offset]
		key := d.Key != nil && *d.Key == string(r.Key)
		if d.Offset != offset || !bytes.Equal(d.Data, r.Value) || key != (r.Key != nil) || !slices.Equal(d.headers(t), kafkaHeaders(r)) {
			t.Fatalf("%s: offset %d has %d bytes and headers %v; want %d, %d, %v", how, d.Offset, len(d.Data), d.headers(t), offset, len(r.Value), kafkaHeaders(r))
		}
	}
	for offset := from; offset < int64(len(l.records)); {
		var a struct {
			Entries []struct {
				Records []struct {
					door
					Payload json.RawMessage
				}
				LogStartOffset int64
			}
		}
		call(ctx, t, p, "POST", "/api/v1/fetch", map[string]any{"entries": []any{map[string]any{
			"queue": l.tp.name, "partition": "0", "offset": offset, "maxBytes": 100_000,
		}}}, &a, http.StatusOK)
		if len(a.Entries[0].Records) == 0 || a.Entries[0].LogStartOffset != from {
			t.Fatalf("fetch at %d: %d records, the log starts at %d, want %d", offset, len(a.Entries[0].Records), a.Entries[0].LogStartOffset, from)
		}
		for _, r := range a.Entries[0].Records {
			r.Data = r.Payload
			native("fetch", offset, r.door)
			offset++
		}
	}
	for offset := from; offset < int64(len(l.records)); {
		var a struct{ Messages []door }
		call(ctx, t, p, "GET", "/api/v1/pop/queue/"+l.tp.name+"?batch=150&autoAck=true&consumerGroup="+group, nil, &a, http.StatusOK)
		for _, d := range a.Messages {
			native("pop", offset, d)
			offset++
		}
	}
}

// wantPacked: the rows of a topic take at most half of what is served of them.
func wantPacked(ctx context.Context, t *testing.T, dir, topic string) {
	t.Helper()
	var rows, stored, served int64
	err := database(ctx, t, dir).QueryRow(ctx, `SELECT count(*), sum(octet_length(g.data)), sum(g.size)
		FROM queen.queues q JOIN queen.log_partitions p ON p.queue_id = q.id JOIN queen.log_segments g ON g.partition_id = p.id
		WHERE q.name = $1`, topic).Scan(&rows, &stored, &served)
	if err != nil || rows == 0 || 2*stored > served {
		t.Errorf("%s: %d rows with %d bytes stored for %d, %v", topic, rows, stored, served, err)
	}
}

// What one broker wrote another reads from the database alone, as sent, and so does
// the first after a restart; also where the log begins inside a row.
func TestPackedLogIsReadAsItWasSent(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, 5*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir, Env: []string{noReadCache}})
	other := second(t, dir, noReadCache)
	var l packedLog
	r := rand.New(rand.NewPCG(7, 37))
	on(t, p, func(ctx context.Context, k *T) {
		k.adm() // the topic must outlive this case
		_, err := k.admin.CreateTopic(ctx, 1, 1, nil, "packed")
		k.must(err, "create")
		l.tp = k.await("packed", 1)
		w := k.dial()
		for _, n := range []int{1, 40, 3, 500, 120, 7, 250} {
			l.produce(k, w, l.batchOf(r, n))
		}
		gzip := kgo.GzipCompression()
		b := l.batchOf(r, 30)
		b.codec = &gzip
		l.produce(k, w, b)
		l.produce(k, w, l.batchOf(r, 60))
	})
	wantPacked(ctx, t, dir, l.tp.name)
	on(t, other, func(_ context.Context, k *T) {
		l.wantServed(k, 0)
		l.wantTimes(k, 0)
	})
	for _, one := range []*broker.Process{other, p} {
		if err := one.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	p = start(t, broker.Config{DataDir: dir, Env: []string{noReadCache}})
	on(t, p, func(_ context.Context, k *T) {
		for _, from := range []int64{0, 1, 300, 543, 544, int64(len(l.records)) - 1} {
			l.wantServed(k, from)
		}
		l.wantTimes(k, 0)
	})
	l.wantRead(ctx, t, p, 0, "before")
	const start = 300 // inside the fourth batch
	on(t, p, func(_ context.Context, k *T) {
		if got := k.dial().deleteRecords(l.tp.name, k.max(kmsg.DeleteRecords, newest), 0, start); got.ErrorCode != 0 || got.LowWatermark != start {
			k.Fatalf("delete records: code %d, the log starts at %d", got.ErrorCode, got.LowWatermark)
		}
	})
	p = restarted(t, p, dir, noReadCache)
	on(t, p, func(_ context.Context, k *T) {
		l.wantServed(k, start)
		l.wantTimes(k, start)
	})
	l.wantRead(ctx, t, p, start, "after")
}

// Retention by size goes by what is served, and what compaction leaves of a row is
// packed again.
func TestPackedLogIsForgottenBySizeAndByKey(t *testing.T) {
	t.Parallel()
	ctx, dir := within(t, 5*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir, Env: []string{noReadCache}})
	r := rand.New(rand.NewPCG(8, 37))
	var sized, compacted packedLog
	var kept []*kgo.Record
	on(t, p, func(ctx context.Context, k *T) {
		k.adm()
		create := func(name string, configs map[string]*string) topic {
			_, err := k.admin.CreateTopic(ctx, 1, 1, configs, name)
			k.must(err, "create")
			return k.await(name, 1)
		}
		w := k.dial()
		b := sized.batchOf(r, 50)
		size := len(b.encode())
		sized.tp = create("sized", map[string]*string{"retention.bytes": kmsg.StringPtr(fmt.Sprint(5 * size))})
		for range 12 {
			sized.produce(k, w, b)
		}
		compacted.tp = create("compacted", map[string]*string{
			"cleanup.policy": kmsg.StringPtr("compact"), "min.cleanable.dirty.ratio": kmsg.StringPtr("0.01"), "segment.ms": kmsg.StringPtr("100"),
		})
		// Of each batch the first 15 keys are not in the next. The last one stands for
		// the segment that is written to, which is not compacted.
		for i := range 5 {
			b := compacted.batchOf(r, 40)
			for j := range b.records {
				b.records[j].Key = fmt.Appendf(nil, "key-%d", 15*i+j)
			}
			compacted.produce(k, w, b)
			if i < 4 {
				kept = append(kept, compacted.records[40*i:][:15]...)
			}
		}
		compacted.produce(k, w, keyed("last", "of all"))
		kept = append(kept, compacted.records[4*40:]...)
		// The size kept is that of five batches, so seven go.
		for {
			at := k.dial().offsetAt("sized", k.max(kmsg.ListOffsets, newest), 0, -2).Offset
			if at == 7*50 {
				break
			}
			if at > 7*50 || !k.pause(100*time.Millisecond) {
				k.Fatalf("the log starts at %d, want 350", at)
			}
		}
		sized.wantServed(k, 7*50)
		for {
			left := len(k.readAll(ctx, compacted.tp))
			if left == len(kept) {
				break
			}
			if left < len(kept) || !k.pause(300*time.Millisecond) {
				k.Fatalf("%d records are left, want %d", left, len(kept))
			}
		}
	})
	wantPacked(ctx, t, dir, "sized")
	wantPacked(ctx, t, dir, "compacted")
	p = restarted(t, p, dir, noReadCache)
	on(t, p, func(_ context.Context, k *T) { sized.wantServed(k, 7*50) })
	var want, got bytes.Buffer
	for _, r := range kept {
		want.WriteString(line(r))
	}
	for _, r := range readAll(ctx, t, p, "compacted", len(kept)) {
		got.WriteString(line(r))
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("after compaction: %s", firstDifference(got.Bytes(), want.Bytes()))
	}
}
