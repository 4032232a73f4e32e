package dedup

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// stocked is a cache with one partition of n random ids, merged as far as they will be.
func stocked(b *testing.B, n int) (*broker, []Hash) {
	b.Helper()
	br := newBroker(b, newLedger(), 3600, Config{})
	return br, stock(br, 0, n)
}

// stock fills a partition with n random ids and returns some of them.
func stock(br *broker, partition int64, n int) []Hash {
	rng := rand.NewChaCha8([32]byte{4, byte(partition)})
	var some []Hash
	for at := int64(0); at < int64(n); at += 1000 {
		h := randomHashes(rng, 1000)
		some = append(some, h[at/1000%1000])
		br.c.Committed(Commit{Partition: partition, WindowSeconds: 3600, Base: at, End: at + 999, CreatedAt: time.Now(), Hashes: h})
	}
	br.l.parts[partition] = []row{{base: 0, end: int64(n) - 1, created: time.Now()}}
	e := br.c.lookup(partition)
	for merging := true; merging; runtime.Gosched() {
		e.mu.Lock()
		merging = e.merging
		e.mu.Unlock()
	}
	return some
}

// BenchmarkPush is one push of 100 new ids that is stored, to one of some partitions.
func BenchmarkPush(b *testing.B) {
	for _, v := range []struct{ partitions, ids int }{{1, 10_000_000}, {12, 10_000_000}, {1000, 10_000_000}} {
		b.Run(fmt.Sprintf("parts=%d/ids=%d", v.partitions, v.ids), func(b *testing.B) {
			br := newBroker(b, newLedger(), 3600, Config{})
			each := v.ids / v.partitions / 1000 * 1000
			for p := range v.partitions {
				stock(br, int64(p), each)
			}
			next := make([]int64, v.partitions)
			rng := rand.NewChaCha8([32]byte{6})
			began := processTime(b)
			for i := 0; b.Loop(); i++ {
				p := i % v.partitions
				h := randomHashes(rng, 100)
				at := int64(each) + next[p]
				br.c.Ask(Question{Partition: int64(p), WindowSeconds: 3600, Hashes: h, Next: at})
				br.c.Committed(Commit{Partition: int64(p), WindowSeconds: 3600, Base: at, End: at + 99, CreatedAt: time.Now(), Hashes: h})
				next[p] += 100
			}
			b.ReportMetric(float64((processTime(b)-began).Nanoseconds())/float64(b.N)/100, "cpu-ns/id") // merges too
			s := br.c.Stats()
			b.ReportMetric(float64(s.Bytes)/float64(s.Hashes), "B/id")
		})
	}
}

// processTime is the processor time this process has taken.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAsk is one push of 100 ids.
func BenchmarkAsk(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000, 10_000_000} {
		br, known := stocked(b, n)
		rng := rand.NewChaCha8([32]byte{6})
		for _, dup := range []int{0, 50} {
			b.Run(fmt.Sprintf("cache=warm/ids=%d/dup=%d", n, dup), func(b *testing.B) {
				var spans, wide int64
				for b.Loop() {
					h := randomHashes(rng, 100)
					for i := range dup {
						h[i] = known[rng.Uint64()%uint64(len(known))]
					}
					for _, s := range br.ask(0, h).Suspects {
						spans++
						wide += s.To - s.From + 1
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/id")
				b.ReportMetric(float64(spans)/float64(b.N), "spans")
				b.ReportMetric(float64(wide)/float64(b.N), "offsets")
			})
		}
	}
	b.Run("cache=cold", func(b *testing.B) {
		br := newBroker(b, newLedger(), 3600, Config{})
		h := ids(0, 100)
		for p := int64(0); b.Loop(); p++ {
			br.c.Ask(Question{Partition: p, WindowSeconds: 3600, Hashes: h, Next: 10})
		}
	})
	b.Run("cache=off", func(b *testing.B) {
		br := newBroker(b, newLedger(), 3600, Config{Disabled: true})
		h := ids(0, 100)
		for b.Loop() {
			br.c.Ask(Question{WindowSeconds: 3600, Hashes: h, Next: 10})
		}
	})
}

// BenchmarkCommitted is one push of 100 ids that was stored; evicting: over the
// budget all the time, in as many partitions as do not fit.
func BenchmarkCommitted(b *testing.B) {
	for _, v := range []struct {
		state      string
		partitions int64
		bytes      int64
	}{{"warm", 1, 0}, {"warm", 10_000, 0}, {"evicting", 10_000, 4 << 20}} {
		b.Run(fmt.Sprintf("cache=%s/parts=%d", v.state, v.partitions), func(b *testing.B) {
			br := newBroker(b, newLedger(), 3600, Config{BytesMax: v.bytes, GuardFor: time.Nanosecond})
			rng := rand.NewChaCha8([32]byte{8})
			next := make([]int64, v.partitions)
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				p := i % v.partitions
				h := randomHashes(rng, 100)
				br.c.Committed(Commit{Partition: p, WindowSeconds: 3600, Base: next[p], End: next[p] + 99, CreatedAt: time.Now(), Hashes: h})
				next[p] += 100
			}
		})
	}
}

func BenchmarkFilterBuild(b *testing.B) {
	for _, n := range []int{16, 256} {
		blocks := spreadBlocks(rand.NewChaCha8([32]byte{9}), n, blockIDsMax)
		b.Run(fmt.Sprintf("ids=%d", n*blockIDsMax), func(b *testing.B) {
			var bl builder
			for b.Loop() {
				if _, err := bl.build(b.Context(), blocks, planesMax); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n*blockIDsMax), "ns/id")
		})
	}
}
