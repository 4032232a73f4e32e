package queen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// openEngine opens an engine on db and closes it after the test.
func openEngine(t *testing.T, db *store.DB, change ...func(*Config)) *Engine {
	t.Helper()
	cfg := Config{
		DB: db, Broker: BrokerConfig{ID: -1, Host: "127.0.0.1", Port: 9092, Version: "test"},
		CatalogEvery: 20 * time.Millisecond,
		// A machine that runs many tests at once may be slow; no test waits for these.
		WriteTimeout: time.Hour, CallTimeout: 5 * time.Minute,
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// kafkaBatch is a record batch as a Kafka client would send it, of n records.
func kafkaBatch(t *testing.T, n int) []byte {
	t.Helper()
	var msgs []*Message
	for i := range n {
		msgs = append(msgs, &Message{Key: []byte("k"), Value: fmt.Appendf(nil, "v%d", i)})
	}
	data, marks := appendNative(nil, msgs, time.Now(), 1<<20)
	if len(marks) != 1 {
		t.Fatalf("%d batches, want 1", len(marks))
	}
	return data
}

func createTopic(t *testing.T, e *Engine, name string, partitions int) {
	t.Helper()
	_, err := e.CreateQueue(t.Context(), NewQueue{
		Name: name, Partitions: partitions, Options: TopicOptions(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func at(queue string, partition int32) PartitionRef {
	return PartitionRef{Queue: QueueRef{Name: queue}, Number: partition}
}

func appendBatch(t *testing.T, e *Engine, ref PartitionRef, batch []byte) Appended {
	t.Helper()
	res, err := e.Append(t.Context(), []AppendItem{{Partition: ref, Batch: batch}})[0].Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func pushOne(t *testing.T, e *Engine, queue, id string) Pushed {
	t.Helper()
	m := Message{Queue: queue, Value: []byte(`{"n":1}`)}
	if id != "" {
		m.ID = []byte(id)
	}
	p := e.Push(t.Context(), []Message{m})[0]
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	return p
}

func fetchAll(t *testing.T, e *Engine, queue, partition string) []StoredMessage {
	t.Helper()
	return fetchFrom(t, e, queue, partition, 0)
}

func fetchFrom(t *testing.T, e *Engine, queue, partition string, offset int64) []StoredMessage {
	t.Helper()
	var out []StoredMessage
	for {
		f, err := e.Fetch(t.Context(), FetchRequest{
			Items: []FetchItem{{Queue: queue, Partition: partition, Offset: offset, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		if f[0].Err != nil {
			t.Fatal(f[0].Err)
		}
		if len(f[0].Messages) == 0 {
			return out
		}
		out = append(out, f[0].Messages...)
		offset = out[len(out)-1].Offset + 1
	}
}

// TestPushRetryIsADuplicateThatNamesTheOriginal is the first promise of the
// product, with the answer's memory gone and through another broker too.
func TestPushRetryIsADuplicateThatNamesTheOriginal(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	first := pushOne(t, e, "payments", "order-1")
	if first.Status != Queued || first.Offset != 0 || first.MessageID == uuid.Nil {
		t.Fatalf("first push: %+v, want queued at offset 0", first)
	}
	for name, other := range map[string]*Engine{"same broker": e, "another broker": openEngine(t, storetest.Open(t, db))} {
		again := pushOne(t, other, "payments", "order-1")
		if again.Status != Duplicate || again.Offset != 0 || again.MessageID != first.MessageID {
			t.Fatalf("%s: %+v, want a duplicate of %+v", name, again, first)
		}
	}
	if got := fetchAll(t, e, "payments", ""); len(got) != 1 || got[0].ID != first.MessageID || string(got[0].TransactionID) != "order-1" {
		t.Fatalf("stored %+v, want the one message", got)
	}
}

func TestPushWithoutIDIsNamedByItsMessageID(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	a, b := pushOne(t, e, "q", ""), pushOne(t, e, "q", "")
	if a.Status != Queued || b.Status != Queued || a.MessageID == b.MessageID || string(a.TransactionID) != a.MessageID.String() {
		t.Fatalf("%+v and %+v, want two messages named by their ids", a, b)
	}
	// Given back as a client's id it is what is stored already.
	again := pushOne(t, e, "q", a.MessageID.String())
	if again.Status != Duplicate || again.MessageID != a.MessageID || again.Offset != 0 {
		t.Fatalf("%+v, want a duplicate of the first", again)
	}
}

func TestPushRepeatedInOneRequestFollowsItsLeader(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	zero := 0
	if _, err := e.Configure(t.Context(), "off", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"on", "off"} { // layer 1 does not ask for the window
		msgs := []Message{
			{Queue: queue, ID: []byte("a"), Value: []byte("1")},
			{Queue: queue, Partition: DefaultPartition, ID: []byte("a"), Value: []byte("2")},
			{Queue: queue, Partition: "other", ID: []byte("a"), Value: []byte("3")},
			{Queue: queue, ID: []byte(""), Value: []byte("4")},
			{Queue: queue, ID: []byte("b"), Value: []byte("5")},
		}
		got := e.Push(t.Context(), msgs)
		var statuses []PushStatus
		for _, p := range got {
			statuses = append(statuses, p.Status)
		}
		if want := []PushStatus{Queued, Duplicate, Queued, Failed, Queued}; !slices.Equal(statuses, want) {
			t.Fatalf("%s: %v, want %v", queue, statuses, want)
		}
		if got[1].MessageID != got[0].MessageID || got[1].Offset != got[0].Offset {
			t.Fatalf("%s: follower %+v, leader %+v", queue, got[1], got[0])
		}
		if n := len(fetchAll(t, e, queue, "")); n != 2 {
			t.Fatalf("%s: %d messages in Default, want 2", queue, n)
		}
	}
	// With window 0 the next request stores the id again.
	if p := pushOne(t, e, "off", "a"); p.Status != Queued {
		t.Fatalf("%+v, want queued: the queue has no window", p)
	}
}

// Many requests with one id that travel in one flush: the first is stored, and
// every other one is a duplicate of it, though none was stored when they came.
func TestPushTheSameIDInOneFlushFollowsItsLeader(t *testing.T) {
	t.Parallel()
	e := openEngine(t, openNamed(t))
	pushOne(t, e, "q", "before")
	const requests = 20
	type place struct {
		id     uuid.UUID
		offset int64
	}
	queued, of := 0, map[place]int{}
	for _, a := range inOneFlush(t, e, requests) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if a.Status == Queued {
			queued++
		}
		of[place{a.MessageID, a.Offset}]++
	}
	if queued != 1 || len(of) != 1 {
		t.Errorf("%d of %d × a are queued, at %v; want one, and one place for all", queued, requests, of)
	}
	if n := len(fetchAll(t, e, "q", DefaultPartition)); n != 3 {
		t.Errorf("%d messages stored, want 3", n)
	}
}

func TestPushMixOfOldAndNewIDsAnswersInOrderAndDensely(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	old := pushOne(t, e, "q", "id-3")
	var msgs []Message
	for i := range 6 {
		msgs = append(msgs, Message{Queue: "q", ID: fmt.Appendf(nil, "id-%d", i), Value: []byte("x")})
	}
	got := e.Push(t.Context(), msgs)
	next := int64(1)
	for i, p := range got {
		if i == 3 {
			if p.Status != Duplicate || p.MessageID != old.MessageID || p.Offset != 0 {
				t.Fatalf("id-3: %+v, want a duplicate of %+v", p, old)
			}
			continue
		}
		if p.Status != Queued || p.Offset != next {
			t.Fatalf("id-%d: %+v, want queued at %d", i, p, next)
		}
		next++
	}
	for i, m := range fetchAll(t, e, "q", "") {
		if m.Offset != int64(i) {
			t.Fatalf("message %d has offset %d", i, m.Offset)
		}
	}
}

func TestPushTheSameIDsThroughTwoBrokersStoresEachOnce(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	engines := []*Engine{openEngine(t, db), openEngine(t, storetest.Open(t, db))}
	const ids, copies = 200, 4
	answers := make([][]Pushed, copies)
	var wg sync.WaitGroup
	for c := range copies {
		wg.Go(func() {
			for from := 0; from < ids; from += 20 {
				var msgs []Message
				for i := from; i < from+20; i++ {
					msgs = append(msgs, Message{Queue: "q", ID: fmt.Appendf(nil, "id-%d", i), Value: []byte("x")})
				}
				answers[c] = append(answers[c], engines[c%2].Push(t.Context(), msgs)...)
			}
		})
	}
	wg.Wait()
	queued := 0
	for i := range ids {
		for c := range copies {
			p := answers[c][i]
			if p.Err != nil || p.Offset != answers[0][i].Offset || p.MessageID != answers[0][i].MessageID {
				t.Fatalf("id-%d: %+v and %+v disagree", i, p, answers[0][i])
			}
			if p.Status == Queued {
				queued++
			}
		}
	}
	if queued != ids {
		t.Fatalf("%d queued, want %d", queued, ids)
	}
	got := fetchAll(t, engines[0], "q", "")
	if len(got) != ids || got[ids-1].Offset != ids-1 {
		t.Fatalf("%d messages, want %d with dense offsets", len(got), ids)
	}
}

func TestWindowRaisedIsHonouredAtOnce(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	// A broker that learns of changes only by its own calls.
	e := openEngine(t, db, func(c *Config) { c.CatalogEvery = time.Hour })
	pool := storetest.Pool(t, db)
	window := func(s int) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `UPDATE queues SET dedup_window_seconds = $1`, s); err != nil {
			t.Fatal(err)
		}
	}
	first := pushOne(t, e, "q", "a")
	window(60)
	if _, err := pool.Exec(t.Context(), `UPDATE log_txns SET created_at = created_at - interval '5 minutes'`); err != nil {
		t.Fatal(err)
	}
	pushOne(t, e, "q", "unrelated") // the broker now believes in 60 s
	window(3600)
	if p := pushOne(t, e, "q", "a"); p.Status != Duplicate || p.MessageID != first.MessageID {
		t.Fatalf("%+v, want a duplicate of %+v: the window reaches back an hour", p, first)
	}
}

func TestAppendAndReadBack(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	createTopic(t, e, "t", 3)
	for i := range 5 {
		if got := appendBatch(t, e, at("t", 1), kafkaBatch(t, 10)); got.BaseOffset != int64(10*i) {
			t.Fatalf("base offset %d, want %d", got.BaseOffset, 10*i)
		}
	}
	cold := openEngine(t, storetest.Open(t, db))
	for name, reader := range map[string]*Engine{"from the tail": e, "from the database": cold} {
		read := func(offset int64, maxBytes int) ReadAnswer {
			t.Helper()
			a, err := reader.Read(t.Context(), ReadRequest{
				Items:    []ReadItem{{Partition: at("t", 1), Offset: offset, MaxBytes: maxBytes, CurrentEpoch: -1, LastFetchedEpoch: -1}},
				MaxBytes: 1 << 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			return a[0]
		}
		a := read(0, 1<<20)
		if a.Err != nil || a.HighWatermark != 50 || a.LogStart != 0 || len(a.Batches) != 5 {
			t.Fatalf("%s: %d batches, %+v; want 5 and 0 to 50", name, len(a.Batches), a.Err)
		}
		if got := lastOffset(a.Batches[4]); got != 49 {
			t.Fatalf("%s: last offset %d, want 49", name, got)
		}
		// Inside a batch: the whole of it. Too small a limit: one batch all the same.
		if a = read(25, 1); len(a.Batches) != 1 || lastOffset(a.Batches[0]) != 29 {
			t.Fatalf("%s: %d batches from 25, want the one up to 29", name, len(a.Batches))
		}
		if a = read(50, 1); a.Err != nil || len(a.Batches) != 0 {
			t.Fatalf("%s: %v, %d batches at the end, want none", name, a.Err, len(a.Batches))
		}
		if a = read(51, 1); !errors.Is(a.Err, ErrOffsetOutOfRange) || a.HighWatermark != 50 {
			t.Fatalf("%s: %v past the end, want out of range", name, a.Err)
		}
	}
}

func TestReadWaitsForAWriterHereOrElsewhere(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	reader := openEngine(t, db)
	createTopic(t, reader, "t", 1)
	for name, writer := range map[string]*Engine{"here": reader, "elsewhere": openEngine(t, storetest.Open(t, db))} {
		got := make(chan ReadAnswer, 1)
		begin := reader.catalogEnd(t, "t")
		go func() {
			a, err := reader.Read(t.Context(), ReadRequest{
				Items:    []ReadItem{{Partition: at("t", 0), Offset: begin, MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
				MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Minute,
			})
			if err != nil {
				t.Error(err)
			}
			got <- a[0]
		}()
		reader.untilWaiting(t)
		appendBatch(t, writer, at("t", 0), kafkaBatch(t, 1))
		if a := <-got; len(a.Batches) != 1 {
			t.Fatalf("written %s: %d batches, %v; want 1", name, len(a.Batches), a.Err)
		}
	}
}

func (e *Engine) catalogEnd(t *testing.T, queue string) int64 {
	t.Helper()
	a, err := e.Offsets(t.Context(), []OffsetQuery{{Partition: at(queue, 0), Timestamp: AtEnd, CurrentEpoch: -1}})
	if err != nil || a[0].Err != nil {
		t.Fatal(err, a[0].Err)
	}
	return a[0].Offset
}

// untilWaiting returns once somebody waits.
func (e *Engine) untilWaiting(t *testing.T) {
	t.Helper()
	for len(e.waiters.waiting()) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nobody waits")
		}
	}
}

func TestDeletedAndRecreatedQueueStartsOver(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e, other := openEngine(t, db), openEngine(t, storetest.Open(t, db), func(c *Config) { c.CatalogEvery = time.Hour })
	createTopic(t, e, "t", 1)
	appendBatch(t, e, at("t", 0), kafkaBatch(t, 3))
	appendBatch(t, other, at("t", 0), kafkaBatch(t, 3)) // it knows the old one now
	old, err := e.DeleteQueue(t.Context(), QueueRef{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, e, "t", 2)
	for _, eng := range []*Engine{e, other} {
		res, err := eng.Append(t.Context(), []AppendItem{{Partition: PartitionRef{Queue: QueueRef{TopicID: old.TopicID}}, Batch: kafkaBatch(t, 1)}})[0].Result(t.Context())
		if !errors.Is(err, ErrUnknownQueueID) {
			t.Fatalf("append by the old id: %+v, %v; want unknown queue id", res, err)
		}
	}
	if got := appendBatch(t, other, at("t", 0), kafkaBatch(t, 1)); got.BaseOffset != 0 {
		t.Fatalf("append by name: base offset %d, want 0 in the new queue", got.BaseOffset)
	}
}

func TestOffsetsByTime(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	createTopic(t, e, "t", 1)
	for _, ms := range []int64{2, 4, 6, 8} { // O01
		data, _ := appendNative(nil, []*Message{{Value: []byte("x")}}, time.UnixMilli(ms), 1<<20)
		appendBatch(t, e, at("t", 0), data)
	}
	for _, q := range [][3]int64{
		{0, 0, 2},
		{1, 0, 2},
		{2, 0, 2},
		{3, 1, 4},
		{4, 1, 4},
		{5, 2, 6},
		{7, 3, 8},
		{8, 3, 8},
		{9, -1, -1},
		{AtEnd, 4, -1},
		{AtStart, 0, -1},
		{AtMaxTimestamp, 3, 8},
	} {
		a, err := e.Offsets(t.Context(), []OffsetQuery{{Partition: at("t", 0), Timestamp: q[0], CurrentEpoch: -1}})
		if err != nil || a[0].Err != nil || a[0].Offset != q[1] || a[0].Timestamp != q[2] {
			t.Fatalf("time %d: %+v, %v; want offset %d, timestamp %d", q[0], a[0], err, q[1], q[2])
		}
	}
	ends, err := e.EpochEnds(t.Context(), []EpochQuery{
		{Partition: at("t", 0), CurrentEpoch: -1, Epoch: e.Cluster().Epoch},
		{Partition: at("t", 0), CurrentEpoch: -1, Epoch: e.Cluster().Epoch + 1},
	})
	if err != nil || ends[0].End != (EpochEnd{Epoch: e.Cluster().Epoch, EndOffset: 4}) || ends[1].End != (EpochEnd{Epoch: -1, EndOffset: -1}) {
		t.Fatalf("%+v, %v; want the current epoch to end at 4 and the next unknown", ends, err)
	}
}
