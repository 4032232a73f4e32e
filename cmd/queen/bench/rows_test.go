package bench

import (
	"context"
	"testing"
	"time"

	"queenmq/store/storetest"
)

func TestRowsRefuseAnIDTwiceAndNoticeDamage(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, storetest.URL(t), "rows")
	defer func() { _ = db.Close(context.Background()) }()
	r := &Rows{DB: db, Partitions: 3, Batch: 10, Connections: 2, Payload: payload(t, Text, 256), IDs: UUIDs}
	if err := r.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	round := func() error {
		return r.Round(t.Context(), Times{Duration: 30 * time.Millisecond}, NewMeter(2))
	}
	for r.batches.next[0] < 40 || r.batches.next[1] == 0 {
		if err := round(); err != nil {
			t.Fatal(err)
		}
	}
	v, err := r.Verify(t.Context())
	if err != nil || v.err() != nil || v.Read == 0 {
		t.Fatalf("verified %+v, %v, want all of them", v, err)
	}
	if _, err := db.conn.Exec(t.Context(), `UPDATE rows SET data = set_byte(data, 99, 255 - get_byte(data, 99)) WHERE seq = (SELECT min(seq) FROM rows)`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.conn.Exec(t.Context(), `DELETE FROM rows WHERE seq = (SELECT max(seq) FROM rows)`); err != nil {
		t.Fatal(err)
	}
	if v, err = r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v.Damaged != 1 || v.Missing != 2 || v.err() == nil {
		t.Errorf("verified %+v, want one damaged, and it and a deleted one missing", v)
	}
	// The same batch once more is no insert at all, and no throughput.
	r.batches.next[0] = 0
	if err := round(); err == nil {
		t.Error("ids that are stored were taken for new")
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
