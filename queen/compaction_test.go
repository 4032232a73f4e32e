package queen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// anyPartition takes all partitions, whoever they fall to.
func anyPartition(int64) bool { return true }

// byHand opens an engine whose compaction only runs when a test calls it.
func byHand(c *Config) { c.CompactEvery, c.RetentionEvery = time.Hour, time.Hour }

// compactedTopic makes a topic that is compacted whenever there is anything to compact.
func compactedTopic(t *testing.T, e *Engine, name string, change ...func(*QueueOptions)) {
	t.Helper()
	o := TopicOptions()
	o.CleanupDelete, o.CleanupCompact, o.DirtyRatioMin = false, true, 0
	for _, f := range change {
		f(&o)
	}
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: name, Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
}

// pair is a record's key and value; "" as value is a tombstone.
type pair struct{ key, value string }

// pairsBatch is a record batch of pairs in a codec.
func pairsBatch(t *testing.T, codec int8, pairs ...pair) []byte {
	t.Helper()
	msgs := make([]*Message, len(pairs))
	for i, p := range pairs {
		msgs[i] = &Message{Key: []byte(p.key), Value: []byte(p.value)}
		if p.value == "" {
			msgs[i].Value = nil
		}
	}
	data, marks := appendNative(nil, msgs, time.Now(), 1<<20)
	if len(marks) != 1 {
		t.Fatalf("%d batches, want 1", len(marks))
	}
	info, err := lookBatch(data)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err = recompression{codec: codec, level: levelDefault}.apply(data, info, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func appendPairs(t *testing.T, e *Engine, topic string, pairs ...pair) {
	t.Helper()
	appendBatch(t, e, at(topic, 0), pairsBatch(t, codecNone, pairs...))
}

func compactNow(t *testing.T, e *Engine) {
	t.Helper()
	if err := e.compactOnce(t.Context(), anyPartition); err != nil {
		t.Fatal(err)
	}
}

// contents reads a partition from the database, batch by batch, as a Kafka
// consumer does: from offset to last offset + 1, up to the end of the log.
// It returns what it met, as "offset key=value".
func contents(t *testing.T, e *Engine, topic string) []string {
	t.Helper()
	e.tail.forgetAll()
	var out []string
	for offset := int64(0); ; {
		a, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at(topic, 0), Offset: offset, MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MaxBytes: 1 << 20,
		})
		if err != nil || a[0].Err != nil {
			t.Fatalf("read at %d: %v, %v", offset, err, a[0].Err)
		}
		if offset == a[0].HighWatermark {
			return out
		}
		if len(a[0].Batches) == 0 {
			t.Fatalf("nothing at %d, the log ends at %d: a reader would never get on", offset, a[0].HighWatermark)
		}
		for _, b := range a[0].Batches {
			base := int64(binary.BigEndian.Uint64(b))
			if err := eachRecord(b, 1<<20, func(r record) error {
				if o := base + int64(r.OffsetDelta); o >= offset {
					out = append(out, fmt.Sprintf("%d %s=%s", o, r.Key, r.Value))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			offset = lastOffset(b) + 1
		}
	}
}

func wantContents(t *testing.T, e *Engine, topic string, want ...string) {
	t.Helper()
	if got := contents(t, e, topic); !slices.Equal(got, want) {
		t.Fatalf("the log holds %q, want %q", got, want)
	}
}

func TestCompactionKeepsTheLatestOfEachKeyWhereItIs(t *testing.T) {
	t.Parallel()
	for codec, name := range codecNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := openEngine(t, storetest.New(t), byHand)
			compactedTopic(t, e, "t")
			add := func(pairs ...pair) { appendBatch(t, e, at("t", 0), pairsBatch(t, int8(codec), pairs...)) }
			add(pair{"a", "1"}, pair{"b", "1"}, pair{"a", "2"})
			add(pair{"a", "3"})
			add(pair{"c", "1"}, pair{"a", "4"}, pair{"d", "1"})
			add(pair{"b", "2"}, pair{"d", "2"}) // the newest segment is left alone, and what it supersedes with it
			before := fetchAll(t, e, "t", "0")
			compactNow(t, e)
			wantContents(t, e, "t", "1 b=1", "4 c=1", "5 a=4", "6 d=1", "7 b=2", "8 d=2")
			for _, m := range fetchAll(t, e, "t", "0") {
				was := before[m.Offset]
				if m.ID != was.ID || !m.CreatedAt.Equal(was.CreatedAt) || !m.Timestamp.Equal(was.Timestamp) {
					t.Errorf("%+v was %+v", m, was)
				}
			}
			add(pair{"e", "1"})
			compactNow(t, e)
			wantContents(t, e, "t", "4 c=1", "5 a=4", "7 b=2", "8 d=2", "9 e=1")
			if n := queryOne[int](t, e.db, `SELECT count(*) FROM log_segments`); n != 3 {
				t.Errorf("%d segments, want 3: an empty one goes", n)
			}
			if n := queryOne[int](t, e.db, `SELECT count(*) FROM log_txns`); n != 5 {
				t.Errorf("%d sidecar rows, want all 5", n)
			}
		})
	}
}

func queryOne[T any](t *testing.T, db *store.DB, sql string) (v T) {
	t.Helper()
	if err := storetest.Pool(t, db).QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCompactionWaitsAsTheQueueSays(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	all := []string{"0 a=1", "1 a=2", "2 b=1"}
	write := func(topic string) {
		appendPairs(t, e, topic, pair{"a", "1"})
		appendPairs(t, e, topic, pair{"a", "2"})
		appendPairs(t, e, topic, pair{"b", "1"})
	}
	compactedTopic(t, e, "young", func(o *QueueOptions) { o.CompactionLagMinMs = 60_000 })
	write("young")
	compactNow(t, e)
	wantContents(t, e, "young", all...)
	age(t, e.db, "61 s")
	compactNow(t, e)
	wantContents(t, e, "young", all[1:]...)

	compactedTopic(t, e, "never", func(o *QueueOptions) { o.DirtyRatioMin = 1 })
	write("never")
	compactNow(t, e)
	wantContents(t, e, "never", all...)
	// Waiting too long overrules the ratio, and the last segment is not spared.
	lag := int64(60_000)
	if _, err := e.Configure(t.Context(), "never", OptionsPatch{Merge: true, CompactionLagMaxMs: &lag}); err != nil {
		t.Fatal(err)
	}
	compactNow(t, e)
	wantContents(t, e, "never", all...)
	age(t, e.db, "61 s")
	compactNow(t, e)
	wantContents(t, e, "never", all[1:]...)
}

func TestDirtyRatioIsOfBytes(t *testing.T) {
	t.Parallel()
	f := func(clean, dirty int64, ratio float64, want bool) {
		t.Helper()
		r := store.CompactionRow{CleanTo: 10, Upto: 20, CleanBytes: clean, DirtyBytes: dirty, DirtyRatioMin: ratio}
		if got := worthCompacting(&r); got != want {
			t.Errorf("%d bytes of %d dirty with a ratio of %v: %v, want %v", dirty, clean+dirty, ratio, got, want)
		}
		r.Upto = 10
		if worthCompacting(&r) {
			t.Error("nothing may be compacted, and yet it is worth it")
		}
	}
	f(0, 1, 0.5, true)
	f(50, 50, 0.5, false)
	f(50, 51, 0.5, true)
	f(0, 1, 1, false)
	f(1000, 1, 0, true)
}

// More keys than one pass compares take more passes, to the same end.
func TestCompactionOfMoreKeysThanFit(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand, func(c *Config) { c.CompactKeysMax = 7 })
	compactedTopic(t, e, "t")
	for i := range 300 {
		appendPairs(t, e, "t", pair{strconv.Itoa(i % 100), strconv.Itoa(i)}, pair{"x", strconv.Itoa(i)})
	}
	compactNow(t, e)
	got := contents(t, e, "t")
	if len(got) != 103 { // 100 keys and x, and the last segment's two
		t.Fatalf("%d records: %q", len(got), got)
	}
	for i, s := range got[:100] {
		n := 199 + i
		if want := fmt.Sprintf("%d %d=%d", 2*n, n%100, n); s != want {
			t.Fatalf("record %d is %q, want %q", i, s, want)
		}
	}
}

// Records without a key are older than the policy. They name nothing that could
// supersede them.
func TestCompactionLeavesRecordsWithoutKey(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	createTopic(t, e, "t", 1)
	noKey, _ := appendNative(nil, []*Message{{Value: []byte("1")}, {Value: []byte("2")}}, time.Now(), 1<<20)
	appendBatch(t, e, at("t", 0), noKey)
	yes, no, ratio := true, false, 0.0
	if _, err := e.Configure(t.Context(), "t", OptionsPatch{Merge: true, CleanupCompact: &yes, CleanupDelete: &no, DirtyRatioMin: &ratio}); err != nil {
		t.Fatal(err)
	}
	appendPairs(t, e, "t", pair{"a", "1"}, pair{"a", "2"})
	appendPairs(t, e, "t", pair{"b", "1"})
	compactNow(t, e)
	wantContents(t, e, "t", "0 =1", "1 =2", "3 a=2", "4 b=1")
}

// A call whose answer was lost may still be carried out, after its repeat or after
// others: it changes only what is still what it read.
func TestALateCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t")
	appendPairs(t, e, "t", pair{"a", "1"}, pair{"b", "1"}, pair{"c", "1"})
	appendPairs(t, e, "t", pair{"a", "2"})
	appendPairs(t, e, "t", pair{"b", "2"})
	appendPairs(t, e, "t", pair{"z", "1"})
	p, err := e.catalog.partition(t.Context(), at("t", 0))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := e.db.ScanSegments(t.Context(), p.id, 0, 1<<20, 10)
	if err != nil {
		t.Fatal(err)
	}
	// What another broker made of the log when it only knew the second segment.
	latest := newLatestKeys(10)
	latest.see([]byte("a"), 3)
	out, err := newCompaction(latest, time.Now(), 0).segment(rows[0], false)
	if err != nil || out.Records != 2 {
		t.Fatalf("%+v, %v; want two records left", out, err)
	}
	compactNow(t, e)
	want := []string{"2 c=1", "3 a=2", "4 b=2", "5 z=1"}
	wantContents(t, e, "t", want...)
	late := []store.CompactedSegment{out.CompactedSegment}
	if n, err := e.db.CompactSegments(t.Context(), p.id, late); n != 0 || err != nil {
		t.Errorf("a late call replaced %d segments, %v", n, err)
	}
	wantContents(t, e, "t", want...)
	// And what is left of a list after one that does not fit is not touched: a
	// tombstone's time must not begin before all below it was compacted.
	rows, err = e.db.ScanSegments(t.Context(), p.id, 1, 1<<20, 10)
	if err != nil {
		t.Fatal(err)
	}
	late = append(late, store.CompactedSegment{End: rows[1].End, Was: rows[1].Header})
	if n, err := e.db.CompactSegments(t.Context(), p.id, late); n != 0 || err != nil {
		t.Errorf("replaced %d segments, %v", n, err)
	}
	last := rows[len(rows)-1]
	if n, err := e.db.CompactSegments(t.Context(), p.id, []store.CompactedSegment{{End: last.End, Was: last.Header}}); n != 0 || err != nil {
		t.Errorf("the last row was removed: %d, %v", n, err)
	}
	wantContents(t, e, "t", want...)
	yes, no := true, false
	if _, err := e.Configure(t.Context(), "t", OptionsPatch{Merge: true, CleanupCompact: &no, CleanupDelete: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.db.CompactSegments(t.Context(), p.id, late); err == nil {
		t.Error("a queue that is not compacted any more was")
	}
}

func TestRecordsWithoutKeyAreRefusedByName(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.LogAppendTime = true })
	batch, _ := appendNative(nil, []*Message{{Key: []byte("a")}, {Value: []byte("1")}, {Key: []byte(""), Value: []byte("2")}, {Value: []byte("3")}}, time.Now(), 1<<20)
	_, err := e.Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: batch}})[0].Result(t.Context())
	var refused *RecordErrors
	if !errors.As(err, &refused) || !errors.Is(err, ErrInvalidRecord) {
		t.Fatalf("%v, want ErrInvalidRecord with its records", err)
	}
	if len(refused.Records) != 2 || refused.Records[0].Index != 1 || refused.Records[1].Index != 3 {
		t.Errorf("%+v, want records 1 and 3", refused.Records)
	}
	wantContents(t, e, "t")
}
