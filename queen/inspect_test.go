package queen

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// Sizes are those of what can be read: what went by retention, by deletion of records or
// by compaction does not count.
func TestSizesAreOfWhatIsThere(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db, byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.CleanupDelete = true })
	size := func() int64 {
		t.Helper()
		a, err := e.Sizes(t.Context(), []PartitionRef{at("absent", 0), at("t", 0), at("t", 1)})
		if err != nil || !errors.Is(a[0].Err, ErrUnknownQueue) || a[1].Err != nil || !errors.Is(a[2].Err, ErrUnknownPartition) {
			t.Fatalf("%+v, %v", a, err)
		}
		return a[1].Size
	}
	check := func(when string) {
		t.Helper()
		if want := queryOne[int64](t, db, `SELECT COALESCE(sum(octet_length(data)), 0) FROM log_segments s JOIN log_partitions p ON p.id = s.partition_id WHERE s.end_offset >= p.start_offset`); size() != want {
			t.Errorf("%s: %d bytes, want %d", when, size(), want)
		}
	}
	check("empty")
	for i := range 6 {
		appendPairs(t, e, "t", pair{"a", "1"}, pair{string(rune('b' + i)), "1"})
	}
	check("written")
	compactNow(t, e)
	check("compacted")
	appendPairs(t, e, "t", pair{"a", "2"}, pair{"z", "1"})
	check("written on")
	if r := e.Truncate(t.Context(), []Truncation{{Partition: at("t", 0), Before: 4}})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	check("cut")
	if err := e.retainOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("purged")
	if size() == 0 {
		t.Error("nothing is left to measure")
	}
}

func TestProducersAreListed(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	createTopic(t, e, "t", 1)
	start := time.Now().Add(-time.Minute)
	for producer := range int64(2) {
		for seq := range int32(7) {
			b := kafkaBatch(t, 1)
			binary.BigEndian.PutUint64(b[batchAtProducerID:], uint64(100+producer))
			binary.BigEndian.PutUint16(b[batchAtProducerEpoch:], 3)
			binary.BigEndian.PutUint32(b[batchAtBaseSequence:], uint32(seq))
			appendBatch(t, e, at("t", 0), sealed(b))
		}
	}
	got, err := e.Producers(t.Context(), at("t", 0))
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v; want two", got, err)
	}
	for i, p := range got {
		if p.ID != int64(100+i) || p.Epoch != 3 || p.LastSequence != 6 || p.LastWrite.Before(start) {
			t.Errorf("%+v", p)
		}
	}
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE producers SET updated_at = updated_at - interval '25 h' WHERE producer_id = 100`); err != nil {
		t.Fatal(err)
	}
	if got, err = e.Producers(t.Context(), at("t", 0)); err != nil || len(got) != 1 || got[0].ID != 101 {
		t.Errorf("%+v, %v; want the one that wrote today", got, err)
	}
	if _, err := e.Producers(t.Context(), at("t", 1)); !errors.Is(err, ErrUnknownPartition) {
		t.Errorf("%v, want ErrUnknownPartition", err)
	}
}
