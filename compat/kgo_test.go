//go:build kgo

package compat

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// TestFranzGoPassesItsOwnTests runs the tests of franz-go's package kgo against
// our broker. What does not pass is listed, each with its reason, in
// expect/kgo.txt, which must stay true in both directions. The test of groups is
// run again with connections cut. KGO_TEST_RECORDS says how many records the
// larger tests move.
func TestFranzGoPassesItsOwnTests(t *testing.T) {
	t.Parallel()
	expected := readExpected(t, "expect/kgo.txt")
	s := newForeignSuite(t, "github.com/twmb/franz-go", "pkg/kgo")
	s.env = append(s.env,
		"KGO_SEEDS="+start(t, broker.Config{DataDir: broker.TempDataDir(t), Args: []string{"--kafka-group-heartbeat=1s"}}).Kafka,
		"KGO_TEST_RF=1", "KGO_LOG_LEVEL=none")
	if os.Getenv("KGO_TEST_RECORDS") == "" {
		s.env = append(s.env, "KGO_TEST_RECORDS=50000")
	}

	// A test that must fail may never end, or keep others from ending.
	var failing []string
	for name, e := range expected {
		if e.verdict == "fail" {
			failing = append(failing, name)
		}
	}
	skip := "^(" + strings.Join(failing, "|") + ")$"
	verdicts, out := s.run(t, 20*time.Minute, "-test.skip="+skip)
	if len(verdicts) < 100 {
		t.Fatalf("%d tests were run:\n%s", len(verdicts), tailOf(out))
	}
	for name, verdict := range verdicts {
		e, listed := expected[name]
		switch {
		case !listed && verdict != "pass":
			t.Errorf("%s: %s\n%s", name, verdict, about(out, name))
		case listed && verdict != e.verdict:
			t.Errorf("%s: %s; the list says %s, as %s", name, verdict, e.verdict, e.why)
		}
	}
	for name, e := range expected {
		if _, ran := verdicts[name]; !ran && e.verdict == "skip" {
			t.Errorf("%s is listed and was not run", name)
		}
	}
	for _, name := range failing {
		verdicts, _ := s.run(t, 30*time.Second, "-test.run=^"+name+"$")
		if v := verdicts[name]; v == "pass" || v == "skip" {
			t.Errorf("%s: %s; the list says that it fails, as %s", name, v, expected[name].why)
		}
	}
	// Groups of both protocols once more, with connections cut every second or so.
	s.env = append(s.env, "KGO_TEST_CHAOS=1")
	cut, out := s.run(t, 10*time.Minute, "-test.run=^TestGroupETL$")
	if v := cut["TestGroupETL"]; v != "pass" {
		t.Errorf("TestGroupETL with connections cut: %q\n%s", v, about(out, "TestGroupETL"))
	}
	t.Logf("%d tests, %d of them listed", len(verdicts)+len(failing), len(expected))
}

// expectation is a line of a list of tests that do not pass.
type expectation struct{ verdict, why string }

func readExpected(t *testing.T, path string) map[string]expectation {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]expectation{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) < 3 || f[0] != "fail" && f[0] != "skip" {
			t.Fatalf("%s: %q is not a verdict, a test and a reason", path, line)
		}
		if _, twice := out[f[1]]; twice {
			t.Fatalf("%s: %s is listed twice", path, f[1])
		}
		out[f[1]] = expectation{f[0], f[2]}
	}
	return out
}

// foreignSuite is the compiled tests of a package that is not ours.
type foreignSuite struct {
	binary, dir string
	env         []string
}

func newForeignSuite(t *testing.T, module, pkg string) *foreignSuite {
	t.Helper()
	s := &foreignSuite{binary: filepath.Join(t.TempDir(), "suite.test"), env: os.Environ()}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	s.dir = filepath.Join(strings.TrimSpace(string(dir)), pkg)
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", s.binary, module+"/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("go test -c %s/%s: %v\n%s", module, pkg, err, out)
	}
	return s
}

var verdictLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+) `)

// run answers the verdict on each test that ended, and what was printed.
func (s *foreignSuite) run(t *testing.T, limit time.Duration, args ...string) (map[string]string, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, append([]string{"-test.v", fmt.Sprintf("-test.timeout=%s", limit)}, args...)...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, m := range verdictLine.FindAllSubmatch(out, -1) {
		verdicts[string(m[2])] = strings.ToLower(string(m[1]))
	}
	if bytes.Contains(out, []byte("panic: test timed out")) && limit > time.Minute {
		t.Errorf("not finished after %s:\n%s", limit, tailOf(out))
	}
	return verdicts, out
}

// about answers the lines before a test's verdict, where its errors are.
func about(out []byte, name string) string {
	var last []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		last = append(last, lines.Text())
		if strings.HasPrefix(lines.Text(), "--- FAIL: "+name+" ") {
			break
		}
	}
	return strings.Join(last[max(0, len(last)-20):], "\n")
}

func tailOf(out []byte) []byte { return out[max(0, len(out)-4000):] }
