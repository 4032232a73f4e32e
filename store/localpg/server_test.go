package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFirstStartAndRestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "state", "queen")

	s := start(t, Config{DataDir: dir})
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"listen_addresses": "", "data_checksums": "on", "server_encoding": "UTF8", "lc_collate": "C",
		"jit": "off", "max_wal_size": "4GB", "checkpoint_timeout": "15min", "autovacuum_naptime": "15s",
	} {
		if got := ask(t, s, "SELECT CASE '"+name+"' WHEN 'lc_collate' THEN (SELECT datcollate FROM pg_database WHERE datname = 'queen')"+
			" ELSE current_setting('"+name+"', true) END"); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	run(t, s, "CREATE TABLE kept AS SELECT 7 AS n")
	stop(t, s)
	if s.Err() != nil || s.PID() != 0 {
		t.Errorf("after Stop: err %v, pid %d, want none", s.Err(), s.PID())
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}

	s = start(t, Config{DataDir: dir})
	if got := ask(t, s, "SELECT n::text FROM kept"); got != "7" {
		t.Errorf("kept row is %s, want 7", got)
	}
}

func TestServerIsClosedToOthers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: filepath.Join(openTempDir(t), "q")})
	owner, err := ownerOf(fmt.Sprintf("/proc/%d", s.PID()))
	if errors.Is(err, fs.ErrNotExist) { // no /proc on this system
		owner, err = ownerOf(s.pgDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if owner == 0 {
		t.Error("the server runs as root")
	}
	for _, dir := range []string{s.socketDir, s.pgDir} {
		fi, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %o, want 700", dir, fi.Mode().Perm())
		}
	}
	fi, err := os.Stat(socketPath(s.socketDir, s.cfg.Port))
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("socket: %v %v, want mode 700", fi, err)
	}
	group, err := syscall.Getpgid(s.PID())
	if err != nil || group != s.PID() {
		t.Errorf("process group is %d (%v), want the server's own, %d", group, err, s.PID())
	}
}

func TestProtectionCannotBeSwitchedOff(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	for _, name := range []string{"fsync", "Full_Page_Writes", "synchronous_commit", "listen_addresses", "a b"} {
		if _, err := Start(t.Context(), Config{DataDir: dir, Settings: map[string]string{name: "off"}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("setting %s: error %v, want one that names it", name, err)
		}
	}
	s := start(t, Config{DataDir: dir, Settings: map[string]string{"work_mem": "5MB"}})
	run(t, s, "ALTER SYSTEM SET fsync = off")
	if err := os.WriteFile(filepath.Join(s.pgDir, localConfFile), []byte("full_page_writes = off\nwork_mem = '6MB'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	s = start(t, Config{DataDir: dir, Settings: map[string]string{"work_mem": "5MB"}})
	if got := ask(t, s, "SELECT concat_ws(' ', current_setting('fsync'), current_setting('full_page_writes'), current_setting('work_mem'))"); got != "on on 6MB" {
		t.Errorf("fsync, full_page_writes, work_mem = %s, want on on 6MB", got)
	}
}

func TestFolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: filepath.Join(openTempDir(t), "q")})
	pid := s.PID()
	_, err := Start(t.Context(), Config{DataDir: s.DataDir()})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("second start: %v, want ErrInUse naming process %d", err, os.Getpid())
	}
	if ask(t, s, "SELECT 'alive'") != "alive" || s.PID() != pid {
		t.Errorf("the first server was disturbed: pid %d, was %d", s.PID(), pid)
	}
}

func TestKilledServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: filepath.Join(openTempDir(t), "q")})
	run(t, s, "CREATE TABLE kept AS SELECT 7 AS n")
	keepBusy(t, s)
	for range 2 {
		dead := s.PID()
		if err := syscall.Kill(dead, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "another server is up", func() bool {
			conn, err := tryURL(t, s)
			if err != nil {
				return false
			}
			defer conn.Close(t.Context())
			return s.PID() != dead && s.PID() != 0
		})
		if got := ask(t, s, "SELECT n::text FROM kept"); got != "7" {
			t.Errorf("kept row is %s, want 7", got)
		}
	}
}

func TestSupervisorGivesUpWithTheServersReason(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: filepath.Join(openTempDir(t), "q"), RestartsMax: 1})
	if err := os.WriteFile(filepath.Join(s.pgDir, localConfFile), []byte("max_connections = 'many'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("Done is still open")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "configuration file") {
		t.Errorf("Err is %v, want the server's complaint about its configuration", err)
	}
}

func TestStopEndsOpenTransactions(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: filepath.Join(openTempDir(t), "q")})
	conn := connect(t, s)
	if _, err := conn.Exec(t.Context(), "BEGIN; CREATE TABLE lost (n int)"); err != nil {
		t.Fatal(err)
	}
	pid := s.PID()
	stop(t, s)
	if !gone(pid, s.pgDir) {
		t.Errorf("process %d is still there after Stop", pid)
	}
	if left := serverProcesses(s.pgDir); len(left) > 0 {
		t.Errorf("processes %v are still there after Stop", left)
	}
}

func TestStopOutOfTimeEndsAtOnceAndSaysSo(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Config{DataDir: filepath.Join(openTempDir(t), "q")})
	if err != nil {
		t.Fatal(err)
	}
	pid := s.PID()
	// A stopped process cannot act on a fast shutdown, nor on an immediate one.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v, want the context's error", err)
	}
	if left := serverProcesses(s.pgDir); len(left) > 0 || !gone(pid, s.pgDir) {
		t.Errorf("processes %v are still there after Stop", left)
	}
}

func TestUnreachableFolderNamesTheClosedParent(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(openTempDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{DataDir: filepath.Join(closed, "q")})
	if os.Geteuid() != 0 {
		// We are the server's user, and the folder is ours.
		if err != nil {
			t.Fatal(err)
		}
		stop(t, s)
		return
	}
	if err == nil || !strings.Contains(err.Error(), closed+" is closed") || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("start in a folder of root's: %v, want one that names %s and --data-dir", err, closed)
	}
	if err := os.Chmod(closed, 0o711); err != nil {
		t.Fatal(err)
	}
	start(t, Config{DataDir: filepath.Join(closed, "q")})
}

func TestLongPathUsesAShortSocketFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), strings.Repeat("long", 30), "q")
	s := start(t, Config{DataDir: dir})
	short := s.socketDir
	if strings.HasPrefix(short, s.dataDir) {
		t.Fatalf("socket folder is %s, want one outside %s", short, s.dataDir)
	}
	fi, err := os.Stat(short)
	if err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("socket folder: %v %v, want mode 700", fi, err)
	}
	if ask(t, s, "SELECT 'here'") != "here" {
		t.Error("no answer through the short folder")
	}
	stop(t, s)
	if _, err := os.Stat(short); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket folder after Stop: %v, want it gone", err)
	}
}

func TestRecoveryReportsProgress(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	s := start(t, Config{DataDir: dir})
	stop(t, s)
	// Archive recovery that waits for an archive: the server answers "not yet".
	signal := filepath.Join(s.pgDir, "recovery.signal")
	if err := replaceFile(signal, s.as, ""); err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	began := time.Now()
	start(t, Config{
		DataDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil)),
		StartTimeout: 3 * time.Second, // silence is bounded, recovery is not
		Settings:     map[string]string{"restore_command": "sleep 1.5; false"},
	})
	took := time.Since(began)
	if n := strings.Count(log.String(), "database is starting"); n < 3 || n > int(took.Seconds())+1 {
		t.Errorf("%d progress lines in %s, want one a second:\n%s", n, took, log.String())
	}
}

func TestBinariesAreNamedWhenMissing(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	_, err := Start(t.Context(), Config{DataDir: filepath.Join(dir, "q"), BinDir: dir})
	if err == nil || !strings.Contains(err.Error(), "apt-get install postgresql") || !strings.Contains(err.Error(), "--database-url") {
		t.Errorf("start without binaries: %v, want the ways out", err)
	}
}

// pg_upgrade leaves the configuration that initdb wrote for the new cluster.
func TestUpgradedClusterReadsOurSettings(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	s := start(t, Config{DataDir: dir})
	stop(t, s)
	conf := filepath.Join(s.pgDir, "postgresql.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	byInitdb, _, ours := strings.Cut(string(text), "\n# queen's settings")
	if !ours {
		t.Fatalf("%s does not name our settings", conf)
	}
	if err := replaceFile(conf, s.as, byInitdb); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{DataDir: dir})
	if got := ask(t, s, "SELECT current_setting('autovacuum_naptime')"); got != "15s" {
		t.Errorf("autovacuum_naptime = %s, want ours, 15s", got)
	}
	stop(t, s)
	if again, err := os.ReadFile(conf); err != nil || string(again) != string(text) {
		t.Errorf("%s is not what it was (%v)", conf, err)
	}
}

func TestClusterOfAnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	s := start(t, Config{DataDir: dir})
	stop(t, s)
	if err := replaceFile(filepath.Join(s.pgDir, "PG_VERSION"), s.as, "13\n"); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "made by PostgreSQL 13") {
		t.Errorf("start on a cluster of version 13: %v, want a refusal that says so", err)
	}
}
