package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	f("--vs baseline", "consume", "--vs=baseline")
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
