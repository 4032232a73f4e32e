package dedup

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// wantAnswer compares an answer.
func wantAnswer(t *testing.T, what string, a Answer, mode Mode, verified int64, suspects ...Span) {
	t.Helper()
	if a.Mode != mode || a.Verified != verified || !slices.Equal(a.Suspects, suspects) {
		t.Errorf("%s: %v, verified %d, suspects %v; want %v, %d, %v", what, a.Mode, a.Verified, a.Suspects, mode, verified, suspects)
	}
}

// warm has a partition's window read back, and waits for it.
func (b *broker) warm(t *testing.T, p int64) {
	t.Helper()
	b.ask(p, nil)
	synctest.Wait()
	if a := b.ask(p, nil); a.Mode != Vouched || a.Verified != b.l.next(p)-1 {
		t.Fatalf("partition %d is not warm: %+v", p, a)
	}
}

func TestBrandNewPartitionIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, newLedger(), 60, Config{})
		wantAnswer(t, "nothing yet", b.push(1, ids(0, 10)), Vouched, -1)
		wantAnswer(t, "new ids", b.push(1, ids(10, 20)), Vouched, 9)
		wantAnswer(t, "an old id", b.ask(1, ids(15, 25)), Suspect, 19, Span{0, 19})
		wantAnswer(t, "another partition", b.ask(2, ids(0, 10)), Vouched, -1)
		// Its first append may come without a question: all minted.
		b.tell(3, b.l.append(3, 1000, nil))
		wantAnswer(t, "after minted ones", b.ask(3, ids(0, 10)), Vouched, 999)
		if len(b.l.reads) != 0 {
			t.Errorf("windows were read: %v", b.l.reads)
		}
	})
}

func TestMintedMessagesCostNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, newLedger(), 60, Config{})
		b.tell(1, b.l.append(1, 10, nil))
		before := b.c.Stats().Bytes
		for range 1000 {
			b.tell(1, b.l.append(1, 10_000, nil))
			b.tell(1, b.l.append(1, 10, make([]Hash, 10)))
		}
		if after := b.c.Stats().Bytes; after != before {
			t.Errorf("ten million minted ids: %d bytes became %d", before, after)
		}
		wantAnswer(t, "minted ids are ignored", b.ask(1, make([]Hash, 10)), Vouched, b.l.next(1)-1)
	})
}

func TestEntryIsBornCompleteWithSlack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.append(1, 1000, ids(0, 1000)) // 66 s old at the reading
		<-time.After(3 * time.Second)
		l.append(1, 1000, ids(1000, 2000)) // 63 s: out of the window, within the slack
		<-time.After(33 * time.Second)
		l.append(1, 1000, ids(2000, 3000))
		<-time.After(30 * time.Second)
		b := newBroker(t, l, 60, Config{})
		wantAnswer(t, "first contact", b.ask(1, ids(0, 3000)), Cold, -1)
		synctest.Wait()
		wantAnswer(t, "before the slack", b.ask(1, ids(0, 1000)), Vouched, 2999)
		wantAnswer(t, "in the slack", b.ask(1, ids(1000, 1001)), Suspect, 2999, Span{1000, 1015})
		wantAnswer(t, "in the window", b.ask(1, ids(2500, 2501)), Suspect, 2999, Span{2496, 2511})
		if m := b.c.lookup(1).mem; m.from != 999 || m.ids != 2000 {
			t.Errorf("%d ids are known above %d", m.ids, m.from)
		}
	})
}

// A reading stands still while pushes go on: none of them waits, and all are
// known when it is done.
func TestReadingBlocksNobodyAndMissesNoCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.append(1, 1000, ids(0, 1000))
		gate := make(chan struct{})
		l.before = func(int64) { <-gate }
		b := newBroker(t, l, 60, Config{})
		b.ask(1, nil)
		synctest.Wait() // the snapshot is taken
		wantAnswer(t, "meanwhile", b.push(1, ids(1000, 1100)), Cold, -1)
		wantAnswer(t, "meanwhile", b.push(1, ids(1100, 1200)), Cold, -1)
		close(gate)
		synctest.Wait()
		wantAnswer(t, "after", b.ask(1, ids(1050, 1051)), Suspect, 1199, Span{1040, 1055})
		if n := len(l.reads[1]); n != 1 || l.above != 0 {
			t.Errorf("%d windows and %d gaps were read", n, l.above)
		}
	})
}

func TestCommitReadInTheSnapshotIsNotTakenTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.append(1, 1000, ids(0, 1000))
		b := newBroker(t, l, 60, Config{})
		r := l.append(1, 10, ids(1000, 1010)) // stored; its answer is still on the way
		b.warm(t, 1)
		b.tell(1, r)
		wantAnswer(t, "after", b.ask(1, ids(1005, 1006)), Suspect, 1009, Span{992, 1007})
		if s := b.c.Stats(); s.Contradictions != 0 || s.Hashes != 1010 {
			t.Errorf("%d contradictions, %d ids", s.Contradictions, s.Hashes)
		}
	})
}

// While another broker's rows are unknown the bound stays where it was: it is
// as true as before, and SQL looks above it anyway.
func TestGapKeepsTheBoundUntilItIsFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		b := newBroker(t, l, 60, Config{})
		b.push(1, ids(0, 100))
		l.append(1, 10, ids(100, 110)) // another broker
		gate := make(chan struct{})
		l.before = func(int64) { <-gate }
		r := l.append(1, 10, ids(110, 120))
		b.tell(1, r)
		synctest.Wait()
		wantAnswer(t, "with a gap", b.ask(1, ids(105, 125)), Gap, 99)
		wantAnswer(t, "with a gap", b.ask(1, ids(50, 51)), Gap, 99, Span{48, 63})
		b.push(1, ids(120, 130)) // kept until the gap is filled
		close(gate)
		synctest.Wait()
		wantAnswer(t, "filled", b.ask(1, ids(105, 106)), Suspect, 129, Span{96, 111})
		wantAnswer(t, "filled", b.ask(1, ids(130, 140)), Vouched, 129)
		if s := b.c.Stats(); s.Gaps != 2 || s.CatchUps != 1 || s.Hydrations != 0 || s.Contradictions != 0 {
			t.Errorf("%+v", s)
		}
		// A gap is seen as soon as the partition's end is, without a commit.
		l.append(1, 10, ids(140, 150))
		<-time.After(time.Second)
		wantAnswer(t, "the end moved", b.ask(1, ids(145, 146)), Gap, 129)
		synctest.Wait()
		wantAnswer(t, "filled", b.ask(1, ids(145, 146)), Suspect, 139, Span{128, 139})
	})
}

func TestOverlapIsRebuilt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		b := newBroker(t, l, 60, Config{})
		b.push(1, ids(0, 1000))
		r := l.parts[1][0]
		r.base, r.end, r.hashes = 500, 599, ids(500, 600)
		b.tell(1, r)
		wantAnswer(t, "contradicted", b.ask(1, ids(0, 1)), Cold, -1)
		synctest.Wait()
		wantAnswer(t, "rebuilt", b.ask(1, ids(0, 1)), Suspect, 999, Span{0, 15})
		if s := b.c.Stats(); s.Contradictions != 1 || s.Hydrations != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWindowChangeIsRebuiltHoweverOftenItFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		b := newBroker(t, l, 60, Config{})
		b.push(1, ids(0, 1000))
		<-time.After(70 * time.Second)
		b.push(1, ids(1000, 2000))
		b.warm(t, 1) // left alone, it had become too small to keep
		wantAnswer(t, "expired", b.ask(1, ids(0, 1)), Vouched, 1999)
		b.window, l.fail = 600, errDown // what has expired is in the window again
		for range 5 {
			wantAnswer(t, "not rebuilt", b.ask(1, ids(0, 1)), Cold, -1)
			synctest.Wait()
			<-time.After(2 * time.Second)
		}
		b.window = 60 // and back: what is known of it was dropped
		wantAnswer(t, "not rebuilt", b.ask(1, ids(0, 1)), Cold, -1)
		synctest.Wait()
		b.window = 600
		l.fail = nil
		<-time.After(2 * time.Second)
		b.ask(1, nil)
		synctest.Wait()
		wantAnswer(t, "rebuilt", b.ask(1, ids(0, 1)), Suspect, 1999, Span{0, 15})
		if n := b.c.Stats().ReadFailures; n < 4 {
			t.Errorf("%d readings failed", n)
		}
		// Shrunk: a commit under the new window is as good a sign as a question.
		b.window = 30
		b.tell(1, l.append(1, 10, ids(2000, 2010)))
		if b.c.lookup(1) != nil {
			t.Error("the commit changed nothing")
		}
		wantAnswer(t, "shrunk", b.ask(1, ids(0, 1)), Cold, -1)
		synctest.Wait()
		wantAnswer(t, "rebuilt", b.ask(1, ids(0, 1)), Vouched, 2009)
	})
}

func TestOtherIncarnationIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		b := newBroker(t, l, 60, Config{})
		b.push(1, ids(0, 1000))
		b.push(2, ids(0, 1000))
		l.mu.Lock()
		l.parts[1] = nil // failed over to before the push
		l.epoch++
		l.mu.Unlock()
		wantAnswer(t, "the new one's question", b.ask(1, ids(0, 1)), Vouched, -1)
		b.c.ForgetAll()
		if s := b.c.Stats(); s.Entries != 0 || s.Bytes != 0 || s.Hashes != 0 {
			t.Errorf("%+v", s)
		}
		wantAnswer(t, "after all was forgotten", b.ask(2, ids(0, 1)), Cold, -1)
		synctest.Wait()
		wantAnswer(t, "read again", b.ask(2, ids(0, 1)), Suspect, 999, Span{0, 15})
		// What is read from one does not count for the other.
		b.c.Forget(2)
		b.c.Ask(Question{Partition: 2, Epoch: l.epoch - 1, WindowSeconds: 60, Next: 1000})
		synctest.Wait()
		if e := b.c.lookup(2); e != nil {
			t.Errorf("an entry of epoch %d is kept", e.epoch)
		}
	})
}

func TestWindowOfZeroAndTheKillSwitchKeepNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		b := newBroker(t, l, 60, Config{})
		b.push(1, ids(0, 1000))
		b.window = 0
		wantAnswer(t, "window 0", b.push(1, ids(0, 1000)), Off, -1)
		wantAnswer(t, "window 0, new", b.push(2, ids(0, 1000)), Off, -1)
		if s := b.c.Stats(); s.Entries != 0 || s.Bytes != 0 {
			t.Errorf("window 0: %+v", s)
		}
		// So does a commit, or whoever hears of it.
		b.window = 60
		b.ask(1, nil)
		synctest.Wait()
		b.window = 0
		b.tell(1, l.append(1, 10, ids(2000, 2010)))
		if s := b.c.Stats(); s.Entries != 0 || s.Bytes != 0 {
			t.Errorf("a commit under window 0: %+v", s)
		}
		b.window = 60
		b.ask(1, nil)
		synctest.Wait()
		b.c.Unwindowed(1)
		if s := b.c.Stats(); s.Entries != 0 || s.Bytes != 0 {
			t.Errorf("told of window 0: %+v", s)
		}
		off := newBroker(t, l, 60, Config{Disabled: true})
		wantAnswer(t, "switched off", off.push(3, ids(0, 1000)), Off, -1)
		wantAnswer(t, "switched off", off.push(3, ids(0, 1000)), Off, -1)
		if s := off.c.Stats(); s.Entries != 0 || s.Bytes != 0 || s.Answers[Off] != 2 {
			t.Errorf("switched off: %+v", s)
		}
	})
}

func TestTinyWindowIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		l.append(1, 255, ids(0, 255))
		l.append(2, 100_000, nil)
		<-time.After(time.Hour)
		l.append(2, 10, ids(0, 10))
		b := newBroker(t, l, 60, Config{})
		wantAnswer(t, "never had more", b.push(1, ids(255, 256)), Tiny, -1)
		wantAnswer(t, "unknown", b.ask(2, ids(0, 1)), Cold, -1)
		synctest.Wait()
		wantAnswer(t, "has few", b.ask(2, ids(0, 1)), Tiny, -1)
		if s := b.c.Stats(); s.Entries != 0 || s.Bytes != 0 || s.Notes != 1 {
			t.Errorf("%+v", s)
		}
		wantAnswer(t, "grows", b.push(2, ids(10, 300)), Tiny, -1)
		b.warm(t, 2)
		b.warm(t, 1)
		// A new partition is kept for as long as it is used.
		b.push(3, ids(0, 10))
		<-time.After(4 * time.Second)
		b.push(3, ids(10, 20))
		<-time.After(4 * time.Second)
		wantAnswer(t, "in use", b.push(3, ids(20, 30)), Vouched, 19)
		<-time.After(20 * time.Second)
		wantAnswer(t, "left alone", b.ask(3, ids(20, 30)), Tiny, -1)
	})
}

func TestHugeSuspectsAreNotWorthNarrowing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, newLedger(), 3600, Config{})
		for i := range 11 {
			b.push(1, ids(i*blockIDsMax, (i+1)*blockIDsMax))
		}
		every := func(step int) (h []Hash) { // one id of so many
			for i := 0; i < 11*blockIDsMax; i += step {
				h = append(h, id(i))
			}
			return h
		}
		// A look at a span costs about as much as spanOffsetsMin offsets.
		most := 11 * blockIDsMax / 2 / spanOffsetsMin
		if a := b.ask(1, every(129)); a.Mode != Suspect || a.Verified != 11*blockIDsMax-1 || len(a.Suspects) != 350 || most < 350 {
			t.Errorf("one id of 129: %s, %d, %d spans of %d", a.Mode, a.Verified, len(a.Suspects), most)
		}
		wantAnswer(t, "one of 127", b.ask(1, every(127)), Suspect, -1)
	})
}

func TestConfigNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]Config{
		"source":       {},
		"FitPercent":   {Source: newLedger(), FitPercent: 101},
		"FilterIDsMax": {Source: newLedger(), FilterIDsMax: 10},
		"Cooldown":     {Source: newLedger(), Cooldown: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Not parallel: it reads the process's heap.
func TestBytesAreWhatTheHeapSays(t *testing.T) {
	for _, v := range []struct{ partitions, ids int }{{20_000, 10}, {2_000, 700}, {40, 70_000}, {2, 1_000_000}} {
		t.Run(fmt.Sprintf("parts=%d,ids=%d", v.partitions, v.ids), func(t *testing.T) {
			l := newLedger()
			heap := func() int64 {
				runtime.GC()
				runtime.GC()
				var ms runtime.MemStats
				runtime.ReadMemStats(&ms)
				return int64(ms.HeapAlloc)
			}
			before := heap()
			b := newBroker(t, l, 3600, Config{})
			rng := rand.NewChaCha8([32]byte{2})
			now := time.Now()
			for p := range int64(v.partitions) {
				for at := int64(0); at < int64(v.ids); {
					h := randomHashes(rng, min(v.ids, 1000))
					b.c.Committed(Commit{Partition: p, WindowSeconds: 3600, Base: at, End: at + int64(len(h)) - 1, CreatedAt: now, Hashes: h})
					at += int64(len(h))
				}
			}
			for settled := false; !settled; runtime.Gosched() {
				settled = true
				b.c.entries.Range(func(_, e any) bool {
					e.(*entry).mu.Lock()
					settled = settled && !e.(*entry).merging
					e.(*entry).mu.Unlock()
					return settled
				})
			}
			counted, real := b.c.Stats().Bytes, heap()-before
			t.Logf("%d bytes are counted, the heap grew by %d", counted, real)
			if d := float64(real-counted) / float64(counted); d > 0.1 || d < -0.25 {
				t.Errorf("%d bytes are counted, the heap grew by %d", counted, real)
			}
			runtime.KeepAlive(b)
		})
	}
}

func TestEntrySizeIsPinned(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(entry{}) + unsafe.Sizeof(memory{}); n > 420 {
		t.Errorf("a partition costs %d bytes before its first id", n)
	}
	if n := unsafe.Sizeof(note{}); n > 96 {
		t.Errorf("a note costs %d bytes: 100,000 of them are not in the budget", n)
	}
}

// Many partitions at once, with readings, evictions, window changes and
// scrapes, for the race detector; no id may be missed in the end.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	l := newLedger()
	b := newBroker(t, l, 3600, Config{BytesMax: 3 << 20, GuardFor: time.Nanosecond, Cooldown: time.Millisecond, SweepEvery: time.Millisecond, KeepMin: 1})
	var wg sync.WaitGroup
	for p := range int64(6) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), 1))
			for i := range 150 {
				h := ids(i*500, i*500+500)
				if again := rng.IntN(i+1) * 500; i%3 == 0 {
					h = append(h[:400], ids(again, again+100)...)
				}
				a := b.ask(p, h)
				if off := l.missed(p, b.window, h, a); off >= 0 {
					t.Errorf("partition %d: offset %d is missed by %v %d", p, off, a.Mode, a.Verified)
				}
				b.tell(p, l.append(p, 500, h))
				if i%50 == 20 {
					l.append(p, 10, ids(i, i+10)) // another broker
				}
			}
		})
	}
	wg.Go(func() {
		for range 300 {
			b.c.Stats()
			b.c.Forget(3)
			runtime.Gosched()
		}
	})
	wg.Wait()
	if s := b.c.Stats(); s.Bytes > s.BytesMax {
		t.Errorf("%d bytes of %d", s.Bytes, s.BytesMax)
	}
	b.c.ForgetAll()
	b.c.Close()
	if n := b.c.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are charged for nothing", n)
	}
}
