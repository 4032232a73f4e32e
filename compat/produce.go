package compat

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var produceCases = []Case{
	{"produce/exactly-one-batch-per-partition", oneBatch},
	{"produce/lying-batches-are-refused", lyingBatches},
	{"produce/codecs-round-trip", codecsRoundTrip},
	{"produce/batches-are-stored-as-sent", storedAsSent},
	{"produce/null-is-not-empty", nullIsNotEmpty},
	{"produce/large-messages", largeMessages},
	{"produce/too-large-is-10", tooLarge},
	{"produce/acks-0-1-all", everyAcks},
	{"produce/each-partition-has-its-own-verdict", ownVerdicts},
	{"produce/unknown-topic-id-is-100", unknownTopicID},
	{"produce/auto-create-only-when-asked", autoCreate},
	{"produce/one-topic-from-twenty-clients-at-once", autoCreateRace},
}

// namedProduce are the Produce versions by topic name that clients use: kcat
// and kafkajs 7, librdkafka 10, and the oldest flexible one.
var namedProduce = []int16{7, 9, 12}

// wantStored checks that a partition holds exactly so many records.
func (t *T) wantStored(tp topic, partition int32, want int64) {
	if got := t.endOffset(tp.name, partition); got != want {
		t.Errorf("log end of partition %d is %d, want %d", partition, got, want)
	}
}

func oneBatch(_ context.Context, t *T) {
	tp := t.topic(1)
	addr := t.leader(tp.name, 0)
	a, b := values("a").encode(), values("b").encode()
	lie := values("a", "b")
	lie.count = 3
	junk := make([]byte, 20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range junk {
		junk[i] = byte(r.Uint32())
	}
	for _, limit := range namedProduce {
		v := t.max(kmsg.Produce, limit)
		for _, c := range []struct {
			what    string
			records []byte
			want    []int16
		}{
			{"two batches in one", append(bytes.Clone(a), b...), []int16{kerr.InvalidRecord.Code}},
			{"no bytes", []byte{}, []int16{kerr.InvalidRecord.Code}},
			{"two records that claim to be three", lie.encode(), []int16{kerr.InvalidRecord.Code}},
			{"random bytes", junk, []int16{kerr.InvalidRecord.Code, kerr.CorruptMessage.Code}},
		} {
			got := t.dialTo(addr).produce(tp, v, -1, part{0, c.records})
			t.wantCode(fmt.Sprintf("v%d, %s", v, c.what), got[0].ErrorCode, c.want...)
		}
		t.nullRecords(addr, tp, v)
	}
	t.wantStored(tp, 0, 0)
	got := t.dialTo(addr).produce(tp, t.max(kmsg.Produce, newest), -1, part{0, a})
	t.wantCode("an honest batch after all that", got[0].ErrorCode, 0)
}

// nullRecords: an error or a closed connection, never a success. Apache Kafka
// itself says nothing at all, so silence is let pass too.
func (t *T) nullRecords(addr string, tp topic, version int16) {
	w := t.dialTo(addr)
	req := produceRequest(tp, -1, part{0, nil})
	corr := w.send(req, version)
	_ = w.conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	got, err := w.read()
	if err != nil {
		return
	}
	if got.corr != corr {
		t.Errorf("v%d, null records: reply to %d", version, got.corr)
	}
	resp, err := decode(got.body, req)
	t.must(err, "decode the answer to null records")
	if code := firstCode(resp.(*kmsg.ProduceResponse)); code == 0 {
		t.Errorf("v%d, null records: answered success", version)
	}
}

func firstCode(r *kmsg.ProduceResponse) int16 {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			return p.ErrorCode
		}
	}
	return -1
}

func lyingBatches(_ context.Context, t *T) {
	tp := t.topic(1)
	addr := t.leader(tp.name, 0)
	v := t.max(kmsg.Produce, newest)
	mangled := func(f func(*kmsg.RecordBatch)) []byte {
		b := values("a", "b")
		b.mangle = f
		return b.encode()
	}
	patched := func(at int, x byte) []byte {
		b := values("a", "b").encode()
		b[at] = x
		return b
	}
	flipped := values("a", "b").encode()
	flipped[len(flipped)-2] ^= 1
	zstd := values("a", "b")
	zstd.codec = codec(kgo.ZstdCompression())
	cut := values("a", "b").encode()
	refused := []int16{kerr.InvalidRecord.Code, kerr.CorruptMessage.Code}
	for _, c := range []struct {
		what    string
		records []byte
		want    []int16
	}{
		{"a flipped bit", flipped, []int16{kerr.CorruptMessage.Code}},
		{"magic 1", patched(batchMagicAt, 1), []int16{kerr.InvalidRecord.Code}},
		{"magic 3", patched(batchMagicAt, 3), refused},
		{"the last byte missing", cut[:len(cut)-1], refused},
		{"a control batch", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 5 }), []int16{kerr.InvalidRecord.Code}},
		{"last offset delta too high", mangled(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 5 }), []int16{kerr.InvalidRecord.Code}},
		{"last offset delta negative", mangled(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -1 }), refused},
		{"zero records", mangled(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta, b.Records = 0, -1, nil }), refused},
		{"fewer records than claimed", mangled(func(b *kmsg.RecordBatch) { b.Records = b.Records[:len(b.Records)/2] }), refused},
		{"bytes that are no gzip", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 1 }), nil},
		{"a codec that does not exist", mangled(func(b *kmsg.RecordBatch) { b.Attributes |= 7 }), nil},
	} {
		w := t.dialTo(addr)
		req := produceRequest(tp, -1, part{0, c.records})
		corr := w.send(req, v)
		got, err := w.read()
		if err != nil {
			t.Errorf("%s: no answer: %v", c.what, err)
			continue
		}
		resp, err := decode(got.body, req)
		if err != nil || got.corr != corr {
			t.Errorf("%s: reply to %d: %v", c.what, got.corr, err)
			continue
		}
		code := firstCode(resp.(*kmsg.ProduceResponse))
		if c.want == nil {
			if code == 0 {
				t.Errorf("%s: answered success", c.what)
			}
			continue
		}
		t.wantCode(c.what, code, c.want...)
	}
	for _, acks := range []int16{2, -2} {
		got := t.dialTo(addr).produce(tp, v, acks, part{0, values("x").encode()})
		t.wantCode(fmt.Sprintf("acks=%d", acks), got[0].ErrorCode, kerr.InvalidRequiredAcks.Code)
	}
	if r, _ := t.offers(kmsg.Produce); r.min <= 6 {
		got := t.dialTo(addr).produce(tp, 6, -1, part{0, zstd.encode()})
		t.wantCode("zstd in Produce v6", got[0].ErrorCode, kerr.UnsupportedCompressionType.Code)
	}
	t.wantStored(tp, 0, 0)
}

func codec(c kgo.CompressionCodec) *kgo.CompressionCodec { return &c }

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

// codecsRoundTrip sends the same records in every codec to a partition of each.
func codecsRoundTrip(ctx context.Context, t *T) {
	const n = 3000
	tp := t.topic(int32(len(codecs)))
	for p, c := range codecs {
		cl := t.client(kgo.DefaultProduceTopic(tp.name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(c.codec))
		var rs []*kgo.Record
		for i := range n {
			rs = append(rs, &kgo.Record{
				Partition: int32(p), Key: fmt.Appendf(nil, "key %d", i),
				Value:     fmt.Appendf(nil, "value %d of %d, %s", i, n, c.name),
				Headers:   []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}, {Key: "codec", Value: []byte(c.name)}},
				Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
			})
		}
		t.must(cl.ProduceSync(ctx, rs...).FirstErr(), "produce "+c.name)
	}
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := t.collect(ctx, reader, n*len(codecs))
	for p, c := range codecs {
		rs := got[int32(p)]
		if len(rs) != n {
			t.Errorf("%s: %d records, want %d", c.name, len(rs), n)
			continue
		}
		for i, r := range rs {
			if r.Offset != int64(i) || string(r.Key) != fmt.Sprintf("key %d", i) ||
				string(r.Value) != fmt.Sprintf("value %d of %d, %s", i, n, c.name) ||
				len(r.Headers) != 2 || string(r.Headers[0].Value) != fmt.Sprint(i) || string(r.Headers[1].Value) != c.name ||
				r.Timestamp.UnixMilli() != 1_700_000_000_000+int64(i) {
				t.Errorf("%s: record %d came back as %d %q=%q %v %s", c.name, i, r.Offset, r.Key, r.Value, r.Headers, r.Timestamp)
				break
			}
		}
	}
}

// collect polls until n records are there and answers them by partition.
func (t *T) collect(ctx context.Context, cl *kgo.Client, n int) map[int32][]*kgo.Record {
	got := make(map[int32][]*kgo.Record)
	for total := 0; total < n; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records came", total, n)
		}
		for _, e := range fs.Errors() {
			t.Fatalf("poll %s/%d: %v", e.Topic, e.Partition, e.Err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got[r.Partition] = append(got[r.Partition], r)
			total++
		})
	}
	return got
}

// storedAsSent: with compression.type=producer a batch comes back byte for
// byte, but for the base offset and the leader epoch in front of the CRC.
func storedAsSent(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	next := int64(0)
	for _, c := range codecs {
		b := values("one", "two two two two two two two two two two", "three")
		b.codec = codec(c.codec)
		sent := b.encode()
		p := w.produce(tp, v, -1, part{0, sent})
		t.wantCode("produce "+c.name, p[0].ErrorCode, 0)
		if p[0].BaseOffset != next {
			t.Errorf("%s: base offset %d, want %d", c.name, p[0].BaseOffset, next)
		}
		if p[0].LogAppendTime != -1 {
			t.Errorf("%s: log append time %d on a topic of create time", c.name, p[0].LogAppendTime)
		}
		f := w.fetch(tp, t.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 1 << 20, offset: next}, 0)
		t.wantCode("fetch "+c.name, f.ErrorCode, 0)
		switch got := f.RecordBatches; {
		case len(got) != len(sent):
			t.Errorf("%s: %d bytes came back for %d", c.name, len(got), len(sent))
		case !bytes.Equal(got[batchMagicAt:], sent[batchMagicAt:]):
			t.Errorf("%s: came back as other bytes", c.name)
		case !bytes.Equal(got[8:12], sent[8:12]) || baseOffset(got) != next:
			t.Errorf("%s: the head came back as % x", c.name, got[:batchMagicAt])
		}
		next += 3
	}
}

// nullIsNotEmpty: keys, values and header values keep the difference; header
// keys keep their order and repeats.
func nullIsNotEmpty(ctx context.Context, t *T) {
	tp := t.topic(1)
	headers := []kgo.RecordHeader{
		{Key: "h", Value: nil},
		{Key: "h", Value: []byte{}},
		{Key: "h", Value: []byte("x")},
		{Key: "é", Value: []byte{0x00, 0xff}},
		{Key: "", Value: []byte("empty key")},
	}
	sent := []*kgo.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: nil},
		{Key: nil, Value: []byte("v")},
		{Key: []byte("k"), Value: []byte("v"), Headers: headers},
	}
	cl := t.client(kgo.DefaultProduceTopic(tp.name))
	t.must(cl.ProduceSync(ctx, sent...).FirstErr(), "produce")
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	for i, r := range t.collect(ctx, reader, len(sent))[0] {
		if !same(r.Key, sent[i].Key) || !same(r.Value, sent[i].Value) {
			t.Errorf("record %d: %#v=%#v came back as %#v=%#v", i, sent[i].Key, sent[i].Value, r.Key, r.Value)
		}
		if len(r.Headers) != len(sent[i].Headers) {
			t.Errorf("record %d: %d headers came back as %d", i, len(sent[i].Headers), len(r.Headers))
			continue
		}
		for j, h := range r.Headers {
			if w := sent[i].Headers[j]; h.Key != w.Key || !same(h.Value, w.Value) {
				t.Errorf("record %d, header %d: %q=%#v came back as %q=%#v", i, j, w.Key, w.Value, h.Key, h.Value)
			}
		}
	}
}

// noise makes bytes that no codec can shrink.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b) // never fails
	return b
}

func largeMessages(ctx context.Context, t *T) {
	const size, n = 900_000, 12
	tp := t.topic(2)
	cl := t.client(kgo.DefaultProduceTopic(tp.name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := &kgo.Record{Partition: int32(i % 2), Key: fmt.Append(nil, i), Value: noise(size, uint64(i))}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Errorf("produce %d bytes: %v", size, err)
			}
		})
	}
	wg.Wait()
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := make(map[string]bool)
	for _, rs := range t.collect(ctx, reader, n) {
		for _, r := range rs {
			var i int
			if _, err := fmt.Sscan(string(r.Key), &i); err != nil || !bytes.Equal(r.Value, noise(size, uint64(i))) {
				t.Errorf("message %q came back changed (%d bytes)", r.Key, len(r.Value))
			}
			seen[string(r.Key)] = true
		}
	}
	if len(seen) != n {
		t.Errorf("%d messages of %d came back", len(seen), n)
	}
}

// tooLarge: max.message.bytes counts the batch as sent, 1,048,588 bytes by default.
func tooLarge(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	fits := func(n int) []byte {
		b := values()
		b.records = []kmsg.Record{{Value: noise(n, 1)}}
		return b.encode()
	}
	limit := 1_048_588
	over := len(fits(1_048_000)) - 1_048_000 // what goes around a value of about that size
	got := w.produce(tp, v, -1, part{0, fits(limit - over)})
	t.wantCode("a batch of exactly the limit", got[0].ErrorCode, 0)
	got = w.produce(tp, v, -1, part{0, fits(limit - over + 1)})
	t.wantCode("one byte more", got[0].ErrorCode, kerr.MessageTooLarge.Code)
	t.wantStored(tp, 0, 1)
	small := "2000"
	tp = t.topicWith(1, map[string]*string{"max.message.bytes": &small})
	w = t.dialTo(t.leader(tp.name, 0))
	got = w.produce(tp, v, -1, part{0, fits(2100)})
	t.wantCode("2100 bytes where max.message.bytes is 2000", got[0].ErrorCode, kerr.MessageTooLarge.Code)
	got = w.produce(tp, v, -1, part{0, fits(1500)})
	t.wantCode("1500 bytes where max.message.bytes is 2000", got[0].ErrorCode, 0)
}

func everyAcks(ctx context.Context, t *T) {
	tp := t.topic(1)
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		opts := []kgo.Opt{kgo.DefaultProduceTopic(tp.name), kgo.RequiredAcks(acks)}
		if acks != kgo.AllISRAcks() {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		cl := t.client(opts...)
		for range 100 {
			t.must(cl.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(), "produce")
		}
	}
	reader := t.client(kgo.ConsumeTopics(tp.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	t.collect(ctx, reader, 300)
	t.wantStored(tp, 0, 300)
}

// ownVerdicts: every partition asked for is answered, good ones in spite of bad ones.
func ownVerdicts(_ context.Context, t *T) {
	tp := t.topic(3)
	w := t.dialTo(t.leader(tp.name, 0))
	bad := values("x").encode()
	bad[len(bad)-2] ^= 1
	good := values("x").encode()
	got := w.produce(tp, t.max(kmsg.Produce, newest), -1,
		part{0, good}, part{1, bad}, part{7, good}, part{2, good})
	want := map[int32]int16{0: 0, 1: kerr.CorruptMessage.Code, 7: kerr.UnknownTopicOrPartition.Code, 2: 0}
	for _, p := range got {
		t.wantCode(fmt.Sprintf("partition %d", p.Partition), p.ErrorCode, want[p.Partition])
		delete(want, p.Partition)
	}
	if len(want) > 0 {
		t.Errorf("no answer for %v", want)
	}
	for p, n := range []int64{1, 0, 1} {
		t.wantStored(tp, int32(p), n)
	}
}

func unknownTopicID(_ context.Context, t *T) {
	v := t.max(kmsg.Produce, newest)
	if v < 13 {
		t.Skipf("Produce by topic id is not offered")
	}
	w := t.dial()
	got := w.produce(topic{id: [16]byte{1, 2, 3}}, v, -1, part{0, values("x").encode()})
	t.wantCode("Produce to an id nobody has", got[0].ErrorCode, kerr.UnknownTopicID.Code)
}

// autoCreate: a topic comes into being through Metadata, when the client allows
// it and the broker does, and can be used at once. Case P19.
func autoCreate(ctx context.Context, t *T) {
	v := t.max(kmsg.Metadata, newest)
	produceV := t.max(kmsg.Produce, 12) // by name
	w := t.dial()

	unasked := t.name("compat-unasked")
	md := metadataOf(w, v, unasked, false)
	t.wantCode("Metadata that forbids creation", md.ErrorCode, kerr.UnknownTopicOrPartition.Code)
	got := w.produce(topic{name: unasked}, produceV, -1, part{0, values("x").encode()})
	t.wantCode("Produce to a name nobody has", got[0].ErrorCode, kerr.UnknownTopicOrPartition.Code)
	names, err := t.adm().ListTopics(ctx)
	t.must(err, "list topics")
	if names.Has(unasked) {
		t.Errorf("%s exists, though nobody asked for it", unasked)
	}

	t.autoCreated(w, v, t.name("compat-auto"))
	var worst time.Duration
	for range 50 {
		name := t.name("compat-auto")
		t.cleanup(func() { t.deleteTopic(name) })
		md := metadataOf(w, v, name, true)
		t.wantCode("Metadata that allows creation", md.ErrorCode, 0,
			kerr.LeaderNotAvailable.Code, kerr.UnknownTopicOrPartition.Code)
		worst = max(worst, t.untilStored(w, name, produceV))
	}
	t.Notef("slowest first record after %s", worst.Round(time.Millisecond))
}

// autoCreated makes one topic through Metadata; without auto-creation the case ends here.
func (t *T) autoCreated(w *wire, version int16, name string) [16]byte {
	t.cleanup(func() { t.deleteTopic(name) })
	for tries := 0; ; tries++ {
		md := metadataOf(w, version, name, true)
		if md.ErrorCode == 0 {
			return md.TopicID
		}
		if tries == 50 || !t.pause(20*time.Millisecond) {
			t.Skipf("the broker does not auto-create topics: %s", codeName(md.ErrorCode))
		}
	}
}

// untilStored produces to a topic just made until it takes the record.
func (t *T) untilStored(w *wire, name string, version int16) time.Duration {
	start := time.Now()
	for {
		got := w.produce(topic{name: name}, version, -1, part{0, values("x").encode()})
		switch code := got[0].ErrorCode; code {
		case 0:
			return time.Since(start)
		case kerr.UnknownTopicOrPartition.Code, kerr.LeaderNotAvailable.Code, kerr.NotLeaderForPartition.Code:
		default:
			t.Fatalf("first produce to %s: %s", name, codeName(code))
		}
		if time.Since(start) > 30*time.Second || !t.pause(10*time.Millisecond) {
			t.Fatalf("%s still does not take a record", name)
		}
	}
}

func metadataOf(w *wire, version int16, name string, create bool) kmsg.MetadataResponseTopic {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, rt)
	r := ask[*kmsg.MetadataResponse](w, req, version)
	if len(r.Topics) != 1 {
		w.t.Fatalf("Metadata of one topic answered %d", len(r.Topics))
	}
	return r.Topics[0]
}

// autoCreateRace: however many ask at once, there is one topic of a name. Case P19.
func autoCreateRace(_ context.Context, t *T) {
	v := t.max(kmsg.Metadata, newest)
	probe := t.dial()
	t.autoCreated(probe, v, t.name("compat-auto"))
	for range 5 {
		name := t.name("compat-race")
		t.cleanup(func() { t.deleteTopic(name) })
		ids := make(chan [16]byte, 20)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range cap(ids) {
			w := t.dial()
			wg.Go(func() {
				defer func() { _ = recover() }() // Fatalf from here is noted already
				<-start
				ids <- t.autoCreated(w, v, name)
			})
		}
		close(start)
		wg.Wait()
		close(ids)
		seen := make(map[[16]byte]int)
		for id := range ids {
			seen[id]++
		}
		if len(seen) != 1 {
			t.Errorf("%d topics of one name: %v", len(seen), seen)
		}
	}
}
