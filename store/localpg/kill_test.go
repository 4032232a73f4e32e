package localpg

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func tryURL(t *testing.T, s *Server) (*pgx.Conn, error) {
	t.Helper()
	return pgx.Connect(t.Context(), s.URL())
}

func TestBrokerKilledWhileMakingTheCluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	broker, _ := startChild(t, dir, false, false)
	until(t, "initdb has begun", func() bool {
		half, _ := filepath.Glob(filepath.Join(dir, "pg.new-*", "base"))
		return len(half) > 0
	})
	kill(t, broker)
	if _, err := os.Stat(filepath.Join(dir, "pg")); err == nil {
		t.Fatal("the cluster was finished before the kill: this test shows nothing")
	}
	s := start(t, Config{DataDir: dir})
	if ask(t, s, "SELECT 'whole'") != "whole" {
		t.Error("no answer")
	}
	if left := unfinished(t, dir); len(left) > 0 {
		t.Errorf("%v left behind", left)
	}
}

func TestServerEndsWithAKilledBroker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	broker, pid := startChild(t, dir, false, true)
	pgDir := filepath.Join(dir, "pg")
	if !isServer(pid, pgDir) {
		t.Fatalf("process %d is not the server", pid)
	}
	kill(t, broker)
	// Where the system has no parent-death signal, the next start adopts it.
	if parentDeathSignal {
		until(t, "the server follows its broker", func() bool { return gone(pid, pgDir) })
	}
	start(t, Config{DataDir: dir})
}

func TestStartRightAfterAKilledBroker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	for range 3 {
		broker, _ := startChild(t, dir, false, true)
		kill(t, broker)
	}
	s := start(t, Config{DataDir: dir})
	pid := s.PID()
	run(t, s, "CREATE TABLE kept AS SELECT 7 AS n")
	if s.PID() != pid {
		t.Errorf("the server changed from %d to %d after it was reported ready", pid, s.PID())
	}
}

func TestLeftoverServerIsAdopted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	broker, pid := startChild(t, dir, true, true)
	kill(t, broker)
	pgDir := filepath.Join(dir, "pg")
	if !isServer(pid, pgDir) {
		t.Fatalf("server %d did not outlive its broker", pid)
	}
	s := start(t, Config{DataDir: dir})
	if s.PID() != pid {
		t.Errorf("server is %d, want the leftover one, %d", s.PID(), pid)
	}
	if ask(t, s, "SELECT 'here'") != "here" {
		t.Error("no answer")
	}
	// An adopted one is watched like a child.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "another server is up", func() bool { return s.PID() != 0 && s.PID() != pid })
	until(t, "it answers", func() bool {
		conn, err := tryURL(t, s)
		if err != nil {
			return false
		}
		return conn.Close(t.Context()) == nil
	})
}

func TestAdoptedServerIsStopped(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	broker, pid := startChild(t, dir, true, true)
	kill(t, broker)
	s := start(t, Config{DataDir: dir})
	if s.PID() != pid {
		t.Fatalf("server is %d, want the leftover one, %d", s.PID(), pid)
	}
	stop(t, s)
	if !gone(pid, s.pgDir) {
		t.Errorf("adopted server %d outlived Stop", pid)
	}
}

func TestLeftoverServerElsewhereIsReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	broker, pid := startChild(t, dir, true, true)
	kill(t, broker)
	s := startAtOnce(t, Config{DataDir: dir, Port: 6000})
	if s.PID() == pid || !gone(pid, s.pgDir) {
		t.Errorf("server is %d, want another one in place of %d", s.PID(), pid)
	}
	if got := ask(t, s, "SELECT current_setting('port')"); got != "6000" {
		t.Errorf("port is %s, want 6000", got)
	}
}

func TestStalePidfileOfALivingStranger(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	s := start(t, Config{DataDir: dir})
	stop(t, s)
	// The number of a killed server was given to another process of its user.
	stranger := asServerUser(t, s, "sleep", "600")
	pid := strconv.Itoa(stranger.Process.Pid)
	for _, text := range []string{pid + "\n" + s.pgDir + "\n1700000000\n5432\n" + s.socketDir + "\n\n 1 1\nready   \n", pid, ""} {
		if err := replaceFile(pidfilePath(s.pgDir), s.as, text); err != nil {
			t.Fatal(err)
		}
		s = start(t, Config{DataDir: dir})
		if s.PID() == stranger.Process.Pid {
			t.Errorf("a stranger was adopted because of %q", text)
		}
		stop(t, s)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger was killed: %v", err)
	}
}

func TestServerKilledTogetherWithItsBroker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	broker, pid := startChild(t, dir, true, true)
	pgDir := filepath.Join(dir, "pg")
	keepBusy(t, &Server{socketDir: filepath.Join(dir, "run"), cfg: Config{}.withDefaults()})
	// The broker first, or it starts another server; what works on is left, with
	// the shared memory.
	kill(t, broker)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if parentDeathSignal && len(serverProcesses(pgDir)) == 0 {
		t.Fatal("nothing was left behind: this test shows nothing")
	}
	s := startAtOnce(t, Config{DataDir: dir})
	if ask(t, s, "SELECT 'here'") != "here" {
		t.Error("no answer")
	}
}
