//go:build size

package compat

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// What deduplication costs at sizes that take minutes: `make dedup-size`. Each
// test says its numbers and fails beyond the bounds the product promises.

const (
	sizedIDs     = 10_000_000 // in one partition's window
	sizedClients = 8
)

var sizedHTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * sizedClients}}

// pushIDs pushes new ids, one for each partition named, and fails unless all are queued.
func pushIDs(ctx context.Context, t *testing.T, p *broker.Process, queue string, partitions []string, from int64) time.Duration {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i, part := range partitions {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":%q,"partition":%q,"payload":null,"transactionId":"id-%d"}`, queue, part, from+int64(i))
	}
	b.WriteString(`]}`)
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.HTTP+"/api/v1/push", &b)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := sizedHTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	took := time.Since(began)
	if n := bytes.Count(text, []byte(`"status":"queued"`)); err != nil || n != len(partitions) {
		t.Fatalf("status %d, %d of %d queued (%v): %.300s", resp.StatusCode, n, len(partitions), err, text)
	}
	return took
}

func repeat(part string, n int) []string { return slices.Repeat([]string{part}, n) }

// fillIDs stores ids from 0 in one partition.
func fillIDs(ctx context.Context, t *testing.T, p *broker.Process, queue, part string, ids int64) {
	t.Helper()
	const batch = 2000
	var at atomic.Int64
	var wg sync.WaitGroup
	for range sizedClients {
		wg.Go(func() {
			for {
				from := at.Add(batch) - batch
				if from >= ids || t.Failed() {
					return
				}
				pushIDs(ctx, t, p, queue, repeat(part, batch), from)
			}
		})
	}
	wg.Wait()
}

// metric sums the samples of a metric, those with all of the labels given.
func metric(ctx context.Context, t *testing.T, p *broker.Process, name string, labels ...string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP+"/metrics/prometheus", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := sizedHTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		t.Fatalf("no metric %s %v", name, labels)
	}
	return sum
}

func quantile(t *testing.T, took []time.Duration, q float64) time.Duration {
	t.Helper()
	if len(took) == 0 {
		t.Fatal("nothing was answered in the time given")
	}
	slices.Sort(took)
	return took[min(len(took)-1, int(q*float64(len(took))))]
}

// TestTenMillionIDs restarts on a partition with ten million ids in its window,
// with the cache, which must answer at once and warm up beside, and without.
func TestTenMillionIDs(t *testing.T) {
	ctx, dir := within(t, 20*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	began := time.Now()
	fillIDs(ctx, t, p, "big", "p", sizedIDs)
	t.Logf("%d ids stored in %s; cache %.1f MB, %.2f bytes per id", sizedIDs, time.Since(began).Round(time.Second),
		metric(ctx, t, p, "queen_dedup_cache_bytes")/(1<<20), metric(ctx, t, p, "queen_dedup_cache_bytes")/metric(ctx, t, p, "queen_dedup_cache_hashes"))
	next := int64(sizedIDs)
	one := func() time.Duration {
		took := pushIDs(ctx, t, p, "big", repeat("p", 100), next)
		next += 100
		return took
	}

	p = restarted(t, p, dir)
	began = time.Now()
	first := one()
	slowest, pushes := first, 1
	for metric(ctx, t, p, "queen_dedup_cache_answers_total", `mode="vouched"`) == 0 {
		slowest = max(slowest, one())
		pushes++
	}
	t.Logf("after a restart: first push of 100 in %s, cache warm after %s; %d pushes until then, the slowest %s",
		first, time.Since(began).Round(10*time.Millisecond), pushes, slowest)
	if first >= time.Second {
		t.Errorf("the first push took %s, want less than 1 s", first)
	}

	p = restarted(t, p, dir, "QUEEN_DEDUP_CACHE=0")
	// What is asked is what the search costs, not PostgreSQL's first reads of 200 MB of
	// sorted runs after its own restart: those come first, and are told.
	var reads, took []time.Duration
	for range 50 {
		reads = append(reads, one())
	}
	t.Logf("without the cache, just after a restart of PostgreSQL: first push of 100 in %s, the next 49 in p50 %s, max %s",
		reads[0], quantile(t, reads[1:], 0.5), reads[len(reads)-1])
	for range 500 {
		took = append(took, one())
	}
	t.Logf("without the cache: pushes of 100 in p50 %s, p99 %s, max %s", quantile(t, took, 0.5), quantile(t, took, 0.99), took[len(took)-1])
	if p99 := quantile(t, took, 0.99); p99 >= 50*time.Millisecond {
		t.Errorf("p99 without the cache is %s, want less than 50 ms", p99)
	}

	neighbours(ctx, t, p, func() { one() })
}

// neighbours compares pushes to a hundred other partitions with and without one that
// probes all of its window, and beside a process that does nothing but keep a core busy.
func neighbours(ctx context.Context, t *testing.T, p *broker.Process, probe func()) {
	t.Helper()
	others := make([]string, 100)
	for i := range others {
		others[i] = fmt.Sprint("other-", i)
	}
	load := func(beside func(context.Context)) []time.Duration {
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { beside(within) })
		var mu sync.Mutex
		var all []time.Duration
		for c := range sizedClients / 2 {
			wg.Go(func() {
				// At a pace that leaves room: what is asked is whether they wait for
				// one another, not how two cores are shared.
				pace := time.NewTicker(20 * time.Millisecond)
				defer pace.Stop()
				for i := c; within.Err() == nil; i += sizedClients / 2 {
					<-pace.C
					took := pushIDs(ctx, t, p, "small", repeat(others[i%len(others)], 10), time.Now().UnixNano())
					mu.Lock()
					all = append(all, took)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return all
	}
	probes, probing := 0, time.Duration(0)
	beside := []struct {
		what string
		do   func(context.Context)
		took []time.Duration
	}{
		{what: "nothing", do: func(context.Context) {}},
		{what: "the one that probes ten million ids", do: func(ctx context.Context) {
			since := time.Now()
			for ctx.Err() == nil {
				probe()
				probes++
			}
			probing += time.Since(since)
		}},
		{what: "a loop that keeps a core busy", do: func(ctx context.Context) {
			_ = exec.CommandContext(ctx, "sh", "-c", "while :; do :; done").Run() // killed when it is over
		}},
	}
	load(beside[1].do) // makes the partitions
	probes, probing = 0, 0
	for round := range 20 {
		for i := range beside {
			b := &beside[(i+round)%len(beside)]
			b.took = append(b.took, load(b.do)...)
		}
	}
	alone := quantile(t, beside[0].took, 0.99)
	for _, b := range beside {
		p99 := quantile(t, b.took, 0.99)
		t.Logf("%d pushes to 100 other partitions beside %s: p50 %s, p99 %s, %.2f of beside nothing",
			len(b.took), b.what, quantile(t, b.took, 0.5), p99, float64(p99)/float64(alone))
	}
	t.Logf("meanwhile a push that probes took %s", probing/time.Duration(max(probes, 1)))
	if r := float64(quantile(t, beside[1].took, 0.99)) / float64(alone); r > 1.5 {
		t.Errorf("ratio %.2f, want at most 1.5", r)
	}
}

// TestTwiceTheBudget loads partitions whose windows need twice the budget, evenly.
func TestTwiceTheBudget(t *testing.T) {
	const (
		partitions, idsEach = 64, 30_000
		budgetMB            = 4
		load                = 2 * time.Minute
	)
	ctx, dir := within(t, 20*time.Minute), broker.TempDataDir(t)
	names := make([]string, partitions)
	for i := range names {
		names[i] = fmt.Sprint("p", i)
	}
	p := start(t, broker.Config{DataDir: dir, Env: []string{"QUEEN_DEDUP_CACHE_MB=" + fmt.Sprint(budgetMB)}})
	off := second(t, dir, "QUEEN_DEDUP_CACHE=0")
	for i, name := range names {
		fillIDs(ctx, t, p, "wide", name, idsEach)
		if i == 0 {
			t.Logf("one partition takes %.0f KB", metric(ctx, t, p, "queen_dedup_cache_bytes")/1024)
		}
	}
	fill := metric(ctx, t, p, "queen_dedup_cache_hydrations_total")
	var at atomic.Int64
	at.Store(time.Now().UnixNano())
	run := func(p *broker.Process, d time.Duration) float64 {
		end := time.Now().Add(d)
		var wg sync.WaitGroup
		var pushed atomic.Int64
		began := time.Now()
		for c := range sizedClients {
			wg.Go(func() {
				for i := c; time.Now().Before(end) && !t.Failed(); i += sizedClients {
					pushIDs(ctx, t, p, "wide", repeat(names[i%partitions], 20), at.Add(20)-20)
					pushed.Add(20)
				}
			})
		}
		wg.Wait()
		return float64(pushed.Load()) / time.Since(began).Seconds()
	}
	var ratios []float64
	suppressed := 0.0
	began := time.Now()
	for time.Since(began) < 2*load {
		a, b := run(p, 6*time.Second), run(off, 6*time.Second)
		ratios = append(ratios, a/b)
		suppressed = max(suppressed, metric(ctx, t, p, "queen_dedup_cache_suppressed_partitions"))
	}
	slices.Sort(ratios)
	hydrations := metric(ctx, t, p, "queen_dedup_cache_hydrations_total") - fill
	allowed := float64(partitions) * (time.Since(began).Seconds()/30 + 1)
	t.Logf("%d partitions of %d ids, budget %d MB: rate against the cache switched off %.2f (%.2f to %.2f), %.0f hydrations of at most %.0f, %.0f partitions suppressed, %.0f evictions, %.2f MB used",
		partitions, idsEach, budgetMB, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1], hydrations, allowed, suppressed,
		metric(ctx, t, p, "queen_dedup_cache_evictions_total"), metric(ctx, t, p, "queen_dedup_cache_bytes")/(1<<20))
	if hydrations > allowed {
		t.Errorf("%.0f hydrations, want at most one in 30 s for each partition", hydrations)
	}
	if suppressed == 0 {
		t.Error("nothing was ever suppressed: the budget is not under pressure")
	}
	if r := ratios[len(ratios)/2]; r < 1 {
		t.Errorf("%.2f times the rate without a cache, want at least as much", r)
	}
}

// TestHundredThousandPartitions keeps ten ids in each of 100,000 partitions.
func TestHundredThousandPartitions(t *testing.T) {
	const partitions, perRequest = 100_000, 500
	ctx, dir := within(t, 30*time.Minute), broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	round := func(ids int, from int64) float64 {
		var at atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for range sizedClients {
			wg.Go(func() {
				for {
					first := at.Add(perRequest) - perRequest
					if first >= partitions || t.Failed() {
						return
					}
					var names []string
					for i := range int64(perRequest) {
						names = append(names, repeat(fmt.Sprint("p", first+i), ids)...)
					}
					pushIDs(ctx, t, p, "many", names, from)
				}
			})
		}
		wg.Wait()
		return partitions / time.Since(began).Seconds()
	}
	idle, _ := residentMB(t, p.PID())
	made := round(9, 0)
	made9, _ := residentMB(t, p.PID())
	again := round(1, 1_000_000)
	third := round(1, 2_000_000)
	now, peak := residentMB(t, p.PID())
	used, bound := metric(ctx, t, p, "queen_dedup_cache_bytes"), metric(ctx, t, p, "queen_dedup_cache_bytes_max")
	t.Logf("%d partitions: %.0f/s made with 9 ids each, %.0f/s and %.0f/s with one more; RSS %d MB idle, %d MB made, %d MB at the end, peak %d MB; cache %.1f MB of %.0f MB, %.0f partitions in it",
		partitions, made, again, third, idle, made9, now, peak, used/(1<<20), bound/(1<<20), metric(ctx, t, p, "queen_dedup_cache_partitions"))
	if used > bound {
		t.Errorf("the cache has %.0f bytes, its budget is %.0f", used, bound)
	}
	if third < made/2 {
		t.Errorf("%.0f partitions/s with ids in the window, %.0f/s when made: it collapses", third, made)
	}
}
