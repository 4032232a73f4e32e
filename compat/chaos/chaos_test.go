package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"queenmq/compat/broker"
)

// Backends are ended at random, the server once without a checkpoint, a broker
// once by kill -9, all under load through both doors of two brokers. Then
// nothing acknowledged is lost, nothing is there twice, no offset is missing.
//
// CHAOS_TIME sets how long (1m), CHAOS_SEED repeats a run's choices.
func TestNothingIsLostOrDoubledUnderFaults(t *testing.T) {
	t.Parallel()
	span, seed := settings(t)
	t.Logf("CHAOS_SEED=%d CHAOS_TIME=%s", seed, span)
	ctx := timeout(t, span+3*time.Minute)
	home := dataDir(t)
	start(t, broker.Config{DataDir: home}) // the keeper of the database takes no traffic
	pair := newPair(t, home)
	w := Workload{
		Cluster: pair.cluster(),
		Queues:  []string{"chaos-a", "chaos-b", "chaos-c"},
		Topic:   "chaos", Partitions: 3,
		Pushers: 4, Producers: 2, Pause: 20 * time.Millisecond, Seed: seed,
	}
	h := NewHistory()
	prepare(ctx, t, w, h)

	writing, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	worked := make(chan error, 1)
	settled, stopSettling := context.WithCancelCause(ctx)
	defer stopSettling(nil)
	go func() { worked <- w.Run(settled, writing, h) }()

	nemesis := Nemesis{
		Often: []Fault{{"end backends", endBackends(home)}},
		Every: 700 * time.Millisecond,
		Once:  []Fault{{"stop the server at once", stopServer(home)}, {"kill -9 a broker", pair.killOne}},
		Seed:  seed, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if err := nemesis.Run(ctx, span); err != nil {
		t.Fatal(err)
	}
	stopWriting()
	// With the faults over, every client is served again within seconds.
	patience := time.AfterFunc(30*time.Second, func() { stopSettling(errors.New("not settled 30s after the last fault")) })
	defer patience.Stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	logs, err := w.ReadLogs(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, v := range Check(h, logs) {
		t.Error(v)
	}
	counts := h.Counts()
	t.Logf("writes: %v; looks at ends: %d", counts, len(h.Ends))
	if counts[Stored] < 200 || counts[Duplicate] == 0 || counts[Unknown] == 0 {
		t.Errorf("the run shows little: %v", counts)
	}
	pair.bothLive(t)
	if t.Failed() {
		keep(t, h)
	}
}

func settings(t *testing.T) (time.Duration, uint64) {
	t.Helper()
	span, seed := time.Minute, uint64(time.Now().UnixNano())
	var err error
	if s := os.Getenv("CHAOS_TIME"); s != "" {
		if span, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return span, seed
}

// keep saves a history that shows a violation.
func keep(t *testing.T, h *History) {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("chaos-%d.jsonl", os.Getpid()))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := h.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	t.Logf("history: %s", path)
}

// pair is two brokers on one database, at addresses that stay.
type pair struct {
	t    *testing.T
	url  string
	dirs [2]string
	live [2]*broker.Process
}

func newPair(t *testing.T, home string) *pair {
	t.Helper()
	pg, err := broker.Postgres(home)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, url: pg.URL()}
	for i := range p.live {
		p.dirs[i] = dataDir(t)
		p.live[i] = start(t, broker.Config{DataDir: p.dirs[i], DatabaseURL: p.url})
	}
	return p
}

func (p *pair) cluster() (c Cluster) {
	for _, b := range p.live {
		c.Kafka, c.HTTP = append(c.Kafka, b.Kafka), append(c.HTTP, b.HTTP)
	}
	return c
}

// killOne ends a broker the hard way and starts it again a little later.
func (p *pair) killOne(ctx context.Context, r *rand.Rand) error {
	i := r.IntN(len(p.live))
	old := p.live[i]
	if err := old.Kill(); err != nil {
		return err
	}
	if !wait(ctx, r, time.Second) {
		return context.Cause(ctx)
	}
	bin, err := queenBinary()
	if err != nil {
		return err
	}
	p.live[i], err = broker.Start(ctx, broker.Config{
		Binary: bin, DataDir: p.dirs[i], DatabaseURL: p.url,
		Args: []string{"--kafka-addr", old.Kafka, "--http-addr", old.HTTP},
	})
	if err == nil {
		p.t.Cleanup(func() { _ = p.live[i].Kill() })
	}
	return err
}

// bothLive checks that no broker ended by itself, and stops them in order.
func (p *pair) bothLive(t *testing.T) {
	t.Helper()
	for _, b := range p.live {
		if err := b.Stop(30 * time.Second); err != nil {
			t.Error(err)
		}
		if strings.Contains(b.Log(), "panic:") {
			t.Errorf("a broker panicked:\n%s", b.Log())
		}
	}
}

// prepare makes the topic and the queues, so that every log exists.
func prepare(ctx context.Context, t *testing.T, w Workload, h *History) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cluster.Kafka...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, w.Partitions, 1, nil, w.Topic); err != nil {
		t.Fatal(err)
	}
	for i, q := range w.Queues {
		m := message{q, fmt.Sprintf("first/%d", i)}
		begun := h.Now()
		as, err := pushBatch(ctx, w.Cluster.HTTP[0], []message{m})
		if err != nil {
			t.Fatal(err)
		}
		h.Write(Write{Client: "first", Partition: q, ID: m.id, Seq: -1, Start: begun, End: h.Now(), Outcome: as[0].outcome(), Offset: as[0].Offset})
	}
}

// endBackends ends one to three connections of brokers to the database. While
// the server is down there is nothing to end.
func endBackends(home string) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, r *rand.Rand) error {
		pg, err := broker.Postgres(home)
		if err != nil {
			return nil // the server is down, which is more than this fault does
		}
		c, err := pgx.Connect(ctx, pg.URL())
		if err != nil {
			return nil // as above
		}
		defer c.Close(ctx)
		_, _ = c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			ORDER BY random() LIMIT $1) AS victims`, 1+r.IntN(3)) // the server may end under it
		return nil
	}
}

// stopServer ends the server without a checkpoint; its keeper starts it again.
func stopServer(home string) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, r *rand.Rand) error {
		old, err := broker.Postgres(home)
		if err != nil {
			return err
		}
		if err := old.Immediate(); err != nil {
			return err
		}
		for wait(ctx, r, 50*time.Millisecond) {
			now, err := broker.Postgres(home)
			if err != nil || now.PID == old.PID {
				continue
			}
			if c, err := pgx.Connect(ctx, now.URL()); err == nil {
				return c.Close(ctx)
			}
		}
		return fmt.Errorf("the server has not come back: %w", context.Cause(ctx))
	}
}
