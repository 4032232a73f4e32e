package queen

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"queenmq/store/storetest"
)

// smallSpill keeps segments of any size in files of a few.
func smallSpill(t testing.TB, bytesMax int64) *spill {
	s := newSpill(t.TempDir(), bytesMax, slog.New(slog.DiscardHandler))
	s.bytesMin = 1
	t.Cleanup(s.dropAll)
	return s
}

// drain writes what was offered.
func (s *spill) drain(t interface{ Fatal(...any) }) {
	for {
		select {
		case one := <-s.queue:
			if err := s.write(one); err != nil {
				t.Fatal(err)
			}
			s.queued.Add(-int64(len(one.segment.data)))
		default:
			return
		}
	}
}

// same says whether two segments are the same in all that is ever told of them.
func same(a, b *segment) bool {
	x, _ := a.from(a.base, 1<<30, true)
	y, _ := b.from(b.base, 1<<30, true)
	return a.base == b.base && a.end == b.end && a.epoch == b.epoch && a.createdAt.Equal(b.createdAt) && a.id(a.end) == b.id(b.end) &&
		bytes.Equal(a.header().AppendTo(nil), b.header().AppendTo(nil)) && bytes.Equal(bytes.Join(x, nil), bytes.Join(y, nil))
}

// What comes back is what was offered and not forgotten, in order and without a
// gap; all of it as long as there is room.
func TestSpillAgreesWithAModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		roomy := rapid.Bool().Draw(rt, "roomy")
		s := newSpill(dir, 4000, slog.New(slog.DiscardHandler))
		if roomy {
			s.bytesMax, s.fileMax = 1<<20, 3000
		}
		s.bytesMin = 1
		defer s.dropAll()
		kept := map[int64][]*segment{}
		next := map[int64]int64{}
		incarnation := int32(1)
		for range 50 {
			p := rapid.Int64Range(0, 2).Draw(rt, "partition")
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			default:
				next[p] += int64(rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(rt, "gap"))
				seg := testSegment(t, next[p], rapid.IntRange(1, 3).Draw(rt, "n"))
				next[p] = seg.end + 1
				s.offer(p, incarnation, seg)
				kept[p] = append(kept[p], seg)
			case 0:
				s.forget(p)
				s.drain(rt)
				for q := range kept { // what was on its way is not kept either; where it was written it may be
					if q == p {
						delete(kept, q)
					}
				}
			case 1:
				s.forgetAll()
				s.drain(rt)
				clear(kept)
				incarnation++
			case 2:
				s.drain(rt)
			}
			if rapid.Bool().Draw(rt, "drain") {
				s.drain(rt)
			}
			offset := rapid.Int64Range(0, max(1, next[p])).Draw(rt, "offset")
			limit := rapid.IntRange(0, 2000).Draw(rt, "limit")
			segs, _, err := s.segments(p, incarnation, offset, limit)
			if err != nil {
				rt.Fatal(err)
			}
			n := 0
			for i, seg := range segs {
				var want *segment
				for _, k := range kept[p] {
					if k.base == seg.base {
						want = k
					}
				}
				switch {
				case want == nil || !same(seg, want):
					rt.Fatalf("partition %d: %d–%d was not offered so, or forgotten", p, seg.base, seg.end)
				case i == 0 && (offset < seg.base || offset > seg.end):
					rt.Fatalf("offset %d: answered with %d–%d", offset, seg.base, seg.end)
				case i > 0 && seg.base != segs[i-1].end+1:
					rt.Fatalf("%d–%d follows %d", seg.base, seg.end, segs[i-1].end)
				}
				n += len(seg.data)
			}
			if len(segs) > 1 && n > limit {
				rt.Fatalf("%d bytes, at most %d were asked for", n, limit)
			}
			if s.bytes > s.bytesMax {
				rt.Fatalf("%d bytes are kept, at most %d may be", s.bytes, s.bytesMax)
			}
			if other, _, _ := s.segments(p, incarnation+1, offset, limit); other != nil {
				rt.Fatal("another incarnation was answered")
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			rt.Fatalf("the folder holds %v, %v", left, err)
		}
	})
}

func TestSpillKeepsAllItHasRoomFor(t *testing.T) {
	t.Parallel()
	s := smallSpill(t, 1<<20)
	var all []*segment
	for i := range int64(100) {
		all = append(all, testSegment(t, 10*i, 10))
		s.offer(1, 1, all[i])
		s.drain(t)
	}
	segs, rows, err := s.segments(1, 1, 5, 1<<30)
	if err != nil || len(segs) != len(all) || len(rows) != len(all) {
		t.Fatalf("%d segments in %d rows, %v", len(segs), len(rows), err)
	}
	for i := range segs {
		if !same(segs[i], all[i]) {
			t.Fatalf("segment %d is another", i)
		}
	}
	s.bytesMin = int64(len(all[0].data)) + 1
	s.offer(2, 1, all[0])
	s.bytesMin = 1
	s.queued.Store(spillQueueBytesMax)
	s.offer(3, 1, all[0])
	s.queued.Store(0)
	if n := len(s.queue); n != 0 {
		t.Errorf("%d segments that are too small, or too much at once, are on their way", n)
	}
}

// Readers get what is right while files are dropped under them and partitions forgotten.
func TestSpillIsReadWhileItChanges(t *testing.T) {
	t.Parallel()
	s := smallSpill(t, 20_000)
	done := make(chan struct{})
	var writer, readers sync.WaitGroup
	writer.Go(func() { s.run(done) })
	const last = 20_000
	for range 3 {
		readers.Go(func() {
			for n := 0; n < 200; {
				segs, _, err := s.segments(1, 1, rand.Int64N(last), 1<<20)
				if err != nil {
					t.Error(err)
					return
				}
				for _, seg := range segs {
					n++
					if got := offsetsOf([][]byte{seg.batches[0].data}); got[0] != seg.base || seg.end != seg.base+9 {
						t.Errorf("%d–%d holds %d", seg.base, seg.end, got[0])
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	var offers sync.WaitGroup
	offers.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%10 == 0 && i%last == 0 {
				s.forget(1) // its offsets begin anew
			}
			s.offer(1, 1, testSegment(t, 10*i%last, 10))
		}
	})
	readers.Wait()
	close(stop)
	offers.Wait()
	close(done)
	writer.Wait()
	if len(s.files) != 0 || s.bytes != 0 || len(s.runs) != 0 {
		t.Errorf("%d files of %d bytes, %d partitions are left", len(s.files), s.bytes, len(s.runs))
	}
}

// A consumer that is behind the tail reads what PostgreSQL would give it, without asking.
func TestReadersBehindTheTailNeedNoDatabase(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	dir := t.TempDir()
	e := openEngine(t, db, func(c *Config) { c.TailBytesMax, c.SpillDir = 1, dir })
	plain := openEngine(t, db, func(c *Config) { c.TailBytesMax = 1 })
	createTopic(t, e, "t", 1)
	const n = 20
	for i := range n {
		value := bytes.Repeat([]byte{byte(i)}, spillBytesMin)
		batch, _ := appendNative(nil, []*Message{{Value: value}}, time.Now(), 1<<20)
		appendBatch(t, e, at("t", 0), batch)
	}
	read := func(e *Engine, from int64) ReadAnswer {
		t.Helper()
		answers, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), Offset: from, MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MaxBytes: 1 << 20,
		})
		if err != nil {
			t.Fatal(err)
		}
		return answers[0]
	}
	for s := e.tail.spill; ; { // until all has been written
		s.mu.RLock()
		got := len(s.runs[at0(t, e)])
		s.mu.RUnlock()
		if got == n {
			break
		}
		if t.Context().Err() != nil {
			t.Fatalf("%d of %d segments are kept", got, n)
		}
	}
	if err := e.brokers.round(t.Context()); err != nil { // it hears of the other one,
		t.Fatal(err)
	}
	read(e, 0) // and asks once what that one deleted
	before := e.storeReads(t)
	for from := range int64(n) {
		got, want := read(e, from), read(plain, from)
		if got.Err != nil || !bytes.Equal(bytes.Join(got.Batches, nil), bytes.Join(want.Batches, nil)) || got.HighWatermark != want.HighWatermark || got.LogStart != want.LogStart {
			t.Fatalf("offset %d: %d batches up to %d, want %d up to %d; %v", from, len(got.Batches), got.HighWatermark, len(want.Batches), want.HighWatermark, got.Err)
		}
		got.Release()
	}
	if after := e.storeReads(t); after != before {
		t.Errorf("the database was asked %v times", after-before)
	}
	fetched, err := e.Fetch(t.Context(), FetchRequest{Items: []FetchItem{{Queue: "t", Partition: "0", Offset: 3, MaxBytes: 1}}, MaxBytes: 1})
	if err != nil || len(fetched[0].Messages) != 1 || fetched[0].Messages[0].Offset != 3 || fetched[0].Messages[0].Value[0] != 3 {
		t.Errorf("the native door gets %+v, %v", fetched, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
		t.Errorf("files that would stay: %v, %v", left, err)
	}

	// Deleted records are gone, wherever they lay.
	if got := e.Truncate(t.Context(), []Truncation{{Partition: at("t", 0), Before: 5}})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	if got := read(e, 4); got.Err == nil {
		t.Error("a deleted record is still read")
	}
	if got := read(e, 5); got.Err != nil || len(got.Batches) != n-5 {
		t.Errorf("behind the deleted ones there are %d, %v", len(got.Batches), got.Err)
	}
}

// storeReads is how many partition reads the database answered.
func (e *Engine) storeReads(t *testing.T) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(e.metrics.storeReads)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// at0 is the id of partition 0 of t.
func at0(t *testing.T, e *Engine) int64 {
	t.Helper()
	p, err := e.catalog.partition(t.Context(), at("t", 0))
	if err != nil {
		t.Fatal(err)
	}
	return p.id
}

// A disk that takes nothing costs nothing but speed.
func TestSpillWithoutADisk(t *testing.T) {
	t.Parallel()
	logged := &lines{}
	s := newSpill(filepath.Join(t.TempDir(), "missing"), 1<<20, slog.New(slog.NewTextHandler(logged, nil)))
	s.bytesMin = 1
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { s.run(done) })
	s.offer(1, 1, testSegment(t, 0, 1))
	for strings.Count(logged.String(), "not kept") == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nothing was logged")
		}
	}
	if segs, _, err := s.segments(1, 1, 0, 1); segs != nil || err != nil {
		t.Errorf("read %v, %v", segs, err)
	}
	close(done)
	writer.Wait()
}

// What the tail is told to forget is not remembered elsewhere, neither what lies in
// files nor what is on its way there.
func TestTailForgetsWhatLeftItToo(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*tail){
		"a partition": func(tl *tail) { tl.forget(1) },
		"everything":  (*tail).forgetAll,
	} {
		for _, written := range []bool{true, false} {
			tl := newTail(1)
			tl.spill = smallSpill(t, 1<<20)
			tl.add(1, 1, testSegment(t, 0, 1))
			if written {
				tl.spill.drain(t)
				if segs, _, err := tl.spill.segments(1, 1, 0, 1); len(segs) != 1 || err != nil {
					t.Fatalf("evicted and not kept: %v, %v", segs, err)
				}
			}
			forget(tl)
			tl.spill.drain(t)
			if segs, _, err := tl.spill.segments(1, 1, 0, 1); segs != nil || err != nil {
				t.Errorf("%s, written %v: still there: %v, %v", name, written, segs, err)
			}
		}
	}
}

// Where a log's start was raised, what lies above it stays, in both places.
func TestTailForgetsBelowALogStart(t *testing.T) {
	t.Parallel()
	for name, tl := range map[string]*tail{
		"in memory": newTail(1 << 20),
		"in files":  newTail(1),
	} {
		tl.spill = smallSpill(t, 1<<20)
		holds := func(offset int64) bool {
			segs, _, ok := tl.segments(1, 1, offset, 1)
			if !ok {
				var err error
				if segs, _, err = tl.spill.segments(1, 1, offset, 1); err != nil {
					t.Fatal(err)
				}
			}
			return len(segs) > 0
		}
		for i := range int64(4) {
			tl.add(1, 1, testSegment(t, 10*i, 10))
		}
		tl.spill.drain(t)
		for _, c := range []struct{ start, first int64 }{{0, 0}, {10, 10}, {11, 20}, {20, 20}, {40, 40}} {
			tl.forgetBelow(1, c.start)
			for offset := range int64(40) {
				if got := holds(offset); got != (offset >= c.first) {
					t.Errorf("%s: the log begins at %d; offset %d is held: %v", name, c.start, offset, got)
				}
			}
		}
		if n := tl.size(); n != 0 {
			t.Errorf("%s: %d bytes are counted of nothing", name, n)
		}
		tl.add(1, 1, testSegment(t, 40, 10)) // what comes after is held again
		tl.spill.drain(t)
		if !holds(45) {
			t.Errorf("%s: what was written after is not held", name)
		}
	}
}

// Batches of any size come back, whichever way they were written.
func TestSpillWritesSmallAndLargeBatches(t *testing.T) {
	t.Parallel()
	s := smallSpill(t, 16<<20)
	var msgs []*Message
	for _, size := range []int{1, 100, spillWriteMin, 5, 2 * spillWriteMin, spillWriteMin - 200, 20_000, 20_000, 20_000, 20_000, 20_000, 20_000, 20_000, 7} {
		msgs = append(msgs, &Message{Value: bytes.Repeat([]byte{byte(size)}, size)})
	}
	data, marks := appendNative(nil, msgs, time.UnixMilli(1), 1) // a batch each
	seg, err := loadSegment(7, 7+int64(len(msgs))-1, 1, time.UnixMilli(1), appendSegmentHeader(nil, goldenBase, marks), data)
	if err != nil {
		t.Fatal(err)
	}
	s.offer(1, 1, seg)
	s.offer(1, 1, testSegment(t, seg.end+1, 1))
	s.drain(t)
	segs, _, err := s.segments(1, 1, 7, 1<<30)
	if err != nil || len(segs) != 2 || !same(segs[0], seg) {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
}
