package queen

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// testSegment holds the offsets base … base+n−1 in n batches.
func testSegment(tb testing.TB, base int64, n int) *segment {
	tb.Helper()
	msgs := make([]*Message, n)
	for i := range msgs {
		msgs[i] = &Message{Value: make([]byte, 100)}
	}
	data, marks := appendNative(nil, msgs, time.UnixMilli(1), 1)
	s, err := loadSegment(base, base+int64(n)-1, 1, time.UnixMilli(1), appendSegmentHeader(nil, goldenBase, marks), data)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func offsetsOf(batches [][]byte) (offsets []int64) {
	for _, b := range batches {
		offsets = append(offsets, int64(binary.BigEndian.Uint64(b)))
	}
	return offsets
}

func TestTailAnswersInsideItsRunOnly(t *testing.T) {
	t.Parallel()
	tl := newTail(1 << 20)
	const p = 7
	f := func(offset int64, maxBytes int, first bool, want []int64, end int64, ok bool) {
		t.Helper()
		got, e, o := tl.read(p, 1, offset, maxBytes, first)
		if !reflect.DeepEqual(offsetsOf(got), want) || e != end || o != ok {
			t.Errorf("read(%d, %d, %v) = %v, %d, %v; want %v, %d, %v", offset, maxBytes, first, offsetsOf(got), e, o, want, end, ok)
		}
	}
	f(0, 1000, true, nil, 0, false)
	tl.add(p, 1, testSegment(t, 10, 3))
	tl.add(p, 1, testSegment(t, 13, 2))
	one := len(testSegment(t, 0, 1).batches[0].data)
	f(9, 1<<20, true, nil, 15, false)
	f(10, 1<<20, true, []int64{10, 11, 12, 13, 14}, 15, true)
	f(12, 1<<20, true, []int64{12, 13, 14}, 15, true)
	f(12, 2*one, false, []int64{12, 13}, 15, true)
	f(12, 2*one-1, false, []int64{12}, 15, true)
	f(12, one-1, false, nil, 15, true)
	f(12, one-1, true, []int64{12}, 15, true)
	f(10, 3*one, true, []int64{10, 11, 12}, 15, true)
	f(15, 1<<20, true, nil, 15, true) // caught up: wait
	f(16, 1<<20, true, nil, 15, false)
	if _, _, ok := tl.read(p+tailShards, 1, 10, 1, true); ok {
		t.Error("a partition of the same shard was answered")
	}
}

func TestTailSegmentsReturnsAtLeastOne(t *testing.T) {
	t.Parallel()
	tl := newTail(1 << 20)
	for base := int64(0); base < 6; base += 2 {
		tl.add(1, 1, testSegment(t, base, 2))
	}
	size := len(testSegment(t, 0, 2).data)
	f := func(offset int64, maxBytes int, want ...int64) {
		t.Helper()
		got, end, ok := tl.segments(1, 1, offset, maxBytes)
		var bases []int64
		for _, s := range got {
			bases = append(bases, s.base)
		}
		if !reflect.DeepEqual(bases, want) || end != 6 || !ok {
			t.Errorf("segments(%d, %d) = %v, %d, %v; want %v", offset, maxBytes, bases, end, ok, want)
		}
	}
	f(0, 1<<20, 0, 2, 4)
	f(3, 1<<20, 2, 4)
	f(3, 0, 2)
	f(0, 2*size, 0, 2)
	f(0, 2*size-1, 0)
	f(6, 1<<20)
	if _, _, ok := tl.segments(1, 1, 7, 1); ok {
		t.Error("beyond the end was answered")
	}
}

func TestTailDropsTheOldestOverAllPartitions(t *testing.T) {
	t.Parallel()
	cost := int64(testSegment(t, 0, 1).size() + tailNodeOverhead)
	tl := newTail(4 * cost)
	add := func(p, base int64) { tl.add(p, 1, testSegment(t, base, 1)) }
	has := func(p, offset int64) bool { b, _, ok := tl.read(p, 1, offset, 1, true); return ok && len(b) == 1 }
	add(1, 0)
	add(2, 0)
	add(1, 1)
	add(3, 0)
	if !has(1, 0) || tl.size() != 4*cost {
		t.Fatalf("something was dropped below the bound: %d bytes", tl.size())
	}
	add(2, 1) // drops 1/0
	if has(1, 0) || !has(1, 1) || !has(2, 0) {
		t.Error("not the oldest was dropped")
	}
	add(3, 1) // drops 2/0
	add(3, 2) // drops 1/1, the last of its partition
	if has(2, 0) || has(1, 1) || !has(2, 1) || !has(3, 0) {
		t.Error("not the oldest was dropped")
	}
	if _, _, ok := tl.read(1, 1, 2, 1, true); ok {
		t.Error("a partition of which nothing is kept said wait")
	}
	tl.add(4, 1, testSegment(t, 0, 10)) // larger than the bound
	if has(4, 0) || has(3, 2) || tl.size() != 0 {
		t.Errorf("%d bytes are kept, bound %d", tl.size(), 4*cost)
	}
}

func TestTailRunIsUnbroken(t *testing.T) {
	t.Parallel()
	tl := newTail(1 << 20)
	tl.add(1, 1, testSegment(t, 0, 5))
	tl.add(1, 1, testSegment(t, 0, 5)) // again
	tl.add(1, 1, testSegment(t, 2, 2)) // known
	if got, end, ok := tl.read(1, 1, 0, 1<<20, true); len(got) != 5 || end != 5 || !ok {
		t.Fatalf("%v, %d, %v", offsetsOf(got), end, ok)
	}
	tl.add(1, 1, testSegment(t, 8, 2)) // a hole before it
	if _, end, ok := tl.read(1, 1, 0, 1<<20, true); ok || end != 10 {
		t.Fatalf("what lies before a hole was answered, end %d", end)
	}
	if got, end, ok := tl.read(1, 1, 8, 1<<20, true); len(got) != 2 || end != 10 || !ok {
		t.Fatalf("%v, %d, %v", offsetsOf(got), end, ok)
	}
	if want := int64(testSegment(t, 8, 2).size() + tailNodeOverhead); tl.size() != want {
		t.Fatalf("%d bytes are counted, %d kept", tl.size(), want)
	}
}

func TestLateEvictionSparesWhatWasAddedSince(t *testing.T) {
	t.Parallel()
	tl := newTail(1 << 20)
	tl.add(1, 1, testSegment(t, 0, 1))
	victim := tl.order.oldest
	tl.order.remove([]*tailNode{victim}) // an add has chosen it, and is yet to take it out of its run
	tl.forget(1)
	tl.add(1, 1, testSegment(t, 0, 1))
	tl.evict(victim)
	if got, _, ok := tl.read(1, 1, 0, 1, true); !ok || len(got) != 1 {
		t.Error("the new segment was evicted in place of the old one")
	}
	checkTail(t, tl)
}

func TestTailForgets(t *testing.T) {
	t.Parallel()
	tl := newTail(1 << 20)
	for p := range int64(100) {
		tl.add(p, 1, testSegment(t, 0, 1))
	}
	tl.forget(3)
	tl.forget(3)
	if _, _, ok := tl.read(3, 1, 1, 1, true); ok {
		t.Error("a forgotten partition was answered")
	}
	n := 0
	tl.partitions(func(p int64) bool { n++; return true })
	if want := 99 * int64(testSegment(t, 0, 1).size()+tailNodeOverhead); tl.size() != want || n != 99 {
		t.Errorf("%d bytes in %d partitions, want %d", tl.size(), n, want)
	}
	tl.forgetAll()
	tl.partitions(func(p int64) bool { t.Errorf("partition %d is left", p); return true })
	if tl.size() != 0 {
		t.Errorf("%d bytes are left", tl.size())
	}
	tl.add(3, 1, testSegment(t, 0, 1))
	if got, _, ok := tl.read(3, 1, 0, 1, true); !ok || len(got) != 1 {
		t.Error("what was added after forgetting is missing")
	}
}

// TestTailIsNothingToAnotherIncarnation: a failover may lose committed
// segments, and their answers may come in after the first of the new ones.
func TestTailIsNothingToAnotherIncarnation(t *testing.T) {
	t.Parallel()
	tl := newTail(1 << 20)
	tl.add(1, 1, testSegment(t, 0, 10))
	if _, _, ok := tl.read(1, 2, 5, 1<<20, true); ok {
		t.Error("the second incarnation was given a segment of the first")
	}
	tl.add(1, 2, testSegment(t, 3, 2)) // what the first had from offset 5 on is lost
	tl.add(1, 1, testSegment(t, 10, 2))
	if _, _, ok := tl.read(1, 1, 5, 1<<20, true); ok {
		t.Error("the first incarnation is still served")
	}
	if got, end, ok := tl.read(1, 2, 4, 1<<20, true); len(got) != 1 || end != 5 || !ok {
		t.Errorf("%d batches up to %d, %v; want the one of the second incarnation, up to 5", len(got), end, ok)
	}
	tl.add(2, 1, testSegment(t, 0, 1))
	tl.add(2, 2, testSegment(t, 1, 1)) // it follows, but who knows what
	if _, _, ok := tl.read(2, 2, 0, 1<<20, true); ok {
		t.Error("a run goes over two incarnations")
	}
}

// checkTail compares a quiet tail's book-keeping with what it holds.
func checkTail(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, tl *tail,
) {
	t.Helper()
	var bytes int64
	nodes := 0
	for i := range tl.shards {
		for p, run := range tl.shards[i].runs {
			if len(run) == 0 {
				t.Fatalf("partition %d has an empty run", p)
			}
			for j, n := range run {
				if !n.listed || n.partition != p || j > 0 && (n.segment.base != run[j-1].segment.end+1 || n.age <= run[j-1].age) {
					t.Fatalf("partition %d, node %d of %d: %+v", p, j, len(run), n)
				}
				bytes += n.bytes()
				nodes++
			}
		}
	}
	listed := 0
	for n := tl.order.oldest; n != nil; n = n.next {
		listed++
	}
	if bytes != tl.order.bytes || bytes > tl.bytesMax || listed != nodes {
		t.Fatalf("%d nodes of %d bytes are kept; %d are listed, %d bytes counted, %d allowed", nodes, bytes, listed, tl.order.bytes, tl.bytesMax)
	}
}

func TestTailAgreesWithAModel(t *testing.T) {
	t.Parallel()
	segments := make(map[string]*segment)
	make1 := func(base int64, n int) *segment {
		key := fmt.Sprint(base, n)
		if segments[key] == nil {
			segments[key] = testSegment(t, base, n)
		}
		return segments[key]
	}
	rapid.Check(t, func(t *rapid.T) {
		tl := newTail(rapid.Int64Range(0, 3000).Draw(t, "bytes"))
		type run struct{ from, end int64 } // the most a partition may answer
		model := map[int64]run{}
		for range 60 {
			p := rapid.Int64Range(0, 2).Draw(t, "partition") * tailShards // one shard
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				tl.forget(p)
				delete(model, p)
			case 1:
				tl.forgetAll()
				clear(model)
			default:
				r, n := model[p], rapid.IntRange(1, 3).Draw(t, "n")
				base := r.end + rapid.SampledFrom([]int64{0, 0, 0, 0, 0, -2, 1}).Draw(t, "jump")
				if _, _, held := tl.read(p, 1, r.end, 0, false); base < 0 || base < r.end && !held {
					continue // a caller adds in order; what it repeats is ignored only where it is still known
				}
				tl.add(p, 1, make1(base, n))
				switch {
				case base+int64(n) <= r.end:
				case base != r.end || r == run{}:
					model[p] = run{base, base + int64(n)}
				default:
					model[p] = run{r.from, base + int64(n)}
				}
			}
			checkTail(t, tl)
			for p, r := range model {
				for offset := max(0, r.from-1); offset <= r.end+1; offset++ {
					got, end, ok := tl.read(p, 1, offset, 1<<20, true)
					switch {
					case !ok:
					case offset < r.from || offset > r.end || end != r.end:
						t.Fatalf("partition %d at %d answered to %d, known is %+v", p, offset, end, r)
					default:
						for i, o := range offsetsOf(got) {
							if o != offset+int64(i) {
								t.Fatalf("partition %d at %d: offsets %v", p, offset, offsetsOf(got))
							}
						}
						if int64(len(got)) != r.end-offset {
							t.Fatalf("partition %d at %d of %+v: %d batches", p, offset, r, len(got))
						}
					}
				}
			}
		}
	})
}

func TestTailIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	segments := make([]*segment, 100)
	for i := range segments {
		segments[i] = testSegment(t, int64(i), 1)
	}
	tl := newTail(5000)
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for range 20 {
				for _, s := range segments {
					for p := range int64(8) {
						tl.add(p*int64(w+1), 1, s)
					}
				}
				tl.forget(int64(w))
				if w == 0 {
					tl.forgetAll()
				}
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				offset := rand.Int64N(100)
				got, end, ok := tl.read(rand.Int64N(32), 1, offset, 1<<20, true)
				if ok && (offset+int64(len(got)) != end || len(got) > 0 && offsetsOf(got)[0] != offset) {
					t.Errorf("at %d: %d batches to %d", offset, len(got), end)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	checkTail(t, tl)
}

func TestTailNodeOverheadIsItsSize(t *testing.T) {
	t.Parallel()
	if got := int(unsafe.Sizeof(tailNode{}) + unsafe.Sizeof((*tailNode)(nil))); got != tailNodeOverhead {
		t.Fatalf("a node and its place in the run take %d bytes, not %d", got, tailNodeOverhead)
	}
}

func BenchmarkTailRead(b *testing.B) {
	tl := newTail(64 << 20)
	for base := range int64(10_000) {
		tl.add(1, 1, testSegment(b, base, 1))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, ok := tl.read(1, 1, 9_990, 1<<20, true); !ok {
				b.Fatal("miss")
			}
		}
	})
}

func BenchmarkTailAdd(b *testing.B) {
	tl := newTail(1 << 20) // evicting
	s := testSegment(b, 0, 1)
	b.ReportAllocs()
	for p := int64(0); b.Loop(); p++ {
		tl.add(p, 1, s)
	}
}

// read returns whole batches that hold or follow offset, up to maxBytes; with
// first the first one whatever its size. end is the next offset known. ok false
// means that the ledger must be asked. At the end there is nothing but to wait.
func (t *tail) read(partition int64, incarnation int32, offset int64, maxBytes int, first bool) (batches [][]byte, end int64, ok bool) {
	sh := t.shard(partition)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	run, end, ok := sh.from(partition, incarnation, offset)
	n := 0
	for _, node := range run {
		more, size, all := node.segment.appendFrom(batches, offset, maxBytes-n, first && n == 0)
		batches, n = more, n+size
		if !all {
			break
		}
	}
	return batches, end, ok
}

// partitions lists those with something kept, in no order.
func (t *tail) partitions(yield func(partition int64) bool) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.RLock()
		ids := make([]int64, 0, len(sh.runs))
		for id := range sh.runs {
			ids = append(ids, id)
		}
		sh.mu.RUnlock()
		for _, id := range ids {
			if !yield(id) {
				return
			}
		}
	}
}

// size is the number of bytes kept.
func (t *tail) size() int64 {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	return t.order.bytes
}
