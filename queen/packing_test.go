package queen

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"queenmq/store/storetest"
)

// order is a JSON value of about n bytes, as applications send them.
func order(r *rand.Rand, n int) []byte {
	b := []byte(`{"items":[`)
	for len(b) < n {
		b = fmt.Appendf(b, `{"sku":"%08x","quantity":%d,"price":{"amount":%d,"currency":"EUR"},"status":"shipped"},`, r.Uint32(), r.IntN(9), r.IntN(9999))
	}
	return append(b[:len(b)-1], `]}`...)
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func valuesBatch(tb testing.TB, codec int8, change func(*kmsg.RecordBatch), values ...[]byte) []byte {
	tb.Helper()
	records := make([]kmsg.Record, len(values))
	for i, v := range values {
		records[i] = kmsg.Record{OffsetDelta: int32(i), Value: v}
	}
	return encodeBatch(tb, codec, records, change)
}

// kafkaMarks are the marks of Kafka batches, one after another.
func kafkaMarks(tb testing.TB, batches ...[]byte) (marks []batchMark, data []byte) {
	tb.Helper()
	for _, b := range batches {
		info, err := lookBatch(b)
		if err != nil {
			tb.Fatal(err)
		}
		marks, data = append(marks, kafkaMark(info, len(b), idsMinted)), append(data, b...)
	}
	return marks, data
}

// A packed batch as the format says it, its block put together by the rules of
// Snappy, of which S2 is an extension: literals and copies.
func TestPackedBatchIsPinned(t *testing.T) {
	t.Parallel()
	b := valuesBatch(t, codecNone, nil, bytes.Repeat([]byte("queen"), 100))
	const run = 200 // within the value: it repeats what lies 5 bytes before
	at := bytes.Index(b, []byte("queenqueen")) + 5
	block := binary.AppendUvarint(nil, uint64(len(b)))
	literal := func(p []byte) {
		for len(p) > 0 {
			n := min(len(p), 60)
			block = append(append(block, byte(n-1)<<2), p[:n]...)
			p = p[n:]
		}
	}
	literal(b[:at])
	for range run / 50 {
		block = append(block, (50-1)<<2|2, 5, 0) // copy 50 bytes from 5 before
	}
	literal(b[at+run:])
	row := append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...)
	marks, _ := kafkaMarks(t, b)
	marks[0].Flags = flagPacked
	header := appendSegmentHeader(nil, goldenBase, marks)
	if header[len(header)-13] != 4 {
		t.Errorf("flags % x, want 00 04\n%s", header[len(header)-14:len(header)-12], formatChanged)
	}
	s := mustLoad(t, 0, 0, header, row)
	patchBatch(b, 0, 7)
	if !bytes.Equal(s.batches[0].data, b) || s.batches[0].mark.Flags != 0 {
		t.Errorf("unpacked % x\nwant     % x\n%s", s.batches[0].data, b, formatChanged)
	}
	if n := binary.BigEndian.Uint32(row); int(n) != len(row)-4 || n > 400 {
		t.Errorf("the block says %d bytes of %d", n, len(row)-4)
	}
}

func TestOnlyWhatShrinksIsPacked(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	f := func(name string, packed bool, batch []byte) {
		t.Run(name, func(t *testing.T) {
			marks, data := kafkaMarks(t, batch)
			sent := bytes.Clone(data)
			h := segmentHeader{Runs: []idRun{{Base: goldenBase}}, Marks: marks}
			header, stored := pack(h, data)
			if !bytes.Equal(data, sent) {
				t.Error("packing changed what is served")
			}
			if got := len(stored) < len(data); got != packed {
				t.Errorf("%d of %d bytes are stored", len(stored), len(data))
			}
			if !packed && (&stored[0] != &data[0] || !bytes.Equal(header, h.AppendTo(nil))) {
				t.Error("a segment of which nothing is packed is another")
			}
			if packed && 4*len(stored) > 3*len(data) {
				t.Errorf("packed to %d of %d bytes: that is not worth it", len(stored), len(data))
			}
		})
	}
	f("json", true, valuesBatch(t, codecNone, nil, order(r, 1000), order(r, 1000), order(r, 1000)))
	f("large json", true, valuesBatch(t, codecNone, nil, order(r, 300_000)))
	f("little json", false, valuesBatch(t, codecNone, nil, order(r, 1000)))
	f("random", false, valuesBatch(t, codecNone, nil, noise(r, 100_000)))
	f("a quarter json", false, valuesBatch(t, codecNone, nil, append(noise(r, 75_000), order(r, 25_000)...)))
	if looksPackable(valuesBatch(t, codecNone, nil, noise(r, 100_000))) || looksPackable(valuesBatch(t, codecNone, nil, noise(r, packBytesMin))) {
		t.Error("noise is packed to see that it does not shrink")
	}
	for _, codec := range allCodecs[1:] {
		// Zeroes compress twice: it is not asked whether they would.
		f(fmt.Sprintf("codec %d", codec), false, valuesBatch(t, codec, nil, make([]byte, 4<<20)))
	}
}

func TestUnpackingRefusesDamage(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	plain := valuesBatch(t, codecNone, nil, noise(r, 3000))
	marks, data := kafkaMarks(t, valuesBatch(t, codecNone, nil, order(r, 5000)), plain, valuesBatch(t, codecNone, nil, order(r, 9000)))
	header, row := pack(segmentHeader{Runs: []idRun{{Base: goldenBase}}, Marks: marks}, data)
	mustLoad(t, 0, 2, header, bytes.Clone(row))
	first := packedPrefixLen + int(binary.BigEndian.Uint32(row))
	entries := len(header) - 3*batchMarkLen
	f := func(name string, change func(h, d []byte) ([]byte, []byte)) {
		t.Helper()
		h, d := change(bytes.Clone(header), bytes.Clone(row))
		if s, err := loadSegment(0, 2, 1, time.Time{}, h, d); !errors.Is(err, ErrCorruptBatch) || !strings.Contains(err.Error(), "segment 0–2") {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	put := func(b []byte, at int, v uint32) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	f("no prefix", func(h, d []byte) ([]byte, []byte) { return h, d[:3] })
	f("nothing", func(h, d []byte) ([]byte, []byte) { return h, nil })
	f("block longer than the row", func(h, d []byte) ([]byte, []byte) { return h, put(d, 0, 1<<31) })
	f("empty block", func(h, d []byte) ([]byte, []byte) { return h, append(put(d, 0, 0)[:4], d[first:]...) })
	f("block cut", func(h, d []byte) ([]byte, []byte) { return h, put(d, 0, uint32(first-packedPrefixLen-1)) })
	f("row cut", func(h, d []byte) ([]byte, []byte) { return h, d[:len(d)-1] })
	f("row grown", func(h, d []byte) ([]byte, []byte) { return h, append(d, 0) })
	f("length in the entry", func(h, d []byte) ([]byte, []byte) { return put(h, entries, marks[0].Length+1), d })
	f("not packed", func(h, d []byte) ([]byte, []byte) { h[entries+batchMarkAtFlags+1] = 0; return h, d })
	f("packed", func(h, d []byte) ([]byte, []byte) {
		h[entries+batchMarkLen+batchMarkAtFlags+1] = byte(flagPacked)
		return h, d
	})
	f("a batch shorter than a header", func(h, d []byte) ([]byte, []byte) {
		block := s2.Encode(nil, []byte("short"))
		d = append(append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...), d[first:]...)
		return put(h, entries, 5), d
	})
	// Ten bytes that promise 4 GiB must not take them, whatever the entry says.
	block := append(binary.AppendUvarint(nil, 1<<32-1), 0, 0, 0, 0, 0)
	promise := append(append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...), row[first:]...)
	for length, why := range map[uint32]string{1<<32 - 1: "are allowed", marks[0].Length: "says it has 4294967295 bytes"} {
		h := put(bytes.Clone(header), entries, length)
		if s, err := loadSegment(0, 2, 1, time.Time{}, h, bytes.Clone(promise)); !errors.Is(err, ErrCorruptBatch) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, %v; want an error with %q", s, err, why)
		}
	}
	damaged := 0
	for range 500 {
		h, d := bytes.Clone(header), bytes.Clone(row)
		d[packedPrefixLen+r.IntN(first-packedPrefixLen)] ^= 1 << r.IntN(8)
		s, err := loadSegment(0, 2, 7, time.Time{}, h, d)
		switch {
		case err == nil && !bytes.Equal(s.batches[0].data[batchAtMagic:], data[batchAtMagic:marks[0].Length]):
			t.Fatal("a bit that fell over was not found")
		case err != nil && !errors.Is(err, ErrCorruptBatch):
			t.Fatal(err)
		case err != nil:
			damaged++
		}
	}
	if damaged < 400 {
		t.Errorf("%d of 500 damaged rows were found", damaged)
	}
}

// logged reads a partition's batches from an offset on, as served.
func logged(t interface {
	Helper()
	Fatal(...any)
}, ctx context.Context, e *Engine, ref PartitionRef,
) (batches [][]byte) {
	t.Helper()
	for offset := int64(0); ; {
		a, err := e.Read(ctx, ReadRequest{Items: []ReadItem{{Partition: ref, Offset: offset, MaxBytes: 4 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}}, MaxBytes: 4 << 20})
		if err != nil || a[0].Err != nil {
			t.Fatal(err, a[0].Err)
		}
		if len(a[0].Batches) == 0 {
			return batches
		}
		for _, b := range a[0].Batches {
			batches = append(batches, bytes.Clone(b))
		}
		offset = lastOffset(batches[len(batches)-1]) + 1
		a[0].Release()
	}
}

// TestPackedLogGivesBackWhatWasSent: whatever mixes of batches go into a segment,
// and whatever parts of it are refused, what comes back from the database is what
// was sent; and sizes are those of what is served.
func TestPackedLogGivesBackWhatWasSent(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pool := storetest.Pool(t, db)
	n, cut := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n++
		ref := at(fmt.Sprintf("t%d", n), 0)
		createTopic(t, e, ref.Queue.Name, 1)
		p, err := e.catalog.partition(t.Context(), ref)
		if err != nil {
			rt.Fatal(err)
		}
		var want [][]byte
		sequence := int32(0)
		for range rapid.IntRange(1, 3).Draw(rt, "segments") {
			var items []AppendItem
			refused := map[int]bool{}
			for i := range rapid.IntRange(1, 8).Draw(rt, "batches") {
				codec := rapid.SampledFrom([]int8{codecNone, codecNone, codecNone, codecLZ4, codecZstd}).Draw(rt, "codec")
				var values [][]byte
				for range rapid.IntRange(1, 5).Draw(rt, "records") {
					size := rapid.SampledFrom([]int{1, 100, 600, 3000, 20_000}).Draw(rt, "size")
					if rapid.Bool().Draw(rt, "json") {
						values = append(values, order(r, size))
					} else {
						values = append(values, noise(r, size))
					}
				}
				kind := rapid.SampledFrom([]string{"plain", "next", "out of order"}).Draw(rt, "sequence")
				batch := valuesBatch(t, codec, func(b *kmsg.RecordBatch) {
					switch kind {
					case "next":
						b.ProducerID, b.ProducerEpoch, b.FirstSequence = 7, 0, sequence
						sequence += b.NumRecords
					case "out of order":
						b.ProducerID, b.ProducerEpoch, b.FirstSequence = 7, 0, sequence+1000
						refused[i] = sequence > 0 // the first of a producer may be any
						if sequence == 0 {
							sequence = b.FirstSequence + b.NumRecords
						}
					}
				}, values...)
				items = append(items, AppendItem{Partition: ref, Batch: batch})
			}
			// All of them go into one segment.
			release, err := e.writer.turns(t.Context(), []*partition{p})
			if err != nil {
				rt.Fatal(err)
			}
			pending := e.Append(t.Context(), items)
			release()
			for i, one := range pending {
				res, err := one.Result(t.Context())
				if refused[i] {
					if !errors.Is(err, ErrOutOfOrderSequence) {
						rt.Fatalf("batch %d: %v", i, err)
					}
					cut++
					continue
				}
				if err != nil {
					rt.Fatal(err)
				}
				b := bytes.Clone(items[i].Batch)
				patchBatch(b, res.BaseOffset, e.db.Incarnation().Epoch)
				want = append(want, b)
			}
		}
		size := int64(0)
		for _, b := range want {
			size += int64(len(b))
		}
		for _, from := range []string{"memory", "the database"} {
			got := logged(rt, t.Context(), e, ref)
			if len(got) != len(want) {
				rt.Fatalf("%d batches from %s, want %d", len(got), from, len(want))
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					rt.Fatalf("batch %d from %s is not what was sent", i, from)
				}
			}
			e.tail.forget(p.id)
		}
		sizes, err := e.Sizes(t.Context(), []PartitionRef{ref})
		if err != nil || sizes[0].Size != size {
			rt.Fatalf("size %d, %v; %d bytes are served", sizes[0].Size, err, size)
		}
		var sum, total int64
		if err := pool.QueryRow(t.Context(), `SELECT COALESCE(sum(size), 0), COALESCE(max(total_size), 0) FROM log_segments WHERE partition_id = $1`,
			p.id).Scan(&sum, &total); err != nil || sum != size || total != size {
			rt.Fatalf("sizes add up to %d, and %d, %v; want %d", sum, total, err, size)
		}
	})
	if cut == 0 {
		t.Error("no part was refused")
	}
	var packed, plain int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE octet_length(data) < size), count(*) FILTER (WHERE octet_length(data) = size)
		FROM log_segments`).Scan(&packed, &plain); err != nil || packed == 0 || plain == 0 {
		t.Errorf("%d segments with packed batches, %d without, %v", packed, plain, err)
	}
}

// What was pushed comes back after a restart, by every way that reads segments.
func TestPackedMessagesAreReadEverywhere(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	r := rand.New(rand.NewPCG(5, 6))
	var msgs []Message
	for i := range 20 {
		msgs = append(msgs, Message{Queue: "q", ID: fmt.Appendf(nil, "id-%d", i), Value: order(r, 1000)})
	}
	for _, p := range e.Push(t.Context(), msgs) {
		if p.Status != Queued {
			t.Fatal(p.Err)
		}
	}
	// A transaction, a timer.
	msgs = append(msgs, Message{Queue: "q", ID: []byte("in a transaction"), Value: order(r, 5000)})
	if got := transact(t, e, Transaction{Operations: []Operation{pushOp(msgs[20])}}); got.Reason != "" {
		t.Fatal(got)
	}
	msgs = append(msgs, Message{Queue: "q", ID: []byte("by a timer"), Value: order(r, 5000)})
	schedule(t, e, TimerOp{Queue: "q", Key: "k", ID: msgs[21].ID, Payload: msgs[21].Value})
	untilStored(t, e, "q", DefaultPartition, len(msgs))
	want := 0
	if err := storetest.Pool(t, db).QueryRow(t.Context(), `SELECT count(*) FROM log_segments WHERE octet_length(data) < size * 3 / 4`).Scan(&want); err != nil || want != 3 {
		t.Fatalf("%d of three segments are packed, %v", want, err)
	}
	e = openEngine(t, storetest.Open(t, db))
	same := func(how string, got []StoredMessage) {
		t.Helper()
		if len(got) != len(msgs) {
			t.Fatalf("%s: %d messages, want %d", how, len(got), len(msgs))
		}
		for i, m := range got {
			if !bytes.Equal(m.Value, msgs[i].Value) || !bytes.Equal(m.TransactionID, msgs[i].ID) {
				t.Errorf("%s: message %d is not the one pushed", how, i)
			}
		}
	}
	popped := popBatch(t, e, PopRequest{Queue: "q", Batch: 100, Lease: time.Hour})
	same("pop", popped.Messages)
	ackAll(t, openEngine(t, storetest.Open(t, db)), popped, AckDead)
	same("fetch", fetchAll(t, e, "q", ""))
	letters, _, err := e.DeadLetters(t.Context(), DeadQuery{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	var dead []StoredMessage
	for _, l := range letters {
		dead = append(dead, l.Message)
	}
	same("dead letters", dead)
}

// A batch that loses records to deduplication is packed again, and what is left has
// its offsets, also where all of it comes twice.
func TestPackedBatchLosesItsDuplicates(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	sourced(t, e, "t", DedupSourceKey)
	r := rand.New(rand.NewPCG(9, 10))
	batch := func(first int) (b []byte, lines []string) {
		records := make([]kmsg.Record, 10)
		for i := range records {
			key, value := fmt.Sprint("k", first+i), order(r, 1000)
			records[i] = kmsg.Record{OffsetDelta: int32(i), Key: []byte(key), Value: value}
			lines = append(lines, key+" "+string(value))
		}
		return encodeBatch(t, codecNone, records, nil), lines
	}
	var want []string
	for i, first := range []int{0, 5, 8, 3} {
		b, lines := batch(first)
		appendBatch(t, e, at("t", 0), b)
		for k, line := range lines[[]int{0, 5, 7, 10}[i]:] {
			want = append(want, fmt.Sprint(10*i+[]int{0, 5, 7, 10}[i]+k, " ", line))
		}
	}
	var rows, packed int
	if err := storetest.Pool(t, db).QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE octet_length(data) < size * 3 / 4)
		FROM log_segments`).Scan(&rows, &packed); err != nil || rows != 3 || packed != 3 {
		t.Fatalf("%d of %d rows are packed, %v; want three of three", packed, rows, err)
	}
	for how, e := range map[string]*Engine{"memory": e, "the database": openEngine(t, storetest.Open(t, db))} {
		var got []string
		for _, m := range fetchAll(t, e, "t", "0") {
			got = append(got, fmt.Sprint(m.Offset, " ", string(m.Key), " ", string(m.Value)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %s: %d messages\n%.300q\nwant %d\n%.300q", how, len(got), got, len(want), want)
		}
	}
}

// FuzzUnpack: no block makes unpacking panic or give anything but as many bytes as
// the entry says.
func FuzzUnpack(f *testing.F) {
	b := valuesBatch(f, codecNone, nil, bytes.Repeat([]byte("queen"), 20))
	marks, data := kafkaMarks(f, b, b)
	var row []byte // smaller than what pack would take, so that the fuzzer is fast
	for range 2 {
		block := s2.Encode(nil, b)
		row = append(binary.BigEndian.AppendUint32(row, uint32(len(block))), block...)
	}
	f.Add(row, marks[0].Length, true)
	f.Add(row[:len(row)-1], marks[0].Length, true)
	f.Add(data, marks[0].Length, false)
	f.Fuzz(func(t *testing.T, row []byte, length uint32, packed bool) {
		if length > 1<<20 {
			return
		}
		h := segmentHeader{Marks: []batchMark{{Length: length, Flags: flagPacked}, {Length: marks[1].Length}}}
		if packed {
			h.Marks[1].Flags = flagPacked
		}
		got, err := h.unpack(row)
		if err != nil {
			return
		}
		if len(got) < int(length)+int(marks[1].Length) {
			t.Fatalf("%d bytes of batches of %d and %d", len(got), length, marks[1].Length)
		}
		if _, err := lookBatch(got[:length]); err == nil && binary.BigEndian.Uint32(got[batchAtCRC:]) != crc32.Checksum(got[batchAtAttributes:length], castagnoli) {
			t.Fatal("the CRC was not looked at")
		}
	})
}

// A repeat after a lost answer is the same call, its packed bytes included: a
// neighbour in the pool of buffers has not written over them.
func TestPackedSegmentIsSentAgain(t *testing.T) {
	t.Parallel()
	l, db := openLossy(t)
	e := openEngine(t, db, func(c *Config) { c.TailBytesMax = 1 })
	createTopic(t, e, "t", 2)
	send := func(r *rand.Rand, partition int32, key string) []byte {
		batch := encodeBatch(t, codecNone, []kmsg.Record{{Key: []byte(key), Value: order(r, 100_000)}}, nil)
		res, err := e.Append(t.Context(), []AppendItem{{Partition: at("t", partition), Batch: batch}})[0].Result(t.Context())
		if err != nil {
			t.Error(err)
		}
		patchBatch(batch, res.BaseOffset, e.db.Incarnation().Epoch)
		return batch
	}
	var want, other [][]byte
	var wg sync.WaitGroup
	var over atomic.Bool
	wg.Go(func() {
		for r := rand.New(rand.NewPCG(11, 12)); !over.Load(); {
			other = append(other, send(r, 1, "another"))
		}
	})
	r := rand.New(rand.NewPCG(13, 14))
	for i := range 5 {
		key := fmt.Sprintf("lost-answer-%d", i)
		l.lose(key)
		want = append(want, send(r, 0, key))
	}
	over.Store(true)
	wg.Wait()
	if l.count() != 5 {
		t.Fatalf("%d answers were lost, want 5", l.count())
	}
	for partition, want := range [][][]byte{want, other} {
		if got := logged(t, t.Context(), e, at("t", int32(partition))); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("partition %d has %d batches, not the %d that were sent", partition, len(got), len(want))
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.metrics.storedBytes)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		counted[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	size := 0
	for _, b := range slices.Concat(want, other) {
		size += len(b)
	}
	if counted["served"] != float64(size) || counted["row"] == 0 || 2*counted["row"] > counted["served"] {
		t.Errorf("%v are counted, %d bytes are served", counted, size)
	}
}

func TestPackedSegmentsAreCompacted(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db, byHand)
	compactedTopic(t, e, "t")
	r := rand.New(rand.NewPCG(9, 10))
	latest := map[string]int{}
	value := func(offset int) string {
		return fmt.Sprintf(`{"offset":%d,"order":%s}`, offset, order(rand.New(rand.NewPCG(uint64(offset), 1)), 900))
	}
	offset := 0
	for range 6 {
		var pairs []pair
		for range 10 {
			key := fmt.Sprintf("key-%d", r.IntN(20))
			pairs = append(pairs, pair{key, value(offset)})
			latest[key] = offset
			offset++
		}
		appendPairs(t, e, "t", pairs...)
	}
	appendPairs(t, e, "t", pair{"last", value(offset)}) // the newest segment is left alone
	latest["last"] = offset
	compactNow(t, e)
	var want []string
	for key, offset := range latest {
		want = append(want, fmt.Sprintf("%d %s=%s", offset, key, value(offset)))
	}
	slices.SortFunc(want, func(a, b string) int { // by offset
		n := func(s string) (n int) { _, _ = fmt.Sscan(s, &n); return n }
		return n(a) - n(b)
	})
	wantContents(t, e, "t", want...)
	size := int64(0)
	for _, b := range logged(t, t.Context(), e, at("t", 0)) {
		size += int64(len(b))
	}
	pool := storetest.Pool(t, db)
	var sum int64
	var packed bool
	if err := pool.QueryRow(t.Context(), `SELECT sum(size), bool_and(4 * octet_length(data) <= 3 * size) FROM log_segments WHERE size > $1`,
		packBytesMin).Scan(&sum, &packed); err != nil || !packed {
		t.Errorf("compacted rows are packed: %v, %v", packed, err)
	}
	if err := pool.QueryRow(t.Context(), `SELECT sum(size) FROM log_segments`).Scan(&sum); err != nil || sum != size {
		t.Errorf("sizes add up to %d, %v; %d bytes are served", sum, err, size)
	}
}

// BenchmarkPack packs 4 MiB of batches of one size; bytes are those served.
func BenchmarkPack(b *testing.B) {
	for _, kind := range []string{"json", "random"} {
		for _, size := range []int{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("kind=%s/batch=%d", kind, size), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				var batches [][]byte
				for n := 0; n < 4<<20; n += size {
					var values [][]byte
					for left := size; left > 0; left -= 1 << 10 {
						if kind == "json" {
							values = append(values, order(r, 1<<10-40))
						} else {
							values = append(values, noise(r, 1<<10))
						}
					}
					batches = append(batches, valuesBatch(b, codecNone, nil, values...))
				}
				marks, data := kafkaMarks(b, batches...)
				p := packing{marks: marks, data: data, header: appendSegmentHeader(nil, goldenBase, marks)}
				b.SetBytes(int64(len(data)))
				stored := 0
				for b.Loop() {
					p.release()
					p.at, p.done = 0, 0
					for range marks {
						p.next()
					}
					stored = len(p.stored())
				}
				b.ReportMetric(float64(stored)/float64(len(data)), "stored/served")
			})
		}
	}
}
