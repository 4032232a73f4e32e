package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"queenmq/compat/broker"
)

// lane is how a run is made.
type lane struct {
	span        time.Duration
	seeds       []uint64
	least, most time.Duration // of a round
	longest     time.Duration // that a fault lasts, about
	patience    time.Duration // with clients that are not served after the last fault
}

// theLane is a short run with one seed, the same always, so that a machine that
// is busy does the same as one that is not. With CHAOS_TIME it is as long as that,
// over three new seeds or those of CHAOS_SEED (comma between them), with faults
// that last and all bounds as they are promised.
func theLane(t *testing.T) lane {
	t.Helper()
	l := lane{
		span: 40 * time.Second, seeds: []uint64{1}, least: time.Second, most: 3 * time.Second,
		longest: 2 * time.Second, patience: 40 * time.Second,
	}
	if s := os.Getenv("CHAOS_TIME"); s != "" {
		all, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		now := uint64(time.Now().Unix())
		l = lane{
			span: all, seeds: []uint64{now, now + 1, now + 2}, least: 5 * time.Second, most: 10 * time.Second,
			longest: 10 * time.Second, patience: 10 * time.Second,
		}
	}
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		l.seeds = nil
		for f := range strings.SplitSeq(s, ",") {
			seed, err := strconv.ParseUint(strings.TrimSpace(f), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			l.seeds = append(l.seeds, seed)
		}
	}
	l.span /= time.Duration(len(l.seeds))
	return l
}

// Everything is broken at random, under load through both doors of three brokers.
// Then nothing acknowledged is lost, nothing is there twice, no offset is missing,
// all answers agree, and every client is served again.
func TestNothingIsLostOrDoubledUnderFaults(t *testing.T) {
	t.Parallel()
	l := theLane(t)
	for _, seed := range l.seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { l.run(t, seed) })
	}
}

func (l lane) run(t *testing.T, seed uint64) {
	t.Logf("CHAOS_SEED=%d CHAOS_TIME=%s", seed, l.span)
	ctx := timeout(t, l.span+5*time.Minute)
	bin, err := queenBinary()
	if err != nil {
		t.Fatal(err)
	}
	site, err := Open(ctx, bin, broker.TempDataDir(t), broker.TempDataDir(t), broker.TempDataDir(t))
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = site.Close() // the test has failed already
		}
	}()
	w := &Workload{
		Cluster: site.Cluster(), Queues: []string{"chaos-a", "chaos-b"}, Topic: "chaos", Partitions: 4,
		Pushers: 12, Racers: 2, Producers: 3, Pause: 100 * time.Millisecond, Seed: seed,
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
		Faults: site.Faults(l.longest), Least: l.least, Most: l.most, AtOnce: 3,
		Seed: seed, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	made, err := nemesis.Run(ctx, l.span)
	if err != nil {
		for _, n := range site.Nodes {
			t.Logf("%s:\n%s", n.Name, n.Log())
		}
		t.Fatal(err)
	}
	healed := time.Now()
	stopWriting()
	late := time.AfterFunc(l.patience, func() { stopSettling(fmt.Errorf("not settled %s after the last fault", l.patience)) })
	defer late.Stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	t.Logf("all served %s after the last fault", time.Since(healed).Round(time.Millisecond))
	logs := l.readAll(settled, t, w)
	for _, v := range Check(h, logs) {
		t.Error(v)
	}
	l.judge(t, h, made)
	closed = true
	if err := site.Close(); err != nil {
		t.Error(err)
	}
	if found, err := site.Deadlocks(); err != nil || len(found) > 0 {
		t.Errorf("deadlocks: %q %v", found, err)
	}
	if t.Failed() {
		keep(t, seed, h)
	}
}

// readAll reads everything at every broker: they show one log.
func (l lane) readAll(ctx context.Context, t *testing.T, w *Workload) map[string][]Entry {
	t.Helper()
	var logs map[string][]Entry
	for _, addr := range w.Cluster.Kafka {
		ls, err := w.ReadLogs(ctx, addr)
		if err != nil {
			t.Error(err)
		}
		if logs != nil && !maps.EqualFunc(logs, ls, slices.Equal[[]Entry]) {
			t.Errorf("broker at %s shows another log than the one before", addr)
		}
		logs = ls
	}
	return logs
}

// judge says what there was, and whether it is enough to show anything.
func (l lane) judge(t *testing.T, h *History, made map[string]int) {
	t.Helper()
	faults := 0
	for _, n := range made {
		faults += n
	}
	counts := h.Counts()
	all := 0
	for _, n := range counts {
		all += n
	}
	t.Logf("writes: %d (%.0f/s): %v; looks at ends: %d; %d faults: %v", all, float64(all)/l.span.Seconds(), counts, len(h.Ends), faults, made)
	if counts[Stored] < 200 || counts[Duplicate] == 0 || counts[Unknown] == 0 {
		t.Errorf("the run shows little: %v", counts)
	}
}

// keep saves a history that shows a violation.
func keep(t *testing.T, seed uint64, h *History) {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("chaos-%d-%d.jsonl", seed, os.Getpid()))
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

// prepare makes the topic, and the queues' partitions in order, so that every log
// exists and a partition's name is its number.
func prepare(ctx context.Context, t *testing.T, w *Workload, h *History) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cluster.Kafka...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, w.Partitions, 1, nil, w.Topic); err != nil {
		t.Fatal(err)
	}
	p := w.pusher(h, "first", 1<<32)
	for _, q := range w.Queues {
		for i := range w.Partitions {
			p.next++
			if err := p.settle(ctx, "", []item{{q, i, fmt.Sprintf("first/%d", p.next)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
