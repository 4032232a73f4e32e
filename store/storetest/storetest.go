// Package storetest gives each test a schema of its own on a real PostgreSQL.
//
// One server serves a test binary. It is started when the first test asks, and
// ends with the process, however that ends.
package storetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"queenmq/store"
)

// shared is the server of this test binary.
var shared = sync.OnceValues(func() (*Server, error) { return startServer(nil) })

// URL returns the connection string of the shared server.
func URL(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	return s.URL
}

// NewSchema returns a configuration that names an empty schema, not yet
// created, on the shared server. The schema is dropped after the test.
func NewSchema(t testing.TB) store.Config {
	t.Helper()
	cfg := config(URL(t))
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, cfg.URL)
		if err != nil {
			t.Errorf("drop schema: %v", err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+cfg.Schema+" CASCADE"); err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	return cfg
}

// random returns twelve characters nobody else uses.
func random() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// config names a schema nobody else uses.
func config(url string) store.Config {
	return store.Config{
		URL:        url,
		Schema:     "t_" + random(),
		WriteConns: 4, ReadConns: 2, AdminConns: 2,
		Scratch: true,
		// A machine that runs many tests at once may be slow; no test waits for these.
		LockTimeout: 30 * time.Second, StatementTimeout: time.Minute, ConnectTimeout: 30 * time.Second,
	}
}

// Config returns a configuration that names a fresh, migrated schema on the
// shared server. The schema is dropped after the test.
func Config(t testing.TB) store.Config {
	t.Helper()
	cfg := NewSchema(t)
	if err := store.Migrate(context.Background(), cfg); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return cfg
}

// New returns a database with a fresh, migrated schema, which is dropped after the test.
func New(t testing.TB) *store.DB {
	t.Helper()
	return OpenConfig(t, Config(t))
}

// Open returns a second database on the schema of db, as another broker would have.
func Open(t testing.TB, db *store.DB) *store.DB {
	t.Helper()
	return OpenConfig(t, db.Config())
}

// OpenConfig opens a database and closes it after the test.
func OpenConfig(t testing.TB, cfg store.Config) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(db.Close)
	return db
}

// Pool returns raw access to the schema of db, closed after the test.
func Pool(t testing.TB, db *store.DB) *pgxpool.Pool {
	t.Helper()
	cfg := db.Config()
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		t.Fatalf("parse %q: %v", cfg.URL, err)
	}
	pc.ConnConfig.RuntimeParams["search_path"] = cfg.Schema
	pc.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}
