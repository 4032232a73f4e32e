package queen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestRestoredDatabaseIsAnotherOne puts an older state of the database in the place of
// the one that brokers remember: as a copy of its files, whose system identifier and
// timeline are the same, as a dump, and as a standby that was behind when it was promoted. What was lost is neither served nor vouched for,
// and what comes in its place has a higher leader epoch.
func TestRestoredDatabaseIsAnotherOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		keep    func(*testing.T, *storetest.Server, string) (restore func())
		running bool
	}{
		{"files while brokers run", keepFiles, true},
		{"database while none runs", keepDatabase, false},
		{"schema under open connections", keepSchema, true},
		{"standby that was behind", keepStandby, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := storetest.NewServer(t)
			makeDatabase(t, s)
			cfg := s.Config(t, func(c *store.Config) { c.URL = "host=" + s.Dir + " user=postgres dbname=d" })
			b := openTwo(t, cfg)
			b.push(t, 0, Queued, 0, 10)
			restore := c.keep(t, s, cfg.Schema)
			b.push(t, 0, Queued, 10, 30) // is lost
			for i := range b {
				// To keep it may have cut the connections, which each broker finds out by itself.
				whenServed(t, func() error { return b[i].known(t.Context()) })
				if n := len(fetchAll(t, b[i].Engine, "q", "")); n != 30 {
					t.Fatalf("%d messages, want 30", n)
				}
			}
			for i := range b {
				var popped []Popped
				whenServed(t, func() (err error) {
					popped, err = b[i].Pop(t.Context(), PopRequest{Queue: "q", Group: fmt.Sprint(i), Batch: 1, Lease: time.Hour}) // is lost as well
					return err
				})
				if len(popped) != 1 {
					t.Fatalf("popped %+v", popped)
				}
			}
			producer, version := b.given(t)
			epoch := b[0].db.Incarnation().Epoch
			if !c.running {
				b.stop(t)
			}
			restore()
			if !c.running {
				b = openTwo(t, cfg)
			}
			for i := range b {
				deadline := time.Now().Add(time.Minute)
				for b[i].db.Incarnation().Epoch <= epoch {
					if time.Now().After(deadline) {
						t.Fatal("the restore was not noticed")
					}
					_, _ = b[i].db.CatalogVersion(t.Context())
				}
			}
			for i := range b {
				f, err := b[i].Fetch(t.Context(), FetchRequest{Items: []FetchItem{{Queue: "q", Offset: 20, MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
				if err != nil || !errors.Is(f[0].Err, ErrOffsetOutOfRange) {
					t.Errorf("what was lost is answered with %d messages, %v, %v", len(f[0].Messages), f[0].Err, err)
				}
			}
			for i := range b { // nobody has it
				popped, err := b[i].Pop(t.Context(), PopRequest{Queue: "q", Group: fmt.Sprint(i), Batch: 1, Wait: time.Minute})
				if err != nil || len(popped) != 1 || popped[0].Messages[0].Offset != 0 {
					t.Errorf("popped %+v, %v", popped, err)
				}
			}
			if p, v := b.given(t); p <= producer || v <= version {
				t.Errorf("producer id %d and version %d were given in the life that was lost, which went up to %d and %d", p, v, producer, version)
			}
			b.push(t, 1, Queued, 50, 60) // in the place of 10 to 20, which the other vouched for
			b.push(t, 0, Duplicate, 50, 60)
			b.push(t, 0, Duplicate, 0, 10)
			b.push(t, 0, Queued, 10, 30)
			b.push(t, 1, Duplicate, 10, 30)
			if got := fetchAll(t, b[1].Engine, "q", ""); len(got) != 40 {
				t.Errorf("%d messages are stored, want 40", len(got))
			}
			b.stop(t)
		})
	}
}

// known looks for the queue, and for its messages: catalog and log are read apart.
func (e *Engine) known(ctx context.Context) error {
	f, err := e.Fetch(ctx, FetchRequest{Items: []FetchItem{{Queue: "q", MaxBytes: 1 << 20}}, MaxBytes: 1 << 20})
	if err != nil {
		return err
	}
	return f[0].Err
}

// whenServed asks until the database is not unavailable any more.
func whenServed(t *testing.T, ask func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		err := ask()
		if err == nil {
			return
		}
		if !errors.Is(err, ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// makeDatabase makes the database d, not with createdb: only dumps need PostgreSQL's programs for clients.
func makeDatabase(t *testing.T, s *storetest.Server) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `CREATE DATABASE d`); err != nil {
		t.Fatal(err)
	}
}

// twoBrokers are two engines on one database.
type twoBrokers [2]struct {
	*Engine
	db *store.DB
}

func openTwo(t *testing.T, cfg store.Config) (b twoBrokers) {
	t.Helper()
	for i := range b {
		b[i].db = storetest.OpenConfig(t, cfg)
		var err error
		if b[i].Engine, err = Open(t.Context(), Config{DB: b[i].db, Broker: BrokerConfig{ID: -1, Host: "127.0.0.1", Port: 9092, Version: "test"}}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *twoBrokers) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range b {
		if err := b[i].Close(ctx); err != nil {
			t.Error(err)
		}
		b[i].db.Close()
	}
}

// push pushes id-from … id-to at one of them, each with the same outcome.
func (b *twoBrokers) push(t *testing.T, broker int, want PushStatus, from, to int) {
	t.Helper()
	var m []Message
	for i := from; i < to; i++ {
		m = append(m, Message{Queue: "q", ID: fmt.Appendf(nil, "id-%d", i), Value: []byte(`1`)})
	}
	for i, p := range b[broker].Push(t.Context(), m) {
		if p.Err != nil || p.Status != want {
			t.Fatalf("id-%d at broker %d: %v %v, want %v", from+i, broker, p.Status, p.Err, want)
		}
	}
}

// given is what clients keep of counters in the database: a producer id, and a key's version.
func (b *twoBrokers) given(t *testing.T) (producer, version int64) {
	t.Helper()
	p, err := b[0].NewProducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, err := b[0].KV(t.Context(), []KVOp{{Op: KVPut, NS: "n", Key: "k", Value: []byte(`1`), Forever: true}})
	if err != nil || len(a.Results) != 1 {
		t.Fatal(a, err)
	}
	return p.ID, a.Results[0].Version
}

// keepStandby keeps what a standby has that is cut off, and promotes it at the address of
// the primary, which is gone.
func keepStandby(t *testing.T, s *storetest.Server, _ string) func() {
	r := s.Standby(t, "standby")
	sql := func(s *storetest.Server, text string) string {
		t.Helper()
		return strings.TrimSpace(string(s.Run(t, []byte(text), "psql", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")))
	}
	until := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); sql(s, text) != "t"; {
			if time.Now().After(deadline) {
				t.Fatalf("not so: %s", text)
			}
		}
	}
	end := sql(s, `SELECT pg_current_wal_lsn()`)
	until(`SELECT count(*) = 1 FROM pg_stat_replication WHERE flush_lsn >= '` + end + `'`)
	sql(r, `ALTER SYSTEM SET primary_conninfo = ''`)
	sql(r, `SELECT pg_reload_conf()`)
	until(`SELECT count(*) = 0 FROM pg_stat_replication`)
	return func() {
		s.Stop(t, "immediate")
		r.Promote(t)
		const socket = ".s.PGSQL.5432"
		if err := errors.Join(os.RemoveAll(filepath.Join(s.Dir, socket)), os.Symlink(filepath.Join(r.Dir, socket), filepath.Join(s.Dir, socket))); err != nil {
			t.Fatal(err)
		}
	}
}

// keepFiles keeps the files of a stopped server.
func keepFiles(t *testing.T, s *storetest.Server, _ string) func() {
	s.Stop(t, "fast")
	dir := s.Copy(t)
	s.Start(t)
	return func() {
		s.Stop(t, "fast")
		s.PutBack(t, dir)
		s.Start(t)
	}
}

// keepDatabase keeps a dump of all, and cuts all connections to put it back.
func keepDatabase(t *testing.T, s *storetest.Server, _ string) func() {
	dump := s.Run(t, nil, "pg_dump", "-Fc", "d")
	return func() {
		s.Run(t, nil, "dropdb", "--force", "d")
		s.Run(t, nil, "createdb", "-T", "template0", "d")
		s.Run(t, dump, "pg_restore", "--exit-on-error", "-d", "d")
	}
}

// keepSchema keeps a dump of the schema, and cuts no connection to put it back.
func keepSchema(t *testing.T, s *storetest.Server, schema string) func() {
	dump := s.Run(t, nil, "pg_dump", "-n", schema, "d")
	return func() {
		s.Run(t, []byte("BEGIN; DROP SCHEMA "+schema+" CASCADE;\n"+string(dump)+"\nCOMMIT;"), "psql", "-q", "-v", "ON_ERROR_STOP=1", "d")
	}
}
