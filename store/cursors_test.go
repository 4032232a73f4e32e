package store_test

import (
	"slices"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

func TestCommitCursorsStoresWhatExists(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	p := partitions(t, db, "q", 3)
	gone := createQueue(t, db, "gone", 1)
	goneParts, err := db.Partitions(t.Context(), gone.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CommitCursors(t.Context(), "g", store.Fence{}, []store.CursorRow{{Partition: goneParts[0].ID, Offset: 1}}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := db.DeleteQueue(t.Context(), gone.ID); err != nil {
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
			return a.Partition == b.Partition && a.Number == b.Number && a.Offset == b.Offset && a.Queue == "q" &&
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
