package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

// commit is a write call that waits for whoever holds a lock on the cursors.
func commit(ctx context.Context, db *store.DB, partition, offset int64) error {
	_, err := db.CommitCursors(ctx, "g", store.Fence{}, []store.CursorRow{{Partition: partition, Offset: offset}}, true)
	return err
}

// holdTable locks a table against everybody and returns how to let go.
func holdTable(t *testing.T, pool *pgxpool.Pool, table string) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Errorf("release %s: %v", table, err)
		}
	})
}

// backend waits for a backend of db (by its application name) that fulfils a
// condition on pg_stat_activity, and returns its pid.
func backend(t *testing.T, pool *pgxpool.Pool, db *store.DB, condition string) (pid int) {
	t.Helper()
	sql := fmt.Sprintf(`SELECT COALESCE(min(pid), 0) FROM pg_stat_activity WHERE application_name = 'queen/%s' AND %s`,
		db.Config().Application, condition)
	for pid == 0 {
		if err := pool.QueryRow(t.Context(), sql).Scan(&pid); err != nil {
			t.Fatal(err)
		}
	}
	return pid
}

const waiting = "wait_event_type = 'Lock'"

// openNamed opens a database whose backends can be told from others.
func openNamed(t *testing.T, cfg store.Config, change func(*store.Config)) *store.DB {
	t.Helper()
	cfg.Application = "test/" + cfg.Schema
	if change != nil {
		change(&cfg)
	}
	return storetest.OpenConfig(t, cfg)
}

func TestTerminatedWriteIsUnknownAndReadUnavailable(t *testing.T) {
	t.Parallel()
	db := openNamed(t, storetest.Config(t), nil)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	for _, c := range []struct {
		name, table string
		call        func() error
		want        error
	}{
		{"write", "cursors", func() error { return commit(t.Context(), db, p[0], 5) }, store.ErrOutcomeUnknown},
		{"read", "log_segments", func() error { _, err := db.Marks(t.Context(), p); return err }, store.ErrUnavailable},
	} {
		release := holdTable(t, pool, c.table)
		done := make(chan error, 1)
		go func() { done <- c.call() }()
		pid := backend(t, pool, db, waiting)
		if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, pid); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, c.want) {
			t.Errorf("terminated %s: %v, want %v", c.name, err, c.want)
		}
		release()
		if err := c.call(); err != nil {
			t.Errorf("%s repeated: %v", c.name, err)
		}
	}
}

// TestACallThatIsNotAnsweredEnds: its process in the server stands still, and its caller
// waits without an end of its own, as background work does.
func TestACallThatIsNotAnsweredEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, table string
		call        func(*store.DB, int64) error
		want        error
	}{
		{"a write", "cursors", func(db *store.DB, p int64) error { return commit(context.Background(), db, p, 5) }, store.ErrOutcomeUnknown},
		{"a read", "log_segments", func(db *store.DB, p int64) error {
			_, err := db.Marks(context.Background(), []int64{p})
			return err
		}, store.ErrUnavailable},
		{"a read of segments", "log_segments", func(db *store.DB, p int64) error {
			_, err := db.Read(context.Background(), []store.ReadSpan{{Partition: p, MaxBytes: 1}}, 1)
			return err
		}, store.ErrUnavailable},
		{"a read of keys", "kv", func(db *store.DB, _ int64) error {
			return db.KVRead(context.Background(), []store.KVKey{{NS: "n", Key: "k"}}, nil, 1, func(store.KVRow) {})
		}, store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := openNamed(t, storetest.Config(t), func(cfg *store.Config) {
				cfg.LockTimeout, cfg.StatementTimeout = 6*time.Second, 7*time.Second
			})
			pool := storetest.Pool(t, db)
			p := partitions(t, db, "q", 1)
			release := holdTable(t, pool, c.table)
			defer release()
			for {
				done := make(chan error, 1)
				go func() { done <- c.call(db, p[0]) }()
				pid := backend(t, pool, db, waiting)
				defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-done:
					if strings.Contains(fmt.Sprint(err), "55P03") {
						continue // it was stopped too late: the lock was not waited for any longer
					}
					if !errors.Is(err, c.want) {
						t.Errorf("%v, want %v", err, c.want)
					}
				case <-time.After(2 * time.Minute):
					t.Error("it waits for an answer that does not come")
				}
				return
			}
		})
	}
}

func TestLostConnectionDropsIdleOnes(t *testing.T) {
	t.Parallel()
	db := openNamed(t, storetest.Config(t), nil)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	write, read, _ := db.Pools()
	var wg sync.WaitGroup
	conns := make(chan *pgxpool.Conn, 2)
	for range 2 { // two idle connections
		wg.Go(func() {
			conn, err := read.Acquire(t.Context())
			if err != nil {
				t.Errorf("Acquire: %v", err)
				return
			}
			conns <- conn
		})
	}
	wg.Wait()
	for range 2 {
		(<-conns).Release()
	}
	if n := read.Stat().IdleConns(); n != 2 {
		t.Fatalf("%d idle connections, want 2", n)
	}
	release := holdTable(t, pool, "cursors")
	defer release()
	done := make(chan error, 1)
	go func() { done <- commit(t.Context(), db, p[0], 5) }()
	if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend($1)`, backend(t, pool, db, waiting)); err != nil {
		t.Fatal(err)
	}
	<-done
	if n := read.Stat().IdleConns() + write.Stat().IdleConns(); n != 0 {
		t.Errorf("%d idle connections after one was terminated, want 0", n)
	}
}

func TestTimeoutsOnTheServerAreDefinite(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	var said bytes.Buffer // no call runs beside another here
	cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	db := openNamed(t, cfg, func(c *store.Config) { c.LockTimeout, c.StatementTimeout = 20*time.Millisecond, time.Minute })
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	release := holdTable(t, pool, "cursors")
	defer release()
	if err := commit(t.Context(), db, p[0], 5); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("lock timeout: %v, want ErrUnavailable", err)
	}
	release()

	db = openNamed(t, cfg, func(c *store.Config) { c.LockTimeout, c.StatementTimeout = 500*time.Millisecond, time.Second })
	for _, sql := range []string{
		`CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END'`,
		`CREATE TRIGGER stall AFTER INSERT ON cursors FOR EACH ROW EXECUTE FUNCTION stall()`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := commit(t.Context(), db, p[0], 5); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("statement timeout: %v, want ErrUnavailable", err)
	}
	// The log says which calls they were, and how far each was.
	for _, want := range []string{`SQLSTATE 55P03`, `SQLSTATE 57014`, `cursors_commit_1(`, `function stall()`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
	if strings.Contains(said.String(), "INSERT") {
		t.Errorf("the log has statements in it:\n%s", said.String())
	}
	if strings.Count(said.String(), `call="commit cursors"`) != 2 {
		t.Errorf("it is not said twice which call failed:\n%s", said.String())
	}
	if rows, err := db.Cursors(t.Context(), "g", p); err != nil || len(rows) != 0 {
		t.Errorf("after both: %+v, %v; want nothing written", rows, err)
	}
}

func TestContextThatEndsWhileWaitingLeavesOutcomeUnknown(t *testing.T) {
	t.Parallel()
	db := openNamed(t, storetest.Config(t), nil)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	release := holdTable(t, pool, "cursors")
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- commit(ctx, db, p[0], 5) }()
	backend(t, pool, db, waiting)
	cancel()
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled while waiting: %v, want ErrOutcomeUnknown", err)
	}
	if err := commit(ctx, db, p[0], 5); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("canceled before: %v, want ErrUnavailable", err)
	}
}

func TestCommitThatSkippedItsStandbyIsUnknown(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t, "client_min_messages=error") // what warns of it is wanted all the same
	db := openNamed(t, s.Config(t, nil), nil)
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	set := func(names string) {
		t.Helper()
		for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if _, err := pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("ghost")
	done := make(chan error, 1)
	go func() { done <- commit(t.Context(), db, p[0], 5) }()
	// The setting may arrive after the first commit: then there is another one.
	var pid int
	for pid == 0 {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			go func() { done <- commit(t.Context(), db, p[0], 5) }()
		default:
		}
		if err := pool.QueryRow(t.Context(), `SELECT COALESCE(min(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), `SELECT pg_cancel_backend($1)`, pid); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("canceled while waiting for the standby: %v, want ErrOutcomeUnknown", err)
	}
	set("")
	if err := commit(t.Context(), db, p[0], 6); err != nil {
		t.Errorf("the next commit: %v", err)
	}
}

func TestServerThatStoppedIsUnavailableAndFoundAgain(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	cfg := s.Config(t, nil)
	var said bytes.Buffer // no call runs beside another here
	cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
	db := storetest.OpenConfig(t, cfg)
	p := partitions(t, db, "q", 1)
	before := db.Incarnation()
	if before.Epoch != 1 || before.Timeline != 1 || before.SystemID == 0 {
		t.Errorf("first incarnation is %+v", before)
	}
	s.Restart(t, "immediate")
	// The first call may find the connection closed only after it was sent.
	if err := commit(t.Context(), db, p[0], 1); err != nil && !errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("first call after the restart: %v", err)
	}
	if err := commit(t.Context(), db, p[0], 2); err != nil {
		t.Errorf("second call after the restart: %v", err)
	}
	// The files may have been others: only their age says so, and nobody knows that.
	restarted := db.Incarnation()
	if restarted.Epoch <= before.Epoch || restarted.Timeline != before.Timeline || restarted.SystemID != before.SystemID {
		t.Errorf("incarnation after a restart is %+v, want another epoch than %+v", restarted, before)
	}
	pool := storetest.Pool(t, db)
	var pid int
	if err := pool.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for opened := false; !opened; { // until the dead connections are found out
		opened = commit(t.Context(), db, p[0], 2) == nil
	}
	if got := db.Incarnation(); got != restarted {
		t.Errorf("incarnation after crash recovery is %+v, want %+v", got, restarted)
	}
	s.Stop(t, "fast")
	_ = commit(t.Context(), db, p[0], 3)
	if err := commit(t.Context(), db, p[0], 3); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("call to a stopped server: %v, want ErrUnavailable", err)
	}
	if !strings.Contains(said.String(), "database call failed") {
		t.Errorf("the log says nothing of it:\n%s", said.String())
	}
	if _, err := store.Open(t.Context(), db.Config()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open on a stopped server: %v, want ErrUnavailable", err)
	}
}

func TestNewTimelineIsNewIncarnation(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	met := make(chan store.Incarnation, 10)
	cfg := s.Config(t, nil)
	cfg.OnIncarnation = func(i store.Incarnation) { met <- i }
	db := storetest.OpenConfig(t, cfg)
	first := <-met
	s.Stop(t, "fast")
	s.StartNewTimeline(t)
	for {
		if _, err := db.CatalogVersion(t.Context()); err == nil {
			break
		}
	}
	second := <-met
	want := first
	want.Timeline, want.Epoch = 2, second.Epoch
	if first.Epoch != 1 || second.Epoch <= first.Epoch || second != want || db.Incarnation() != want {
		t.Errorf("incarnations are %+v, then %+v; want %+v", first, second, want)
	}
	// A database that remembers a lower epoch than its broker lost commits.
	pool := storetest.Pool(t, db)
	if _, err := pool.Exec(t.Context(), `UPDATE cluster SET epoch = 1`); err != nil {
		t.Fatal(err)
	}
	_, read, _ := db.Pools()
	read.Reset()
	if _, err := db.CatalogVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
	if third := <-met; third.Epoch <= second.Epoch {
		t.Errorf("epoch after the database fell back is %d, want more than %d", third.Epoch, second.Epoch)
	}
}

func TestUnsafeServerIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t, "full_page_writes=off", "fsync=off")
	cfg := s.Config(t, func(c *store.Config) { c.UnsafeDatabase = true })
	storetest.OpenConfig(t, cfg)
	cfg.UnsafeDatabase = false
	if _, err := store.Open(t.Context(), cfg); !errors.Is(err, store.ErrUnsafeDatabase) {
		t.Errorf("Open: %v, want ErrUnsafeDatabase", err)
	}
	if err := store.Migrate(t.Context(), cfg); !errors.Is(err, store.ErrUnsafeDatabase) {
		t.Errorf("Migrate: %v, want ErrUnsafeDatabase", err)
	}
}

func TestStandbyIsNotTaken(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	cfg := s.Config(t, nil)
	db := storetest.OpenConfig(t, cfg)
	p := partitions(t, db, "q", 1)
	pool := storetest.Pool(t, db)
	for _, sql := range []string{"ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	// The reload reaches the open connection at its next command or the one after.
	var err error
	for err == nil {
		err = commit(t.Context(), db, p[0], 1)
	}
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("write on a read-only server: %v, want ErrUnavailable", err)
	}
	if _, err := store.Open(t.Context(), cfg); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open: %v, want ErrUnavailable", err)
	}
}

func TestConnectionsPinTheirSettings(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	cfg := s.Config(t, func(c *store.Config) { c.Schema = `odd "name"` })
	cfg.URL += " synchronous_commit=off"
	pool, err := pgxpool.New(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, sql := range []string{
		`ALTER ROLE postgres SET default_transaction_isolation = 'serializable'`,
		`ALTER ROLE postgres SET search_path = pg_catalog`,
		`ALTER DATABASE postgres SET plan_cache_mode = force_custom_plan`,
		`ALTER ROLE postgres SET idle_session_timeout = '50s'`,
		// From PostgreSQL 17 on; before, nothing has this name.
		`DO $$ BEGIN
			IF current_setting('server_version_num')::integer >= 170000 THEN ALTER ROLE postgres SET transaction_timeout = '40s'; END IF;
		END $$`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	db := openNamed(t, cfg, nil)
	write, read, admin := db.Pools()
	for _, p := range []*pgxpool.Pool{write, read, admin} {
		for name, want := range map[string]string{
			"search_path":                         `"odd ""name""",pg_temp`,
			"transaction_isolation":               "read committed",
			"synchronous_commit":                  "on",
			"plan_cache_mode":                     "force_generic_plan",
			"jit":                                 "off",
			"enable_seqscan":                      "off",
			"enable_bitmapscan":                   "off",
			"statement_timeout":                   "1min",
			"lock_timeout":                        "30s",
			"idle_in_transaction_session_timeout": "5s",
			"application_name":                    `queen/test/odd "name"`,
			"client_encoding":                     "UTF8",
			"client_min_messages":                 "warning",
			"extra_float_digits":                  "1",
			"idle_session_timeout":                "0",
			"transaction_timeout":                 "0",
		} {
			var got string
			if err := p.QueryRow(t.Context(), "SELECT COALESCE(current_setting($1, $1 = 'transaction_timeout'), '0')", name).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %q (%v), want %q", name, got, err, want)
			}
		}
	}
}

// A pooler in between, or an administrator, may drop what a connection prepared.
func TestAppendPreparesItsStatementAnew(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	cfg.WriteConns = 1
	db := storetest.OpenConfig(t, cfg)
	_, p, err := db.EnsurePartition(t.Context(), "q", "0")
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	add := func() error {
		r, err := db.Append(t.Context(), []store.Segment{{
			Partition: p.ID, Epoch: db.Incarnation().Epoch, Known: next, Window: 3600, Verified: -1,
			IDHi: 7 << 12, IDLo: next + 1, Header: make([]byte, 24+32), Data: []byte("x"),
			Parts: []store.Part{{Bytes: 1, Batches: 1, Span: 1, Records: 1, Producer: -1}},
		}}, true)
		if err == nil {
			next = r[0].Next
		}
		return err
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	write, _, _ := db.Pools()
	if _, err := write.Exec(t.Context(), "DEALLOCATE ALL"); err != nil {
		t.Fatal(err)
	}
	if err := add(); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("without its statement: %v", err)
	}
	if err := add(); err != nil || next != 2 {
		t.Fatalf("the end is %d, %v", next, err)
	}
}
