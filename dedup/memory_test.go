package dedup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

func TestGapRule(t *testing.T) {
	t.Parallel()
	m := born(99, time.Minute)
	commit := func(base, end int64, hashes []Hash, want outcome, verified int64) {
		t.Helper()
		if got := m.commit(base, end, second, hashes); got != want || m.verified != verified {
			t.Errorf("commit of %d to %d: outcome %d, verified %d; want %d, %d", base, end, got, m.verified, want, verified)
		}
	}
	commit(90, 99, ids(0, 10), known, 99) // it was in the snapshot: its answer took long
	commit(100, 101, ids(10, 12), followed, 101)
	commit(102, 1000, nil, followed, 1000) // all minted
	commit(1005, 1006, ids(12, 14), gap, 1000)
	commit(1000, 1003, ids(12, 16), impossible, 1000)
	commit(100, 101, ids(10, 12), impossible, 1000)
	if m.ids != 2 {
		t.Errorf("%d ids are kept", m.ids)
	}
	if got := spansOf(m, []uint64{id(11).key()}); !slices.Equal(got, []Span{{100, 101}}) {
		t.Errorf("id 11 is suspected in %v", got)
	}
	if got := spansOf(m, []uint64{id(12).key()}); got != nil {
		t.Errorf("id 12, never taken in, is suspected in %v", got)
	}
}

func TestReadingFillsAGap(t *testing.T) {
	t.Parallel()
	m := born(-1, time.Minute)
	m.commit(0, 9, second, ids(0, 10))
	read := func(base, end int64, first bool, want outcome, verified int64) {
		t.Helper()
		if got := m.read(base, end, 2*second, ids(int(base), int(end)+1), first); got != want || m.verified != verified {
			t.Errorf("row %d to %d: outcome %d, verified %d; want %d, %d", base, end, got, m.verified, want, verified)
		}
	}
	read(10, 19, true, followed, 19)
	read(10, 19, false, known, 19)
	read(25, 26, false, gap, 19)
	read(15, 22, false, impossible, 19)
	read(30, 39, true, followed, 39) // what is between was left out as too old
	if m.from != 29 {
		t.Errorf("nothing up to 29 is in the window, from is %d", m.from)
	}
	if got := m.commit(30, 39, 2*second, ids(30, 40)); got != known {
		t.Errorf("a commit that was read already: outcome %d", got)
	}
	if !m.hole || m.asOf() != 0 {
		t.Errorf("a reading left something out: %v, as of %d before it told of what age", m.hole, m.asOf())
	}
	m.readAll(39, second)
	if m.hole || m.asOf() != 61_000_000 {
		t.Errorf("what began before second 1 was left out: %v, as of %d", m.hole, m.asOf())
	}
	m.readAll(20, 9*second)
	if m.verified != 39 || m.from != 29 || m.asOf() != 61_000_000 {
		t.Errorf("verified %d, from %d, as of %d", m.verified, m.from, m.asOf())
	}
	m.readAll(100, 3*second)
	if m.verified != 100 || m.from != 100 || m.asOf() != 63_000_000 {
		t.Errorf("a snapshot without a row in the window: verified %d, from %d, as of %d", m.verified, m.from, m.asOf())
	}
}

func TestHashesThatDoNotMatchTheOffsetsAreABug(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "BUG:") {
			t.Errorf("recovered %v", r)
		}
	}()
	born(-1, time.Minute).commit(0, 9, second, ids(0, 9))
}

// An id a second for as long as it takes: what is kept is the window and a bit,
// though a block would hold an hour of it.
func TestHalfFullBlocksOfASparsePartitionExpire(t *testing.T) {
	t.Parallel()
	const window = 80
	m := born(-1, window*time.Second)
	for i := range int64(1000) {
		m.expire((i - window) * second)
		m.commit(i, i, i*second, []Hash{id(int(i))})
		if m.ids > window+window/blocksPerWindow+3 {
			t.Fatalf("%d ids are kept at second %d", m.ids, i)
		}
		for _, old := range []int64{i, i - window/2, i - window} {
			if old >= 0 && spansOf(m, []uint64{id(int(old)).key()}) == nil {
				t.Fatalf("second %d: the id of second %d is forgotten", i, old)
			}
		}
		if m.from >= max(0, i-window) {
			t.Fatalf("second %d: from is %d, inside the window", i, m.from)
		}
	}
	m.expire(999 * second)
	if spansOf(m, []uint64{id(999).key()}) == nil {
		t.Error("an id exactly as old as the bound was forgotten")
	}
	m.expire(1000 * second)
	if m.ids != 0 || m.from != 999 || m.size != 0 || m.hot.bytes() != 0 {
		t.Errorf("all is old: %d ids, from %d, %d bytes", m.ids, m.from, m.size+m.hot.bytes())
	}
}

func TestIDInTwoBlocksIsKnownUntilTheLastIsDropped(t *testing.T) {
	t.Parallel()
	m := born(-1, time.Hour)
	at := int64(0)
	fill := func(created int64) {
		h := append(ids(int(at)+1, int(at)+blockIDsMax), id(0))
		m.commit(at, at+blockIDsMax-1, created, h)
		at += blockIDsMax
	}
	fill(1 * second)
	fill(2 * second)
	key := []uint64{id(0).key()}
	if got := spansOf(m, key); !slices.Equal(got, []Span{{blockIDsMax - leafIDs, blockIDsMax - 1}, {2*blockIDsMax - leafIDs, 2*blockIDsMax - 1}}) {
		t.Errorf("suspected in %v", got)
	}
	m.expire(2 * second)
	if got := spansOf(m, key); !slices.Equal(got, []Span{{2*blockIDsMax - leafIDs, 2*blockIDsMax - 1}}) {
		t.Errorf("after the first block's end suspected in %v", got)
	}
	m.expire(3 * second)
	if got := spansOf(m, key); got != nil {
		t.Errorf("after the last block's end suspected in %v", got)
	}
}

// Among many minted messages a block ends before SQL would have to read them all.
func TestBlockAmongMintedMessagesStaysNarrow(t *testing.T) {
	t.Parallel()
	m := born(-1, time.Hour)
	at := int64(0)
	for i := range 2000 {
		m.commit(at, at, second, []Hash{id(i)})
		m.commit(at+1, at+999, second, nil)
		at += 1000
	}
	for i := range 2000 {
		s := spansOf(m, []uint64{id(i).key()})
		if len(s) != 1 || s[0].To-s[0].From > blockIDsMin*1000+blockSpanMax {
			t.Fatalf("id %d is suspected in %v", i, s)
		}
	}
}

func TestDatabaseClockIsNeverGuessedTooLate(t *testing.T) {
	t.Parallel()
	start := time.Now()
	m := born(-1, time.Minute)
	m.saw(1000*second, start)
	for _, v := range []struct {
		after time.Duration
		clock int64
	}{
		{0, 1000 * second},
		{64 * time.Second, 1063 * second}, // our clock may be fast
		{-5 * time.Second, 1000 * second},
	} {
		if got := m.dbClock(start.Add(v.after)); got != v.clock {
			t.Errorf("%v later the database's clock is guessed to be %v, want %v", v.after, time.Duration(got), time.Duration(v.clock))
		}
	}
	if got := m.bound(start, 5*time.Second); got != (1000-60-5)*second {
		t.Errorf("bound is %v", time.Duration(got))
	}
	m.saw(1010*second, start.Add(64*time.Second)) // a creation time from before
	if got := m.dbClock(start.Add(64 * time.Second)); got != 1063*second {
		t.Errorf("the clock went back to %v", time.Duration(got))
	}
}

func TestSpansAreMerged(t *testing.T) {
	t.Parallel()
	got := mergeSpans([]Span{{20, 29}, {5, 9}, {0, 3}, {30, 31}, {7, 8}, {5, 6}})
	if want := []Span{{0, 3}, {5, 9}, {20, 31}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Merging changes what a memory costs and how wide its suspects are, and never
// lets go of an id, whatever expires between planning and installing.
func TestMergedMemoryMissesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := born(-1, 1<<40)
		type stored struct {
			key     uint64
			off, at int64
		}
		var all []stored
		now, bound, target := int64(0), int64(0), int64(rapid.SampledFrom([]int{1, 500, 5000}).Draw(t, "target"))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)) // of what is asked for
		dense, blockIDs := rapid.Bool().Draw(t, "dense"), rapid.SampledFrom([]int64{100, 2000, 1 << 20}).Draw(t, "ids of a block")
		sieveIDs := rapid.SampledFrom([]int64{1, 300, 1 << 20}).Draw(t, "ids of the first sieve")
		var b builder
		n := 0
		// store adds as many blocks of a size, and leaves the last one open where that is 2.
		store := func(blocks, size int) {
			for range blocks {
				now++
				for range size {
					k := id(n).key()
					if n%3 == 2 { // stored before, long ago or just now
						k = all[n*n%len(all)].key
					}
					off := int64(n)
					m.add(k, off, now)
					m.verified = off
					all = append(all, stored{k, off, now})
					n++
				}
				if len(m.hot.keys) > 0 && size != 2 {
					m.seal()
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"blocks": func(*rapid.T) {
				size := rapid.SampledFrom([]int{1, 3, 50, 300}).Draw(t, "size")
				store(rapid.IntRange(1, 40-size/10).Draw(t, "n"), size)
			},
			"merge": func(*rapid.T) {
				for {
					p, ok := m.nextSieve(sieveIDs)
					if !ok {
						p, ok = m.next(target, dense, blockIDs)
					}
					if !ok {
						return
					}
					var r merged
					switch p.kind {
					case toFilter:
						f, err := b.build(t.Context(), p.blocks, p.planes)
						if err != nil {
							t.Fatal(err)
						}
						r.filter = f
					case toSieve:
						r.sieve = newSieve(p.blocks, p.ids)
					case toBlock:
						r.block = merge(p.blocks)
					}
					if rapid.Bool().Draw(t, "appends meanwhile") {
						store(rapid.IntRange(1, 20).Draw(t, "sealed"), 3)
						store(1, 2)
					}
					if rapid.Bool().Draw(t, "meanwhile") {
						bound = max(bound, rapid.Int64Range(0, now+1).Draw(t, "bound"))
						m.expire(bound)
					}
					if rapid.Bool().Draw(t, "thin") {
						m.thin(1 << 40)
					}
					m.install(p, r)
				}
			},
			"expire": func(*rapid.T) {
				bound = max(bound, rapid.Int64Range(0, now+1).Draw(t, "bound"))
				m.expire(bound)
			},
			"": func(*rapid.T) {
				for range 200 {
					if len(all) == 0 {
						break
					}
					s := all[rng.IntN(len(all))]
					if s.at < bound {
						continue
					}
					if !slices.ContainsFunc(spansOf(m, []uint64{s.key}), func(sp Span) bool { return sp.From <= s.off && s.off <= sp.To }) {
						t.Fatalf("offset %d of time %d is not found, the bound is %d", s.off, s.at, bound)
					}
				}
				var size, ids int64
				last := int64(-1)
				order := func(sp Span) {
					if sp.From <= last {
						t.Fatalf("%v follows %d", sp, last)
					}
					last = sp.To
				}
				for _, f := range m.filters {
					size, ids = size+f.bytes(), ids+f.ids
					for i := range f.starts {
						order(f.span(i))
					}
				}
				for _, b := range m.blocks {
					size, ids = size+b.bytes(), ids+int64(len(b.keys))
					order(Span{b.starts[0], b.to})
				}
				if len(m.filters) > 0 && m.sieve != nil {
					t.Fatalf("%d filters and a sieve", len(m.filters))
				}
				if size += m.sieve.bytes(); size != m.size || ids+int64(len(m.hot.keys)) != m.ids {
					t.Fatalf("%d bytes and %d ids are counted as %d and %d", size, ids, m.size, m.ids)
				}
			},
		})
	})
}

// TestNothingExpiresBeforeTheClockIsKnown: a question may come while the first
// rows are being read, before anything has shown the database's time.
func TestNothingExpiresBeforeTheClockIsKnown(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m := born(-1, time.Hour)
	h := Of([]byte("a"))
	if o := m.read(0, 0, now.UnixNano(), []Hash{h}, true); o != followed {
		t.Fatalf("outcome %d", o)
	}
	if m.expire(m.bound(now, time.Second)) || len(spansOf(m, []uint64{h.key()})) != 1 {
		t.Fatal("an id is forgotten that was stored just now")
	}
}

// spansOf is where a memory finds any of the keys; it must say the same of which.
func spansOf(m *memory, keys []uint64) []Span {
	spans, held := m.find(keys)
	for _, k := range keys {
		alone, itself := m.find([]uint64{k})
		if ok := len(held.of(k)) > 0; ok != (len(alone) > 0) || ok != (len(itself.of(k)) > 0) {
			panic("a key is held, and found nowhere, or the reverse")
		}
	}
	return spans
}

// A buffer doubles from little to a block: many sparse partitions take little, and a busy
// one is not copied with each id.
func TestBufferGrowsByDoubling(t *testing.T) {
	t.Parallel()
	var h hot
	var sizes []int
	for i := range blockIDsMax {
		h.add(id(i).key(), int64(i), second)
		if n := cap(h.keys); len(sizes) == 0 || n != sizes[len(sizes)-1] {
			sizes = append(sizes, n)
		}
	}
	if want := []int{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}; !slices.Equal(sizes, want) {
		t.Errorf("a buffer had room for %d, want %d", sizes, want)
	}
}
