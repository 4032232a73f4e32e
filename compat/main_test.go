package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"queenmq/compat/broker"
)

// The tests of this package run the real binary as a process, so that it can be
// killed. Those that do not kill it share one.
var (
	queenBinary = sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "queen-binary-")
		if err != nil {
			return "", err
		}
		leftovers = append(leftovers, func() error { return os.RemoveAll(dir) })
		return broker.Build(context.Background(), dir)
	})
	sharedBroker = sync.OnceValues(func() (*broker.Process, error) {
		bin, err := queenBinary()
		if err != nil {
			return nil, err
		}
		dir, err := broker.NewDataDir()
		if err != nil {
			return nil, err
		}
		leftovers = append(leftovers, func() error { return broker.Discard(dir) })
		// Consumer groups hand over at heartbeats: every second, where a case waits for it.
		p, err := broker.Start(context.Background(), broker.Config{Binary: bin, DataDir: dir, Args: []string{"--kafka-group-heartbeat=1s"}})
		if err != nil {
			return nil, err
		}
		leftovers = append(leftovers, func() error { return p.Stop(30 * time.Second) })
		return p, nil
	})
	leftovers []func() error
)

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(leftovers) - 1; i >= 0; i-- {
		if err := leftovers[i](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// caseMax is what a case may take on a machine that has others to serve.
const caseMax = 5 * time.Minute

// TestSuite runs every case against COMPAT_SEEDS, or else against the real
// binary on a fresh database.
func TestSuite(t *testing.T) {
	t.Parallel()
	o := Options{Brokers: seeds(t), Timeout: caseMax}
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			switch r := RunCase(t.Context(), o, c); r.Result {
			case Fail:
				t.Error(r.Detail)
			case Skip:
				t.Logf("not offered: %s", r.Detail)
			default:
				t.Log(r.Detail)
			}
		})
	}
}

func seeds(t *testing.T) []string {
	t.Helper()
	if s := os.Getenv("COMPAT_SEEDS"); s != "" {
		return strings.Split(s, ",")
	}
	return []string{shared(t).Kafka}
}

// shared is the broker that tests share.
func shared(t *testing.T) *broker.Process {
	t.Helper()
	p, err := sharedBroker()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs a broker; what is left of it at the end of the test is killed.
func start(t *testing.T, cfg broker.Config) *broker.Process {
	t.Helper()
	bin, err := queenBinary()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Binary = bin
	p, err := broker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			lines := strings.SplitAfter(p.Log(), "\n")
			t.Logf("broker %d:\n%s", p.PID(), strings.Join(lines[max(0, len(lines)-15):], ""))
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// second runs another broker on the database of the first.
func second(t *testing.T, firstDataDir string, env ...string) *broker.Process {
	t.Helper()
	pg, err := broker.Postgres(firstDataDir)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, broker.Config{DataDir: broker.TempDataDir(t), DatabaseURL: pg.URL(), Env: env})
}

// server is a database that outlives the brokers of a test: that of a broker
// which is left alone. It answers the data folder.
func server(t *testing.T) string {
	t.Helper()
	dir := broker.TempDataDir(t)
	start(t, broker.Config{DataDir: dir})
	return dir
}

// within is a context of a test that ends early. A parallel subtest makes its own: it may
// wait for its turn longer than its parent has.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// on runs steps with the helpers of the suite against one broker, as a case.
func on(t *testing.T, p *broker.Process, steps func(ctx context.Context, k *T)) {
	t.Helper()
	r := RunCase(t.Context(), Options{Brokers: []string{p.Kafka}, Timeout: caseMax}, Case{t.Name(), steps})
	if r.Result != Pass {
		t.Fatal(r.Detail)
	}
}

func kafka(t *testing.T, p *broker.Process, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.Kafka)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// readAll reads a topic from its start until n records are there.
func readAll(ctx context.Context, t *testing.T, p *broker.Process, topic string, n int) []*kgo.Record {
	t.Helper()
	cl := kafka(t, p, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var rs []*kgo.Record
	var last error
	for len(rs) < n {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records came; last error: %v", len(rs), n, last)
		}
		for _, e := range fs.Errors() {
			// For a few seconds the list of brokers names one that was killed, and
			// its port may be another program's by then.
			var foreign *kgo.ErrFirstReadEOF
			if !errors.As(e.Err, &foreign) {
				t.Fatal(e.Err)
			}
			last = e.Err
		}
		rs = append(rs, fs.Records()...)
	}
	return rs
}
