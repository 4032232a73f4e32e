package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// callText is part of the text of the call that stores messages.
const callText = "append_"

// Faults are all that can be done to a site. Each mends what it broke; those that
// last do so for up to longest.
func (s *Site) Faults(longest time.Duration) []Fault {
	last := func(ctx context.Context, r *rand.Rand) {
		wait(ctx, r, longest/20+time.Duration(r.Int64N(int64(longest))))
	}
	return []Fault{
		{"kill -9 a broker", s.kill},
		{"kill -9 all brokers", s.killAll},
		{"SIGTERM to a broker", s.terminate},
		{"SIGSTOP a broker", func(ctx context.Context, r *rand.Rand) error {
			n := s.Nodes[r.IntN(len(s.Nodes))]
			n.process.Lock()
			defer n.process.Unlock()
			if err := n.live.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			last(ctx, r)
			return n.live.Signal(syscall.SIGCONT)
		}},
		{"SIGSTOP a backend", func(ctx context.Context, r *rand.Rand) error {
			pids := s.backends(ctx, r, 1)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
			}
			last(ctx, r)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGCONT) // the server may have been killed under it
			}
			return nil
		}},
		{"end backends", s.endBackends},
		{"stop PostgreSQL at once", s.stopServer},
		{"cut behind the commit", func(ctx context.Context, r *rand.Rand) error {
			return s.trapCalls(ctx, r, longest, (*Proxy).DropReplyOfNext, func(ctx context.Context, h *Held) { _ = h.Done(ctx) })
		}},
		{"cut before the commit", func(ctx context.Context, r *rand.Rand) error {
			return s.trapCalls(ctx, r, longest, (*Proxy).HoldNext, func(ctx context.Context, h *Held) { _ = h.Drop(ctx) })
		}},
		{"the call arrives late", func(ctx context.Context, r *rand.Rand) error {
			return s.trapCalls(ctx, r, longest, (*Proxy).HoldNext, func(ctx context.Context, h *Held) {
				if h.Caught(ctx) == nil && wait(ctx, r, longest/10) {
					_ = h.Release(ctx)
				}
			})
		}},
		{"black hole to PostgreSQL", func(ctx context.Context, r *rand.Rand) error {
			return swallow(ctx, r, last, []*Proxy{s.proxied(r).Database}, There, Back)
		}},
		{"PostgreSQL's replies come late", func(ctx context.Context, r *rand.Rand) error {
			return swallow(ctx, r, last, []*Proxy{s.proxied(r).Database}, Back)
		}},
		{"a broker cut off from PostgreSQL", func(ctx context.Context, r *rand.Rand) error {
			p := s.proxied(r).Database
			p.Refuse()
			last(ctx, r)
			p.Admit()
			return nil
		}},
		{"a broker cut off from clients", func(ctx context.Context, r *rand.Rand) error {
			n := s.Nodes[r.IntN(len(s.Nodes))]
			n.Kafka.Refuse()
			n.HTTP.Refuse()
			last(ctx, r)
			n.Kafka.Admit()
			n.HTTP.Admit()
			return nil
		}},
		{"black hole to a broker", func(ctx context.Context, r *rand.Rand) error {
			n := s.Nodes[r.IntN(len(s.Nodes))]
			ways := [][]Way{{There, Back}, {There}, {Back}}[r.IntN(3)]
			return swallow(ctx, r, last, []*Proxy{n.Kafka, n.HTTP}, ways...)
		}},
	}
}

// proxied is a broker whose connections to the database pass a proxy; it may be
// killed without the database.
func (s *Site) proxied(r *rand.Rand) *Node { return s.Nodes[1+r.IntN(len(s.Nodes)-1)] }

func (s *Site) kill(ctx context.Context, r *rand.Rand) error {
	n := s.proxied(r)
	n.process.Lock()
	defer n.process.Unlock()
	if err := n.kill(); err != nil {
		return err
	}
	wait(ctx, r, time.Second)
	return n.start(ctx)
}

// killAll kills every broker, half of the time the keeper too and so PostgreSQL.
func (s *Site) killAll(ctx context.Context, r *rand.Rand) error {
	nodes := s.Nodes[r.IntN(2):]
	for _, n := range nodes {
		n.process.Lock()
		defer n.process.Unlock()
	}
	for _, n := range nodes {
		if err := n.kill(); err != nil {
			return err
		}
	}
	wait(ctx, r, time.Second)
	for _, n := range nodes {
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) terminate(ctx context.Context, r *rand.Rand) error {
	n := s.proxied(r)
	n.process.Lock()
	defer n.process.Unlock()
	return errors.Join(n.stop(), n.start(ctx))
}

// backends are some of the server's processes that work for brokers, busy ones
// first. While the server is down there are none.
func (s *Site) backends(ctx context.Context, r *rand.Rand, n int) []int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := s.connect(ctx)
	if err != nil {
		return nil
	}
	defer c.Close(ctx)
	rows, _ := c.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
		ORDER BY state = 'active' AND $1 DESC, random() LIMIT $2`, r.IntN(2) == 0, n)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil
	}
	return pids
}

// endBackends ends a few connections of brokers to the database, several times.
func (s *Site) endBackends(ctx context.Context, r *rand.Rand) error {
	for range 1 + r.IntN(5) {
		for _, pid := range s.backends(ctx, r, 1+r.IntN(3)) {
			_ = syscall.Kill(pid, syscall.SIGTERM) // what pg_terminate_backend does; it may have ended
		}
		wait(ctx, r, 300*time.Millisecond)
	}
	return nil
}

// stopServer ends PostgreSQL without a checkpoint; its keeper starts it again.
func (s *Site) stopServer(ctx context.Context, r *rand.Rand) error {
	keeper := s.Nodes[0]
	keeper.process.Lock()
	defer keeper.process.Unlock()
	old, err := broker.Postgres(s.home)
	if err != nil {
		return err
	}
	if err := old.Immediate(); err != nil {
		return err
	}
	for wait(ctx, r, 50*time.Millisecond) {
		now, err := broker.Postgres(s.home)
		if err != nil || now.PID == old.PID {
			continue
		}
		if c, err := pgx.Connect(ctx, now.URL()); err == nil {
			return c.Close(ctx)
		}
	}
	return fmt.Errorf("PostgreSQL has not come back: %w", context.Cause(ctx))
}

// trapCalls catches calls of one broker, one after the other, for a time.
func (s *Site) trapCalls(ctx context.Context, r *rand.Rand, longest time.Duration, set func(*Proxy, string) *Held, do func(context.Context, *Held)) error {
	p := s.proxied(r).Database
	ctx, cancel := context.WithTimeout(ctx, longest/2)
	defer cancel()
	for range 1 + r.IntN(8) {
		do(ctx, set(p, callText)) // the broker may be down: then nothing is caught
		if !wait(ctx, r, longest/50) {
			break
		}
	}
	p.Disarm()
	return nil
}

// swallow makes a silence. When it ends, what was said in it arrives or is lost.
func swallow(ctx context.Context, r *rand.Rand, last func(context.Context, *rand.Rand), links []*Proxy, ways ...Way) error {
	lost := r.IntN(2) == 0
	for _, p := range links {
		p.Swallow(ways...)
	}
	last(ctx, r)
	for _, p := range links {
		if lost {
			p.Cut()
		}
		p.Resume()
	}
	return nil
}
