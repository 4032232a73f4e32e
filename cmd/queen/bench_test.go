package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queenmq/cmd/queen/bench"
	"queenmq/store/storetest"
)

func TestBenchRefusesALoadThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	f := func(want string, args ...string) {
		t.Helper()
		code, out, log := runQueen(append([]string{"bench"}, args...)...)
		if code != exitUsage || out != "" || !strings.Contains(log, want) {
			t.Errorf("queen bench %v: code %d, stdout %q, stderr %q; want code %d and %q", args, code, out, log, exitUsage, want)
		}
	}
	f("--rounds", "produce", "--rounds=0")
	f("--rounds", "baseline", "--rounds=101")
	f("--duration", "push", "--duration=11m")
	f("--size", "produce", "--size=10")
	f("--fill", "consume", "--fill=0")
	f("--batch", "push", "--batch=0")
	f("--batch", "pop", "--batch=10001")
	f("--duplicates", "dedup", "--batch=10", "--duplicates=9")
	f("--turn", "dedup", "--turn=0s")
	f("--vs baseline", "consume", "--vs=baseline")
	f("--vs baseline", "pop", "--vs=baseline")
	f("--vs baseline", "e2e", "--vs=baseline")
	f("--rate", "e2e", "--rate=0")
	f("--linger", "e2e", "--linger=-1s")
	f("--messages", "pop", "--messages=0")
	f("--engine", "push", "--engine", "--serve")
	f("--engine", "push", "--engine", "--vs=127.0.0.1:1")
	f("--vs rows", "push", "--vs=rows", "--dedup-window=0")
	f("--size", "kafka", "--vs=127.0.0.1:1", "--sizes=10")
	f("--partitions", "kafka", "--vs=127.0.0.1:1", "--partition-counts=0")
	f("--vs", "kafka")
	f("--brokers", "produce", "--brokers=nowhere")
	f("--serve", "produce", "--serve", "--data-dir=/x")
}

func TestBenchSaysWhatToDoWhenNothingAnswers(t *testing.T) {
	t.Parallel()
	f := func(want string, args ...string) {
		t.Helper()
		code, out, log := runQueen(append([]string{"bench"}, args...)...)
		if code != exitFailed || out != "" || !strings.Contains(log, want) {
			t.Errorf("queen bench %v: code %d, stdout %q, stderr %q; want code %d and %q", args, code, out, log, exitFailed, want)
		}
	}
	f("--brokers", "produce", "--brokers=127.0.0.1:1", "--rounds=1")
	f("--http", "push", "--http=127.0.0.1:1", "--rounds=1")
	f("queen serve", "baseline", "--data-dir="+filepath.Join(t.TempDir(), "none"))
	f("--database-url", "baseline", "--database-url=postgres://127.0.0.1:1/x")
}

// runBenchLongEnough runs a benchmark with short rounds, and with longer ones
// where a busy machine answers nothing in them.
func runBenchLongEnough(duration string, args ...string) (code int, out, log string) {
	for _, d := range []string{duration, "5s", "60s"} {
		code, out, log = runQueen(append([]string{"bench"}, append(args, "--duration="+d)...)...)
		if !strings.Contains(log, "nothing was answered") {
			break
		}
	}
	return code, out, log
}

func TestBenchBaselineEndToEnd(t *testing.T) {
	t.Parallel()
	code, out, log := runBenchLongEnough("20ms", "baseline", "--database-url", storetest.URL(t), "--rounds=2", "--row=4096", "--verify", "-o", "json")
	var report struct {
		A struct {
			Rounds   []struct{ Bytes int }
			Verified struct{ Acknowledged, Read int }
		}
		Conditions struct{ PostgreSQL map[string]string }
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("code %d, stdout %q (%v), stderr %q", code, out, err, log)
	}
	a := report.A
	if len(a.Rounds) != 2 || a.Rounds[0].Bytes%4096 != 0 || a.Verified.Read == 0 || a.Verified.Read != a.Verified.Acknowledged {
		t.Errorf("report %+v, want two rounds of rows, all verified", report)
	}
	if report.Conditions.PostgreSQL["fsync"] == "" {
		t.Error("conditions lack the database's settings")
	}
}

// The whole of `make bench`, short: a broker of this binary beside the baseline,
// both verified, and nothing left behind.
func TestBenchServesItsOwnBroker(t *testing.T) {
	t.Setenv(mainVar, "1") // the broker is this test binary
	temp := openTempDir(t)
	t.Setenv("TMPDIR", temp)
	code, out, log := runBenchLongEnough("3s", "produce", "--serve", "--vs=baseline", "--row=65536", "--rounds=1", "--partitions=3", "--verify", "-o", "json")
	var report struct {
		Ratio struct{ Throughput float64 }
		A, B  struct {
			Verified struct{ Acknowledged, Read int }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("code %d, stdout %q (%v), stderr %q", code, out, err, log)
	}
	if report.Ratio.Throughput <= 0 || report.A.Verified.Read == 0 || report.B.Verified.Read == 0 ||
		report.A.Verified.Read != report.A.Verified.Acknowledged {
		t.Errorf("report %+v, want a ratio, and both sides verified", report)
	}
	nothingLeft(t, temp)
}

func TestTheTableHasEveryCombinationOnce(t *testing.T) {
	t.Parallel()
	c := benchTable{
		Loads: []string{"produce", "consume", "e2e"}, Sizes: []int{1024, 100}, PartitionCounts: []int{1, 100},
		Compressions: []string{"none", "lz4"}, Flushes: []string{"default", "append"},
	}
	count := make(map[string]int)
	seen := make(map[bench.Cell]bool)
	for _, cell := range c.cells() {
		count[cell.Load+" "+cell.Compression+" "+cell.Flush]++
		if seen[cell] {
			t.Errorf("%+v is there twice", cell)
		}
		seen[cell] = true
	}
	want := map[string]int{
		"produce none default": 4, "produce lz4 default": 4, "produce none append": 4, "produce lz4 append": 4,
		"consume none default": 4, "consume lz4 default": 4, "e2e none default": 4, "e2e none append": 4,
	}
	if !maps.Equal(count, want) {
		t.Errorf("cells %v, want %v", count, want)
	}
}

func nothingLeft(t *testing.T, temp string) {
	t.Helper()
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "queen-bench-") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// verifiedReport is what these tests read of a report.
type verifiedReport struct {
	Ratio *struct{ Throughput, P50, P99 float64 }
	A     verifiedSide
	B     *verifiedSide
}

type verifiedSide struct {
	Rounds []struct {
		Records    int
		LatencyMS  *struct{ P50 float64 }
		SentLateMS *struct{ P99 float64 }
	}
	Verified struct{ Acknowledged, Read int }
}

func (s *verifiedSide) good() bool {
	return len(s.Rounds) == 1 && s.Rounds[0].Records > 0 && s.Verified.Read > 0 && s.Verified.Read == s.Verified.Acknowledged
}

// The loads that need a broker, each short and verified, on one.
func TestBenchLoadsEndToEnd(t *testing.T) {
	t.Setenv(mainVar, "1") // the broker is this test binary
	temp := openTempDir(t)
	t.Setenv("TMPDIR", temp)
	child, err := startBroker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run := func(duration string, args ...string) (r verifiedReport) {
		t.Helper()
		code, out, log := runBenchLongEnough(duration, append(args, "--rounds=1", "--verify", "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Errorf("queen bench %v: code %d, stdout %q (%v), stderr %q", args, code, out, err, log)
			return r
		}
		if !r.A.good() || r.B != nil && (!r.B.good() || r.Ratio == nil || r.Ratio.Throughput <= 0 || r.Ratio.P50 <= 0 || r.Ratio.P99 <= 0) {
			t.Errorf("queen bench %v: %s\nwant both sides verified, and ratios", args, out)
		}
		return r
	}
	e2e := run("200ms", "e2e", "--brokers="+child.kafka, "--vs="+child.kafka, "--rate=500", "--partitions=3", "--clients=2")
	for _, side := range []*verifiedSide{&e2e.A, e2e.B} {
		// The rate is what comes out, whatever the machine does.
		if r := side.Rounds[0]; r.Records%100 != 0 || r.LatencyMS == nil || r.SentLateMS == nil {
			t.Errorf("e2e %+v, want 500 records a second, with latency", r)
		}
	}
	run("100ms", "pop", "--http="+child.http, "--messages=1000", "--clients=2", "--partitions=2")
	run("100ms", "push", "--http="+child.http, "--data-dir="+child.dataDir, "--vs=rows", "--batch=10", "--clients=2")
	run("100ms", "push", "--engine", "--vs=rows", "--clients=2")
	code, out, log := runBenchLongEnough("200ms", "kafka", "--brokers="+child.kafka, "--vs="+child.kafka, "--rounds=1", "--verify",
		"--loads=e2e", "--sizes=100", "--partition-counts=3", "--flushes=append", "--rate=500")
	if want := "\n| e2e | 100 B | 3 | none | each append | p50 "; code != 0 || !strings.Contains(out, want) {
		t.Errorf("queen bench kafka: code %d, stdout %q, stderr %q, want %q", code, out, log, want)
	}
	if err := child.stop(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, temp)
}
