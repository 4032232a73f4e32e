package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// stored describes a segment a test puts into the log by hand.
type stored struct {
	records int   // offsets it takes
	size    int   // bytes
	maxTS   int64 // running maximum
	epoch   int32
}

// fill appends segments to a partition and returns their ends.
func fill(t *testing.T, pool *pgxpool.Pool, partition int64, segs ...stored) []int64 {
	t.Helper()
	var next int64
	if err := pool.QueryRow(t.Context(), `SELECT COALESCE(max(end_offset) + 1, 0) FROM log_txns WHERE partition_id = $1`, partition).Scan(&next); err != nil {
		t.Fatal(err)
	}
	var ends, bases, maxTS []int64
	var epochs, records, sizes []int32
	for _, s := range segs {
		bases = append(bases, next)
		next += int64(s.records)
		ends = append(ends, next-1)
		maxTS = append(maxTS, s.maxTS)
		epochs = append(epochs, s.epoch)
		records = append(records, int32(s.records))
		sizes = append(sizes, int32(s.size))
	}
	_, err := pool.Exec(t.Context(), `
		WITH s AS (SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::integer[])
		                       AS s(end_offset, base_offset, max_ts, epoch, records, size)),
		     t AS (INSERT INTO log_txns SELECT $1, end_offset, base_offset, now(), max_ts, 0, 0, '{}' FROM s)
		INSERT INTO log_segments
		SELECT $1, end_offset, base_offset, now(), max_ts, epoch, records, size, 'header', convert_to(repeat((end_offset % 10)::text, size), 'UTF8') FROM s`,
		partition, ends, bases, maxTS, epochs, records, sizes)
	if err != nil {
		t.Fatal(err)
	}
	return ends
}

func partitions(t *testing.T, db *store.DB, name string, n int) []int64 {
	t.Helper()
	q := createQueue(t, db, name, n)
	rows, err := db.Partitions(t.Context(), q.ID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, n)
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

func TestReadBoundsBytesAndReturnsFirstWhole(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 4)
	for _, id := range p[:2] {
		fill(t, pool, id, stored{records: 10, size: 3000}, stored{records: 5, size: 100}, stored{records: 1, size: 100}, stored{records: 1, size: 100})
	}
	const missing = 1 << 40
	// ends returns the last offsets of the segments of each span.
	ends := func(bytesMax int, spans ...store.ReadSpan) [][]int64 {
		t.Helper()
		reads, err := db.Read(t.Context(), spans, bytesMax)
		if err != nil {
			t.Fatal(err)
		}
		var all [][]int64
		for i, r := range reads {
			if r.Found != (spans[i].Partition != missing) {
				t.Errorf("span %d: found is %v", i, r.Found)
			}
			var e []int64
			for _, s := range r.Segments {
				e = append(e, s.End)
				want := bytes.Repeat([]byte(strconv.FormatInt(s.End%10, 10)), s.Size)
				if s.Partition != spans[i].Partition || s.Base+int64(s.Records)-1 != s.End || !bytes.Equal(s.Data, want) || string(s.Header) != "header" {
					t.Errorf("span %d: segment %d of partition %d is not what was stored", i, s.End, s.Partition)
				}
			}
			all = append(all, e)
		}
		return all
	}
	check := func(got [][]int64, want ...[]int64) {
		t.Helper()
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	const much = 1 << 20
	check(ends(much, store.ReadSpan{p[0], 0, much}), []int64{9, 14, 15, 16})
	check(ends(much, store.ReadSpan{p[0], 9, much}), []int64{9, 14, 15, 16}) // the last offset of a segment
	check(ends(much, store.ReadSpan{p[0], 10, much}), []int64{14, 15, 16})
	check(ends(much, store.ReadSpan{p[0], 17, much}), nil) // at the end
	check(ends(much, store.ReadSpan{p[0], 0, 1}), []int64{9})
	check(ends(much, store.ReadSpan{p[0], 0, 3199}), []int64{9, 14})
	check(ends(much, store.ReadSpan{p[0], 0, 3200}), []int64{9, 14, 15})
	check(ends(1, store.ReadSpan{p[0], 0, much}), []int64{9})
	check(ends(1, store.ReadSpan{p[2], 0, much}, store.ReadSpan{p[0], 0, much}, store.ReadSpan{p[1], 0, much}), nil, []int64{9}, nil)
	check(ends(300, store.ReadSpan{p[0], 14, 200}, store.ReadSpan{p[1], 10, much}), []int64{14, 15}, []int64{14})
	check(ends(much, store.ReadSpan{missing, 0, much}, store.ReadSpan{p[1], 16, much}, store.ReadSpan{p[1], 16, much}), nil, []int64{16}, []int64{16})
	check(ends(much))

	if _, err := pool.Exec(t.Context(), `UPDATE log_partitions SET start_offset = 12 WHERE id = $1`, p[0]); err != nil {
		t.Fatal(err)
	}
	check(ends(much, store.ReadSpan{p[0], 11, much}, store.ReadSpan{p[0], 12, much}), nil, []int64{14, 15, 16})
	reads, err := db.Read(t.Context(), []store.ReadSpan{{p[0], 3, 1}, {p[3], 0, 1}}, 1)
	if err != nil || reads[0].LogStart != 12 || reads[0].NextOffset != 17 || reads[0].LastStable != 17 || reads[1].LogStart != 0 || reads[1].NextOffset != 0 {
		t.Errorf("marks are %+v, %v", reads, err)
	}
}

// What a read walks is what it gives, not what each of its partitions could give:
// of a thousand that are behind by small segments it took seconds, and then too long.
func TestReadOfManyPartitionsWalksWhatItGives(t *testing.T) {
	t.Parallel()
	const parts, rows = 20, 50
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", parts)
	var spans []store.ReadSpan
	for _, id := range p {
		fill(t, pool, id, slices.Repeat([]stored{{records: 1, size: 100}}, rows)...)
		spans = append(spans, store.ReadSpan{Partition: id, MaxBytes: 1 << 20})
	}
	text, err := os.ReadFile("query/segment_read.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ bytes, walked, given int }{{100, parts, 1}, {1000, parts, 10}, {2500, 2 * parts, 25}} {
		args := fmt.Sprintf("'{%s}', '{%s}', '{%s}', %d", join(p), join(make([]int64, parts)), join(slices.Repeat([]int64{1 << 20}, parts)), c.bytes)
		if n := rowsRead(t, pool, string(text), "bigint[], bigint[], bigint[], bigint", args, "log_segments"); n != c.walked {
			t.Errorf("%d bytes of %d partitions: %d segments were walked, want %d", c.bytes, parts, n, c.walked)
		}
		reads, err := db.Read(t.Context(), spans, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		given := 0
		for _, r := range reads {
			given += len(r.Segments)
		}
		if given != c.given {
			t.Errorf("%d bytes of %d partitions: %d segments were given, want %d", c.bytes, parts, given, c.given)
		}
	}
}

// Small segments are given by the ten thousand, not by the million.
func TestReadEndsAfterManyRows(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 2)
	exec(t, pool, `INSERT INTO log_segments SELECT $1, n, n, clock_timestamp(), n, 1, 1, 1, '', '' FROM generate_series(0, 59999) n`, p[1])
	exec(t, pool, `INSERT INTO log_txns SELECT $1, 59999, 0, clock_timestamp(), 1, 1, 1, '{}'`, p[1])
	const much = 1 << 20
	read := func(from int64) int {
		t.Helper()
		reads, err := db.Read(t.Context(), []store.ReadSpan{{Partition: p[0], MaxBytes: much}, {Partition: p[1], Offset: from, MaxBytes: much}}, much)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range reads[1].Segments {
			if s.End != from+int64(i) {
				t.Fatalf("segment %d from %d ends at %d", i, from, s.End)
			}
		}
		return len(reads[1].Segments)
	}
	if n := read(0); n != 50_000 {
		t.Errorf("%d segments in one read, want 50,000", n)
	}
	if n := read(50_000); n != 10_000 {
		t.Errorf("%d segments behind them, want the other 10,000", n)
	}
}

// join writes an array for PostgreSQL, without its braces.
func join(n []int64) string {
	var b []byte
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	return string(b)
}

func TestMarks(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 3)
	fill(t, pool, p[1], stored{records: 4, size: 1, epoch: 2}, stored{records: 2, size: 1, epoch: 3})
	fill(t, pool, p[2], stored{records: 1, size: 1, epoch: 7})
	for _, sql := range []string{
		`UPDATE log_partitions SET start_offset = 1 WHERE number = 2`,
		`DELETE FROM log_segments WHERE leader_epoch = 7`, // all data aged out, the sidecar's last row stays
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	got, err := db.Marks(t.Context(), []int64{p[2], 1 << 40, p[1], p[0], p[1]})
	here := db.Incarnation().Epoch
	want := []store.Mark{{true, here, 1, 1, -1}, {}, {true, here, 0, 6, 3}, {true, here, 0, 0, -1}, {true, here, 0, 6, 3}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Marks = %v, %v; want %v", got, err, want)
	}
}

func TestTimeAndEpochSearchAgreeWithScan(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	rng := rand.New(rand.NewPCG(1, 2))
	for round, id := range partitions(t, db, "q", 12) {
		var segs []stored
		ts, epoch := int64(100), int32(1)
		for range round * 3 {
			if rng.IntN(2) == 0 {
				ts += int64(rng.IntN(4))
			}
			if rng.IntN(5) == 0 {
				epoch += 1 + int32(rng.IntN(2))
			}
			segs = append(segs, stored{records: 1 + rng.IntN(rng.IntN(30)+1), size: 1, maxTS: ts, epoch: epoch})
		}
		ends := fill(t, pool, id, segs...)
		var logStart int64
		if len(ends) > 5 && round%2 == 0 {
			logStart = ends[2] - 1
			if _, err := pool.Exec(t.Context(), `UPDATE log_partitions SET start_offset = $2 WHERE id = $1`, id, logStart); err != nil {
				t.Fatal(err)
			}
		}
		first := func(ok func(stored) bool) int64 { // the end of the first segment that qualifies
			for i, s := range segs {
				if ends[i] >= logStart && ok(s) {
					return ends[i]
				}
			}
			return -1
		}
		end := func(s store.SegmentRow, err error) int64 {
			if errors.Is(err, store.ErrNotFound) {
				return -1
			}
			if err != nil {
				t.Fatal(err)
			}
			return s.End
		}
		for at := int64(98); at <= ts+1; at++ {
			want := first(func(s stored) bool { return s.maxTS >= at })
			if got := end(db.SegmentAtTime(t.Context(), id, at)); got != want {
				t.Errorf("round %d: SegmentAtTime(%d) ends at %d, want %d", round, at, got, want)
			}
		}
		want := first(func(s stored) bool { return s.maxTS == ts })
		if got := end(db.MaxTimestampSegment(t.Context(), id)); got != want {
			t.Errorf("round %d: MaxTimestampSegment ends at %d, want %d", round, got, want)
		}
		for e := int32(0); e <= epoch+1; e++ {
			wantEpoch, wantEnd := e, int64(0) // older than all there is: it ended where the log begins
			if len(segs) == 0 {
				wantEpoch, wantEnd = -1, -1
			}
			for i, s := range segs {
				if s.epoch <= e {
					wantEpoch, wantEnd = s.epoch, ends[i]+1
				}
			}
			found, end, ok, err := db.EpochEnd(t.Context(), id, e)
			if err != nil || found != wantEpoch || end != wantEnd || ok != (wantEnd >= 0) {
				t.Errorf("round %d: EpochEnd(%d) = %d, %d, %v, %v; want %d, %d", round, e, found, end, ok, err, wantEpoch, wantEnd)
			}
		}
	}
}

// However many read segments, a connection is left to what is short.
func TestReadsOfSegmentsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	db := openNamed(t, storetest.Config(t), nil)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	release := holdTable(t, pool, "log_segments")
	defer release()
	var wg sync.WaitGroup
	for range 4 * db.Config().ReadConns {
		wg.Go(func() {
			if _, err := db.Read(t.Context(), []store.ReadSpan{{Partition: p[0], MaxBytes: 1}}, 1); err != nil {
				t.Errorf("Read: %v", err)
			}
		})
	}
	backend(t, pool, db, waiting)
	if _, err := db.CatalogVersion(t.Context()); err != nil {
		t.Errorf("CatalogVersion beside them: %v", err)
	}
	release()
	wg.Wait()
}
