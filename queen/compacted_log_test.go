package queen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// An id stays known when compaction has taken its message: the answer is still
// duplicate, with the offset and without a message id, as after retention.
func TestDuplicateOfACompactedMessageHasNoID(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	yes, ratio := true, 0.0
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{CleanupCompact: &yes, DirtyRatioMin: &ratio}); err != nil {
		t.Fatal(err)
	}
	push := func(id, key string) Pushed {
		t.Helper()
		return e.Push(t.Context(), []Message{{Queue: "q", ID: []byte(id), Key: []byte(key), Value: []byte(id)}})[0]
	}
	push("1", "a")
	kept := push("2", "b")
	push("3", "a")
	push("4", "c")
	compactNow(t, e)
	if got := fetchAll(t, e, "q", ""); len(got) != 3 {
		t.Fatalf("%d messages, want 3", len(got))
	}
	for id, want := range map[string]Pushed{
		"1": {Status: Duplicate, Offset: 0, Partition: DefaultPartition, TransactionID: []byte("1")},
		"2": {Status: Duplicate, Offset: 1, Partition: DefaultPartition, TransactionID: []byte("2"), MessageID: kept.MessageID},
	} {
		if got := push(id, "z"); !reflect.DeepEqual(got, want) {
			t.Errorf("again %s: %+v, want %+v", id, got, want)
		}
	}
	// What had no key to begin with is refused at this door too.
	if got := e.Push(t.Context(), []Message{{Queue: "q", Value: []byte("x")}})[0]; !errors.Is(got.Err, ErrInvalidRecord) {
		t.Errorf("a message without a key: %+v, want ErrInvalidRecord", got)
	}
}

// A large hole is crossed in a few trips, whether it lies between segments or
// inside one, with a lease and without.
func TestPopCrossesWhatCompactionEmptied(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t")
	many := make([]pair, 3000)
	for i := range many {
		many[i] = pair{"a", strconv.Itoa(i)}
	}
	appendPairs(t, e, "t", append([]pair{{"first", "1"}}, many...)...) // 0, then a hole
	for range 20 {
		appendPairs(t, e, "t", many[:100]...)
	}
	appendPairs(t, e, "t", append(many, pair{"last", "1"})...) // a hole, then 8000 and 8001
	appendPairs(t, e, "t", pair{"end", "1"})
	compactNow(t, e)
	wantContents(t, e, "t", "0 first=1", "8000 a=2999", "8001 last=1", "8002 end=1")
	for _, auto := range []bool{false, true} {
		var got []int64
		for range 4 {
			p := popBatch(t, e, PopRequest{Queue: "t", Group: fmt.Sprint("g", auto), AutoAck: auto})
			if len(p.Messages) != 1 {
				t.Fatalf("%d messages after %v", len(p.Messages), got)
			}
			got = append(got, p.Messages[0].Offset)
			if !auto {
				a := e.Ack(t.Context(), []Ack{{TransactionID: p.Messages[0].TransactionID, PartitionID: p.PartitionID, LeaseID: p.LeaseID, Group: p.Group, Status: AckCompleted}})
				if a[0].Err != nil {
					t.Fatal(a[0].Err)
				}
			}
		}
		if !slices.Equal(got, []int64{0, 8000, 8001, 8002}) {
			t.Errorf("popped %v", got)
		}
	}
	// What lies between segments takes no call, what lies inside one takes one.
	for _, c := range []struct{ position, next, last int64 }{{1, 1, 3000}, {3001, 5001, 7999}} {
		if _, err := e.CommitOffsets(t.Context(), "h", e.Coordinator("h").Fence, []Cursor{{Partition: at("t", 0), Offset: c.position}}); err != nil {
			t.Fatal(err)
		}
		p := e.catalog.cached(QueueRef{Name: "t"}).partition(0)
		claims, refused, err := e.db.Claim(t.Context(), store.ClaimRequest{
			Group: "h", Partitions: []int64{p.id}, Most: 1, Batch: 1, MaxBytes: 1, Lease: uuid.New(), LeaseFor: time.Hour,
		})
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, refused, err)
		}
		msgs, holes, err := unpackClaim(p, claims[0], newUnpackRoom(1<<20))
		if err != nil || len(msgs) != 0 || int64(len(holes)) != c.last-c.next+1 || holes[0] != c.next || holes[len(holes)-1] != c.last {
			t.Errorf("at %d: %d messages and %d holes, %v; want those of %d to %d", c.position, len(msgs), len(holes), err, c.next, c.last)
		}
	}
}

// What compaction or retention took is no reason to think that the log was cut:
// an epoch of which nothing is left ended where the next one began.
func TestEpochsOutliveTheirRecords(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE cluster SET epoch = 9`); err != nil {
		t.Fatal(err)
	}
	e := openEngine(t, storetest.Open(t, db), byHand)
	now := e.Cluster().Epoch
	if now < 9 {
		t.Fatalf("the epoch is %d, want at least 9", now)
	}
	compactedTopic(t, e, "t")
	appendPairs(t, e, "t", pair{"stays", "1"})
	appendPairs(t, e, "t", pair{"a", "2"})
	appendPairs(t, e, "t", pair{"a", "3"})
	appendPairs(t, e, "t", pair{"b", "1"})
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE log_segments SET leader_epoch = end_offset - 3 + $1`, now); err != nil {
		t.Fatal(err)
	}
	end := func(epoch int32) EpochEnd {
		t.Helper()
		a, err := e.EpochEnds(t.Context(), []EpochQuery{{Partition: at("t", 0), CurrentEpoch: -1, Epoch: epoch}})
		if err != nil || a[0].Err != nil {
			t.Fatal(err, a[0].Err)
		}
		return a[0].End
	}
	want := map[int32]EpochEnd{}
	for epoch := now - 4; epoch <= now; epoch++ { // one is older than the log
		want[epoch] = end(epoch)
	}
	compactNow(t, e)
	wantContents(t, e, "t", "0 stays=1", "2 a=3", "3 b=1")
	for epoch, before := range want {
		if got := end(epoch); got.EndOffset < before.EndOffset {
			t.Errorf("epoch %d ended at %d, and now at %d: its readers would think that the log was cut", epoch, before.EndOffset, got.EndOffset)
		}
		a, err := e.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at("t", 0), Offset: 2, MaxBytes: 1, CurrentEpoch: -1, LastFetchedEpoch: epoch}}, MaxBytes: 1})
		told := a[0].Diverging != nil
		if err != nil || told && want[epoch].EndOffset >= 2 || !told && epoch == now-4 {
			t.Errorf("a reader at 2 that comes from epoch %d is told %+v, %v", epoch, a[0].Diverging, err)
		}
	}
}

func TestTheNewestTimestampIsThatOfARecordThatIsThere(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t")
	now := time.Now().UnixMilli()
	for i, ms := range []int64{100, 900, 300, 500, 200} { // 900 is superseded
		key := []string{"a", "b", "b", "c", "d"}[i]
		b := pairsBatch(t, codecNone, pair{key, "1"})
		binary.BigEndian.PutUint64(b[batchAtBaseTimestamp:], uint64(now+ms))
		binary.BigEndian.PutUint64(b[batchAtMaxTimestamp:], uint64(now+ms))
		appendBatch(t, e, at("t", 0), sealed(b))
	}
	newest := func(at int64) (int64, int64) {
		t.Helper()
		a, err := e.Offsets(t.Context(), []OffsetQuery{{Partition: PartitionRef{Queue: QueueRef{Name: "t"}}, Timestamp: at, CurrentEpoch: -1}})
		if err != nil {
			t.Fatal(err)
		}
		if a[0].Err != nil {
			t.Fatal(a[0].Err)
		}
		return a[0].Offset, a[0].Timestamp - now
	}
	if o, ms := newest(AtMaxTimestamp); o != 1 || ms != 900 {
		t.Fatalf("offset %d at %d, want 1 at 900", o, ms)
	}
	compactNow(t, e)
	// Of a log that is large only the segments that may have it are read.
	if _, err := storetest.Pool(t, e.db).Exec(t.Context(), `UPDATE log_segments SET data = 'not read' WHERE end_offset IN (0, 4)`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ at, offset, ms int64 }{{AtMaxTimestamp, 3, 500}, {now + 400, 3, 500}, {now + 150, 2, 300}} {
		if o, ms := newest(c.at); o != c.offset || ms != c.ms {
			t.Errorf("at %d: offset %d at %d, want %d at %d", c.at, o, ms, c.offset, c.ms)
		}
	}
	if o, _ := newest(now + 600); o != -1 {
		t.Errorf("offset %d is told for a time after all records", o)
	}
	// Nobody deletes from a log that is only compacted, as in Kafka.
	if got := e.Truncate(t.Context(), []Truncation{{Partition: at("t", 0), Before: 2}})[0]; !errors.Is(got.Err, ErrPolicy) {
		t.Errorf("deleting records: %+v, want ErrPolicy", got)
	}
}

// What brokers keep in memory of a log is dropped when it was compacted, by this
// broker or by another: else its small logs would be read from memory for ever.
func TestCompactionIsSeenThroughEveryBroker(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	a, b := openEngine(t, db, byHand), openEngine(t, storetest.Open(t, db), byHand)
	compactedTopic(t, a, "t")
	add := func(e *Engine, value string) {
		t.Helper()
		appendPairs(t, e, "t", pair{"a", value})
	}
	read := func(e *Engine) int {
		t.Helper()
		return len(fetchAll(t, e, "t", "0"))
	}
	none := func(int64) bool { return false }
	for i := range 3 {
		add(b, strconv.Itoa(i))
	}
	if err := b.compactOnce(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	add(b, "in the tail")
	if n := read(b); n != 4 {
		t.Fatalf("%d records, want 4", n)
	}
	compactNow(t, a)
	if n := read(a); n != 2 {
		t.Errorf("who compacted reads %d records, want the newest and the one left alone", n)
	}
	if err := b.compactOnce(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	if n := read(b); n != 2 {
		t.Errorf("the other broker reads %d records, want 2", n)
	}
	// Nothing changed since: what is in memory stays there.
	if err := b.compactOnce(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	add(b, "again")
	if err := b.compactOnce(t.Context(), none); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := b.tail.segments(queryOne[int64](t, db, `SELECT id FROM log_partitions`), b.db.Incarnation().Epoch, 4, 1); !ok {
		t.Error("memory is dropped although nothing was compacted")
	}
}

// Retention by size goes by what is there, not by what was written before compaction.
func TestRetentionBySizeOfACompactedLog(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.CleanupDelete = true })
	appendPairs(t, e, "t", pair{"z", "1"})
	for i := range 20 {
		appendPairs(t, e, "t", pair{"a", strconv.Itoa(i % 10)})
	}
	for _, key := range []string{"b", "c", "d"} {
		appendPairs(t, e, "t", pair{key, "1"})
	}
	compactNow(t, e)
	wantContents(t, e, "t", "0 z=1", "20 a=9", "21 b=1", "22 c=1", "23 d=1")
	one := queryOne[int64](t, e.db, `SELECT max(size) FROM log_segments`)
	for _, c := range []struct{ keep, start int64 }{{4*one + 1, 0}, {4 * one, 1}, {one, 23}} {
		if _, err := e.Configure(t.Context(), "t", OptionsPatch{Merge: true, RetentionBytes: &c.keep}); err != nil {
			t.Fatal(err)
		}
		if err := e.retainOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := logStart(t, e, at("t", 0)); got != c.start {
			t.Errorf("%d bytes are to be kept of 5 × %d: the log starts at %d, want %d", c.keep, one, got, c.start)
		}
	}
}
