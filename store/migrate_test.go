package store_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
	"queenmq/store/storetest"
)

func TestMigrateManyAtOnce(t *testing.T) {
	t.Parallel()
	cfg := storetest.NewSchema(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := store.Migrate(t.Context(), cfg); err != nil {
				t.Errorf("Migrate: %v", err)
			}
		})
	}
	wg.Wait()
	db := storetest.OpenConfig(t, cfg)
	if got := db.Incarnation().Epoch; got != 1 {
		t.Errorf("epoch after the first connection is %d, want 1", got)
	}
}

func TestOpenRefusesSchemaThatIsNotMigrated(t *testing.T) {
	t.Parallel()
	_, err := store.Open(context.Background(), storetest.NewSchema(t))
	if !errors.Is(err, store.ErrNotMigrated) {
		t.Errorf("Open: %v, want ErrNotMigrated", err)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// query returns the one value of a query.
func query[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMigrateRefusesNewerSchema(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	pool := storetest.Pool(t, storetest.OpenConfig(t, cfg))
	exec(t, pool, `UPDATE schema_version SET version = version + 1`)
	if err := store.Migrate(t.Context(), cfg); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("Migrate: %v, want ErrNewerSchema", err)
	}
}

func TestMigrateReplacesNothingReleased(t *testing.T) {
	t.Parallel()
	const function = `SELECT oid::bigint FROM pg_proc WHERE proname = 'append_1' AND pronamespace = current_schema()::regnamespace`
	for _, scratch := range []bool{false, true} {
		cfg := storetest.NewSchema(t)
		cfg.Scratch = scratch
		if err := store.Migrate(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		pool := storetest.Pool(t, storetest.OpenConfig(t, cfg))
		before := query[int64](t, pool, function)
		cfg.Scratch = true // comes too late for a schema that exists
		exec(t, pool, `UPDATE schema_files SET checksum = 'another' WHERE name = 'append_1'`)
		err := store.Migrate(t.Context(), cfg)
		after := query[int64](t, pool, function)
		switch {
		case scratch && (err != nil || after == before):
			t.Errorf("in a scratch schema: %v, function %d is now %d; want it replaced", err, before, after)
		case !scratch && (!errors.Is(err, store.ErrChangedText) || after != before):
			t.Errorf("elsewhere: %v, function %d is now %d; want ErrChangedText", err, before, after)
		}
		exec(t, pool, `UPDATE schema_files SET checksum = 'another' WHERE name = '0001_log'`)
		if err := store.Migrate(t.Context(), cfg); !errors.Is(err, store.ErrChangedText) {
			t.Errorf("an applied migration with another text: %v, want ErrChangedText", err)
		}
	}
}

func TestMigrateDropsFunctionsNobodyCalls(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	db := storetest.OpenConfig(t, cfg)
	pool := storetest.Pool(t, db)
	for _, f := range []struct{ name, used string }{{"unused_1", "2 hours"}, {"recent_1", "1 minute"}, {"called_1", "2 hours"}} {
		exec(t, pool, `CREATE FUNCTION `+f.name+`() RETURNS integer LANGUAGE sql AS 'SELECT 1'`)
		exec(t, pool, `INSERT INTO schema_files VALUES ($1, 'x', clock_timestamp() - $2::interval)`, f.name, f.used)
	}
	if _, err := db.Register(t.Context(), broker(), 3, uuid.Nil); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE brokers SET functions = functions || '{called_1}'::text[]`)
	left := func() []string {
		t.Helper()
		if err := store.Migrate(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		return query[[]string](t, pool, `SELECT array_agg(proname::text ORDER BY proname) FROM pg_proc
			WHERE pronamespace = current_schema()::regnamespace AND proname IN ('unused_1', 'recent_1', 'called_1')`)
	}
	if got := left(); !slices.Equal(got, []string{"called_1", "recent_1"}) {
		t.Errorf("left are %v, want called_1 and recent_1", got)
	}
	exec(t, pool, `UPDATE brokers SET heartbeat_at = heartbeat_at - interval '2 hours'`)
	if got := left(); !slices.Equal(got, []string{"recent_1"}) {
		t.Errorf("left after the broker died are %v, want recent_1", got)
	}
}

// layered returns the shipped migrations and one more.
func layered(t *testing.T, name, text string) fs.FS {
	t.Helper()
	files := fstest.MapFS{"schema/" + name: {Data: []byte(text)}}
	names, err := fs.Glob(store.MigrationFiles, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		data, err := fs.ReadFile(store.MigrationFiles, n)
		if err != nil {
			t.Fatal(err)
		}
		files[n] = &fstest.MapFile{Data: data}
	}
	return files
}

func TestMigrateGoesOnWhereItWasKilled(t *testing.T) {
	t.Parallel()
	cfg := storetest.NewSchema(t)
	cfg.Log = slog.New(slog.DiscardHandler)
	pool, err := pgxpool.New(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	connect := func() *pgx.Conn {
		t.Helper()
		cc, err := pgx.ParseConfig(cfg.URL)
		if err != nil {
			t.Fatal(err)
		}
		cc.RuntimeParams["search_path"] = cfg.Schema
		cc.RuntimeParams["application_name"] = cfg.Schema
		conn, err := pgx.ConnectConfig(t.Context(), cc)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	// Killed in its second migration.
	done := make(chan error, 1)
	conn := connect()
	go func() {
		done <- store.MigrateOn(t.Context(), conn, cfg, layered(t, "0002_more.sql", "-- More.\nCREATE TABLE more (); SELECT pg_sleep(600);"), store.FunctionFiles)
	}()
	var pid int
	for pid == 0 {
		pid = query[int](t, pool, `SELECT COALESCE(min(pid), 0) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'`, cfg.Schema)
	}
	exec(t, pool, `SELECT pg_terminate_backend($1)`, pid)
	if err := <-done; err == nil {
		t.Fatal("a killed migration reports success")
	}
	// Killed after its migrations, in a function: the next one also notes their checksums.
	conn = connect()
	broken := fstest.MapFS{"schema/functions/broken_1.sql": {Data: []byte("no SQL")}}
	more := layered(t, "0002_more.sql", "-- More.\nCREATE TABLE more ();")
	if err := store.MigrateOn(t.Context(), conn, cfg, more, broken); err == nil {
		t.Fatal("a broken function was created")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn = connect()
	if err := store.MigrateOn(t.Context(), conn, cfg, more, store.FunctionFiles); err != nil {
		t.Fatalf("the next migration: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	opened := storetest.OpenConfig(t, cfg)
	got := query[[]string](t, storetest.Pool(t, opened), `SELECT array_agg(name ORDER BY name) FROM schema_files WHERE name ~ '^0'`)
	if !slices.Equal(got, []string{"0001_log", "0002_more"}) {
		t.Errorf("migrations noted are %v, want both", got)
	}
}
