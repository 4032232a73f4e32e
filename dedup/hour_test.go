//go:build hour

package dedup

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

// BenchmarkHour fills the default budget with an hour of 50,000 ids a second,
// and then some, so that the window rolls. It takes minutes and 2 GiB, hence its
// build tag: go test -tags hour -run '^$' -bench Hour -benchtime 500x ./dedup
func BenchmarkHour(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		b.Run(fmt.Sprintf("parts=%d", partitions), func(b *testing.B) {
			const rate, hours = 50_000, 1.25
			now := time.Now()
			l := newLedger()
			br := newBroker(b, l, 3600, Config{Now: func() time.Time { return now }, SweepEvery: time.Hour})
			rng := rand.NewChaCha8([32]byte{7})
			next := make([]int64, partitions)
			per := 5000
			var peak int64
			began := time.Now()
			for sent := 0; sent < rate*3600*hours; sent += per {
				p := sent / per % partitions
				now = now.Add(time.Duration(per) * time.Second / rate)
				h := randomHashes(rng, per)
				br.c.Committed(Commit{Partition: int64(p), WindowSeconds: 3600, Base: next[p], End: next[p] + int64(per) - 1, CreatedAt: now, Hashes: h})
				next[p] += int64(per)
				for settled := false; !settled; { // a broker would be slower than the merger
					e := br.c.lookup(int64(p))
					if e == nil {
						s := br.c.Stats()
						b.Fatalf("the entry is gone after %d ids: %+v", sent, s)
					}
					e.mu.Lock()
					settled = !e.merging || len(e.mem.blocks) < 32
					e.mu.Unlock()
					runtime.Gosched()
				}
				peak = max(peak, br.c.bytes.Load())
			}
			filled := time.Since(began)
			s := br.c.Stats()

			m := br.c.lookup(0).mem
			b.Logf("%+v", s)
			b.Logf("%d filters, %d blocks, %d planes", len(m.filters), len(m.blocks), m.planes)
			const each = 100
			spans, wide, asks := 0, int64(0), 0
			for b.Loop() { // one push of 100 new ids
				p := int64(asks % partitions)
				h := randomHashes(rng, each)
				a := br.c.Ask(Question{Partition: p, WindowSeconds: 3600, Hashes: h, Next: next[p]})
				for _, s := range a.Suspects {
					spans++
					wide += s.To - s.From + 1
				}
				if a.Verified < 0 {
					b.Fatalf("%+v", a)
				}
				asks++
			}
			b.ReportMetric(float64(s.Bytes)/float64(s.Hashes), "B/id")
			b.ReportMetric(float64(s.Hashes), "ids")
			b.ReportMetric(float64(peak), "peak-B")
			b.ReportMetric(filled.Seconds(), "fill-s")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(asks*each), "ns/id")
			b.ReportMetric(float64(spans)/float64(asks*each), "spans/id")
			b.ReportMetric(float64(wide)/float64(asks*each), "vain/id")
			runtime.GC()
			var ms runtime.MemStats
			runtime.ReadMemStats(&ms)
			b.ReportMetric(float64(ms.HeapAlloc), "heap-B")
		})
	}
}
