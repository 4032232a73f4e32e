package queen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"queenmq/store/storetest"
)

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
