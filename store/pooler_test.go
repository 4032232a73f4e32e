package store_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"queenmq/store"
	"queenmq/store/storetest"
)

// pooling is how a pooler lends its connections to the server, in pgbouncer's words.
type pooling int

const (
	perSession pooling = iota
	perTransaction
	roundRobin // per transaction, and whichever connection rested longest
)

// pooler stands between clients and a server, as pgbouncer does: clients are told of
// processes that do not exist, and servers are lent to them.
type pooler struct {
	socket string // of the server
	mode   atomic.Int64
	drops  []string // parameters clients are not heard with

	mu   sync.Mutex
	idle []*lent // guarded by mu; the one used last is last
	pids uint32  // guarded by mu
}

// lent is a connection to the server.
type lent struct {
	net.Conn
	front *pgproto3.Frontend
}

// startPooler starts a pooler before a server, given by its connection string, and returns it with a connection string.
func startPooler(t *testing.T, server string, mode pooling, drops ...string) (*pooler, string) {
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
	cc, err := pgconn.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{socket: filepath.Join(cc.Host, ".s.PGSQL.5432"), drops: drops}
	p.mode.Store(int64(mode))
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				p.serve(c)
			}()
		}
	}()
	return p, "host=" + dir + " user=postgres dbname=postgres sslmode=disable"
}

// serve is the life of one client.
func (p *pooler) serve(c net.Conn) {
	client := pgproto3.NewBackend(c, c)
	first, err := client.ReceiveStartupMessage()
	if err != nil {
		return
	}
	startup, ok := first.(*pgproto3.StartupMessage)
	if !ok {
		return // a request to cancel
	}
	for _, name := range p.drops {
		delete(startup.Parameters, name)
	}
	to, err := p.take(startup)
	if err != nil {
		return
	}
	defer func() {
		if to != nil { // what its client did on it is not undone here, so nobody gets it
			_ = to.Close()
		}
	}()
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.BackendKeyData{ProcessID: p.pid(), SecretKey: []byte("none")})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if client.Flush() != nil {
		return
	}
	for {
		m, err := client.Receive()
		if _, over := m.(*pgproto3.Terminate); err != nil || over {
			return
		}
		if to == nil {
			if to, err = p.take(startup); err != nil {
				return
			}
		}
		to.front.Send(m)
		switch m.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
			if to.front.Flush() != nil {
				return
			}
			status := p.answer(to, client)
			if status == 0 {
				return
			}
			if status == 'I' && pooling(p.mode.Load()) != perSession {
				p.giveBack(to) // before its client knows, who may ask on another connection at once
				to = nil
			}
			if client.Flush() != nil {
				return
			}
		}
	}
}

// answer takes what the server says up to its being ready to the client, who is not sent
// it yet, and returns how the server is then; 0 when its connection broke.
func (p *pooler) answer(from *lent, client *pgproto3.Backend) byte {
	for {
		m, err := from.front.Receive()
		if err != nil {
			return 0
		}
		client.Send(m)
		if ready, ok := m.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus
		}
	}
}

func (p *pooler) giveBack(l *lent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, l)
}

func (p *pooler) pid() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pids++
	return 1<<30 + p.pids
}

// take returns an idle connection to the server, or opens one as a client asked to.
func (p *pooler) take(startup *pgproto3.StartupMessage) (*lent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 && pooling(p.mode.Load()) != perSession {
		at := n - 1
		if pooling(p.mode.Load()) == roundRobin {
			at = 0
		}
		l := p.idle[at]
		p.idle = slices.Delete(p.idle, at, at+1)
		return l, nil
	}
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		return nil, err
	}
	l := &lent{conn, pgproto3.NewFrontend(conn, conn)}
	l.front.Send(startup)
	if err := l.front.Flush(); err != nil {
		return nil, err
	}
	for {
		m, err := l.front.Receive()
		if err != nil {
			return nil, err
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); ok {
			return l, nil
		}
	}
}

// A pooler that lends a server process for each transaction would take a client from one
// incarnation to the next, and a migration's lock to whoever comes next.
func TestPoolerThatSharesIsRefused(t *testing.T) {
	t.Parallel()
	direct := storetest.Config(t)
	for name, mode := range map[string]pooling{"last used": perTransaction, "first used": roundRobin} {
		p, url := startPooler(t, direct.URL, mode)
		cfg := direct
		cfg.URL = url
		for range 3 { // with more and more connections to lend
			for name2, open := range map[string]func() error{
				"Open":    func() error { _, err := store.Open(t.Context(), cfg); return err },
				"Migrate": func() error { return store.Migrate(t.Context(), cfg) },
			} {
				if err := open(); !errors.Is(err, store.ErrUnsupportedServer) || errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%s, %s: %v", name, name2, err)
				}
			}
			l, err := p.take(&pgproto3.StartupMessage{
				ProtocolVersion: pgproto3.ProtocolVersion30,
				Parameters:      map[string]string{"user": "postgres"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.giveBack(l)
		}
	}
}

// One that keeps a process for each session is as good as none, until it shares.
func TestPoolerOfSessionsIsServedUntilItShares(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	p, url := startPooler(t, cfg.URL, perSession)
	cfg.URL = url
	if err := store.Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	db := storetest.OpenConfig(t, cfg)
	parts := partitions(t, db, "q", 1)
	b := broker()
	id, err := db.Register(t.Context(), b, store.AnyBrokerID, b.Instance)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := db.Heartbeat(t.Context(), id, b.Instance); err != nil {
			t.Fatal(err)
		}
	}
	if err := commit(t.Context(), db, parts[0], 1); err != nil {
		t.Fatal(err)
	}
	p.mode.Store(int64(perTransaction))
	if _, err := db.Heartbeat(t.Context(), id, b.Instance); err != nil { // its process is given back
		t.Fatal(err)
	}
	taken, err := p.take(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.giveBack(taken)
	for !errors.Is(err, store.ErrUnsupportedServer) { // what it had prepared is missed first
		_, err = db.Heartbeat(t.Context(), id, b.Instance)
	}
	if err := commit(t.Context(), db, parts[0], 2); !errors.Is(err, store.ErrUnsupportedServer) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("commit: %v", err)
	}
}

// Through a pooler that drops them no setting is pinned: commits might not be durable,
// nor would a standby that was skipped be told of.
func TestPoolerThatDropsSettingsIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.NewServer(t)
	direct := s.Config(t, nil)
	pool := storetest.Pool(t, storetest.OpenConfig(t, direct))
	for _, sql := range []string{
		`ALTER ROLE postgres SET synchronous_commit = off`,
		`ALTER ROLE postgres SET default_transaction_isolation = serializable`,
		`ALTER ROLE postgres SET client_min_messages = error`,
		`ALTER ROLE postgres SET client_encoding = latin1`,
	} {
		exec(t, pool, sql)
	}
	for _, drops := range []string{"synchronous_commit", "default_transaction_isolation", "client_min_messages", "client_encoding", "search_path"} {
		_, url := startPooler(t, s.URL, perSession, drops)
		cfg := direct
		cfg.URL = url
		for name, open := range map[string]func() error{
			"Open":    func() error { _, err := store.Open(t.Context(), cfg); return err },
			"Migrate": func() error { return store.Migrate(t.Context(), cfg) },
		} {
			err := open()
			if !errors.Is(err, store.ErrUnsupportedServer) || errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), drops) {
				t.Errorf("%s without %s: %v", name, drops, err)
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
