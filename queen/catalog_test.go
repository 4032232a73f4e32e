package queen

import (
	"fmt"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestCatalogCountsWhatItHolds grows queues partition by partition, as pushes to
// new names do, past the bound and away again.
func TestCatalogCountsWhatItHolds(t *testing.T) {
	t.Parallel()
	c := newCatalog(storetest.New(t), 10)
	held := func() (n int) {
		for _, q := range c.byTopic {
			n += q.size()
		}
		return n
	}
	for i := range 8 {
		for _, queue := range []string{"a", "b"} {
			if _, err := c.named(t.Context(), queue, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if c.partitions != held() || held() > 10 {
			t.Fatalf("%d partitions are counted, %d held, 10 allowed", c.partitions, held())
		}
	}
	for _, q := range c.byTopic {
		c.drop(q)
	}
	if c.partitions != 0 {
		t.Errorf("%d partitions are counted, none is held", c.partitions)
	}
}

func TestCatalogKeepsTheNewerRow(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	c := newCatalog(db, 10)
	older, _, err := db.EnsurePartition(t.Context(), "q", "p")
	if err != nil {
		t.Fatal(err)
	}
	size := 2048
	newer, _, _, err := db.Configure(t.Context(), "q", store.QueuePatch{MaxMessageBytes: &size}, store.ConfigureMerge)
	if err != nil {
		t.Fatal(err)
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	for _, row := range []store.QueueRow{newer, older} { // as two that were read at once may come in
		q, err := c.load(t.Context(), row)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.describe().Options.MaxMessageBytes; got != size {
			t.Fatalf("the largest message is %d bytes, want %d", got, size)
		}
	}
}
