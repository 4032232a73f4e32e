package queen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// testLimits are small, so that a bomb need not be big.
var testLimits = batchLimits{BatchBytesMax: 1 << 20, DecompressedBytesMax: 4 << 20}

const codecXerial int8 = 100 // in tests: snappy in Java's frames

// encodeRecords writes records by kmsg, which is not our code.
func encodeRecords(records []kmsg.Record) (b []byte) {
	for i := range records {
		r := records[i]
		r.Length = 0
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
		b = r.AppendTo(b)
	}
	return b
}

func compressRecords(tb testing.TB, codec int8, b []byte) []byte {
	tb.Helper()
	var buf bytes.Buffer
	var err error
	switch codec {
	case codecNone:
		return b
	case codecGzip:
		w := gzip.NewWriter(&buf)
		_, _ = w.Write(b)
		err = w.Close()
	case codecSnappy:
		return snappy.Encode(nil, b)
	case codecXerial:
		buf.Write(append([]byte("\x82SNAPPY\x00"), 0, 0, 0, 1, 0, 0, 0, 1))
		for len(b) > 0 {
			n := min(len(b), 32<<10) // the block size of xerial
			block := snappy.Encode(nil, b[:n])
			buf.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			buf.Write(block)
			b = b[n:]
		}
	case codecLZ4:
		w := lz4.NewWriter(&buf)
		_, _ = w.Write(b)
		err = w.Close()
	case codecZstd:
		var w *zstd.Encoder
		if w, err = zstd.NewWriter(&buf); err == nil {
			_, _ = w.Write(b[:len(b)/2])
			_ = w.Flush() // a stream: the frame does not say its size
			_, _ = w.Write(b[len(b)/2:])
			err = w.Close()
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return buf.Bytes()
}

// encodeBatch writes a batch by kmsg; change may tell lies before the CRC is computed.
func encodeBatch(tb testing.TB, codec int8, records []kmsg.Record, change func(b *kmsg.RecordBatch)) []byte {
	tb.Helper()
	attributes := int16(codec)
	if codec == codecXerial {
		attributes = int16(codecSnappy)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes,
		LastOffsetDelta: int32(len(records) - 1), NumRecords: int32(len(records)),
		FirstTimestamp: 1000, MaxTimestamp: 1000, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		Records: compressRecords(tb, codec, encodeRecords(records)),
	}
	for _, r := range records {
		batch.MaxTimestamp = max(batch.MaxTimestamp, 1000+r.TimestampDelta64)
	}
	if change != nil {
		change(&batch)
	}
	return sealed(batch.AppendTo(nil))
}

// sealed sets length and CRC to what they must be.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func someRecords() []kmsg.Record {
	return []kmsg.Record{
		{Key: []byte("k"), Value: []byte("v"), TimestampDelta64: 5},
		{OffsetDelta: 1, Value: []byte{}, TimestampDelta64: 20, Headers: []kmsg.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}},
		{OffsetDelta: 2, Key: []byte{}, TimestampDelta64: -1},
		{OffsetDelta: 3, Value: bytes.Repeat([]byte("long"), 20_000), TimestampDelta64: 20},
	}
}

var allCodecs = []int8{codecNone, codecGzip, codecSnappy, codecXerial, codecLZ4, codecZstd}

func TestCheckBatchReadsEveryCodec(t *testing.T) {
	t.Parallel()
	for _, codec := range allCodecs {
		t.Run(fmt.Sprintf("codec=%d", codec), func(t *testing.T) {
			t.Parallel()
			b := encodeBatch(t, codec, someRecords(), func(b *kmsg.RecordBatch) {
				b.ProducerID, b.ProducerEpoch, b.FirstSequence = 77, 3, 12
				b.MaxTimestamp = 5 // a lie that some clients tell
			})
			info, err := checkBatch(b, testLimits)
			if err != nil {
				t.Fatal(err)
			}
			want := batchInfo{Records: 4, Span: 4, BaseTimestamp: 1000, MinTimestamp: 999, MaxTimestamp: 1020, ProducerID: 77, ProducerEpoch: 3, BaseSequence: 12, Codec: codec, Keyless: true}
			if codec == codecXerial {
				want.Codec = codecSnappy
			}
			if info != want {
				t.Fatalf("got %+v, want %+v", info, want)
			}
			i := 0
			err = eachRecord(b, testLimits.DecompressedBytesMax, func(r record) error {
				w := someRecords()[i]
				if r.OffsetDelta != int32(i) || r.Timestamp != 1000+w.TimestampDelta64 ||
					!reflect.DeepEqual(r.Key, w.Key) || !reflect.DeepEqual(r.Value, w.Value) {
					t.Errorf("record %d: got %+v, want %+v", i, r, w)
				}
				var headers []kmsg.Header
				for _, h := range r.Headers() {
					headers = append(headers, kmsg.Header{Key: h.Key, Value: h.Value})
				}
				if !reflect.DeepEqual(headers, w.Headers) {
					t.Errorf("record %d: headers %+v, want %+v", i, headers, w.Headers)
				}
				i++
				return nil
			})
			if err != nil || i != 4 {
				t.Fatalf("walked %d records: %v", i, err)
			}
		})
	}
}

func TestCheckBatchWithoutProducerSaysSo(t *testing.T) {
	t.Parallel()
	info, err := checkBatch(encodeBatch(t, codecNone, someRecords(), nil), testLimits)
	if err != nil || info.ProducerID != -1 || info.ProducerEpoch != -1 || info.BaseSequence != -1 {
		t.Fatalf("got %+v, %v", info, err)
	}
}

func TestSpanNeverOverflows(t *testing.T) {
	t.Parallel()
	b := encodeBatch(t, codecNone, someRecords(), func(b *kmsg.RecordBatch) { b.LastOffsetDelta = math.MaxInt32 })
	if info, err := lookBatch(b); !errors.Is(err, ErrInvalidRecord) {
		t.Fatalf("got %+v, %v", info, err)
	}
}

func TestCheckBatchRefusesLies(t *testing.T) {
	t.Parallel()
	header := func(change func(b *kmsg.RecordBatch)) []byte { return encodeBatch(t, codecNone, someRecords(), change) }
	raw := func(records int32, b []byte) []byte {
		return header(func(h *kmsg.RecordBatch) { h.Records, h.NumRecords, h.LastOffsetDelta = b, records, records-1 })
	}
	after := func(b []byte, change func(b []byte) []byte) []byte { return change(bytes.Clone(b)) }
	good := header(nil)
	f := func(name string, b []byte, want error) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info, err := checkBatch(b, testLimits)
			if !errors.Is(err, want) {
				t.Fatalf("got %+v, %v, want %v", info, err, want)
			}
		})
	}
	f("nothing", nil, ErrInvalidRecord)
	f("shorter than a header", good[:60], ErrInvalidRecord)
	f("truncated", good[:len(good)-1], ErrCorruptBatch)
	f("a byte after it", after(good, func(b []byte) []byte { return append(b, 0) }), ErrInvalidRecord)
	f("two batches", append(bytes.Clone(good), good...), ErrInvalidRecord)
	f("negative length", after(good, func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 0xffffffff); return b }), ErrCorruptBatch)
	f("length below the header", after(good, func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 48); return b }), ErrCorruptBatch)
	f("length of 2 GiB", after(good, func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], math.MaxInt32); return b }), ErrCorruptBatch)
	f("magic 0", header(func(b *kmsg.RecordBatch) { b.Magic = 0 }), ErrInvalidRecord)
	f("magic 1", header(func(b *kmsg.RecordBatch) { b.Magic = 1 }), ErrInvalidRecord)
	f("magic 3", header(func(b *kmsg.RecordBatch) { b.Magic = 3 }), ErrInvalidRecord)
	f("CRC", after(good, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), ErrCorruptBatch)
	f("too large", raw(1, make([]byte, testLimits.BatchBytesMax)), ErrTooLarge)
	f("control", header(func(b *kmsg.RecordBatch) { b.Attributes |= 0x20 }), ErrInvalidRecord)
	f("control and transactional", header(func(b *kmsg.RecordBatch) { b.Attributes |= 0x30 }), ErrInvalidRecord)
	f("transactional", header(func(b *kmsg.RecordBatch) { b.Attributes |= 0x10 }), ErrTransactional)
	f("log append time", header(func(b *kmsg.RecordBatch) { b.Attributes |= 0x08 }), ErrInvalidTimestamp)
	f("delete horizon", header(func(b *kmsg.RecordBatch) { b.Attributes |= 0x40 }), ErrInvalidRecord)
	f("unknown attribute", header(func(b *kmsg.RecordBatch) { b.Attributes |= -0x8000 }), ErrInvalidRecord)
	f("codec 5", header(func(b *kmsg.RecordBatch) { b.Attributes |= 5 }), ErrUnsupportedCompression)
	f("no records", header(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta, b.Records = 0, -1, nil }), ErrInvalidRecord)
	f("negative count", header(func(b *kmsg.RecordBatch) { b.NumRecords = -4 }), ErrInvalidRecord)
	f("count above the records", header(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 5, 4 }), ErrInvalidRecord)
	f("count below the records", header(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 3, 2 }), ErrInvalidRecord)
	f("count of 2 Gi", header(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = math.MaxInt32, math.MaxInt32-1 }), ErrInvalidRecord)
	f("last delta above count", header(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 4 }), ErrInvalidRecord)
	f("last delta below count", header(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 2 }), ErrInvalidRecord)
	f("last delta at the top", header(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = math.MaxInt32 }), ErrInvalidRecord)
	f("producer without sequence", header(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch = 1, 0 }), ErrInvalidRecord)
	f("producer without epoch", header(func(b *kmsg.RecordBatch) { b.ProducerID, b.FirstSequence = 1, 0 }), ErrInvalidRecord)
	deltas := func(d ...int32) []byte {
		records := make([]kmsg.Record, len(d))
		for i := range d {
			records[i].OffsetDelta = d[i]
		}
		return encodeBatch(t, codecNone, records, nil)
	}
	f("delta does not start at 0", deltas(1, 2), ErrInvalidRecord)
	f("delta repeats", deltas(0, 0), ErrInvalidRecord)
	f("delta goes back", deltas(0, 1, 0), ErrInvalidRecord)
	f("delta is negative", deltas(-1), ErrInvalidRecord)
	f("delta jumps", deltas(0, 2, 3), ErrInvalidRecord)

	// length, attributes, timestamp delta, offset delta, key, value, headers
	f("smallest record is fine", raw(1, []byte{12, 0, 0, 0, 1, 1, 0}), nil)
	f("record length negative", raw(1, []byte{1, 0, 0, 0, 1, 1, 0}), ErrInvalidRecord)
	f("record length past the end", raw(1, []byte{14, 0, 0, 0, 1, 1, 0}), ErrInvalidRecord)
	f("record length short", raw(1, []byte{10, 0, 0, 0, 1, 1, 0}), ErrInvalidRecord)
	f("record length unending", raw(1, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}), ErrInvalidRecord)
	f("record length of 36 bits", raw(1, []byte{0x80, 0x80, 0x80, 0x80, 0x10, 0, 0}), ErrInvalidRecord)
	f("bytes after the headers", raw(1, []byte{14, 0, 0, 0, 1, 1, 0, 0}), ErrInvalidRecord)
	f("bytes after the record", raw(1, []byte{12, 0, 0, 0, 1, 1, 0, 0}), ErrInvalidRecord)
	f("key length −2", raw(1, []byte{12, 0, 0, 0, 3, 1, 0}), ErrInvalidRecord)
	f("key past the end", raw(1, []byte{12, 0, 0, 0, 6, 1, 0}), ErrInvalidRecord)
	f("value past the end", raw(1, []byte{12, 0, 0, 0, 1, 4, 0}), ErrInvalidRecord)
	f("value length −2", raw(1, []byte{12, 0, 0, 0, 1, 3, 0}), ErrInvalidRecord)
	f("negative header count", raw(1, []byte{12, 0, 0, 0, 1, 1, 1}), ErrInvalidRecord)
	f("huge header count", raw(1, []byte{20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f}), ErrInvalidRecord)
	f("header without value", raw(1, []byte{14, 0, 0, 0, 1, 1, 2, 0}), ErrInvalidRecord)
	f("header is fine", raw(1, []byte{16, 0, 0, 0, 1, 1, 2, 0, 1}), nil)
	f("header key is null", raw(1, []byte{16, 0, 0, 0, 1, 1, 2, 1, 1}), ErrInvalidRecord)
	f("header value past the end", raw(1, []byte{16, 0, 0, 0, 1, 1, 2, 0, 2}), ErrInvalidRecord)
	for _, codec := range allCodecs[1:] {
		f(fmt.Sprintf("garbage for codec %d", codec), encodeBatch(t, codec, someRecords(), func(b *kmsg.RecordBatch) {
			b.Records = []byte("this is not compressed by anything")
		}), ErrInvalidRecord)
		f(fmt.Sprintf("truncated codec %d", codec), encodeBatch(t, codec, someRecords(), func(b *kmsg.RecordBatch) {
			b.Records = b.Records[:len(b.Records)-3]
		}), ErrInvalidRecord)
		f(fmt.Sprintf("empty codec %d", codec), encodeBatch(t, codec, someRecords(), func(b *kmsg.RecordBatch) {
			b.Records = nil
		}), ErrInvalidRecord)
	}
}

func TestWhatOtherConsumersCannotDecodeIsRefused(t *testing.T) {
	t.Parallel()
	zeros := []kmsg.Record{{Value: make([]byte, 1<<20)}}
	f := func(name string, codec int8, records []byte) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := encodeBatch(t, codec, zeros, func(b *kmsg.RecordBatch) { b.Records = records })
			if info, err := checkBatch(b, testLimits); !errors.Is(err, ErrInvalidRecord) {
				t.Fatalf("got %+v, %v", info, err)
			}
		})
	}
	// Noise twice, the second time with small changes: S2 says "repeat the offset" after each.
	noise := make([]byte, 4000)
	for i := range noise {
		noise[i] = byte(i * i * i >> 5)
	}
	again := bytes.Clone(noise)
	for i := 50; i < len(again); i += 300 {
		again[i] ^= 0x55
	}
	f("S2 in place of snappy", codecSnappy, s2.EncodeBest(nil, encodeRecords([]kmsg.Record{{Value: append(noise, again...)}})))
	var legacy, dependent bytes.Buffer
	w := lz4.NewWriter(&legacy)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(encodeRecords(zeros))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f("legacy lz4", codecLZ4, legacy.Bytes())
	w = lz4.NewWriter(&dependent)
	_, _ = w.Write(encodeRecords(zeros))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dependent.Bytes()[4] &^= 0x20
	for { // the right header checksum is one of 256
		if _, err := io.Copy(io.Discard, lz4.NewReader(bytes.NewReader(dependent.Bytes()))); err == nil {
			break
		}
		dependent.Bytes()[6]++
	}
	f("dependent lz4 blocks", codecLZ4, dependent.Bytes())
}

// Not parallel: it measures what the process allocates.
func TestBombsEndAtTheCap(t *testing.T) {
	bomb := encodeRecords([]kmsg.Record{{Value: make([]byte, 48<<20)}})
	single, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true))
	if err != nil {
		t.Fatal(err)
	}
	const growth, little = 32 << 20, 1 << 20 // doubling up to the cap, block buffers of lz4 (4 MiB) and decoder tables; next to nothing
	lz4Size := []byte{0x04, 0x22, 0x4d, 0x18, 0x68, 0x70, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x5b}
	for _, c := range []struct {
		name    string
		codec   int8
		records []byte
		want    error
		bytes   uint64
	}{
		{"gzip", codecGzip, compressRecords(t, codecGzip, bomb), ErrTooLarge, growth},
		{"lz4", codecLZ4, compressRecords(t, codecLZ4, bomb), ErrTooLarge, growth},
		{"zstd", codecZstd, compressRecords(t, codecZstd, bomb), ErrTooLarge, growth},
		{"zstd that says its size", codecZstd, single.EncodeAll(bomb, nil), ErrTooLarge, little},
		// A frame that says 4 MiB, the cap, and holds one byte.
		{"zstd that lies about its size", codecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 0, 0x09, 0, 0, 'x'}, ErrInvalidRecord, growth},
		// A window of 2^41 bytes, which a decoder might allocate at once.
		{"zstd with a giant window", codecZstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0, 0}, ErrInvalidRecord, growth},
		{"snappy that says 4 GB", codecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'x'}, ErrTooLarge, little},
		{"snappy that says the cap", codecSnappy, []byte{0x80, 0x80, 0x80, 0x02, 0, 'x'}, ErrInvalidRecord, little},
		{"xerial that says 2 GB", codecSnappy, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xffx"), ErrInvalidRecord, little},
		{"lz4 that says its size", codecLZ4, lz4Size, ErrInvalidRecord, growth},
		{"nested gzip", codecGzip, compressRecords(t, codecGzip, compressRecords(t, codecGzip, bomb)), ErrInvalidRecord, growth},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := encodeBatch(t, c.codec, []kmsg.Record{{}}, func(b *kmsg.RecordBatch) { b.Records = c.records })
			lim := testLimits
			lim.BatchBytesMax = 8 << 20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := checkBatch(b, lim)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > c.bytes {
				t.Fatalf("a batch of %d bytes allocated %d, %d are allowed", len(b), got, c.bytes)
			}
		})
	}
}

func TestRecordsExactlyAtTheCapPass(t *testing.T) {
	t.Parallel()
	records := someRecords()
	size := len(encodeRecords(records))
	for _, codec := range allCodecs[1:] {
		b := encodeBatch(t, codec, records, nil)
		if _, err := checkBatch(b, batchLimits{len(b), size}); err != nil {
			t.Errorf("codec %d at the cap: %v", codec, err)
		}
		if _, err := checkBatch(b, batchLimits{len(b), size - 1}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d one byte over the cap: %v", codec, err)
		}
		if _, err := checkBatch(b, batchLimits{len(b) - 1, size}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("codec %d: batch one byte over its limit: %v", codec, err)
		}
	}
}

// Not parallel: AllocsPerRun counts the whole process.
func TestUncompressedBatchIsWalkedWithoutAllocation(t *testing.T) {
	b := encodeBatch(t, codecNone, benchRecords(100, 100), nil)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := checkBatch(b, testLimits); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("checkBatch allocates %v times", n)
	}
	sum := 0
	f := func(r record) error { sum += len(r.Value); return nil }
	if n := testing.AllocsPerRun(100, func() {
		if err := eachRecord(b, testLimits.DecompressedBytesMax, f); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || sum == 0 {
		t.Errorf("eachRecord allocates %v times, sum %d", n, sum)
	}
}

func TestStoredBatchMayHaveHoles(t *testing.T) {
	t.Parallel()
	records := []kmsg.Record{{OffsetDelta: 2, TimestampDelta64: 7}, {OffsetDelta: 5, TimestampDelta64: 3}}
	b := encodeBatch(t, codecZstd, records, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 9 })
	var got []int32
	if err := eachRecord(b, 1<<20, func(r record) error { got = append(got, r.OffsetDelta); return nil }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []int32{2, 5}) {
		t.Fatalf("deltas %v", got)
	}
	over := encodeBatch(t, codecNone, records, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 4 })
	if err := eachRecord(over, 1<<20, func(record) error { return nil }); !errors.Is(err, ErrInvalidRecord) {
		t.Fatalf("a delta above the last: %v", err)
	}
}

func TestEachRecordStopsWhereItIsTold(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	n := 0
	err := eachRecord(encodeBatch(t, codecGzip, someRecords(), nil), 1<<20, func(record) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Fatalf("%d records, %v", n, err)
	}
}

func TestFindTimestampIsTheFirstAtOrAfter(t *testing.T) {
	t.Parallel()
	// Timestamps 1005, 1020, 999, 1020.
	for _, codec := range []int8{codecNone, codecLZ4} {
		b := encodeBatch(t, codec, someRecords(), nil)
		f := func(at, from int64, delta int32, timestamp int64, found bool) {
			t.Helper()
			d, ts, ok, err := findTimestamp(b, 1<<20, at, from)
			if err != nil || d != delta || ts != timestamp || ok != found {
				t.Errorf("at %d from %d: %d, %d, %v, %v", at, from, d, ts, ok, err)
			}
		}
		f(0, 0, 0, 1005, true)
		f(1005, 0, 0, 1005, true)
		f(1006, 0, 1, 1020, true)
		f(1020, 0, 1, 1020, true)
		f(1021, 0, 0, 0, false)
		f(0, -5, 0, 1005, true)
		f(0, 2, 2, 999, true)
		f(1000, 2, 3, 1020, true)
		f(1020, 4, 0, 0, false)
		if d, ts, err := findMaxTimestamp(b, 1<<20); d != 1 || ts != 1020 || err != nil {
			t.Errorf("newest: %d, %d, %v", d, ts, err)
		}
	}
}

func TestLogAppendTimeIsEveryRecordsTimestamp(t *testing.T) {
	t.Parallel()
	b := encodeBatch(t, codecNone, someRecords(), func(b *kmsg.RecordBatch) { b.Attributes |= 8; b.MaxTimestamp = 5000 })
	if d, ts, found, err := findTimestamp(b, 1<<20, 4000, 0); d != 0 || ts != 5000 || !found || err != nil {
		t.Fatalf("%d, %d, %v, %v", d, ts, found, err)
	}
}

func TestPatchBatchLeavesTheCRCAlone(t *testing.T) {
	t.Parallel()
	b := encodeBatch(t, codecNone, someRecords(), nil)
	patchBatch(b, 1<<40, 9)
	if _, err := checkBatch(b, testLimits); err != nil {
		t.Fatal(err)
	}
	var got kmsg.RecordBatch
	if err := got.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if got.FirstOffset != 1<<40 || got.PartitionLeaderEpoch != 9 {
		t.Fatalf("offset %d, epoch %d", got.FirstOffset, got.PartitionLeaderEpoch)
	}
}

func TestVarintsMatchTheirSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, math.MinInt32 - 1, 1 << 33, math.MaxInt64, math.MinInt64} {
		b := appendVarint(nil, n)
		if want := binary.AppendVarint(nil, n); !bytes.Equal(b, want) || varintSize(n) != len(want) {
			t.Errorf("%d: % x of size %d, want % x", n, b, varintSize(n), want)
		}
		if v, read := varlong(b); v != n || read != len(b) {
			t.Errorf("varlong of %d: %d, %d", n, v, read)
		}
		v, read := varint(b)
		if fits := n == int64(int32(n)); fits && (int64(v) != n || read != len(b)) || !fits && read != 0 {
			t.Errorf("varint of %d: %d, %d", n, v, read)
		}
		if _, read := varlong(b[:len(b)-1]); read != 0 {
			t.Errorf("%d without its end was read", n)
		}
	}
	if _, read := varlong([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}); read != 0 {
		t.Error("a varlong of 66 bits was read")
	}
}

func benchRecords(n, size int) []kmsg.Record {
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i * i >> 3)
	}
	records := make([]kmsg.Record, n)
	for i := range records {
		records[i] = kmsg.Record{OffsetDelta: int32(i), Key: []byte("key"), Value: value, TimestampDelta64: int64(i)}
	}
	return records
}

func BenchmarkCheckBatch(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, codec := range allCodecs {
			b.Run(fmt.Sprintf("codec=%d/value=%d", codec, size), func(b *testing.B) {
				batch := encodeBatch(b, codec, benchRecords(500, size), nil)
				b.ReportAllocs()
				b.SetBytes(int64(len(encodeRecords(benchRecords(500, size)))))
				for b.Loop() {
					if _, err := checkBatch(batch, testLimits); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEachRecord(b *testing.B) {
	for _, codec := range []int8{codecNone, codecZstd} {
		b.Run(fmt.Sprintf("codec=%d", codec), func(b *testing.B) {
			batch := encodeBatch(b, codec, benchRecords(500, 100), nil)
			sum := 0
			f := func(r record) error { sum += len(r.Value); return nil }
			b.ReportAllocs()
			b.SetBytes(int64(len(batch)))
			for b.Loop() {
				if err := eachRecord(batch, 1<<20, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzBatch: no bytes make checkBatch panic or hand out more than its cap, and
// what it passes every later reader can walk.
func FuzzBatch(f *testing.F) {
	small := someRecords()[:3] // small seeds: the fuzzer changes a few bytes at a time
	small = append(small, kmsg.Record{OffsetDelta: 3, Value: bytes.Repeat([]byte("ab"), 40)})
	for _, codec := range allCodecs {
		f.Add(encodeBatch(f, codec, small, nil))
	}
	f.Add(encodeBatch(f, codecNone, []kmsg.Record{{Headers: []kmsg.Header{{Key: "h"}}}}, nil))
	data, _ := appendNative(nil, []*Message{{ID: []byte("id"), TraceID: "t"}}, time.UnixMilli(1), 1<<20)
	f.Add(data)
	f.Fuzz(func(t *testing.T, b []byte) {
		lim := batchLimits{BatchBytesMax: 1 << 20, DecompressedBytesMax: 1 << 20}
		for _, b := range [][]byte{b, bytes.Clone(b)} {
			_ = eachRecord(b, lim.DecompressedBytesMax, func(record) error { return nil })
			info, err := checkBatch(b, lim)
			if err != nil {
				if len(b) >= batchHeaderLen {
					sealed(b) // the second round gets past the CRC
				}
				continue
			}
			n, size := 0, 0
			err = eachRecord(b, lim.DecompressedBytesMax, func(r record) error {
				if r.OffsetDelta != int32(n) || r.Timestamp > info.MaxTimestamp || len(r.Headers()) != r.headerCount {
					t.Fatalf("record %d: %+v in %+v", n, r, info)
				}
				n++
				size += len(r.Key) + len(r.Value) + len(r.headers)
				return nil
			})
			if err != nil || n != info.Records || size > lim.DecompressedBytesMax {
				t.Fatalf("passed, then %d of %d records, %d bytes, %v", n, info.Records, size, err)
			}
		}
	})
}
