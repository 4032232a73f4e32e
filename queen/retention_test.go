package queen

import (
	"testing"
	"time"

	"queenmq/store/storetest"
)

func logStart(t *testing.T, e *Engine, ref PartitionRef) int64 {
	t.Helper()
	a, err := e.Offsets(t.Context(), []OffsetQuery{{Partition: ref, CurrentEpoch: -1, Timestamp: AtStart}})
	if err != nil {
		t.Fatal(err)
	}
	return a[0].Offset
}

// expiredSegments puts n segments of one offset, older than any retention
// here, into a partition.
func expiredSegments(t *testing.T, e *Engine, ref PartitionRef, n int) {
	t.Helper()
	p, err := e.catalog.partition(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storetest.Pool(t, e.db).Exec(t.Context(), `
		WITH s AS (SELECT n, now() - interval '30 days' AS at FROM generate_series(0, $2::integer - 1) n),
		     t AS (INSERT INTO log_txns SELECT $1, n, n, at, n, n, n << 20, '{}' FROM s)
		INSERT INTO log_segments SELECT $1, n, n, at, n, 1, 1, 1, 'header', 'data' FROM s`, p.id, n); err != nil {
		t.Fatal(err)
	}
}

func TestOneRoundOfRetentionForgetsAllThatIsDue(t *testing.T) {
	t.Parallel()
	e := openEngine(t, storetest.New(t), func(c *Config) { c.RetentionEvery = time.Hour })
	createTopic(t, e, "t", 1)
	const n = 2*retentionRowsMax + 7
	expiredSegments(t, e, at("t", 0), n)
	if err := e.retainOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := logStart(t, e, at("t", 0)); got != n {
		t.Errorf("the log starts at %d, want %d: retention must keep up with any writer", got, n)
	}
}

// What a round looks at has a bound, and the next one goes on from there.
func TestRetentionComesToEveryPartitionInTurn(t *testing.T) {
	t.Parallel()
	const n = retentionLooksMax + 5
	e := openEngine(t, storetest.New(t), func(c *Config) { c.RetentionEvery = time.Hour })
	createTopic(t, e, "t", n)
	expiredSegments(t, e, at("t", 0), 3)
	expiredSegments(t, e, at("t", n-1), 3)
	for round, want := range [][2]int64{{3, 0}, {3, 3}} {
		if err := e.retainOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a, b := logStart(t, e, at("t", 0)), logStart(t, e, at("t", n-1)); a != want[0] || b != want[1] {
			t.Errorf("after round %d the first log starts at %d and the last at %d, want %v", round, a, b, want)
		}
	}
	if e.retained != 0 {
		t.Errorf("the next round would go on after partition %d, want it to start over", e.retained)
	}
}

func TestRetentionGoesOnWhereOnePartitionIsLocked(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	cfg.LockTimeout = 50 * time.Millisecond
	db := storetest.OpenConfig(t, cfg)
	e := openEngine(t, db, func(c *Config) { c.RetentionEvery = time.Hour })
	createTopic(t, e, "t", 2)
	expiredSegments(t, e, at("t", 0), 3)
	expiredSegments(t, e, at("t", 1), 3)
	tx, err := storetest.Pool(t, db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions WHERE number = 0 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if err := e.retainOnce(t.Context()); err == nil {
		t.Error("no error, want that of the locked partition")
	}
	if a, b := logStart(t, e, at("t", 0)), logStart(t, e, at("t", 1)); a != 0 || b != 3 {
		t.Errorf("logs start at %d and %d, want 0 and 3", a, b)
	}
}
