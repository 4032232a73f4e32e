package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"queenmq/store/localpg"
)

var readyPattern = regexp.MustCompile(`^ready kafka=(127\.0\.0\.1:\d+) http=(127\.0\.0\.1:\d+) database=(managed|external) version=\S+\n$`)

// Starts have bounds on a quiet machine, which .ci/run promises with this
// variable before it runs everything else; beside other tests they are wide.
const quietVar = "QUEEN_TEST_QUIET"

var (
	firstStartMax = bound(10 * time.Second)
	restartMax    = bound(2 * time.Second)
)

func bound(quiet time.Duration) time.Duration {
	if os.Getenv(quietVar) != "" {
		return quiet
	}
	return 20 * quiet
}

// serving is a broker in a process of its own.
type serving struct {
	cmd    *exec.Cmd
	ready  string // the ready line
	rest   chan string
	stderr *lockedBuffer
}

// serve starts a broker on free ports and waits for its ready line.
func serve(t *testing.T, dir string, args ...string) *serving {
	t.Helper()
	s := launch(t, dir, args...)
	s.ready = <-s.rest
	if !readyPattern.MatchString(s.ready) {
		t.Fatalf("ready line is %q; stderr:\n%s", s.ready, s.stderr)
	}
	return s
}

func launch(t *testing.T, dir string, args ...string) *serving {
	t.Helper()
	args = append([]string{"serve", "--data-dir", dir, "--kafka-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0"}, args...)
	s := &serving{cmd: exec.CommandContext(t.Context(), os.Args[0], args...), rest: make(chan string, 16), stderr: &lockedBuffer{}}
	s.cmd.Env = append(os.Environ(), mainVar+"=1")
	if slices.Contains(args, "--database-url") { // ours obeys it; beside a named one it is refused
		s.cmd.Env = slices.DeleteFunc(s.cmd.Env, func(v string) bool { return strings.HasPrefix(v, localpg.BinDirVar+"=") })
	}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() {
		defer close(s.rest)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				s.rest <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// end sends the signal, waits for the process and returns its exit code; no
// more than the ready line may have been on stdout.
func (s *serving) end(t *testing.T, sig os.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	for line := range s.rest {
		t.Errorf("stdout has another line: %q", line)
	}
	_ = s.cmd.Wait() // the code says it
	return s.cmd.ProcessState.ExitCode()
}

// postmaster is the process id in the cluster's own file.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "pg", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// openTempDir is t.TempDir, enterable by the user who runs PostgreSQL.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestServeFromNothingToStopAndAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	for _, bound := range []time.Duration{firstStartMax, restartMax} {
		began := time.Now()
		s := serve(t, dir)
		if took := time.Since(began); took > bound {
			t.Errorf("ready after %s, want %s\n%s", took, bound, s.stderr)
		}
		ready := readyPattern.FindStringSubmatch(s.ready)
		if ready[3] != "managed" {
			t.Errorf("database=%s, want managed", ready[3])
		}
		if code := s.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d after SIGTERM, want 0; stderr:\n%s", code, s.stderr)
		}
		// Only now is all of the log here: it comes by another pipe than the ready line.
		if want := "msg=ready kafka=" + ready[1] + " http=" + ready[2]; !strings.Contains(s.stderr.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, s.stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "pg", "postmaster.pid")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("postmaster.pid after a clean stop: %v, want it gone", err)
		}
	}
}

func TestServeAfterKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	serve(t, dir).end(t, syscall.SIGKILL)
	began := time.Now()
	s := serve(t, dir)
	if took := time.Since(began); took > restartMax {
		t.Errorf("ready %s after a kill, want %s\n%s", took, restartMax, s.stderr)
	}
	if code := s.end(t, syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d after SIGINT, want 0", code)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	s := serve(t, dir, "--shutdown-timeout=10m")
	// A stopped database keeps the shutdown waiting.
	pid := postmaster(t, dir)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Again and again, since one that comes at once counts as the first told twice.
	ended := make(chan struct{})
	go func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-tick.C:
				_ = s.cmd.Process.Signal(syscall.SIGTERM)
			case <-ended:
				return
			}
		}
	}()
	_ = s.cmd.Wait()
	close(ended)
	if code := s.cmd.ProcessState.ExitCode(); code != -1 || !strings.Contains(s.stderr.String(), "stopping") {
		t.Errorf("exit code %d after the second signal, want none: ended by the signal; stderr:\n%s", code, s.stderr)
	}
}

func TestShutdownHasADeadline(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	s := serve(t, dir, "--shutdown-timeout=100ms")
	if err := syscall.Kill(postmaster(t, dir), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if code := s.end(t, syscall.SIGTERM); code != exitFailed || !strings.Contains(s.stderr.String(), "did not shut down in time") {
		t.Errorf("exit code %d, want %d and the reason; stderr:\n%s", code, exitFailed, s.stderr)
	}
}

func TestSecondBrokerOnOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	first := serve(t, dir)
	second := launch(t, dir)
	if line, ok := <-second.rest; ok {
		t.Errorf("the second says %q on stdout, want nothing", line)
	}
	_ = second.cmd.Wait()
	want := "held by process " + strconv.Itoa(first.cmd.Process.Pid)
	if code := second.cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(second.stderr.String(), want) {
		t.Errorf("exit code %d, want %d and %q; stderr:\n%s", code, exitFailed, want, second.stderr)
	}
}

func TestServeOnAnExternalDatabase(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	pg, err := localpg.Start(t.Context(), localpg.Config{DataDir: filepath.Join(dir, "elsewhere")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	own := filepath.Join(dir, "own")
	s := serve(t, own, "--database-url", pg.URL())
	if got := readyPattern.FindStringSubmatch(s.ready)[3]; got != "external" {
		t.Errorf("database=%s, want external", got)
	}
	// Its folder holds its id: a second one there would take it.
	second := launch(t, own, "--database-url", pg.URL())
	if line, ok := <-second.rest; ok {
		t.Errorf("a second broker on the folder says %q on stdout, want nothing", line)
	}
	_ = second.cmd.Wait()
	if code := second.cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(second.stderr.String(), "data folder is in use") {
		t.Errorf("exit code %d, want %d and that the folder is in use; stderr:\n%s", code, exitFailed, second.stderr)
	}
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if _, err := os.Stat(filepath.Join(own, "pg")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cluster of our own beside the external database: %v", err)
	}
}

func TestServeWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	elsewhere := localpg.Config{DataDir: filepath.Join(dir, "elsewhere")}
	pg, err := localpg.Start(t.Context(), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	impatient := launch(t, filepath.Join(dir, "impatient"), "--database-url", pg.URL(), "--database-wait=0s")
	for line := range impatient.rest {
		t.Errorf("ready without a database: %s", line)
	}
	s := launch(t, filepath.Join(dir, "own"), "--database-url", pg.URL())
	for said := time.NewTicker(10 * time.Millisecond); !strings.Contains(s.stderr.String(), "waiting for the database"); <-said.C {
		select {
		case line := <-s.rest:
			t.Fatalf("it does not wait: %q; stderr:\n%s", line, s.stderr)
		default:
		}
	}
	if pg, err = localpg.Start(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if s.ready = <-s.rest; !readyPattern.MatchString(s.ready) {
		t.Fatalf("ready line is %q; stderr:\n%s", s.ready, s.stderr)
	}
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// Everything acknowledged is in the database, so a broker has nothing to say to it
// at the end: without it, it stops as well as with it.
func TestServeStopsWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	pg, err := localpg.Start(t.Context(), localpg.Config{DataDir: filepath.Join(dir, "elsewhere")})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, filepath.Join(dir, "own"), "--database-url", pg.URL())
	if err := pg.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0; stderr:\n%s", code, s.stderr)
	}
}

func TestTakenPortIsToldBeforeTheDatabaseStarts(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(openTempDir(t), "q")
	code, out, log := runQueen("serve", "--data-dir", dir, "--kafka-addr", taken.Addr().String(), "--http-addr=127.0.0.1:0")
	if code != exitFailed || out != "" || !strings.Contains(log, "--kafka-addr") || !strings.Contains(log, "in use") {
		t.Errorf("code %d, stdout %q, stderr %q; want a failure that names --kafka-addr", code, out, log)
	}
	code, _, log = runQueen("serve", "--data-dir", dir, "--kafka-addr=127.0.0.1:0", "--http-addr", taken.Addr().String())
	if code != exitFailed || !strings.Contains(log, "--http-addr") || strings.Contains(log, "closed") {
		t.Errorf("code %d, stderr %q; want a failure that names --http-addr, and nothing about parts", code, log)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data folder: %v, want none made", err)
	}
}

func TestOpenAddressIsRefusedWithoutInsecure(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	f := func(want string, args ...string) {
		t.Helper()
		args = append([]string{"serve", "--data-dir", dir, "--kafka-addr=127.0.0.1:0", "--http-addr=127.0.0.1:0"}, args...)
		code, _, log := runQueen(args...)
		if code != exitFailed || !strings.Contains(log, want) {
			t.Errorf("queen %v: code %d, stderr %q; want %q", args, code, log, want)
		}
	}
	f("--insecure", "--kafka-addr=0.0.0.0:0")
	f("--insecure", "--http-addr=:0")
	f("--insecure", "--http-addr=[::]:0")
	f("--advertised-addr", "--kafka-addr=0.0.0.0:0", "--insecure")
	f("--kafka-addr", "--kafka-addr=127.0.0.1")
}

func TestAdvertisedAddress(t *testing.T) {
	t.Parallel()
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4242}
	f := func(asked, host string, port int32) {
		t.Helper()
		h, p, err := advertise(asked, bound)
		if err != nil || h != host || p != port {
			t.Errorf("advertise(%q) = %q, %d, %v; want %q, %d", asked, h, p, err, host, port)
		}
	}
	f("", "127.0.0.1", 4242)
	f("broker.example", "broker.example", 4242)
	f("broker.example:0", "broker.example", 4242)
	f("broker.example:9", "broker.example", 9)
	f("[2001:db8::1]:9", "2001:db8::1", 9)
	f("2001:db8::1", "2001:db8::1", 4242)
	for _, bad := range []string{"a:b:c", "host:0x9", "host:65536", "0.0.0.0:9", ":9", "bad host:9", "bad host", "http://host", "host\n:9"} {
		if h, p, err := advertise(bad, bound); err == nil {
			t.Errorf("advertise(%q) = %q, %d, want an error", bad, h, p)
		}
	}
}

func TestPeerAddress(t *testing.T) {
	t.Parallel()
	ip := func(s string) net.Addr { return &net.IPNet{IP: net.ParseIP(s), Mask: net.CIDRMask(24, 32)} }
	machine := func() ([]net.Addr, error) { return []net.Addr{ip("127.0.0.1"), ip("169.254.1.1"), ip("10.0.0.7")}, nil }
	alone := func() ([]net.Addr, error) { return []net.Addr{ip("127.0.0.1")}, nil }
	for _, c := range []struct {
		asked, bound, want string
		addrs              func() ([]net.Addr, error)
	}{
		{"", "127.0.0.1:9092", "127.0.0.1:9092", machine},
		{"", "0.0.0.0:9092", "10.0.0.7:9092", machine},
		{"", "[::]:9092", "10.0.0.7:9092", machine},
		{"", "0.0.0.0:9092", "", alone},
		{"queen-0.internal:9093", "0.0.0.0:9092", "queen-0.internal:9093", machine},
		{"queen-0.internal", "0.0.0.0:9092", "an error", machine},
		{":9093", "0.0.0.0:9092", "an error", machine},
		{"queen-0.internal:kafka", "0.0.0.0:9092", "an error", machine},
		{"queen-0.internal:0", "0.0.0.0:9092", "an error", machine},
	} {
		bound, err := net.ResolveTCPAddr("tcp", c.bound)
		if err != nil {
			t.Fatal(err)
		}
		got, err := peerAddr(c.asked, bound, c.addrs)
		if err != nil {
			got = "an error"
		}
		if got != c.want {
			t.Errorf("asked %q, bound %s: %q, want %q", c.asked, c.bound, got, c.want)
		}
	}
}
