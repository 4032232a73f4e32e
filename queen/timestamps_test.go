package queen

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/store/storetest"
)

func TestTimestampsAreHeldAgainstTheClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := func(before, after time.Duration, ok bool, offsets ...time.Duration) {
		t.Helper()
		var records []kmsg.Record
		for i, o := range offsets {
			records = append(records, kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: now.Add(o).UnixMilli()})
		}
		b := encodeBatch(t, codecNone, records, func(b *kmsg.RecordBatch) { b.FirstTimestamp = 0 })
		info, err := checkBatch(b, testLimits)
		if err != nil {
			t.Fatal(err)
		}
		o := QueueOptions{TimestampBeforeMaxMs: before.Milliseconds(), TimestampAfterMaxMs: after.Milliseconds()}
		err = recordRulesOf(&o, now).check(b, info, 1<<20)
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalidTimestamp) {
			t.Errorf("%v within -%v and +%v: %v, want accepted %v", offsets, before, after, err, ok)
		}
		if err == nil {
			return
		}
		var e *RecordErrors
		if !errors.As(err, &e) || len(e.Records) != 1 || offsets[e.Records[0].Index].Abs() <= max(before, after) && offsets[e.Records[0].Index] != -time.Hour {
			t.Errorf("%v within -%v and +%v: %+v, want the one record named", offsets, before, after, err)
		}
	}
	f(time.Minute, time.Minute, true, 0, time.Minute, -time.Minute)
	f(time.Minute, time.Minute, false, 0, time.Minute+time.Millisecond, 0)
	f(time.Minute, time.Minute, false, 0, -time.Minute-time.Millisecond, 0)
	f(math.MaxInt64, time.Minute, true, -1000*time.Hour)
	f(0, math.MaxInt64, true, 1000*time.Hour)
	none := -time.Duration(now.UnixMilli()+1) * time.Millisecond
	f(time.Minute, time.Minute, true, none)
	f(time.Minute, time.Minute, false, none, -time.Hour)
}

func TestBrokerStampsBatchesOfALogAppendTimeTopic(t *testing.T) {
	t.Parallel()
	for _, codec := range allCodecs {
		e := openEngine(t, storetest.New(t))
		sourced(t, e, "t", DedupSourceKey, func(o *QueueOptions) { o.LogAppendTime, o.TimestampAfterMaxMs = true, 0 })
		start := time.Now().Add(-time.Millisecond)
		got := appendBatch(t, e, at("t", 0), keyed(t, codec, "a", "b"))
		appendBatch(t, e, at("t", 0), keyed(t, codec, "a", "c"))
		if got.LogAppendTime.Before(start) || got.LogAppendTime.After(time.Now()) {
			t.Fatalf("stamped %v, after %v", got.LogAppendTime, start)
		}
		read, err := e.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at("t", 0), CurrentEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
		if err != nil || len(read[0].Batches) != 2 {
			t.Fatalf("%d batches, %v", len(read[0].Batches), err)
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(read[0].Batches[0]); err != nil || b.Attributes&8 == 0 || b.MaxTimestamp != got.LogAppendTime.UnixMilli() {
			t.Fatalf("codec %d: attributes %#x, newest %d, %v; want the stamp %d", codec, b.Attributes, b.MaxTimestamp, err, got.LogAppendTime.UnixMilli())
		}
		for _, stored := range read[0].Batches {
			if string(sealed(append([]byte(nil), stored...))) != string(stored) {
				t.Fatalf("codec %d: the CRC is not that of the bytes", codec)
			}
		}
		for _, m := range fetchAll(t, e, "t", "0") {
			if m.Timestamp.Before(start) {
				t.Fatalf("codec %d: offset %d has timestamp %v", codec, m.Offset, m.Timestamp)
			}
		}
	}
}
