package localpg

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childVar makes the test binary a broker that holds the named data folder until
// it is killed; detachedVar takes the parent-death signal away from its server.
const (
	childVar    = "QUEEN_TEST_DATA_DIR"
	detachedVar = "QUEEN_TEST_DETACHED"
)

// patience is for machines that do much else at the same time; how fast a start
// must be is measured by cmd/queen on a quiet one.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		s, err := Start(context.Background(), Config{DataDir: dir, detached: os.Getenv(detachedVar) != ""})
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("started", s.PID())
		select {}
	}
	os.Exit(m.Run())
}

// startChild runs Start in a process of its own. With wait it returns when the
// server is up, and its process id.
func startChild(t *testing.T, dir string, detached, wait bool) (broker *exec.Cmd, postmaster int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	if detached {
		cmd.Env = append(cmd.Env, detachedVar+"=1")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if wait {
		if _, err := fmt.Fscanf(out, "started %d\n", &postmaster); err != nil {
			t.Fatalf("the broker did not start: %v", err)
		}
	}
	return cmd, postmaster
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
}

// logBuffer is where a test reads what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

// startAtOnce is start where no launch may fail on the way.
func startAtOnce(t *testing.T, cfg Config) *Server {
	t.Helper()
	var log logBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := start(t, cfg)
	if strings.Contains(log.String(), "starting it again") {
		t.Errorf("more than one launch was needed:\n%s", &log)
	}
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func connect(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, s *Server, sql string) {
	t.Helper()
	if _, err := connect(t, s).Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask(t *testing.T, s *Server, sql string) (v string) {
	t.Helper()
	if err := connect(t, s).QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// keepBusy runs a statement that does not look up, so that its backend outlives
// the postmaster and holds the shared memory.
func keepBusy(t *testing.T, s *Server) {
	t.Helper()
	busy := connect(t, s)
	go func() { _, _ = busy.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 1000000000000)") }()
	until(t, "the busy backend works", func() bool {
		return ask(t, s, "SELECT count(*)::text FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%1000000000000%' AND pid <> pg_backend_pid()") == "1"
	})
}

// until waits for something the operating system does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited too long: %s", what)
		}
	}
}

// asServerUser starts a program as the user who runs the server.
func asServerUser(t *testing.T, s *Server, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.SysProcAttr = s.as.sysProcAttr()
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

func unfinished(t *testing.T, dataDir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dataDir, "pg.new-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// openTempDir is t.TempDir, enterable by the user who runs the server.
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
