package store_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

func TestCommitCursorsStoresWhatExists(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	p := partitions(t, db, "q", 3)
	pool := storetest.Pool(t, db)
	fill(t, pool, p[0], stored{records: 9, size: 1, epoch: 1})
	fill(t, pool, p[2], stored{records: 9, size: 1, epoch: 1})
	gone := createQueue(t, db, "gone", 1)
	goneParts, err := db.Partitions(t.Context(), gone.ID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CommitCursors(t.Context(), "g", store.Fence{}, []store.CursorRow{{Partition: goneParts[0].ID, Offset: 1}}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := db.DeleteQueue(t.Context(), uuid.New(), gone.ID); err != nil {
		t.Fatal(err)
	}
	got, err := db.CommitCursors(t.Context(), "g", store.Fence{}, []store.CursorRow{
		{Partition: p[2], Offset: 5, Epoch: 3, Metadata: []byte("m\x00")},
		{Partition: 1 << 40, Offset: 5},
		{Partition: goneParts[0].ID, Offset: 5},
		{Partition: p[0], Offset: 9, Epoch: -1},
		{Partition: p[0], Offset: 4, Epoch: -1}, // the later one counts, also backwards
	}, true)
	if want := []bool{false, true, true, false, false}; err != nil || !slices.Equal(got, want) {
		t.Errorf("CommitCursors = %v, %v; want %v", got, err, want)
	}
	if _, err := db.CommitCursors(t.Context(), "other", store.Fence{}, []store.CursorRow{{Partition: p[1], Offset: 1}}, true); err != nil {
		t.Fatal(err)
	}
	check := func(rows []store.CursorRow, err error, want ...store.CursorRow) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(rows, want, func(a, b store.CursorRow) bool {
			return a.Partition == b.Partition && a.Number == b.Number && a.Offset == b.Offset && a.Committed == b.Offset && a.Queue == "q" &&
				a.Epoch == b.Epoch && string(a.Metadata) == string(b.Metadata) && a.Kafka && !a.CommittedAt.IsZero()
		}) {
			t.Errorf("got %+v, want %+v", rows, want)
		}
	}
	zero := store.CursorRow{Partition: p[0], Offset: 4, Epoch: -1}
	two := store.CursorRow{Partition: p[2], Number: 2, Offset: 5, Epoch: 3, Metadata: []byte("m\x00")}
	rows, err := db.Cursors(t.Context(), "g", nil)
	check(rows, err, zero, two)
	rows, err = db.Cursors(t.Context(), "g", []int64{p[2], p[1], 1 << 40})
	check(rows, err, two)
	rows, err = db.Cursors(t.Context(), "g", []int64{})
	check(rows, err)
}

func TestNewProducerIDNeverRepeats(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	other := storetest.Open(t, db)
	seen := map[int64]bool{}
	for i := range 20 {
		id, err := []*store.DB{db, other}[i%2].NewProducerID(t.Context())
		if err != nil || id < 1 || seen[id] {
			t.Fatalf("id %d, %v; seen %v", id, err, seen)
		}
		seen[id] = true
	}
}

// TestCommitOfWhatWasLostIsNotOneOfWhatIsThere: after a failover that lost the end of
// a log its offsets are given again. Who had read the lost ones has not read those.
func TestCommitOfWhatWasLostIsNotOneOfWhatIsThere(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	exec(t, pool, `UPDATE cluster SET epoch = 9`)
	p := partitions(t, db, "q", 2)
	// 0–9 of epoch 2, 10–13 of 3, 14–17 of 7.
	fill(t, pool, p[0], stored{records: 10, size: 1, epoch: 2}, stored{records: 4, size: 1, epoch: 3}, stored{records: 4, size: 1, epoch: 7})
	f := func(partition, offset int64, epoch int32, want int64) {
		t.Helper()
		gone, err := db.CommitCursors(t.Context(), "g", store.Fence{}, []store.CursorRow{{Partition: partition, Offset: offset, Epoch: epoch}}, true)
		if err != nil || gone[0] {
			t.Fatal(gone, err)
		}
		rows, err := db.Cursors(t.Context(), "g", []int64{partition})
		if err != nil || rows[0].Offset != want || rows[0].Committed != offset || rows[0].Epoch != epoch {
			t.Errorf("commit of %d, epoch %d: %+v, %v; want the group at %d", offset, epoch, rows, err, want)
		}
	}
	f(p[0], 10, 2, 10) // read to where its epoch ended
	f(p[0], 12, 2, 10) // and two that were lost
	f(p[0], 18, 2, 10)
	f(p[0], 12, 3, 12)
	f(p[0], 16, 5, 14) // an epoch that left nothing
	f(p[0], 16, 1, 0)
	f(p[0], 18, 7, 18)
	f(p[0], 16, 9, 16) // above all there is: nothing says that it was lost
	f(p[0], 16, -1, 16)
	f(p[0], 30, 3, 14)
	f(p[0], 30, 9, 18)
	f(p[0], 16, 0, 16) // no epoch of ours
	f(p[0], 0, 2, 0)
	f(p[0], math.MinInt64, 2, math.MinInt64)
	f(p[1], 3, 2, 0) // nothing was ever written
	f(p[1], 0, -1, 0)
}
