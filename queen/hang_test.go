package queen

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// openNamed opens a database whose backends can be told from others.
func openNamed(t *testing.T) *store.DB {
	t.Helper()
	cfg := storetest.Config(t)
	cfg.Application = "test/" + cfg.Schema
	return storetest.OpenConfig(t, cfg)
}

// untilBlocked waits until a call of the engine waits for a lock.
func (e *Engine) untilBlocked(t *testing.T) {
	t.Helper()
	pool := storetest.Pool(t, e.db)
	for n := 0; n == 0; {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'queen/' || $1 AND wait_event_type = 'Lock'`, e.db.Config().Application).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseEndsWithItsContext closes while an append waits for a lock that
// nobody gives back.
func TestCloseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := openNamed(t)
	e, err := Open(t.Context(), Config{DB: db, Broker: BrokerConfig{ID: -1}, WriteTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, e, "t", 1)
	tx, err := storetest.Pool(t, db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM log_partitions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var pending []*Pending
	for range 3 { // the first one is sent, the others wait for it
		pending = append(pending, e.Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: kafkaBatch(t, 1)}})...)
		e.untilBlocked(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v, want canceled: not all could be flushed", err)
	}
	for i, want := range []error{ErrOutcomeUnknown, ErrUnavailable, ErrUnavailable} {
		if _, err := pending[i].Result(t.Context()); !errors.Is(err, want) {
			t.Errorf("append %d: %v, want %v", i, err, want)
		}
	}
}

// TestCloseWaitsForWhatItDoesNotRefuse closes while an entry, not refused, is on
// its way to its partition.
func TestCloseWaitsForWhatItDoesNotRefuse(t *testing.T) {
	t.Parallel()
	w := &writer{cfg: Config{SegmentBytesMax: 1}, wake: make(chan struct{}, 1), idle: make(chan struct{})}
	p := &partition{}
	p.mu.Lock()
	var entering sync.WaitGroup
	entering.Go(func() { w.enqueue(p, &entry{pending: &Pending{done: make(chan struct{})}}) })
	for n := 0; w.open.Load() == 0; n++ {
		if n == 1_000_000 {
			t.Fatal("an entry that was let in is not counted")
		}
		runtime.Gosched()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v, want canceled", err)
	}
	p.mu.Unlock()
	entering.Wait()
	select {
	case <-w.idle:
		t.Error("idle, with an entry that nobody has stored")
	default:
	}
	w.count(-1) // as its flusher would
	<-w.idle
}

// stopBackends stops the database processes that now serve db's connections, as
// a paused machine would: what was sent stays unanswered, new ones are served.
func stopBackends(t *testing.T, e *Engine) {
	t.Helper()
	rows, err := storetest.Pool(t, e.db).Query(t.Context(),
		`SELECT pid FROM pg_stat_activity WHERE application_name = 'queen/' || $1`, e.db.Config().Application)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestAppendGetsPastStoppedConnections(t *testing.T) {
	t.Parallel()
	e := openEngine(t, openNamed(t), func(c *Config) { c.CallTimeout = time.Second })
	createTopic(t, e, "t", 1)
	appendBatch(t, e, at("t", 0), kafkaBatch(t, 1))
	e.catalog.forgetMarks() // so that the end must be read
	stopBackends(t, e)
	if r := appendBatch(t, e, at("t", 0), kafkaBatch(t, 1)); r.BaseOffset != 1 {
		t.Errorf("stored at %d, want 1", r.BaseOffset)
	}
}

func TestPollGetsPastStoppedConnections(t *testing.T) {
	t.Parallel()
	e := openEngine(t, openNamed(t), func(c *Config) { c.CallTimeout = time.Second })
	cfg := e.db.Config()
	cfg.Application = "other"
	other := openEngine(t, storetest.OpenConfig(t, cfg))
	createTopic(t, e, "t", 1)
	appendBatch(t, e, at("t", 0), kafkaBatch(t, 1))
	answers := make(chan []ReadAnswer, 1)
	go func() {
		a, err := e.Read(t.Context(), ReadRequest{
			Items:    []ReadItem{{Partition: at("t", 0), Offset: 1, MaxBytes: 1 << 20, CurrentEpoch: -1, LastFetchedEpoch: -1}},
			MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Hour,
		})
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	e.untilWaiting(t)
	stopBackends(t, e)
	appendBatch(t, other, at("t", 0), kafkaBatch(t, 1))
	if a := <-answers; len(a) != 1 || len(a[0].Batches) != 1 {
		t.Errorf("%+v, want what the other broker wrote", a)
	}
}

// TestRedirectEndsWithTheEngine: what is handed to a queue's successor does not keep a
// broker that was told to end from ending.
func TestRedirectEndsWithTheEngine(t *testing.T) {
	t.Parallel()
	e := openEngine(t, openNamed(t))
	stopBackends(t, e)
	e.cancel(ErrClosing)
	pending := &Pending{done: make(chan struct{})}
	e.redirect(&entry{batch: kafkaBatch(t, 1), pending: pending, ref: QueueRef{Name: "t"}})
	if _, err := pending.Result(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}
