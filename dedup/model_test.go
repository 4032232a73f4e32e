package dedup

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// history is one random life of a cache next to another broker that writes to
// the same ledger without it. The model is the ledger's own search: no hash at or
// below what is vouched for may lie in the window outside the suspects.
func history(t *rapid.T) {
	l := newLedger()
	window := rapid.SampledFrom([]int32{2, 20, 400}).Draw(t, "window")
	cfg := Config{
		Source: l, Log: slog.New(slog.DiscardHandler), KeepMin: rapid.SampledFrom([]int64{1, 30}).Draw(t, "keep"),
		BytesMax:   rapid.SampledFrom([]int64{6 << 10, 60 << 10, 400 << 10, 64 << 20}).Draw(t, "bytes"),
		LateIDsMax: rapid.SampledFrom([]int{3, 1000}).Draw(t, "late"),
	}
	var c *Cache
	open := func() {
		var err error
		if c, err = New(cfg); err != nil {
			t.Fatal(err)
		}
	}
	open()
	defer func() { c.Close() }()

	const partitions = 3
	draw := func(what string) []Hash {
		n := rapid.SampledFrom([]int{1, 2, 7, 300, 5000}).Draw(t, what)
		h := make([]Hash, n)
		at := rapid.IntRange(0, 20_000).Draw(t, "from")
		for i := range h {
			if n > 2 && i%5 == 4 {
				continue // minted
			}
			h[i] = id(at + i)
		}
		return h
	}
	part := rapid.Int64Range(0, partitions-1)
	check := func(p int64, hashes []Hash, a Answer) {
		if off := l.missed(p, window, hashes, a); off >= 0 {
			t.Fatalf("partition %d: %+v misses offset %d", p, a, off)
		}
		for i, s := range a.Suspects {
			if s.From > s.To || s.To > a.Verified || i > 0 && s.From <= a.Suspects[i-1].To {
				t.Fatalf("spans are not apart, in order and at or below verified: %+v", a)
			}
		}
	}
	// told are commits that were not told yet: their answers are on the way.
	told := map[int64][]row{}
	tell := func(p int64) {
		for _, r := range told[p] {
			c.Committed(Commit{
				Partition: p, Epoch: l.epoch, WindowSeconds: window,
				Base: r.base, End: r.end, CreatedAt: r.created, Hashes: r.hashes,
			})
		}
		delete(told, p)
	}
	t.Repeat(map[string]func(*rapid.T){
		"push": func(*rapid.T) {
			p, h := part.Draw(t, "p"), draw("n")
			tell(p) // one flush per partition is in flight
			a := c.Ask(Question{Partition: p, Epoch: l.epoch, WindowSeconds: window, Hashes: h, Next: l.next(p)})
			check(p, h, a)
			told[p] = append(told[p], l.append(p, int64(len(h)), h))
			if rapid.Bool().Draw(t, "told") {
				tell(p)
			}
		},
		"push minted": func(*rapid.T) {
			p := part.Draw(t, "p")
			tell(p)
			told[p] = append(told[p], l.append(p, rapid.Int64Range(1, 100_000).Draw(t, "n"), nil))
			tell(p)
		},
		"ask": func(*rapid.T) {
			p, h := part.Draw(t, "p"), draw("n")
			next := rapid.Int64Range(0, l.next(p)).Draw(t, "stale next")
			check(p, h, c.Ask(Question{Partition: p, Epoch: l.epoch, WindowSeconds: window, Hashes: h, Next: next}))
		},
		"another broker pushes": func(*rapid.T) {
			h := draw("n")
			l.append(part.Draw(t, "p"), int64(len(h)), h)
		},
		"push until blocks merge": func(*rapid.T) {
			p := part.Draw(t, "p")
			tell(p)
			for i := range rapid.IntRange(mergedBlocks, 36).Draw(t, "n") {
				h := ids(i*50, i*50+blockIDsMin)
				told[p] = append(told[p], l.append(p, int64(len(h)), h), l.append(p, blockSpanMax, nil))
				tell(p)
			}
		},
		"time": func(*rapid.T) {
			<-time.After(time.Duration(rapid.IntRange(1, 1500).Draw(t, "percent")) * time.Duration(window) * time.Second / 1000)
		},
		"the database's clock is put": func(*rapid.T) {
			l.mu.Lock()
			l.step = time.Duration(rapid.IntRange(-2000, 2000).Draw(t, "percent")) * time.Duration(window) * time.Second / 1000
			l.mu.Unlock()
		},
		"background": func(*rapid.T) { synctest.Wait() },
		"window": func(*rapid.T) {
			for p := range int64(partitions) {
				tell(p)
			}
			window = rapid.SampledFrom([]int32{2, 20, 400}).Draw(t, "window")
		},
		"restart": func(*rapid.T) {
			c.Close()
			clear(told)
			open()
		},
		"evict": func(*rapid.T) { c.drop(c.lookup(part.Draw(t, "p"))) },
		"fail":  func(*rapid.T) { l.mu.Lock(); l.fail = errDown; l.mu.Unlock() },
		"heal":  func(*rapid.T) { l.mu.Lock(); l.fail = nil; l.mu.Unlock() },
		"incarnation": func(*rapid.T) {
			// The tail of a partition was lost in a failover.
			synctest.Wait()
			l.mu.Lock()
			p := part.Draw(t, "p")
			l.parts[p] = l.parts[p][:len(l.parts[p])/2]
			l.epoch++
			l.mu.Unlock()
			clear(told)
			if rapid.Bool().Draw(t, "forget all") {
				c.ForgetAll()
			}
		},
		"": func(*rapid.T) {
			if got := c.bytes.Load(); got < 0 || len(told) == 0 && got > cfg.BytesMax {
				synctest.Wait()
				if got := c.bytes.Load(); got < 0 || got > cfg.BytesMax {
					t.Fatalf("%d bytes of %d", got, cfg.BytesMax)
				}
			}
		},
	})
}

// inBubble hides the test's deadline, which is the real clock's, from rapid.
type inBubble struct{ rapid.TB }

func TestNoIDInTheWindowIsMissed(t *testing.T) {
	t.Parallel()
	for range 4 { // times rapid's hundred histories
		synctest.Test(t, func(t *testing.T) { rapid.Check(inBubble{t}, history) })
	}
}

func FuzzHistory(f *testing.F) {
	fuzz := rapid.MakeFuzz(history)
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) { fuzz(t, data) })
	})
}
