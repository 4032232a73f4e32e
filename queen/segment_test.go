package queen

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// goldenBase is a fixed id base: 2026-09-01T12:00:00Z and chosen random bits.
var goldenBase = IDBase{Hi: 0x01980000abcd7123, Lo: -0x7edcba9876543211} // 0x8123456789abcdef

const formatChanged = "if this fails you changed the format of what is stored: give it a new version, keep reading the old one, and add a vector beside this one"

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestSegmentHeaderIsPinned(t *testing.T) {
	t.Parallel()
	header := segmentHeader{
		IDHeader: "my-id",
		Runs:     []idRun{{0, goldenBase}, {3, IDBase{goldenBase.Hi, goldenBase.Lo + 1}}},
		Marks: []batchMark{
			{Length: 0x100, Span: 3, Records: 2, Origin: originKafka, IDs: idsNamedHeader, Flags: flagControl | flagTransactional, MaxTimestamp: -1},
			{Length: 0x01020304, Gap: 0x11121314, Span: 0x21222324, Records: 0x31323334, Origin: originNative, IDs: idsNativeHeader, MaxTimestamp: 0x4142434445464748},
		},
	}
	want := unhex(t, `
		01 02 0005 6d792d6964
		00000000 01980000abcd7123 8123456789abcdef
		00000003 01980000abcd7123 8123456789abcdf0
		00000100 00000000 00000003 00000002 01 04 0003 ffffffffffffffff 00000000
		01020304 11121314 21222324 31323334 02 02 0000 4142434445464748 00000000`)
	if got := header.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("header % x\nwant   % x\n%s", got, want, formatChanged)
	}
	back, err := decodeSegmentHeader(want)
	if err != nil || !reflect.DeepEqual(back, header) {
		t.Errorf("decoded %+v, %v\nwant    %+v\n%s", back, err, header, formatChanged)
	}
	one := unhex(t, `
		01 01 0000
		00000000 01980000abcd7123 8123456789abcdef
		00000049 00000000 00000001 00000001 01 01 0000 00000000000003e8 00000000`)
	if got := appendSegmentHeader(nil, goldenBase, []batchMark{{Length: 73, Span: 1, Records: 1, Origin: originKafka, IDs: idsMinted, MaxTimestamp: 1000}}); !bytes.Equal(got, one) {
		t.Errorf("header % x\nwant   % x\n%s", got, one, formatChanged)
	}
}

func TestNativeBatchIsPinned(t *testing.T) {
	t.Parallel()
	data, marks := appendNative(nil, []*Message{
		{Value: []byte("v")},
		{ID: []byte("id"), Key: []byte("k"), TraceID: "t", Headers: []Header{{"h", nil}}},
	}, time.UnixMilli(1000), 1<<20)
	want := sealed(unhex(t, `
		0000000000000000 00000000 00000000 02 00000000 0000 00000001
		00000000000003e8 00000000000003e8 ffffffffffffffff ffff ffffffff 00000002
		0e 00 00 00 01 02 76 00
		66 00 00 02 02 6b 01 06
		  28 717565656e2d7472616e73616374696f6e2d6964 04 6964
		  1c 717565656e2d74726163652d6964 02 74
		  02 68 01`)) // length and CRC by the rule, not by hand
	if !bytes.Equal(data, want) {
		t.Errorf("batch % x\nwant  % x\n%s", data, want, formatChanged)
	}
	wantMarks := []batchMark{{Length: uint32(len(want)), Span: 2, Records: 2, Origin: originNative, IDs: idsNativeHeader, MaxTimestamp: 1000}}
	if !reflect.DeepEqual(marks, wantMarks) {
		t.Errorf("marks %+v, want %+v", marks, wantMarks)
	}
}

func collect(t *testing.T, s *segment, from int64, max int) []StoredMessage {
	t.Helper()
	var got []StoredMessage
	if err := s.messages(from, max, func(m StoredMessage) bool { got = append(got, m); return true }); err != nil {
		t.Fatal(err)
	}
	return got
}

func mustLoad(t *testing.T, base, end int64, header, data []byte) *segment {
	t.Helper()
	s, err := loadSegment(base, end, 7, time.UnixMilli(5000), header, data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNativeMessagesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	var msgs []*Message
	ids := [][]byte{nil, []byte("an id"), {0, 255, 10}}
	traces := []string{"", "trace"}
	headers := [][]Header{
		nil,
		{{"a", []byte("1")}, {"a", nil}, {"", []byte{}}},
		{{headerTransactionID, []byte("the user's own")}},
		{{headerTransactionID, nil}, {headerTraceID, []byte("x")}},
		{{headerTraceID, []byte("the user's own")}, {headerTransactionID, []byte("y")}},
		{{headerTraceID, nil}, {headerTraceID, nil}},
	}
	for _, id := range ids {
		for _, trace := range traces {
			for _, h := range headers {
				msgs = append(msgs, &Message{ID: id, TraceID: trace, Headers: h, Key: []byte{}, Value: []byte("v")})
				msgs = append(msgs, &Message{ID: id, TraceID: trace, Headers: h, Key: []byte("k")})
			}
		}
	}
	now := time.UnixMilli(1_700_000_000_123)
	data, marks := appendNative([]byte("before"), msgs, now, 300)
	if string(data[:6]) != "before" || len(marks) < 10 {
		t.Fatalf("%d batches", len(marks))
	}
	const base = 1 << 33
	s := mustLoad(t, base, base+int64(len(msgs))-1, appendSegmentHeader(nil, goldenBase, marks), data[6:])
	got := collect(t, s, base, 1000)
	if len(got) != len(msgs) {
		t.Fatalf("%d messages, want %d", len(got), len(msgs))
	}
	for i, m := range msgs {
		want := StoredMessage{
			ID: goldenBase.ID(int64(i)), TransactionID: m.ID, Offset: base + int64(i), Key: m.Key, Value: m.Value,
			Headers: m.Headers, TraceID: m.TraceID, Timestamp: now, CreatedAt: time.UnixMilli(5000),
		}
		if m.ID == nil {
			want.TransactionID = []byte(want.ID.String())
		}
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("message %d: %+v\nwant %+v", i, got[i], want)
		}
	}
}

func TestNativeBatchesKeepTheLimitAndPassTheCheck(t *testing.T) {
	t.Parallel()
	const limit = 1000
	var msgs []*Message
	for i := range 300 {
		msgs = append(msgs, &Message{Key: []byte("k"), Value: bytes.Repeat([]byte{'v'}, i*7%850)})
	}
	msgs[100].Value = make([]byte, 2*limit) // over the limit: a batch of its own
	msgs[101].ID = []byte("explicit")
	data, marks := appendNative(nil, msgs, time.UnixMilli(1), limit)
	total, single := 0, 0
	var sizes []int
	for i, m := range marks {
		b := data[:m.Length]
		data = data[m.Length:]
		info, err := checkBatch(b, batchLimits{4 * limit, 4 * limit})
		if err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		if info.Records != int(m.Records) || info.Span != int32(m.Span) || info.MaxTimestamp != m.MaxTimestamp || info.ProducerID != -1 {
			t.Fatalf("batch %d: %+v, mark %+v", i, info, m)
		}
		if m.Length > limit {
			single++
			if m.Records != 1 || int(m.Length) != nativeSize(msgs[total]) {
				t.Errorf("batch %d of %d bytes holds %d messages, nativeSize %d", i, m.Length, m.Records, nativeSize(msgs[total]))
			}
		}
		if explicit := total <= 101 && 101 < total+info.Records; explicit != (m.IDs == idsNativeHeader) {
			t.Errorf("batch %d, messages %d…: ids %d", i, total, m.IDs)
		}
		total += info.Records
		sizes = append(sizes, int(m.Length))
		if i > 0 && sizes[i-1]+sizes[i]-batchHeaderLen <= limit {
			t.Errorf("batches %d and %d of %d and %d bytes would fit into one", i-1, i, sizes[i-1], sizes[i])
		}
	}
	if len(data) != 0 || total != len(msgs) || single != 1 {
		t.Fatalf("%d bytes left, %d messages, %d over the limit", len(data), total, single)
	}
	if data, marks := appendNative(nil, nil, time.UnixMilli(1), limit); len(data) != 0 || len(marks) != 0 {
		t.Fatalf("no messages became %d bytes, %d batches", len(data), len(marks))
	}
}

func TestNativeBatchIsFilledToTheByte(t *testing.T) {
	t.Parallel()
	msgs := []*Message{{ID: []byte("explicit"), Value: make([]byte, 50)}, {Value: make([]byte, 60)}}
	both := nativeSize(msgs[0]) + nativeSize(msgs[1]) - batchHeaderLen
	if _, marks := appendNative(nil, msgs, time.UnixMilli(1), both); len(marks) != 1 || marks[0].IDs != idsNativeHeader {
		t.Errorf("%d bytes of messages in batches of %d: %+v", both, both, marks)
	}
	if _, marks := appendNative(nil, msgs, time.UnixMilli(1), both-1); len(marks) != 2 || marks[0].IDs != idsNativeHeader || marks[1].IDs != idsMinted {
		t.Errorf("%d bytes of messages in batches of %d: %+v", both, both-1, marks)
	}
}

func TestNativeSizeIsExact(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 50, 63, 64, 8100, 8191, 8192, 1 << 20} {
		m := &Message{ID: []byte("i"), TraceID: "t", Value: make([]byte, n), Headers: []Header{{headerTraceID, make([]byte, n)}}}
		data, marks := appendNative(nil, []*Message{m}, time.UnixMilli(1), 1<<30)
		if len(marks) != 1 || len(data) != nativeSize(m) {
			t.Errorf("value of %d bytes: batch of %d, nativeSize %d", n, len(data), nativeSize(m))
		}
	}
}

// mixedSegment holds offsets 100–119: a Kafka batch of 4 by header, a native
// one of 2, a gap of 3, a compressed Kafka batch by key with holes (5 offsets,
// 2 records), a minted one of 4 and a control batch of 2.
func mixedSegment(t *testing.T) (header, data []byte) {
	t.Helper()
	var marks []batchMark
	add := func(b []byte, ids idSource, flags uint16, gap uint32) {
		info, err := lookBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		m := kafkaMark(info, len(b), ids)
		m.Flags, m.Gap = flags, gap
		marks = append(marks, m)
		data = append(data, b...)
	}
	add(encodeBatch(t, codecZstd, []kmsg.Record{
		{Headers: []kmsg.Header{{Key: headerTransactionID, Value: []byte("data")}, {Key: "my-id", Value: []byte("first")}, {Key: "my-id", Value: []byte("second")}}},
		{OffsetDelta: 1, Headers: []kmsg.Header{{Key: "my-id"}}},
		{OffsetDelta: 2, Headers: []kmsg.Header{{Key: "my-id", Value: []byte{}}}},
		{OffsetDelta: 3, Key: []byte("no header")},
	}, nil), idsNamedHeader, 0, 0)
	native, m := appendNative(nil, []*Message{{ID: []byte("native"), Value: []byte("a")}, {Value: []byte("b")}}, time.UnixMilli(1100), 1<<20)
	marks, data = append(marks, m...), append(data, native...)
	add(encodeBatch(t, codecGzip, []kmsg.Record{
		{OffsetDelta: 1, Key: []byte("key one"), TimestampDelta64: 300},
		{OffsetDelta: 3, TimestampDelta64: 100},
	}, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 4 }), idsRecordKey, 0, 3)
	add(encodeBatch(t, codecNone, someRecords(), nil), idsMinted, 0, 0)
	add(encodeBatch(t, codecNone, []kmsg.Record{{}, {OffsetDelta: 1}}, func(b *kmsg.RecordBatch) { b.Attributes |= 0x20 }), idsMinted, flagControl, 0)
	h := segmentHeader{IDHeader: "my-id", Runs: []idRun{{0, goldenBase}, {6, IDBase{goldenBase.Hi + 1<<16, goldenBase.Lo}}}, Marks: marks}
	return h.AppendTo(nil), data
}

func TestMessagesGoByTheBatchesMark(t *testing.T) {
	t.Parallel()
	header, data := mixedSegment(t)
	s := mustLoad(t, 100, 119, header, data)
	second := IDBase{goldenBase.Hi + 1<<16, goldenBase.Lo}
	var got, want []string
	for _, m := range collect(t, s, 0, 100) {
		got = append(got, fmt.Sprintf("%d %s %s", m.Offset, m.ID, m.TransactionID))
	}
	add := func(offset int64, base IDBase, i int64, txn string) {
		id := base.ID(i).String()
		if txn == "" {
			txn = id
		}
		want = append(want, fmt.Sprintf("%d %s %s", offset, id, txn))
	}
	add(100, goldenBase, 0, "first")
	add(101, goldenBase, 1, "")
	add(102, goldenBase, 2, "")
	add(103, goldenBase, 3, "")
	add(104, goldenBase, 4, "native")
	add(105, goldenBase, 5, "")
	add(110, second, 4, "key one") // 106–108 are the gap, the batch is 109–113
	add(112, second, 6, "")
	add(114, second, 8, "")
	add(115, second, 9, "")
	add(116, second, 10, "")
	add(117, second, 11, "")
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if first := collect(t, s, 100, 1)[0]; len(first.Headers) != 3 || first.Headers[0].Key != headerTransactionID {
		t.Errorf("headers of a Kafka record are its own: %+v", first.Headers)
	}
	some := collect(t, s, 105, 3)
	if len(some) != 3 || some[0].Offset != 105 || some[2].Offset != 112 {
		t.Errorf("3 from 105: %+v", some)
	}
	n := 0
	if err := s.messages(100, 10, func(StoredMessage) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("stopped after %d, %v", n, err)
	}
	if rest := collect(t, s, 118, 10); len(rest) != 0 {
		t.Errorf("control records were handed out: %+v", rest)
	}
}

func TestFromReturnsWholeBatchesWithTheirOffsets(t *testing.T) {
	t.Parallel()
	header, data := mixedSegment(t)
	s := mustLoad(t, 100, 119, header, data)
	all, n := s.from(0, 1<<20, false)
	var bases []int64
	for _, b := range all {
		var kb kmsg.RecordBatch
		if err := kb.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		if kb.PartitionLeaderEpoch != 7 {
			t.Errorf("batch at %d has epoch %d", kb.FirstOffset, kb.PartitionLeaderEpoch)
		}
		bases = append(bases, kb.FirstOffset)
	}
	if want := []int64{100, 104, 109, 114, 118}; !reflect.DeepEqual(bases, want) || n != len(data) {
		t.Fatalf("bases %v of %d bytes, want %v of %d", bases, n, want, len(data))
	}
	f := func(offset int64, maxBytes int, first bool, from, count int) {
		t.Helper()
		got, n := s.from(offset, maxBytes, first)
		size := 0
		for _, b := range got {
			size += len(b)
		}
		if len(got) != count || n != size || count > 0 && &got[0][0] != &all[from][0] {
			t.Errorf("from(%d, %d, %v): %d batches of %d bytes, want %d from number %d", offset, maxBytes, first, len(got), n, count, from)
		}
	}
	f(103, 1<<20, false, 0, 5) // inside a batch: the whole batch
	f(104, 1<<20, false, 1, 4)
	f(107, 1<<20, false, 2, 3) // in the gap: what follows
	f(113, 1<<20, false, 2, 3)
	f(119, 1<<20, false, 4, 1)
	f(120, 1<<20, false, 5, 0)
	f(100, len(all[0])+len(all[1]), false, 0, 2)
	f(100, len(all[0])+len(all[1])-1, false, 0, 1)
	f(100, len(all[0])-1, false, 0, 0)
	f(100, len(all[0])-1, true, 0, 1)
	f(100, 0, true, 0, 1)
}

func TestSegmentTimestamps(t *testing.T) {
	t.Parallel()
	header, data := mixedSegment(t)
	s := mustLoad(t, 100, 119, header, data)
	f := func(at, from, offset, timestamp int64, found bool) {
		t.Helper()
		o, ts, ok, err := s.findTimestamp(at, from)
		if o != offset || ts != timestamp || ok != found || err != nil {
			t.Errorf("at %d from %d: %d, %d, %v, %v; want %d, %d, %v", at, from, o, ts, ok, err, offset, timestamp, found)
		}
	}
	f(0, 0, 100, 1000, true)
	f(1001, 0, 104, 1100, true)
	f(1101, 0, 110, 1300, true)
	f(1300, 0, 110, 1300, true)
	f(1301, 0, 0, 0, false)
	f(0, 101, 101, 1000, true)
	f(1001, 111, 112, 1100, true)
	f(1101, 111, 0, 0, false)
	if o, ts, err := s.maxTimestamp(); o != 110 || ts != 1300 || err != nil {
		t.Errorf("newest %d, %d, %v", o, ts, err)
	}
}

func TestSegmentWithoutARefusedBatchLoads(t *testing.T) {
	t.Parallel()
	// What SQL does to the second of three batches: its 32 bytes and its data go.
	data, marks := appendNative(nil, []*Message{{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}}, time.UnixMilli(1), 1)
	header := appendSegmentHeader(nil, goldenBase, marks)
	entries := len(header) - 3*batchMarkLen
	header = append(header[:entries+batchMarkLen:entries+batchMarkLen], header[entries+2*batchMarkLen:]...)
	data = append(data[:marks[0].Length:marks[0].Length], data[marks[0].Length+marks[1].Length:]...)
	got := collect(t, mustLoad(t, 50, 51, header, data), 0, 10)
	if len(got) != 2 || string(got[0].Value) != "a" || string(got[1].Value) != "c" || got[1].Offset != 51 || got[1].ID != goldenBase.ID(1) {
		t.Fatalf("%+v", got)
	}
}

func TestDamagedSegmentIsRefused(t *testing.T) {
	t.Parallel()
	header, data := mixedSegment(t)
	entries := len(header) - 5*batchMarkLen
	f := func(name string, end int64, change func(header, data []byte) ([]byte, []byte)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, d := change(bytes.Clone(header), bytes.Clone(data))
			if s, err := loadSegment(100, end, 0, time.Time{}, h, d); !errors.Is(err, ErrCorruptBatch) {
				t.Fatalf("got %+v, %v", s, err)
			}
		})
	}
	set := func(at int, b ...byte) func(header, data []byte) ([]byte, []byte) {
		return func(h, d []byte) ([]byte, []byte) { copy(h[at:], b); return h, d }
	}
	if _, err := loadSegment(100, 119, 0, time.Time{}, bytes.Clone(header), bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
	f("end too high", 120, func(h, d []byte) ([]byte, []byte) { return h, d })
	f("end too low", 118, func(h, d []byte) ([]byte, []byte) { return h, d })
	f("no header", 119, func(h, d []byte) ([]byte, []byte) { return nil, d })
	f("no data", 119, func(h, d []byte) ([]byte, []byte) { return h, nil })
	f("data too short", 119, func(h, d []byte) ([]byte, []byte) { return h, d[:len(d)-1] })
	f("data too long", 119, func(h, d []byte) ([]byte, []byte) { return h, append(d, 0) })
	f("no entries", 119, func(h, d []byte) ([]byte, []byte) { return h[:entries], d })
	f("half an entry", 119, func(h, d []byte) ([]byte, []byte) { return h[:len(h)-16], d })
	f("version", 119, set(0, 2))
	f("no runs", 119, set(1, 0))
	f("more runs than bytes", 119, set(1, 255))
	f("name longer than the header", 119, set(2, 0xff, 0xff))
	f("first run not at 0", 119, set(4+5+3, 1))
	f("second run at 0", 119, set(4+5+20+3, 0))
	f("run without a UUIDv7", 119, set(4+5+4+6, 0x40))
	f("run with the reserved bit", 119, set(4+5+12, 0xa0))
	f("length", 119, set(entries+3, 1))
	f("gap", 119, set(entries+7, 1))
	f("span", 119, set(entries+11, 5))
	f("records", 119, set(entries+15, 3))
	f("origin", 119, set(entries+16, 3))
	f("id source 0", 119, set(entries+17, 0))
	f("id source 5", 119, set(entries+17, 5))
	f("a batch's length", 119, func(h, d []byte) ([]byte, []byte) { d[11]++; return h, d })
}

func TestSegmentSizeCountsWhatItHolds(t *testing.T) {
	t.Parallel()
	header, data := mixedSegment(t)
	s := mustLoad(t, 100, 119, header, data)
	want := int(unsafe.Sizeof(*s)) + len(data) + 5*int(unsafe.Sizeof(segmentBatch{})) + 2*int(unsafe.Sizeof(idRun{}))
	if s.size() != want {
		t.Fatalf("size %d, want %d", s.size(), want)
	}
}

// FuzzSegment: no row makes loadSegment or a reader of what it loaded panic.
func FuzzSegment(f *testing.F) {
	data, marks := appendNative(nil, []*Message{{Value: []byte("v")}, {ID: []byte("id")}}, time.UnixMilli(1), 80)
	f.Add(int64(5), int64(6), appendSegmentHeader(nil, goldenBase, marks), data)
	b := encodeBatch(f, codecZstd, someRecords(), nil)
	info, err := lookBatch(b)
	if err != nil {
		f.Fatal(err)
	}
	h := segmentHeader{IDHeader: "a", Runs: []idRun{{0, goldenBase}, {2, goldenBase}}, Marks: []batchMark{kafkaMark(info, len(b), idsNamedHeader)}}
	f.Add(int64(0), int64(3), h.AppendTo(nil), b)
	large, marks := appendNative(nil, []*Message{{Value: bytes.Repeat([]byte("packed"), 1000)}, {Value: make([]byte, 3000)}}, time.UnixMilli(1), 80)
	header, packed := pack(segmentHeader{Runs: []idRun{{Base: goldenBase}}, Marks: marks}, large)
	f.Add(int64(0), int64(1), header, packed)
	f.Fuzz(func(t *testing.T, base, end int64, header, data []byte) {
		if base < 0 || len(data) > 1<<16 {
			return
		}
		served := 0
		if h, err := decodeSegmentHeader(header); err == nil {
			for _, m := range h.Marks {
				served += int(m.Length)
			}
			if served > 1<<20 {
				return // right, and slow
			}
		}
		s, err := loadSegment(base, end, 1, time.Time{}, header, data)
		if err != nil {
			return
		}
		next := base
		for i := range s.batches {
			b := &s.batches[i]
			if b.base != next+int64(b.mark.Gap) || int64(binary.BigEndian.Uint64(b.data)) != b.base {
				t.Fatalf("batch %d at %d, after %d with gap %d", i, b.base, next, b.mark.Gap)
			}
			next = b.last() + 1
		}
		if got, n := s.from(base, 1<<30, false); next != end+1 || n != served || len(got) != len(s.batches) {
			t.Fatalf("ends at %d, not %d; %d of %d bytes", next-1, end, n, served)
		}
		last := base - 1
		if err := s.messages(base, 1000, func(m StoredMessage) bool {
			if m.Offset <= last || m.Offset > end {
				t.Fatalf("offset %d after %d in %d–%d", m.Offset, last, base, end)
			}
			last = m.Offset
			return true
		}); err != nil {
			return
		}
		_, _, _, _ = s.findTimestamp(1, 0)
		_, _, _ = s.maxTimestamp()
	})
}

// appendSegmentHeader appends the header of a segment that one flush wrote: one run of ids.
func appendSegmentHeader(dst []byte, base IDBase, marks []batchMark) []byte {
	return segmentHeader{Runs: []idRun{{Base: base}}, Marks: marks}.AppendTo(dst)
}

// from is appendFrom of nothing: the whole batches that hold or follow offset, n bytes in all, up
// to maxBytes; with first the first one is returned even if it is larger.
func (s *segment) from(offset int64, maxBytes int, first bool) (batches [][]byte, n int) {
	batches, n, _ = s.appendFrom(nil, offset, maxBytes, first)
	return batches, n
}
