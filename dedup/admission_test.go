package dedup

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a handler that counts warnings.
type counter struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }
func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Level == slog.LevelWarn {
		c.n++
	}
	return nil
}

// fill stores n random ids in a partition, as another broker would.
func fill(l *ledger, rng *rand.ChaCha8, p int64, n int) {
	for ; n > 0; n -= 1000 {
		l.append(p, int64(min(n, 1000)), randomHashes(rng, min(n, 1000)))
	}
}

// A MiB holds two windows of 50,000 ids (8 bytes each, too few for a filter) under
// its 90 %, and a third one does not fit.
func TestWhatDoesNotFitIsSuppressedForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, rng, warnings := newLedger(), rand.NewChaCha8([32]byte{1}), &counter{}
		for p := range int64(5) {
			fill(l, rng, p, 50_000)
		}
		b := newBroker(t, l, 3600, Config{BytesMax: 1 << 20})
		b.c.cfg.Log = slog.New(warnings)
		b.warm(t, 0)
		b.warm(t, 1)
		for p := range int64(3) {
			wantAnswer(t, "a newcomer", b.ask(p+2, nil), Cold, -1)
			synctest.Wait() // it was tried, and stopped where it became too much
			wantAnswer(t, "suppressed", b.ask(p+2, nil), Suppressed, -1)
		}
		if s := b.c.Stats(); s.Suppressed != 3 || s.Evictions != 0 || s.Vouching != 2 || s.Bytes > s.BytesMax*9/10 {
			t.Errorf("%+v", s)
		}
		if warnings.n != 1 {
			t.Errorf("%d warnings within a minute", warnings.n)
		}
		for range 29 { // residents stay in use
			<-time.After(time.Second)
			for p := range int64(5) {
				b.ask(p, nil)
			}
		}
		for p := range int64(3) {
			if n := len(l.reads[p+2]); n != 1 {
				t.Errorf("partition %d was read %d times before its cooldown was over", p+2, n)
			}
		}
		b.c.Forget(0) // the load shrank
		<-time.After(1500 * time.Millisecond)
		b.ask(2, nil)
		synctest.Wait()
		wantAnswer(t, "admitted", b.ask(2, nil), Vouched, 49_999)
		for range 31 {
			<-time.After(time.Second)
			for p := range int64(5) {
				b.ask(p, nil)
			}
		}
		if warnings.n != 2 {
			t.Errorf("%d warnings in more than a minute", warnings.n)
		}
	})
}

func TestShrunkWindowIsAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, rng := newLedger(), rand.NewChaCha8([32]byte{1})
		for range 100 {
			fill(l, rng, 1, 2000)
			<-time.After(10 * time.Second)
		}
		b := newBroker(t, l, 3600, Config{BytesMax: 1 << 19})
		b.ask(1, nil)
		synctest.Wait()
		wantAnswer(t, "an hour", b.ask(1, nil), Suppressed, -1)
		b.window = 100
		for range 29 {
			<-time.After(time.Second)
			wantAnswer(t, "in its cooldown", b.ask(1, nil), Suppressed, -1)
		}
		<-time.After(2 * time.Second)
		b.ask(1, nil)
		synctest.Wait()
		wantAnswer(t, "two minutes", b.ask(1, nil), Vouched, l.next(1)-1)
	})
}

// Growth evicts what was not used for five seconds, the longest idle first.
func TestGrowthEvictsTheLongestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, rng := newLedger(), rand.NewChaCha8([32]byte{1})
		b := newBroker(t, l, 3600, Config{BytesMax: 1 << 20})
		for p := range int64(3) {
			for range 30 {
				b.push(p, randomHashes(rng, 1000))
			}
			<-time.After(3 * time.Second)
		}
		<-time.After(time.Second) // idle: 10, 7 and 4 seconds
		growUntil := func(done func() bool) {
			for !done() {
				b.push(9, randomHashes(rng, 100))
			}
		}
		resident := func(want ...bool) {
			t.Helper()
			for p, w := range want {
				if is := b.c.lookup(int64(p)) != nil; is != w {
					t.Errorf("partition %d is resident: %v", p, is)
				}
			}
		}
		evictions := func(n int64) func() bool { return func() bool { return b.c.Stats().Evictions == n } }
		resident(true, true, true)
		growUntil(evictions(1))
		resident(false, true, true)
		growUntil(evictions(2))
		resident(false, false, true)
		// The third was used too lately: the one that grows gives up itself.
		growUntil(func() bool { return b.c.lookup(9) == nil })
		resident(false, false, true)
		if s := b.c.Stats(); s.Evictions != 2 || s.Overflows != 1 || s.Bytes > s.BytesMax {
			t.Errorf("%+v", s)
		}
		wantAnswer(t, "after giving up", b.ask(9, nil), Suppressed, -1)
		wantAnswer(t, "evicted", b.ask(0, nil), Suppressed, -1)
	})
}

func TestResidentsAreNeverGated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, rng := newLedger(), rand.NewChaCha8([32]byte{1})
		b := newBroker(t, l, 3600, Config{BytesMax: 1 << 20})
		for p := range int64(2) {
			for range 57 {
				b.push(p, randomHashes(rng, 1000))
			}
		}
		if s := b.c.Stats(); b.c.fits(0) {
			t.Fatalf("%d bytes of %d leave room for newcomers", s.Bytes, s.BytesMax)
		}
		fill(l, rng, 0, 1000) // another broker
		wantAnswer(t, "a gap", b.ask(0, nil), Gap, 56_999)
		synctest.Wait()
		wantAnswer(t, "filled", b.ask(0, nil), Vouched, 57_999)
		wantAnswer(t, "vouching", b.push(1, randomHashes(rng, 10)), Vouched, 56_999)
		wantAnswer(t, "brand new", b.push(5, randomHashes(rng, 10)), Vouched, -1)
		wantAnswer(t, "brand new", b.push(5, randomHashes(rng, 10)), Vouched, 9)
	})
}

// Somebody who asks all the time gets the place of one who has not for a whole
// cooldown.
func TestIdleResidentMakesRoomForABusyNewcomer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, rng := newLedger(), rand.NewChaCha8([32]byte{1})
		for p := range int64(3) {
			fill(l, rng, p, 50_000)
		}
		b := newBroker(t, l, 3600, Config{BytesMax: 1 << 20})
		b.warm(t, 0)
		b.warm(t, 1)
		for range 70 {
			b.ask(1, nil)
			b.ask(2, nil)
			synctest.Wait()
			<-time.After(time.Second)
		}
		wantAnswer(t, "the busy newcomer", b.ask(2, nil), Vouched, 49_999)
		wantAnswer(t, "the busy resident", b.ask(1, nil), Vouched, 49_999)
		if b.c.lookup(0) != nil {
			t.Error("the idle resident is still there")
		}
	})
}

// Twice the budget, all used alike, for two minutes: a stable part is served
// from memory, nobody is read back more than once in 30 s, nobody in use goes.
func TestTwiceTheBudgetDoesNotThrash(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{time.Second, 6 * time.Second, 12 * time.Second, 40 * time.Second} {
		t.Run(period.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const partitions = 40
				l, rng := newLedger(), rand.NewChaCha8([32]byte{1})
				for p := range int64(partitions) {
					fill(l, rng, p, 6_000)
				}
				b := newBroker(t, l, 3600, Config{BytesMax: 1 << 20})
				used := map[int64]time.Time{}
				resident := map[int64]*entry{}
				vouched, asked, gone := 0, 0, int64(0)
				for start := time.Now(); time.Since(start) < max(2*time.Minute, 6*period); {
					for p := range int64(partitions) {
						if a := b.push(p, randomHashes(rng, 10)); a.Mode == Vouched {
							vouched++
						}
						asked++
						used[p] = time.Now()
						<-time.After(period / partitions)
						for r, e := range resident {
							if e.dead && time.Since(used[r]) < 5*time.Second-period/partitions {
								gone++
							}
						}
						clear(resident)
						for r := range int64(partitions) {
							if e := b.c.lookup(r); e != nil {
								resident[r] = e
							}
						}
						if s := b.c.Stats(); s.Bytes > s.BytesMax {
							t.Fatalf("%d bytes of %d", s.Bytes, s.BytesMax)
						}
					}
					if time.Since(start) > time.Minute && b.c.Stats().Suppressed == 0 {
						t.Error("nobody is suppressed")
					}
				}
				for p, at := range l.reads {
					for i := 1; i < len(at); i++ {
						if d := at[i].Sub(at[i-1]); d < 30*time.Second {
							t.Errorf("partition %d was read again after %v", p, d)
						}
					}
				}
				if n := b.c.Stats().Overflows; gone > n {
					t.Errorf("%d partitions went while in use, %d of their own accord", gone, n)
				}
				if n := b.c.Stats().Evictions; n != 0 && period > 30*time.Second { // shorter, growth may evict
					t.Errorf("%d partitions had to go for others that are used no more than they", n)
				}
				if vouched < asked/4 {
					t.Errorf("%d of %d questions were vouched for, the budget holds two fifths", vouched, asked)
				}
				t.Logf("%d of %d vouched for: %+v", vouched, asked, b.c.Stats())
			})
		})
	}
}

// A window that fits only with fewer bits per id is read back with fewer.
func TestReadingThinsWhatItReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 1_600_000
		l, rng := newLedger(), rand.NewChaCha8([32]byte{1})
		fill(l, rng, 1, n)
		b := newBroker(t, l, 3600, Config{BytesMax: 8 << 20, FitPercent: 55})
		b.warm(t, 1)
		m := b.c.lookup(1).mem
		if m.planes == planesMax || len(m.filters) == 0 || m.bytes() > 8<<20*55/100 {
			t.Errorf("%d planes, %d filters, %d bytes", m.planes, len(m.filters), m.bytes())
		}
		h := []Hash{l.parts[1][3].hashes[5], l.parts[1][n/1000-1].hashes[7]}
		a := b.ask(1, h)
		if off := l.missed(1, 3600, h, a); a.Verified != n-1 || off >= 0 {
			t.Errorf("offset %d is missed by %+v", off, a)
		}
	})
}

func TestManySmallPartitionsStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{1 << 20, 64 << 20} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(t, newLedger(), 3600, Config{BytesMax: bytes})
			rng := rand.NewChaCha8([32]byte{1})
			now := time.Now()
			for p := range int64(100_000) {
				b.c.Committed(Commit{Partition: p, WindowSeconds: 3600, End: 9, CreatedAt: now, Hashes: randomHashes(rng, 10)})
				if n := b.c.bytes.Load(); n > bytes {
					t.Fatalf("%d bytes of %d after %d partitions", n, bytes, p)
				}
			}
			s := b.c.Stats()
			t.Logf("%d bytes, %d entries, %d notes", s.Bytes, s.Entries, s.Notes)
			if s.Notes != 0 || s.Suppressions != 0 {
				t.Errorf("tiny partitions are suppressed: %+v", s)
			}
			<-time.After(15 * time.Second)
			if s := b.c.Stats(); s.Entries != 0 || s.Bytes != 0 {
				t.Errorf("nobody uses them, and they are kept: %+v", s)
			}
		})
	}
}

func TestIdlePartitionExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, newLedger(), 60, Config{})
		b.push(1, ids(0, 5000))
		full := b.c.Stats().Bytes
		<-time.After(60 * time.Second)
		if n := b.c.Stats().Bytes; n != full {
			t.Errorf("%d of %d bytes are left inside the window", n, full)
		}
		<-time.After(20 * time.Second)
		if s := b.c.Stats(); s.Bytes != 0 {
			t.Errorf("after the window: %+v", s)
		}
	})
}

func TestNotesAreCapped(t *testing.T) {
	t.Parallel()
	n := notes{max: 1000}
	for p := range int64(5000) {
		n.update(p, p, func(t *note) { t.suppressed, t.until = true, p+100 })
		if held, all := n.suppressed(); all > 1000 || held != all {
			t.Fatalf("%d notes, %d held", all, held)
		}
	}
	if _, ok := n.get(4999); !ok {
		t.Error("the newest note is gone")
	}
}

func TestEstimateAges(t *testing.T) {
	t.Parallel()
	f := func(what string, seconds int64, window int32, grown, want int64) {
		t.Helper()
		n := note{bytes: 3_600_000, ids: 1_000_000, window: 3600, grown: grown}
		if got := n.estimate(seconds*second, window); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	f("at once", 0, 3600, 0, 3_600_000)
	f("a window that shrank", 0, 360, 0, 360_000)
	f("a window that grew", 0, 7200, 0, 3_600_000)
	f("half a window later", 1800, 3600, 0, 1_800_000)
	f("half a window later, as many came", 1800, 3600, 500_000, 3_600_000)
	f("long after", 36_000, 3600, 10, 36)
}

// What is promised of a cache that is told nothing.
func TestDefaultsArePromised(t *testing.T) {
	t.Parallel()
	c := Config{}.withDefaults()
	if c.BytesMax != 512<<20 || c.FitPercent != 90 || c.NotesMax != 100_000 {
		t.Errorf("%d bytes, %d %% for newcomers, %d notes", c.BytesMax, c.FitPercent, c.NotesMax)
	}
	if c.Slack != 5*time.Second || c.Cooldown != 30*time.Second || c.GuardFor != 5*time.Second || c.WarnEvery != time.Minute {
		t.Errorf("slack %v, cooldown %v, guard %v, a warning in %v", c.Slack, c.Cooldown, c.GuardFor, c.WarnEvery)
	}
}

// Between choosing whom to evict and doing it a partition may be used.
func TestWhoIsUsedMeanwhileIsNotEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, newLedger(), 3600, Config{})
		b.push(1, ids(0, 1000))
		<-time.After(10 * time.Second)
		latest := b.c.clock(time.Now().Add(-5 * time.Second))
		e := b.c.lookup(1)
		b.ask(1, nil)
		b.c.evict(e, latest, time.Now())
		wantAnswer(t, "used meanwhile", b.ask(1, nil), Vouched, 999)
		<-time.After(10 * time.Second)
		b.c.evict(e, b.c.clock(time.Now().Add(-5*time.Second)), time.Now())
		wantAnswer(t, "idle", b.ask(1, nil), Suppressed, -1)
	})
}
