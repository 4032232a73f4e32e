package queen

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/store/storetest"
)

// keyed is a batch of one record per key ("" is null), its value naming its
// place; change, if not nil, is given each record and then the batch.
func keyed(t *testing.T, codec int8, keys ...string) []byte {
	t.Helper()
	return encodeBatch(t, codec, keyedRecords(keys), nil)
}

func keyedRecords(keys []string) []kmsg.Record {
	var records []kmsg.Record
	for i, k := range keys {
		r := kmsg.Record{OffsetDelta: int32(i), Value: fmt.Appendf(nil, "%s@%d", k, i), TimestampDelta64: int64(10 * i)}
		if k != "" {
			r.Key = []byte(k)
		}
		records = append(records, r)
	}
	return records
}

// sequenced is keyed as an idempotent producer sends it.
func sequenced(t *testing.T, sequence int32, keys ...string) []byte {
	t.Helper()
	return encodeBatch(t, codecNone, keyedRecords(keys), func(b *kmsg.RecordBatch) {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = 7, 0, sequence
	})
}

// sourced makes a topic of one partition whose records carry ids.
func sourced(t *testing.T, e *Engine, name, source string, change ...func(*QueueOptions)) {
	t.Helper()
	o := TopicOptions()
	o.DedupSource, o.DedupWindowSeconds = source, 3600
	for _, f := range change {
		f(&o)
	}
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: name, Partitions: 1, Options: o}); err != nil {
		t.Fatal(err)
	}
}

// places lists what is stored as "offset value".
func places(t *testing.T, e *Engine, queue string) []string {
	t.Helper()
	var out []string
	for _, m := range fetchAll(t, e, queue, "0") {
		out = append(out, fmt.Sprintf("%d %s", m.Offset, m.Value))
	}
	return out
}

func wantPlaces(t *testing.T, e *Engine, queue string, want ...string) {
	t.Helper()
	if got := places(t, e, queue); !slices.Equal(got, want) {
		t.Fatalf("stored %q, want %q", got, want)
	}
}

func wantBase(t *testing.T, e *Engine, queue string, batch []byte, want int64) {
	t.Helper()
	if got := appendBatch(t, e, at(queue, 0), batch); got.BaseOffset != want {
		t.Fatalf("base offset %d, want %d", got.BaseOffset, want)
	}
}

// inEachMode runs f with the memory of ids on and off: the verdicts are the same.
func inEachMode(t *testing.T, f func(t *testing.T, r *room)) {
	for name, mode := range map[string]func(*Config){
		"cache on":  func(*Config) {},
		"cache off": func(c *Config) { c.DedupCacheOff = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.New(t)
			f(t, &room{Engine: openEngine(t, db, mode), t: t, db: db, pool: storetest.Pool(t, db), mode: mode})
		})
	}
}

func TestRecordWhoseKeyIsStoredIsDropped(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "a", "b"), 0)
		// The places of what is dropped stay: base + i is right for what is stored.
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "b", "c", "a", "d"), 2)
		wantPlaces(t, r.Engine, "t", "0 a@0", "1 b@1", "3 c@1", "5 d@3")
		r.reopen()
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "x", "d"), 6)
		wantPlaces(t, r.Engine, "t", "0 a@0", "1 b@1", "3 c@1", "5 d@3", "6 x@0")
		if m := fetchAll(t, r.Engine, "t", "0")[2]; string(m.TransactionID) != "c" {
			t.Fatalf("transactionId %q, want the key", m.TransactionID)
		}
	})
}

func TestRecordsWithoutKeyAreAllStored(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "", "", "a"), 0)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "", "a", ""), 3)
		wantPlaces(t, r.Engine, "t", "0 @0", "1 @1", "2 a@2", "3 @0", "5 @2")
		if m := fetchAll(t, r.Engine, "t", "0")[0]; string(m.TransactionID) != m.ID.String() {
			t.Fatalf("transactionId %q, want the message id %s", m.TransactionID, m.ID)
		}
	})
}

func TestRepeatedKeyInABatchIsStoredOnce(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "a", "a", "b", "a"), 0)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "b", "c", "c"), 4)
		wantPlaces(t, r.Engine, "t", "0 a@0", "2 b@2", "5 c@1")
		if got, err := r.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at("t", 0), CurrentEpoch: -1, LastFetchedEpoch: -1}}, MaxBytes: 1}); err != nil || got[0].HighWatermark != 7 {
			t.Fatalf("high watermark %d, %v; want 7", got[0].HighWatermark, err)
		}
	})
}

// TestFetchGoesOnBehindHoles asks at an offset where a batch ends in dropped
// duplicates, with the batch alone in memory and nothing behind it.
func TestFetchGoesOnBehindHoles(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "a", "b", "a"), 0)
		fetch := func(wait time.Duration) Fetched {
			t.Helper()
			f, err := r.Fetch(t.Context(), FetchRequest{
				Items:    []FetchItem{{Queue: "t", Partition: "0", Offset: 2, MaxBytes: 1}},
				MinBytes: 1, MaxBytes: 1, MaxWait: wait,
			})
			if err != nil || f[0].Err != nil {
				t.Fatal(err, f[0].Err)
			}
			return f[0]
		}
		if f := fetch(time.Millisecond); len(f.Messages) != 0 || f.HighWatermark != 3 {
			t.Fatalf("%+v, want nothing, and the end at 3", f)
		}
		got := make(chan Fetched)
		go func() { got <- fetch(time.Minute) }()
		r.untilWaiting(t)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "c"), 3)
		if f := <-got; len(f.Messages) != 1 || f.Messages[0].Offset != 3 {
			t.Fatalf("%+v, want the message behind the hole", f)
		}
		if f := fetch(0); len(f.Messages) != 1 || f.Messages[0].Offset != 3 {
			t.Fatalf("%+v, want the message behind the hole at once", f)
		}
	})
}

func TestHeaderIsTheIDAndTheFirstOfItsNameCounts(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", "header:order")
		batch := func(headers ...kmsg.Header) []byte {
			return encodeBatch(t, codecNone, []kmsg.Record{{Key: []byte("same"), Value: []byte("v"), Headers: headers}}, nil)
		}
		h := func(name, value string) kmsg.Header { return kmsg.Header{Key: name, Value: []byte(value)} }
		wantBase(t, r.Engine, "t", batch(h("other", "1"), h("order", "1"), h("order", "2")), 0)
		wantBase(t, r.Engine, "t", batch(h("order", "2")), 1)
		wantBase(t, r.Engine, "t", batch(h("order", "1")), 0)
		wantBase(t, r.Engine, "t", batch(h("Order", "1")), 2) // names are exact; without one the id is minted
		wantBase(t, r.Engine, "t", batch(h("Order", "1")), 3)
		wantBase(t, r.Engine, "t", batch(kmsg.Header{Key: "order"}), 4) // null is no id …
		wantBase(t, r.Engine, "t", batch(kmsg.Header{Key: "order"}), 5)
		if n := len(fetchAll(t, r.Engine, "t", "0")); n != 6 {
			t.Fatalf("%d records, want 6", n)
		}
	})
}

func TestBatchOfDuplicatesAnswersTheFirstOriginal(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "x", "a", "b"), 0)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "b", "a", "b"), 2)
		// An idempotent producer's sequence goes on, and its resends are known.
		wantBase(t, r.Engine, "t", sequenced(t, 0, "c"), 3)
		wantBase(t, r.Engine, "t", sequenced(t, 1, "a", "b"), 1)
		wantBase(t, r.Engine, "t", sequenced(t, 3, "d", "a"), 4)
		wantBase(t, r.Engine, "t", sequenced(t, 5, "e"), 6)
		r.reopen()
		wantBase(t, r.Engine, "t", sequenced(t, 1, "a", "b"), 1)
		wantBase(t, r.Engine, "t", sequenced(t, 3, "d", "a"), 4)
		wantPlaces(t, r.Engine, "t", "0 x@0", "1 a@1", "2 b@2", "3 c@0", "4 d@0", "6 e@0")
		_, err := r.Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: sequenced(t, 9, "a")}})[0].Result(t.Context())
		if !errors.Is(err, ErrOutOfOrderSequence) {
			t.Fatalf("a gap in the sequence, with a known key: %v", err)
		}
	})
}

func TestDuplicatesAreDroppedFromEveryCodec(t *testing.T) {
	t.Parallel()
	for _, codec := range allCodecs {
		t.Run(fmt.Sprintf("codec=%d", codec), func(t *testing.T) {
			t.Parallel()
			e := openEngine(t, storetest.New(t))
			sourced(t, e, "t", DedupSourceKey)
			wantBase(t, e, "t", keyed(t, codec, "a", "b", "c"), 0)
			wantBase(t, e, "t", keyed(t, codec, "d", "a", "e", "d", "f"), 3)
			wantPlaces(t, e, "t", "0 a@0", "1 b@1", "2 c@2", "3 d@0", "5 e@2", "7 f@4")
			got, err := e.Read(t.Context(), ReadRequest{Items: []ReadItem{{Partition: at("t", 0), Offset: 3, CurrentEpoch: -1, LastFetchedEpoch: -1, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
			if err != nil || len(got[0].Batches) != 1 {
				t.Fatalf("%d batches, %v", len(got[0].Batches), err)
			}
			// kmsg, which is not our code, reads what is left.
			var b kmsg.RecordBatch
			if err := b.ReadFrom(got[0].Batches[0]); err != nil {
				t.Fatal(err)
			}
			if b.NumRecords != 3 || b.LastOffsetDelta != 4 || b.FirstOffset != 3 || b.MaxTimestamp != 1040 || b.FirstTimestamp != 1000 {
				t.Fatalf("%d records to delta %d at %d, newest %d", b.NumRecords, b.LastOffsetDelta, b.FirstOffset, b.MaxTimestamp)
			}
			if string(sealed(slices.Clone(got[0].Batches[0]))) != string(got[0].Batches[0]) {
				t.Fatal("length or CRC are not those of the bytes")
			}
		})
	}
}

func TestBatchesInOneFlushDropEachOthersKeys(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		appendBatch(t, r.Engine, at("t", 0), keyed(t, codecNone, "k0"))
		// All at once: while one flush is away the rest joins the next.
		var items []AppendItem
		for i := range 200 {
			items = append(items, AppendItem{Partition: at("t", 0), Batch: keyed(t, codecNone, fmt.Sprintf("k%d", i/2), fmt.Sprintf("k%d", i))})
		}
		pending := r.Append(t.Context(), items)
		base := make([]int64, len(pending))
		for i, p := range pending {
			res, err := p.Result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			base[i] = res.BaseOffset
		}
		at := map[string]int64{} // key → the one place it is stored at
		for _, m := range fetchAll(t, r.Engine, "t", "0") {
			if o, twice := at[string(m.Key)]; twice {
				t.Fatalf("%s is stored at %d and %d", m.Key, o, m.Offset)
			}
			at[string(m.Key)] = m.Offset
		}
		if len(at) != 200 {
			t.Fatalf("%d keys stored, want 200", len(at))
		}
		for i, b := range base {
			second := fmt.Sprintf("k%d", i)
			if b+1 == at[second] {
				continue // stored by this very batch
			}
			if first := at[fmt.Sprintf("k%d", i/2)]; b != first && at[second] >= b {
				t.Fatalf("batch %d answered %d; its keys are at %d and %d", i, b, first, at[second])
			}
		}
	})
}

func TestOneIDOverBothDoors(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "x", "a"), 0)
		push := func(id string) Pushed {
			t.Helper()
			p := r.Push(t.Context(), []Message{{Queue: "t", Partition: "0", ID: []byte(id), Value: []byte("1")}})[0]
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			return p
		}
		first := fetchAll(t, r.Engine, "t", "0")[1]
		r.want(push("a"), Duplicate, Pushed{MessageID: first.ID, Offset: 1})
		r.want(push("b"), Queued, Pushed{})
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "b"), 2)
		// A minted id given back, as a key.
		wantBase(t, r.Engine, "t", keyed(t, codecNone, ""), 3)
		minted := fetchAll(t, r.Engine, "t", "0")[3]
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "c", minted.ID.String()), 4)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, minted.ID.String()), 3)
		r.want(push(minted.ID.String()), Duplicate, Pushed{MessageID: minted.ID, Offset: 3})
		if n := len(fetchAll(t, r.Engine, "t", "0")); n != 5 {
			t.Fatalf("%d messages, want 5", n)
		}
	})
}

func TestTimeToLiveOfARecordOnlyShortens(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		sourced(t, r.Engine, "u", DedupSourceKey)
		live := func(key, ms string) []byte {
			return encodeBatch(t, codecNone, []kmsg.Record{{Key: []byte(key), Value: []byte("v"), Headers: []kmsg.Header{{Key: headerTTL, Value: []byte(ms)}}}}, nil)
		}
		wantBase(t, r.Engine, "t", live("short", "60000"), 0)
		wantBase(t, r.Engine, "t", live("long", "864000000"), 1)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "none"), 2)
		wantBase(t, r.Engine, "t", live("short", "1"), 0) // known, and a duplicate renews nothing
		wantBase(t, r.Engine, "u", live("ever", "9223372036854775807"), 0)
		wantBase(t, r.Engine, "u", live("ever", "9223372036854775807"), 0)
		r.age(61)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "short"), 3)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "long", "none"), 1)
		r.age(3600)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "long", "none"), 4)
		for _, bad := range []string{"", "0", "-1", "+5", "1.5", "1e3", " 1", "99999999999999999999", "x"} {
			_, err := r.Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: live("bad", bad)}})[0].Result(t.Context())
			if !errors.Is(err, ErrInvalidRecord) {
				t.Errorf("time to live %q: %v, want ErrInvalidRecord", bad, err)
			}
		}
		if n := len(fetchAll(t, r.Engine, "t", "0")); n != 6 {
			t.Fatalf("%d records, want 6: a bad one stores nothing", n)
		}
	})
}

func TestIDIsForgottenBeyondSoManyOffsets(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey, func(o *QueueOptions) { o.DedupMaxIDs = 3 })
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "a", "b", "c"), 0)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "a"), 0) // three back
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "d"), 3)
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "a"), 4) // four
		wantBase(t, r.Engine, "t", keyed(t, codecNone, "c", "d"), 2)
	})
}

func TestTwoBrokersStoreOneKeyOnce(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		sourced(t, r.Engine, "t", DedupSourceKey)
		brokers := []*Engine{r.Engine, openEngine(t, storetest.Open(t, r.db), r.mode)}
		var pending []*Pending
		for i := range 200 {
			pending = append(pending, brokers[i%2].Append(t.Context(), []AppendItem{{
				Partition: at("t", 0), Batch: keyed(t, codecNone, fmt.Sprintf("k%d", i/4), fmt.Sprintf("k%d", i/2)),
			}})...)
		}
		for _, p := range pending {
			if _, err := p.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var keys []string
		for _, m := range fetchAll(t, r.Engine, "t", "0") {
			keys = append(keys, string(m.Key))
		}
		slices.Sort(keys)
		if len(keys) != 100 || len(slices.Compact(keys)) != 100 {
			t.Fatalf("%d records stored, want each of the 100 keys once", len(keys))
		}
	})
}

// TestSourceSetOnAnotherBrokerHoldsAtOnce: what a broker remembers of a queue's
// options may be old, and then the ids it read, or did not read, are not used.
func TestSourceSetOnAnotherBrokerHoldsAtOnce(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, r *room) {
		stale := openEngine(t, storetest.Open(t, r.db), r.mode, func(c *Config) { c.CatalogEvery = 1 << 50 })
		createTopic(t, r.Engine, "t", 1)
		wantBase(t, stale, "t", keyed(t, codecNone, "a"), 0)
		configure := func(p OptionsPatch) {
			t.Helper()
			p.Merge = true
			if _, err := r.Configure(t.Context(), "t", p); err != nil {
				t.Fatal(err)
			}
		}
		window, zero, key, header, none := 3600, 0, DedupSourceKey, "header:h", DedupSourceNone
		configure(OptionsPatch{DedupWindowSeconds: &window, DedupSource: &key})
		wantBase(t, stale, "t", keyed(t, codecNone, "b", "b"), 1) // the first as a key: it had none before
		wantBase(t, stale, "t", keyed(t, codecNone, "b"), 1)
		configure(OptionsPatch{DedupSource: &header}) // the window stays
		wantBase(t, stale, "t", encodeBatch(t, codecNone, []kmsg.Record{{Key: []byte("b"), Headers: []kmsg.Header{{Key: "h", Value: []byte("c")}}}}, nil), 3)
		wantBase(t, stale, "t", encodeBatch(t, codecNone, []kmsg.Record{{Key: []byte("d"), Headers: []kmsg.Header{{Key: "h", Value: []byte("c")}}}}, nil), 3)
		configure(OptionsPatch{DedupWindowSeconds: &zero, DedupSource: &none})
		wantBase(t, stale, "t", keyed(t, codecNone, "b", "b"), 4)
		wantBase(t, stale, "t", keyed(t, codecNone, "e", "e"), 6)
		wantPlaces(t, stale, "t", "0 a@0", "1 b@0", "3 ", "4 b@0", "5 b@1", "6 e@0", "7 e@1")
	})
}

func TestNeedsOfASource(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t))
	o := TopicOptions()
	o.DedupSource = DedupSourceKey
	if _, err := e.CreateQueue(t.Context(), NewQueue{Name: "t", Partitions: 1, Options: o}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("a source and window 0 at creation: %v", err)
	}
	for _, bad := range []string{"", "Key", "header:", "header", "headers:a", "header:" + strings.Repeat("x", 250), "header:a\x00", "header:\xff"} {
		if _, err := e.Configure(t.Context(), "q", OptionsPatch{DedupSource: &bad}); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("source %q: %v", bad, err)
		}
	}
	key, zero, minute, negative := DedupSourceKey, 0, 60, int64(-1)
	low := int64(-2)
	for name, p := range map[string]OptionsPatch{
		"replace, both":      {DedupSource: &key, DedupWindowSeconds: &zero},
		"merge, both":        {Merge: true, DedupSource: &key, DedupWindowSeconds: &zero},
		"ids below 0":        {DedupMaxIDs: &negative},
		"bytes below -1":     {RetentionBytes: &low},
		"completed too long": {CompletedRetentionSeconds: ptrTo(completedRetentionSecondsMax + 1)},
		"completed below 0":  {CompletedRetentionSeconds: ptrTo(-1)},
	} {
		if _, err := e.Configure(t.Context(), "q", p); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v, want ErrInvalidConfig", name, err)
		}
	}
	if qs, err := e.AllQueues(t.Context()); err != nil || len(qs) != 0 {
		t.Fatalf("%d queues, %v: what is refused creates nothing", len(qs), err)
	}
	// Each half of the pair on its own, against what is stored.
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{DedupSource: &key, DedupWindowSeconds: &minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Configure(t.Context(), "q", OptionsPatch{Merge: true, DedupWindowSeconds: &zero}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("window 0 under a source: %v", err)
	}
	if _, err := e.Configure(t.Context(), "off", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Configure(t.Context(), "off", OptionsPatch{Merge: true, DedupSource: &key}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("a source over window 0: %v", err)
	}
	if _, err := e.Configure(t.Context(), "off", OptionsPatch{Merge: true, DedupSource: &key, DedupWindowSeconds: &minute}); err != nil {
		t.Errorf("both at once: %v", err)
	}
}

func ptrTo[T any](v T) *T { return &v }
