package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"

	"queenmq/store"
	"queenmq/store/storetest"
)

// createQueue creates a fixed queue with n partitions and returns it.
func createQueue(t *testing.T, db *store.DB, name string, n int) store.QueueRow {
	t.Helper()
	o := store.DefaultQueueOptions()
	o.DedupWindowSeconds, o.WindowFrom = 0, "kafka"
	q, err := db.CreateQueue(t.Context(), uuid.New(), store.NewQueue{Name: name, Fixed: true, Partitions: n, QueueOptions: o})
	if err != nil {
		t.Fatalf("CreateQueue: %v", err)
	}
	return q
}

func TestCreateQueueMakesFixedPartitions(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	before, err := db.CatalogVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q := createQueue(t, db, "orders", 12)
	if !q.Fixed || q.Partitions != 12 || q.DedupWindowSeconds != 0 || q.WindowFrom != "kafka" || q.TopicID == (uuid.UUID{}) {
		t.Errorf("created %+v", q)
	}
	parts, err := db.Partitions(t.Context(), q.ID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		if p.Number != i || p.Name != strconv.Itoa(i) || p.LogStart != 0 || p.NextOffset != 0 || p.QueueID != q.ID {
			t.Errorf("partition %d is %+v", i, p)
		}
	}
	if len(parts) != 12 {
		t.Errorf("%d partitions, want 12", len(parts))
	}
	changed, err := db.ChangedQueues(t.Context(), before)
	if err != nil || len(changed.Queues) != 1 || !reflect.DeepEqual(changed.Queues[0], q) || changed.Version != q.Version {
		t.Errorf("ChangedQueues = %+v, %v; want the new queue", changed, err)
	}
	byID, err := db.Queues(t.Context(), nil, []uuid.UUID{q.TopicID, uuid.New()})
	if err != nil || len(byID) != 1 || !reflect.DeepEqual(byID[0], q) {
		t.Errorf("Queues by topic id = %+v, %v", byID, err)
	}
	_, err = db.CreateQueue(t.Context(), uuid.New(), store.NewQueue{Name: "orders", Fixed: true, Partitions: 1, QueueOptions: q.QueueOptions})
	if !errors.Is(err, store.ErrExists) {
		t.Errorf("second CreateQueue: %v, want ErrExists", err)
	}
	if _, _, err := db.EnsurePartition(t.Context(), "orders", "12"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("EnsurePartition of a fixed queue: %v, want ErrNotFound", err)
	}
}

// Numbers are dense and in the order of the names, whatever is there already and
// whoever else makes some.
func TestEnsurePartitionsMakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	names := func(q store.QueueRow) (out []string) {
		t.Helper()
		rows, err := db.Partitions(t.Context(), q.ID, 0, 1000)
		if err != nil || len(rows) != q.Partitions {
			t.Fatalf("%d partitions, %v; the queue has %d", len(rows), err, q.Partitions)
		}
		for i, r := range rows {
			if r.Number != i || i > 0 && r.ID <= rows[i-1].ID {
				t.Errorf("partition %d has number %d and id %d after %d", i, r.Number, r.ID, rows[max(i-1, 0)].ID)
			}
			out = append(out, r.Name)
		}
		return out
	}
	for _, c := range []struct{ ask, want []string }{
		{[]string{"b", "a", "b", "c"}, []string{"b", "a", "c"}},
		{[]string{"c", "z", "a", "d"}, []string{"b", "a", "c", "z", "d"}},
		{[]string{"d"}, []string{"b", "a", "c", "z", "d"}},
	} {
		q, err := db.EnsurePartitions(t.Context(), "q", c.ask)
		if err != nil || q.Name != "q" || q.Fixed {
			t.Fatalf("%+v, %v; want a native queue", q, err)
		}
		if got := names(q); !slices.Equal(got, c.want) {
			t.Errorf("after %q there are %q, want %q", c.ask, got, c.want)
		}
	}
	fixed := createQueue(t, db, "f", 1)
	if q, err := db.EnsurePartitions(t.Context(), "f", []string{"0", "x"}); err != nil || q.Version != fixed.Version || len(names(q)) != 1 {
		t.Errorf("%+v, %v; want a fixed queue left as it is", q, err)
	}
}

func TestEnsurePartitionOnceForTwentyCallers(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	other := storetest.Open(t, db)
	var mu sync.Mutex
	ids := map[string]map[int64]bool{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 5 {
				name := fmt.Sprintf("p%d", (i+j)%5)
				q, p, err := []*store.DB{db, other}[i%2].EnsurePartition(t.Context(), "native", name)
				if err != nil {
					t.Errorf("EnsurePartition: %v", err)
					return
				}
				if q.Fixed || q.DedupWindowSeconds != 3600 || q.WindowFrom != "default" || p.Name != name {
					t.Errorf("made %+v with %+v", q, p)
				}
				mu.Lock()
				if ids[name] == nil {
					ids[name] = map[int64]bool{}
				}
				ids[name][p.ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for name, set := range ids {
		if len(set) != 1 {
			t.Errorf("partition %s has %d ids, want 1", name, len(set))
		}
	}
	qs, err := db.AllQueues(t.Context())
	if err != nil || len(qs) != 1 || qs[0].Partitions != 5 {
		t.Fatalf("AllQueues = %+v, %v; want one queue with 5 partitions", qs, err)
	}
	parts, err := db.Partitions(t.Context(), qs[0].ID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, p := range parts {
		numbers = append(numbers, p.Number)
	}
	if !slices.Equal(numbers, []int{0, 1, 2, 3, 4}) {
		t.Errorf("numbers are %v, want dense from 0", numbers)
	}
	found, err := db.PartitionByName(t.Context(), qs[0].ID, "p3")
	if err != nil || !ids["p3"][found.ID] {
		t.Errorf("PartitionByName = %+v, %v", found, err)
	}
}

func TestConfigureReplacesOrMerges(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	window, size, keep := 60, 5000, int64(1000)
	after, _, created, err := db.Configure(t.Context(), uuid.New(), "q", store.QueuePatch{DedupWindowSeconds: &window, RetentionMs: &keep}, store.ConfigureReplace)
	if err != nil || !created || after.DedupWindowSeconds != 60 || after.WindowFrom != "configured" || after.RetentionMs != 1000 {
		t.Fatalf("first: %+v, created %v, %v", after, created, err)
	}
	t.Run("merge keeps", func(t *testing.T) {
		got, before, created, err := db.Configure(t.Context(), uuid.New(), "q", store.QueuePatch{MaxMessageBytes: &size}, store.ConfigureMerge)
		want := after
		want.MaxMessageBytes, want.Version = 5000, got.Version
		if err != nil || created || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(before, after) {
			t.Errorf("got %+v before %+v created %v, %v; want %+v", got, before, created, err, want)
		}
	})
	t.Run("replace resets", func(t *testing.T) {
		got, before, _, err := db.Configure(t.Context(), uuid.New(), "q", store.QueuePatch{}, store.ConfigureReplace)
		if err != nil || got.DedupWindowSeconds != 3600 || got.WindowFrom != "default" || got.RetentionMs != -1 ||
			got.MaxMessageBytes != 1048588 || before.MaxMessageBytes != 5000 {
			t.Errorf("got %+v before %+v, %v", got, before, err)
		}
	})
	t.Run("merges at once keep each other's keys", func(t *testing.T) {
		var wg sync.WaitGroup
		for _, p := range []store.QueuePatch{{DedupWindowSeconds: &window}, {MaxMessageBytes: &size}, {RetentionMs: &keep}} {
			wg.Go(func() {
				if _, _, _, err := db.Configure(t.Context(), uuid.New(), "many", p, store.ConfigureMerge); err != nil {
					t.Errorf("Configure: %v", err)
				}
			})
		}
		wg.Wait()
		got, err := db.Queues(t.Context(), []string{"many"}, nil)
		if err != nil || len(got) != 1 || got[0].DedupWindowSeconds != 60 || got[0].MaxMessageBytes != 5000 || got[0].RetentionMs != 1000 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// TestEveryOptionIsStored sets each option away from its default, as a patch
// and at creation, and reads it back.
func TestEveryOptionIsStored(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	_, fresh, err := func() (store.QueueRow, store.QueueRow, error) {
		after, before, _, err := db.Configure(t.Context(), uuid.New(), "fresh", store.QueuePatch{}, store.ConfigureMerge)
		return after, before, err
	}()
	if err != nil || !reflect.DeepEqual(fresh.QueueOptions, store.DefaultQueueOptions()) {
		t.Errorf("the table's defaults are %+v, want %+v, %v", fresh.QueueOptions, store.DefaultQueueOptions(), err)
	}
	want := store.QueueOptions{
		DedupWindowSeconds: 7, WindowFrom: "kafka", DedupSource: "none", DedupMaxIDs: 11, MaxMessageBytes: 13,
		RetentionMs: 17, RetentionBytes: 19, CompletedRetentionSeconds: 23,
		LogAppendTime: true, TimestampBeforeMaxMs: 31, TimestampAfterMaxMs: 37, Configs: map[string]string{"segment.ms": "29"},
		CleanupDelete: true, CleanupCompact: true, CompactionLagMinMs: 41, CompactionLagMaxMs: 43, TombstoneRetentionMs: 47,
		DirtyRatioMin: 0.25, Compression: "zstd",
		LeaseSeconds: 53, RetryLimit: 59, RetryDelayMs: 61, DelaySeconds: 67, RetentionGroups: []string{"g"},
		Namespace: "n", Task: "t",
	}
	if v := reflect.ValueOf(want); !allSet(v) {
		t.Fatalf("%+v leaves an option out", want)
	}
	sourced := want // exclude each other
	sourced.DedupSource, sourced.CleanupCompact, sourced.CleanupDelete = "header:id", false, true
	only := want
	only.CleanupDelete = false
	for name, want := range map[string]store.QueueOptions{"made": want, "sourced": sourced, "only compacted": only} {
		made, err := db.CreateQueue(t.Context(), uuid.New(), store.NewQueue{Name: name, Fixed: true, QueueOptions: want})
		if err != nil || !reflect.DeepEqual(made.QueueOptions, want) {
			t.Errorf("created with %+v, %v; want %+v", made.QueueOptions, err, want)
		}
	}
	both := sourced
	both.CleanupCompact = true
	if _, err := db.CreateQueue(t.Context(), uuid.New(), store.NewQueue{Name: "both", Fixed: true, QueueOptions: both}); !errors.Is(err, store.ErrSourceOrCompact) {
		t.Errorf("ids of records in a compacted queue: %v, want ErrSourceOrCompact", err)
	}
	value := "29"
	patch := store.QueuePatch{
		DedupWindowSeconds: &want.DedupWindowSeconds, WindowFrom: &want.WindowFrom, DedupSource: &want.DedupSource,
		DedupMaxIDs: &want.DedupMaxIDs, MaxMessageBytes: &want.MaxMessageBytes, RetentionMs: &want.RetentionMs,
		RetentionBytes: &want.RetentionBytes, CompletedRetentionSeconds: &want.CompletedRetentionSeconds,
		LogAppendTime: &want.LogAppendTime, TimestampBeforeMaxMs: &want.TimestampBeforeMaxMs, TimestampAfterMaxMs: &want.TimestampAfterMaxMs,
		CleanupDelete: &want.CleanupDelete, CleanupCompact: &want.CleanupCompact, CompactionLagMinMs: &want.CompactionLagMinMs,
		CompactionLagMaxMs: &want.CompactionLagMaxMs, TombstoneRetentionMs: &want.TombstoneRetentionMs,
		DirtyRatioMin: &want.DirtyRatioMin, Compression: &want.Compression,
		LeaseSeconds: &want.LeaseSeconds, RetryLimit: &want.RetryLimit, RetryDelayMs: &want.RetryDelayMs,
		DelaySeconds: &want.DelaySeconds, RetentionGroups: &want.RetentionGroups, Namespace: &want.Namespace, Task: &want.Task,
		Configs: map[string]*string{"segment.ms": &value},
	}
	if !allSet(reflect.ValueOf(patch)) {
		t.Fatalf("%+v leaves an option out", patch)
	}
	for _, mode := range []store.ConfigureMode{store.ConfigureExisting, store.ConfigureMerge, store.ConfigureReplace} {
		name := fmt.Sprint("patched", mode)
		if _, _, _, err := db.Configure(t.Context(), uuid.New(), name, store.QueuePatch{}, store.ConfigureMerge); err != nil {
			t.Fatal(err)
		}
		got, _, created, err := db.Configure(t.Context(), uuid.New(), name, patch, mode)
		if err != nil || created || !reflect.DeepEqual(got.QueueOptions, want) {
			t.Errorf("mode %d: %+v, created %v, %v; want %+v", mode, got.QueueOptions, created, err, want)
		}
		got, _, _, err = db.Configure(t.Context(), uuid.New(), name, store.QueuePatch{Configs: map[string]*string{"segment.ms": nil}}, store.ConfigureMerge)
		if err != nil || len(got.Configs) != 0 || got.RetentionMs != 17 {
			t.Errorf("mode %d: a config taken away left %+v, %v", mode, got.QueueOptions, err)
		}
	}
}

func allSet(v reflect.Value) bool {
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			return false
		}
	}
	return true
}

func TestConfigureRefusesWhatDoesNotGoTogether(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	if _, _, _, err := db.Configure(t.Context(), uuid.New(), "absent", store.QueuePatch{}, store.ConfigureExisting); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a queue that is not there: %v, want ErrNotFound", err)
	}
	if qs, err := db.AllQueues(t.Context()); err != nil || len(qs) != 0 {
		t.Errorf("queues %+v, %v; want none made", qs, err)
	}
	zero, source := 0, "key"
	q, _, _, err := db.Configure(t.Context(), uuid.New(), "q", store.QueuePatch{DedupSource: &source}, store.ConfigureReplace)
	if err != nil || q.DedupSource != "key" {
		t.Fatalf("%+v, %v", q, err)
	}
	_, _, _, err = db.Configure(t.Context(), uuid.New(), "q", store.QueuePatch{DedupWindowSeconds: &zero}, store.ConfigureMerge)
	if !errors.Is(err, store.ErrSourceNeedsWindow) {
		t.Errorf("window 0 where keys are ids: %v, want ErrSourceNeedsWindow", err)
	}
	if after, err := db.Queues(t.Context(), []string{"q"}, nil); err != nil || !reflect.DeepEqual(after[0], q) {
		t.Errorf("refused, and yet %+v became %+v, %v", q, after, err)
	}
}

// On a full disk no table gets another page: what frees space must do without.
func TestDeleteTakesNoSpace(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	first, second := createQueue(t, db, "first", 3), createQueue(t, db, "second", 1)
	if _, err := pool.Exec(t.Context(), `TRUNCATE calls`); err != nil { // nothing has a page to spare there
		t.Fatal(err)
	}
	sizes := func() (text string) {
		t.Helper()
		const sql = `SELECT string_agg(c.relname || ' ' || pg_relation_size(c.oid), E'\n' ORDER BY c.relname)
			FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'i', 't')`
		if err := pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := sizes()
	call := uuid.New()
	q, err := db.DeleteQueue(t.Context(), call, first.ID)
	if err != nil || !q.Deleted() {
		t.Fatalf("DeleteQueue = %+v, %v", q, err)
	}
	if again, err := db.DeleteQueue(t.Context(), call, first.ID); err != nil || !reflect.DeepEqual(again, q) {
		t.Errorf("the same call again: %+v, %v; want %+v", again, err, q)
	}
	if _, err := db.DeleteQueue(t.Context(), uuid.New(), first.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another call: %v, want ErrNotFound", err)
	}
	if _, err := db.DeleteQueue(t.Context(), uuid.New(), second.ID); err != nil {
		t.Fatal(err)
	}
	for done := false; !done; {
		if done, err = db.SweepDeleted(t.Context(), 1000, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if after := sizes(); after != before {
		t.Errorf("pages were taken: before\n%s\nafter\n%s", before, after)
	}
}

func TestDeleteFreesNameAndSweepsRows(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	pool := storetest.Pool(t, db)
	old := createQueue(t, db, "q", 3)
	keep := createQueue(t, db, "keep", 1)
	for _, q := range []store.QueueRow{old, keep} {
		for _, sql := range []string{
			`INSERT INTO log_segments SELECT p.id, n, n, now(), 0, 1, 1, 1, '', '' FROM log_partitions p, generate_series(0, 9) n WHERE p.queue_id = $1`,
			`INSERT INTO log_txns SELECT p.id, n, n, now(), 0, 0, 0, '{}' FROM log_partitions p, generate_series(0, 9) n WHERE p.queue_id = $1`,
			`INSERT INTO producers SELECT p.id, n, 9, 0, '{}', '{}', '{}', now() FROM log_partitions p, generate_series(0, 9) n WHERE p.queue_id = $1`,
			`INSERT INTO cursors (partition_id, group_name, next_offset, kafka, committed_at) SELECT p.id, 'g', 0, true, now() FROM log_partitions p WHERE p.queue_id = $1`,
			`INSERT INTO subscriptions VALUES ($1, 'g')`,
		} {
			if _, err := pool.Exec(t.Context(), sql, q.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	version, err := db.CatalogVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if q, err := db.DeleteQueue(t.Context(), uuid.New(), old.ID); err != nil || !q.Deleted() {
		t.Fatalf("DeleteQueue = %+v, %v", q, err)
	}
	if _, err := db.DeleteQueue(t.Context(), uuid.New(), old.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("second DeleteQueue: %v, want ErrNotFound", err)
	}
	again := createQueue(t, db, "q", 1)
	if again.ID == old.ID || again.TopicID == old.TopicID {
		t.Errorf("recreated queue reuses an id: %+v, %+v", old, again)
	}
	changed, err := db.ChangedQueues(t.Context(), version)
	if qs := changed.Queues; err != nil || len(qs) != 2 || qs[0].ID != old.ID || !qs[0].Deleted() || qs[1].ID != again.ID || changed.Swept {
		t.Errorf("ChangedQueues = %+v, %v; want the tombstone, then the new queue", changed, err)
	}

	const rows = 3 * (10 + 10 + 10 + 1 + 1)
	steps := 0
	// Half of them by rows, half by bytes: of what has a size one row, or two.
	for done := false; !done; steps++ {
		rowsMax, bytesMax := 7, int64(1<<20)
		if steps >= rows/7/2 {
			rowsMax, bytesMax = 1000, 1
		}
		if done, err = db.SweepDeleted(t.Context(), rowsMax, bytesMax); err != nil {
			t.Fatal(err)
		}
		if steps > rows {
			t.Fatal("sweeping does not end")
		}
	}
	if steps < rows/7+10 {
		t.Errorf("%d rows went in %d steps of at most 7, or of one with a size", rows, steps)
	}
	var left int
	err = pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM log_segments) + (SELECT count(*) FROM log_txns) +
		(SELECT count(*) FROM producers) + (SELECT count(*) FROM cursors) + (SELECT count(*) FROM subscriptions) +
		(SELECT count(*) FROM log_partitions) + (SELECT count(*) FROM queues)`).Scan(&left)
	if want := 10 + 10 + 10 + 1 + 1 + 2 + 2; err != nil || left != want {
		t.Errorf("%d rows are left, want %d of the other queues (%v)", left, want, err)
	}
	// Who had seen the tombstone misses nothing now; who had not is told so.
	for after, swept := range map[int64]bool{version: true, version + 1: false} {
		if changed, err := db.ChangedQueues(t.Context(), after); err != nil || changed.Swept != swept {
			t.Errorf("ChangedQueues after %d of %d: swept %v, %v; want %v", after, version+1, changed.Swept, err, swept)
		}
	}
	if changed, err := db.ChangedQueues(t.Context(), version+2); err != nil || len(changed.Queues) != 0 || changed.Version != version+2 {
		t.Errorf("ChangedQueues after all of them: %+v, %v", changed, err)
	}
}

// A partition is made while another one of the same queue is being made.
func TestEnsurePartitionWaitsForItsNeighbour(t *testing.T) {
	t.Parallel()
	db := openNamed(t, storetest.Config(t), nil)
	pool := storetest.Pool(t, db)
	if _, _, err := db.EnsurePartition(t.Context(), "q", "first"); err != nil {
		t.Fatal(err)
	}
	// The neighbour is half way: it has the lock and its row, but not yet counted it.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`SELECT FROM queues WHERE name = 'q' FOR NO KEY UPDATE`,
		`INSERT INTO log_partitions (queue_id, number, name) SELECT id, 1, 'second' FROM queues WHERE name = 'q'`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	var p store.PartitionRow
	go func() {
		var err error
		_, p, err = db.EnsurePartition(t.Context(), "q", "third")
		done <- err
	}()
	backend(t, pool, db, waiting)
	if _, err := tx.Exec(t.Context(), `UPDATE queues SET partitions = 2 WHERE name = 'q'`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || p.Number != 2 {
		t.Errorf("third partition is %+v, %v; want number 2", p, err)
	}
}
