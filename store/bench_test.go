package store_test

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// BenchmarkAppend compares one call of append with a bare insert of the same
// bytes into a table of the same shape, on the same server, eight writers.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 25 << 10, 256 << 10, 1 << 20} {
		data := make([]byte, size)
		_, _ = rand.Read(data)
		for _, how := range []string{"bare", "append", "dedup"} {
			b.Run(fmt.Sprintf("size=%d/how=%s", size, how), func(b *testing.B) {
				cfg := storetest.Config(b)
				cfg.WriteConns = 8
				db := storetest.OpenConfig(b, cfg)
				pool := storetest.Pool(b, db)
				if _, err := pool.Exec(b.Context(), `CREATE TABLE bare (a bigint, b bigint, data bytea NOT NULL, PRIMARY KEY (a, b));
					ALTER TABLE bare ALTER COLUMN data SET STORAGE EXTERNAL`); err != nil {
					b.Fatal(err)
				}
				parts := make([]int64, 8)
				for i := range parts {
					_, p, err := db.EnsurePartition(b.Context(), "q", fmt.Sprint(i))
					if err != nil {
						b.Fatal(err)
					}
					parts[i] = p.ID
				}
				var writer atomic.Int64
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.SetParallelism(4) // times GOMAXPROCS
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					w := writer.Add(1) - 1
					next, n := int64(0), int64(0)
					for pb.Next() {
						n++
						if how == "bare" {
							if _, err := pool.Exec(b.Context(), `INSERT INTO bare VALUES ($1, $2, $3)`, w, n, data); err != nil {
								b.Error(err)
							}
							continue
						}
						s := store.Segment{
							Partition: parts[w%8], Epoch: db.Incarnation().Epoch, Known: next, Window: 3600, Verified: next - 1,
							IDHi: w<<40 | 7<<12, IDLo: n << 20, Header: make([]byte, 24+32), Data: data,
							Parts: []store.Part{{Bytes: int32(size), Batches: 1, Span: 100, Records: 100, Producer: -1}},
						}
						if how == "dedup" {
							s.Hashes = make([][16]byte, 100)
							for i := range s.Hashes {
								s.Hashes[i] = hash(int(n)*100 + i)
							}
						}
						r, err := db.Append(b.Context(), []store.Segment{s}, true)
						if err != nil || r[0].Status != store.SegmentStored {
							b.Error(err, r)
							return
						}
						next = r[0].Next
					}
				})
			})
		}
	}
}

// BenchmarkBuildRun sorts the ids of segments of 100 into a run, one run after the other
// in one partition, merges included.
func BenchmarkBuildRun(b *testing.B) {
	db := storetest.New(b)
	_, p, err := db.EnsurePartition(b.Context(), "q", "p")
	if err != nil {
		b.Fatal(err)
	}
	next, n := int64(0), int64(0)
	for b.Loop() {
		b.StopTimer()
		for range store.RunIDs / 1000 * 2 {
			n++
			s := store.Segment{
				Partition: p.ID, Epoch: db.Incarnation().Epoch, Known: next, Window: 3600, Verified: next - 1,
				IDHi: 7 << 12, IDLo: n << 20, Header: make([]byte, 24+32), Data: []byte{0},
				Parts:  []store.Part{{Bytes: 1, Batches: 1, Span: 500, Records: 500, Producer: -1}},
				Hashes: make([][16]byte, 500),
			}
			for i := range s.Hashes {
				_, _ = rand.Read(s.Hashes[i][:])
			}
			r, err := db.Append(b.Context(), []store.Segment{s}, true)
			if err != nil || r[0].Status != store.SegmentStored {
				b.Fatal(err, r)
			}
			next = r[0].Next
		}
		b.StartTimer()
		for more := true; more; {
			if more, err = db.BuildRun(b.Context(), p.ID); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(next), "ns/id")
}

// BenchmarkColdProbe pushes a hundred new ids to a partition that holds ten million in
// its window, of which nobody vouches for any.
func BenchmarkColdProbe(b *testing.B) {
	const stored, each = 10_000_000, 10_000
	db := storetest.New(b)
	_, p, err := db.EnsurePartition(b.Context(), "q", "p")
	if err != nil {
		b.Fatal(err)
	}
	next, n := int64(0), int64(0)
	push := func(ids int32, verified int64) {
		n++
		s := store.Segment{
			Partition: p.ID, Epoch: db.Incarnation().Epoch, Known: next, Window: 3600, Verified: verified,
			IDHi: 7 << 12, IDLo: n << 20, Header: make([]byte, 24+32), Data: []byte{0},
			Parts:  []store.Part{{Bytes: 1, Batches: 1, Span: ids, Records: ids, Producer: -1}},
			Hashes: make([][16]byte, ids),
		}
		for i := range s.Hashes {
			_, _ = rand.Read(s.Hashes[i][:])
		}
		r, err := db.Append(b.Context(), []store.Segment{s}, true)
		if err != nil || r[0].Status != store.SegmentStored {
			b.Fatal(err, r)
		}
		next = r[0].Next
	}
	for next < stored {
		push(each, next-1)
	}
	for more := true; more; {
		if more, err = db.BuildRun(b.Context(), p.ID); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		push(100, -1)
	}
}
