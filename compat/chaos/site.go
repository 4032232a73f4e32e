package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// Site is brokers on one database, with a proxy on every link a fault may hit.
// The first is the keeper: the database is its own, so the two end together.
//
//	clients ──► Kafka, HTTP ──► broker ──► Database ──► PostgreSQL
type Site struct {
	Nodes []*Node
	home  string // the keeper's data folder
}

// Node is a broker that is killed and started again, at addresses that stay.
type Node struct {
	Name        string
	Kafka, HTTP *Proxy // from clients
	Database    *Proxy // to PostgreSQL; nil for the keeper, which has a socket of its own

	cfg broker.Config
	// One fault at a time does something to the process.
	process sync.Mutex
	live    *broker.Process
	before  []string // logs of its processes that have ended
}

// stopTimeout is how long a broker may take to end after SIGTERM.
const stopTimeout = 30 * time.Second

// Open starts one broker per data folder. Close ends it all.
func Open(ctx context.Context, binary string, dataDirs ...string) (*Site, error) {
	s := &Site{home: dataDirs[0]}
	for i, dir := range dataDirs {
		n := &Node{Name: fmt.Sprintf("b%d", i), cfg: broker.Config{Binary: binary, DataDir: dir}}
		s.Nodes = append(s.Nodes, n)
		if err := s.open(ctx, n, i > 0); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Site) open(ctx context.Context, n *Node, proxied bool) (err error) {
	if n.Kafka, err = NewLink(ctx); err != nil {
		return err
	}
	if n.HTTP, err = NewLink(ctx); err != nil {
		return err
	}
	if proxied {
		pg, err := broker.Postgres(s.home)
		if err != nil {
			return err
		}
		if n.Database, err = NewProxy(ctx, "unix", pg.Socket()); err != nil {
			return err
		}
		n.cfg.DatabaseURL = pg.URLAt(n.Database.Addr())
	}
	n.cfg.Args = []string{"--advertised-addr", n.Kafka.Addr()}
	return n.start(ctx)
}

// start has the links lead to a new process.
func (n *Node) start(ctx context.Context) error {
	p, err := broker.Start(ctx, n.cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	n.live = p
	n.Kafka.Aim(p.Kafka)
	n.HTTP.Aim(p.HTTP)
	return nil
}

// kill ends the process as if its machine had stopped.
func (n *Node) kill() error {
	n.before = append(n.before, n.live.Log())
	return n.live.Kill()
}

// stop asks the process to end.
func (n *Node) stop() error {
	err := n.live.Stop(stopTimeout)
	n.before = append(n.before, n.live.Log())
	return err
}

// Log is what all its processes wrote.
func (n *Node) Log() string {
	return strings.Join(append(n.before[:len(n.before):len(n.before)], n.live.Log()), "\n")
}

// Cluster is where clients find the site.
func (s *Site) Cluster() (c Cluster) {
	for _, n := range s.Nodes {
		c.Kafka, c.HTTP = append(c.Kafka, n.Kafka.Addr()), append(c.HTTP, n.HTTP.Addr())
	}
	return c
}

// connect is an administrator's connection, past all proxies.
func (s *Site) connect(ctx context.Context) (*pgx.Conn, error) {
	pg, err := broker.Postgres(s.home)
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, pg.URL())
}

// Deadlocks are what PostgreSQL wrote about statements it ended because they
// waited for each other. Its counter is 0 again after a crash; its log is not.
func (s *Site) Deadlocks() ([]string, error) {
	logs, err := filepath.Glob(filepath.Join(s.home, "pg", "log", "*"))
	if err == nil && len(logs) == 0 {
		err = errors.New("there are none")
	}
	if err != nil {
		return nil, fmt.Errorf("logs of PostgreSQL: %w", err)
	}
	var found []string
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("logs of PostgreSQL: %w", err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "deadlock detected") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return found, nil
}

// Close stops the brokers in order, the keeper last. An error says that one
// ended by itself, did not end when asked, or panicked at any time.
func (s *Site) Close() error {
	var errs []error
	for i := len(s.Nodes) - 1; i >= 0; i-- {
		n := s.Nodes[i]
		if n.live != nil {
			if err := n.stop(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", n.Name, err))
			}
			if log := n.Log(); strings.Contains(log, "panic:") || strings.Contains(log, "fatal error:") {
				errs = append(errs, fmt.Errorf("%s panicked:\n%s", n.Name, log))
			}
		}
		for _, p := range []*Proxy{n.Kafka, n.HTTP, n.Database} {
			if p != nil {
				errs = append(errs, p.Close())
			}
		}
	}
	return errors.Join(errs...)
}
