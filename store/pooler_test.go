package store_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queenmq/store"
	"queenmq/store/storetest"
)

// pooler passes connections on to s, but not what they are opened with beside user and
// database, as a pooler does that is told to ignore it. It returns a connection string.
func pooler(t *testing.T, s *storetest.Server) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pooler") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				var size [4]byte
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				startup := make([]byte, binary.BigEndian.Uint32(size[:])-4)
				if _, err := io.ReadFull(c, startup); err != nil {
					return
				}
				kept := string(startup[:4]) // the version
				words := strings.Split(string(startup[4:]), "\x00")
				for i := 0; i+1 < len(words); i += 2 {
					if words[i] == "user" || words[i] == "database" {
						kept += words[i] + "\x00" + words[i+1] + "\x00"
					}
				}
				kept += "\x00"
				to, err := net.Dial("unix", filepath.Join(s.Dir, ".s.PGSQL.5432"))
				if err != nil {
					return
				}
				defer func() { _ = to.Close() }()
				if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(kept)+4)), kept...)); err != nil {
					return
				}
				go func() { _, _ = io.Copy(to, c); _ = to.Close() }()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	return "host=" + dir + " user=postgres dbname=postgres"
}

// Through a pooler that drops them no setting is pinned: commits might not be durable,
// nor would a standby that was skipped be told of.
func TestPoolerThatDropsSettingsIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	cfg := s.Config(t, nil)
	storetest.OpenConfig(t, cfg)
	pool := storetest.Pool(t, storetest.OpenConfig(t, cfg))
	cfg.URL = pooler(t, s)
	exec(t, pool, `ALTER ROLE postgres SET search_path = '`+cfg.Schema+`',pg_temp`)
	for _, sql := range []string{
		`ALTER ROLE postgres SET synchronous_commit = off`,
		`ALTER ROLE postgres SET default_transaction_isolation = serializable`,
		`ALTER ROLE postgres SET client_min_messages = error`,
	} {
		exec(t, pool, sql)
		for name, open := range map[string]func() error{
			"Open":    func() error { _, err := store.Open(t.Context(), cfg); return err },
			"Migrate": func() error { return store.Migrate(t.Context(), cfg) },
		} {
			if err := open(); !errors.Is(err, store.ErrUnsupportedServer) || errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s with %s: %v", name, sql, err)
			}
		}
	}
}

// What made a database unsafe under open connections is noticed with the next heartbeat,
// and nothing is written until it is safe again.
func TestDatabaseMadeUnsafeIsNotUsed(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	db := storetest.OpenConfig(t, s.Config(t, nil))
	pool := storetest.Pool(t, db)
	p := partitions(t, db, "q", 1)
	b := broker()
	id, err := db.Register(t.Context(), b, store.AnyBrokerID, b.Instance)
	if err != nil {
		t.Fatal(err)
	}
	set := func(value string) {
		exec(t, pool, `ALTER SYSTEM SET full_page_writes = `+value)
		exec(t, pool, `SELECT pg_reload_conf()`)
	}
	set("off")
	for err == nil { // until the reload has reached the connection
		_, err = db.Heartbeat(t.Context(), id, b.Instance)
	}
	if !errors.Is(err, store.ErrUnsafeDatabase) {
		t.Errorf("heartbeat: %v", err)
	}
	if err := commit(t.Context(), db, p[0], 1); !errors.Is(err, store.ErrUnsafeDatabase) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("commit: %v", err)
	}
	set("on")
	for err != nil {
		err = commit(t.Context(), db, p[0], 1)
	}
}
