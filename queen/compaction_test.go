package queen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

func TestTombstonesStayForTheirTime(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.TombstoneRetentionMs = 3_600_000 })
	appendPairs(t, e, "t", pair{"a", "1"}, pair{"b", "1"})
	appendPairs(t, e, "t", pair{"a", ""})
	appendPairs(t, e, "t", pair{"c", "1"})
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=1", "2 a=", "3 c=1")
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=1", "2 a=", "3 c=1")
	left := queryOne[float64](t, e.db,
		`SELECT extract(epoch FROM tombstones_due - clock_timestamp())::float8 FROM log_compactions`)
	if left < 3500 || left > 3601 {
		t.Errorf("the tombstone is due in %.0f s, want an hour from when it was compacted", left)
	}
	// The hour passes: nothing new is written, and it goes all the same.
	elapse(t, e.db)
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=1", "3 c=1")
	if due := queryOne[bool](t, e.db, `SELECT tombstones_due IS NOT NULL FROM log_compactions`); due {
		t.Error("a tombstone is due, and there is none left")
	}
}

// elapse makes the times of all tombstones lie in the past.
func elapse(t *testing.T, db *store.DB) {
	t.Helper()
	pool := storetest.Pool(t, db)
	if _, err := pool.Exec(t.Context(), `UPDATE log_compactions SET tombstones_due = clock_timestamp() - interval '1 s'`); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Partition, End int64
		Header         []byte
	}
	res, err := pool.Query(t.Context(), `SELECT partition_id, end_offset, header FROM log_segments`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := pgx.CollectRows(res, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		h, err := decodeSegmentHeader(r.Header)
		if err != nil {
			t.Fatal(err)
		}
		for i := range h.Marks {
			h.Marks[i].TombstonesDue = min(1, h.Marks[i].TombstonesDue)
		}
		if _, err := pool.Exec(t.Context(), `UPDATE log_segments SET header = $3 WHERE partition_id = $1 AND end_offset = $2`,
			r.Partition, r.End, h.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// The end of the log keeps its row, or who reads on from before it would find nothing.
func TestATombstoneAtTheEndOfTheLogStays(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), byHand)
	compactedTopic(t, e, "t", func(o *QueueOptions) { o.TombstoneRetentionMs, o.CompactionLagMaxMs = 0, 1 })
	appendPairs(t, e, "t", pair{"a", "1"})
	appendPairs(t, e, "t", pair{"b", ""}, pair{"a", ""})
	age(t, e.db, "1 min")
	compactNow(t, e)
	wantContents(t, e, "t", "1 b=", "2 a=")
	elapse(t, e.db)
	compactNow(t, e)
	wantContents(t, e, "t", "2 a=")
	appendPairs(t, e, "t", pair{"c", "1"})
	age(t, e.db, "1 min")
	compactNow(t, e)
	wantContents(t, e, "t", "3 c=1")
}

func queryOne[T any](t *testing.T, db *store.DB, sql string) (v T) {
	t.Helper()
	if err := storetest.Pool(t, db).QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// age makes all segments older.
func age(t *testing.T, db *store.DB, by string) {
	t.Helper()
	if _, err := storetest.Pool(t, db).Exec(t.Context(), `UPDATE log_segments SET created_at = created_at - $1::text::interval`, by); err != nil {
		t.Fatal(err)
	}
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

// Writers go on while two brokers compact, as often as they can. Whoever reads
// from the start, at any time and through either broker, finds for each key what was
// its latest value when the reading began, or a later one; and no key comes back. Who reads
// in steps must come by a tombstone before its time is over, as with Apache Kafka.
func TestTheLatestValueIsReadableWhileTwoBrokersCompact(t *testing.T) {
	t.Parallel()
	t.Run("in steps", func(t *testing.T) {
		t.Parallel()
		testLatestWhileCompacting(t, 3_600_000, 2000)
	})
	t.Run("at once, and tombstones go", func(t *testing.T) {
		t.Parallel()
		testLatestWhileCompacting(t, 0, 16<<20)
	})
}

func testLatestWhileCompacting(t *testing.T, tombstoneRetentionMs int64, readBytes int) {
	db := storetest.New(t)
	fast := func(c *Config) { c.CompactEvery, c.CompactKeysMax = time.Hour, 20 }
	brokers := []*Engine{openEngine(t, db, fast), openEngine(t, storetest.Open(t, db), fast)}
	compactedTopic(t, brokers[0], "t", func(o *QueueOptions) { o.TombstoneRetentionMs = tombstoneRetentionMs })
	const keys, writes = 40, 200

	m := &latestModel{acked: map[string]int{}, tried: map[string][]int{}}
	var work, background sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			for n := 1; n <= writes; n++ {
				key := fmt.Sprintf("%d-%d", i, rnd.IntN(keys/2)) // a writer's own: their order is known
				p, number := pair{key, strconv.Itoa(n)}, n
				if rnd.IntN(4) == 0 {
					p.value, number = "", -n
				}
				codec := int8(rnd.IntN(len(codecNames)))
				m.try(key, number)
				if _, err := brokers[i].Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: pairsBatch(t, codec, p)}})[0].Result(t.Context()); err != nil {
					t.Error(err)
					return
				}
				m.ack(key, number)
			}
		})
	}
	for _, e := range brokers {
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := e.compactOnce(t.Context(), anyPartition); err != nil {
					t.Error(err)
					return
				}
			}
		})
		background.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				want := m.now()
				m.check(t, latestOf(t, e, readBytes), want)
			}
		})
	}
	work.Wait()
	close(stop)
	background.Wait()
	if t.Failed() {
		return
	}
	for _, e := range brokers {
		m.check(t, latestOf(t, e, readBytes), m.now())
	}
	// In the end: one more segment, and every one before it is compacted.
	appendPairs(t, brokers[0], "t", pair{"end", "1"})
	compactNow(t, brokers[0])
	elapse(t, db)
	compactNow(t, brokers[1])
	brokers[1].tail.forgetAll()
	m.check(t, latestOf(t, brokers[1], readBytes), m.now())
	alive := 1
	for _, n := range m.now() {
		if n > 0 {
			alive++
		}
	}
	if records := contents(t, brokers[1], "t"); len(records) != alive {
		t.Errorf("%d records are left, want %d: the latest of each key that is not deleted: %q", len(records), alive, records)
	}
}

// latestOf reads a partition from its start, and builds the map a consumer would.
func latestOf(t *testing.T, e *Engine, readBytes int) map[string]int {
	got := map[string]int{}
	for offset := int64(0); ; {
		a, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), Offset: offset, MaxBytes: readBytes, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MaxBytes: readBytes,
		})
		if err != nil || a[0].Err != nil {
			t.Errorf("read at %d: %v, %v", offset, err, a[0].Err)
			return got
		}
		if len(a[0].Batches) == 0 {
			if offset < a[0].HighWatermark {
				t.Errorf("nothing at %d, the log ends at %d", offset, a[0].HighWatermark)
			}
			return got
		}
		for _, b := range a[0].Batches {
			base := int64(binary.BigEndian.Uint64(b))
			if err := eachRecord(b, 1<<20, func(r record) error {
				if base+int64(r.OffsetDelta) < offset {
					return nil
				}
				n, err := strconv.Atoi(string(r.Value))
				if r.Value == nil {
					delete(got, string(r.Key))
					return nil
				}
				got[string(r.Key)] = n
				return err
			}); err != nil {
				t.Error(err)
				return got
			}
			offset = lastOffset(b) + 1
		}
	}
}

// latestModel is what a log may say of its keys. Numbers of a key ascend; a
// negative one is a tombstone.
type latestModel struct {
	mu    sync.Mutex
	acked map[string]int   // the newest acknowledged
	tried map[string][]int // all that were sent
}

func (m *latestModel) try(key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tried[key] = append(m.tried[key], n)
}

func (m *latestModel) ack(key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acked[key] = n
}

func (m *latestModel) now() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.acked)
}

// check holds what a reader found against what was acknowledged before it began:
// of each key that write, or one that was sent after it.
func (m *latestModel) check(t *testing.T, got, before map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, n := range before {
		g, ok := got[key]
		if n < 0 && !ok {
			continue // deleted
		}
		i := slices.Index(m.tried[key], n)
		if !slices.ContainsFunc(m.tried[key][i:], func(later int) bool { return ok && later == g || !ok && later < 0 }) {
			t.Errorf("%s is %d (%v), and %d was acknowledged before; written were %v", key, g, ok, n, m.tried[key])
		}
	}
}

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

func TestTopicsStoreBatchesInTheirOwnCodec(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	for codec, name := range codecNames {
		if codec == 0 {
			name = "uncompressed"
		}
		o := TopicOptions()
		o.Compression = name
		o.Configs = map[string]string{"compression.gzip.level": "1", "compression.zstd.level": "-5", "compression.lz4.level": "17"}
		if _, err := e.CreateQueue(t.Context(), NewQueue{Name: name, Partitions: 1, Options: o}); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, from := range allCodecs {
			appendBatch(t, e, at(name, 0), pairsBatch(t, min(from, codecZstd), pair{"a", strings.Repeat("xyz", 30_000)}, pair{"b", ""}))
			want = append(want, fmt.Sprintf("%d a=%s", 2*i, strings.Repeat("xyz", 30_000)), fmt.Sprintf("%d b=", 2*i+1))
		}
		wantContents(t, e, name, want...)
		a, err := e.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at(name, 0), CurrentEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
		if err != nil || len(a[0].Batches) != len(allCodecs) {
			t.Fatalf("%d batches, %v", len(a[0].Batches), err)
		}
		for _, b := range a[0].Batches {
			if info, err := checkBatch(slices.Clone(b), batchLimits{1 << 20, 1 << 20}); err != nil || info.Codec != int8(codec) {
				t.Errorf("%s: codec %d, %v", name, info.Codec, err)
			}
		}
	}
	// What a batch decompresses to has a limit of its own.
	o := TopicOptions()
	o.Configs = map[string]string{"max.decompressed.message.bytes": "10000"}
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "flat", Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]error{9_000: nil, 11_000: ErrTooLarge} {
		batch := pairsBatch(t, codecGzip, pair{"a", strings.Repeat("x", size)})
		if _, err := e.Append(t.Context(), []AppendItem{{Partition: at("flat", 0), Batch: batch}})[0].Result(t.Context()); !errors.Is(err, want) {
			t.Errorf("%d bytes where 10,000 are allowed after decompression: %v, want %v", size, err, want)
		}
	}
	// The limit holds for what is stored, too.
	o = TopicOptions()
	o.Compression, o.MaxMessageBytes = "uncompressed", 10_000
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "small", Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
	batch := pairsBatch(t, codecZstd, pair{"a", strings.Repeat("x", 20_000)})
	if _, err := e.Append(t.Context(), []AppendItem{{Partition: at("small", 0), Batch: batch}})[0].Result(t.Context()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("20,000 bytes where 10,000 are allowed: %v, want ErrTooLarge", err)
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
		msgs, holes, err := unpackClaim(p, claims[0])
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
		if err != nil || a[0].Err != nil {
			t.Fatal(err, a[0].Err)
		}
		return a[0].Offset, a[0].Timestamp - now
	}
	if o, ms := newest(AtMaxTimestamp); o != 1 || ms != 900 {
		t.Fatalf("offset %d at %d, want 1 at 900", o, ms)
	}
	compactNow(t, e)
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
