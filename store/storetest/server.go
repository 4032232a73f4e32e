package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/store"
	"queenmq/store/localpg"
)

// startTimeout bounds initdb and the start of a server on a busy machine.
const startTimeout = 2 * time.Minute

// Server is a private PostgreSQL on a unix socket.
type Server struct {
	URL  string // of its database postgres, as superuser
	Dir  string // holds data/, the socket and log
	bin  string
	cred *syscall.Credential
	pipe io.Closer // to the guard: closed when it is collected
}

// NewServer starts a server for one test, with settings like "fsync=off" over
// the defaults, and removes it after the test. It is for tests that stop it or
// change it; others share one.
func NewServer(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := startServer(t, settings...)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	return s
}

// guard makes the cluster, runs its server, and reads from the test process.
// However that ends, the pipe closes: then the guard stops all it started, also
// a server that was restarted meanwhile, and removes the folder.
const guard = `dir=$1 bin=$2 conf=$3
umask 077
mkdir "$dir" || exit 1
(
	"$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync &&
	echo "$conf" >>"$dir/data/postgresql.conf" &&
	"$bin/postgres" -D "$dir/data"
	: >"$dir/failed"
) >"$dir/log" 2>&1 </dev/null &
read -r _
trap '' TERM
kill -TERM 0
pid=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null)
case $pid in [0-9]*) kill -QUIT "$pid" 2>/dev/null ;; *) pid= ;; esac
wait
while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
until rm -rf "$dir"; do sleep 0.1; done`

// startServer makes a data folder and starts a server in it. Without t it
// lives as long as the process.
func startServer(t testing.TB, settings ...string) (*Server, error) {
	bin, err := findBin()
	if err != nil {
		return nil, err
	}
	cred, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir := "/tmp/queen-pg-" + random() // short: a socket's path has at most 107 bytes
	s := &Server{Dir: dir, bin: bin, cred: cred, URL: fmt.Sprintf("host=%s user=postgres dbname=postgres", dir)}
	conf := append([]string{
		"listen_addresses=''", "max_connections=200", "shared_buffers=64MB", "max_wal_size=2GB",
		"log_min_messages=warning", "unix_socket_directories='" + dir + "'",
	}, settings...)
	cmd := exec.Command("/bin/sh", "-c", guard, "sh", dir, bin, strings.Join(conf, "\n"))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true} // apart from a terminal's interrupt
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s.pipe = pipe
	if t != nil {
		t.Cleanup(func() {
			_ = pipe.Close()
			_ = cmd.Wait()
		})
	}
	return s, s.WaitReady()
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// command prepares one of PostgreSQL's programs, run as its own user.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	return cmd
}

// configure appends settings to postgresql.conf.
func (s *Server) configure(settings []string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, line := range settings {
		if _, err := fmt.Fprintln(f, line); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// WaitReady waits until the server answers.
func (s *Server) WaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("server does not answer: %w\n%s", err, log)
		case <-tick.C:
		}
		if _, failed := os.Stat(filepath.Join(s.Dir, "failed")); failed == nil {
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("server does not start:\n%s", log)
		}
	}
}

// Restart stops the server in the given mode ("fast" or "immediate"), starts it
// again and waits until it answers.
func (s *Server) Restart(t testing.TB, mode string) {
	t.Helper()
	cmd := s.command("pg_ctl", "restart", "-D", s.data(), "-m", mode, "-w", "-l", filepath.Join(s.Dir, "log"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("restart: %v: %s", err, out)
	}
	if err := s.WaitReady(); err != nil {
		t.Fatalf("restart: %v", err)
	}
}

// Stop stops the server in the given mode.
func (s *Server) Stop(t testing.TB, mode string) {
	t.Helper()
	if out, err := s.command("pg_ctl", "stop", "-D", s.data(), "-m", mode, "-w").CombinedOutput(); err != nil {
		t.Fatalf("stop: %v: %s", err, out)
	}
}

// StartNewTimeline starts a stopped server as if it had been restored or
// promoted: its write-ahead log goes on in a new timeline.
func (s *Server) StartNewTimeline(t testing.TB) {
	t.Helper()
	if err := s.configure([]string{"restore_command='false'"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.data(), "recovery.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Start(t)
}

// Copy copies the data folder of a stopped server, as a snapshot of its file system would.
func (s *Server) Copy(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(s.Dir, "copy-"+random())
	s.copyFolder(t, s.data(), dir)
	return dir
}

// PutBack makes a copy of the data folder the data of a stopped server.
func (s *Server) PutBack(t testing.TB, dir string) {
	t.Helper()
	if err := os.RemoveAll(s.data()); err != nil {
		t.Fatal(err)
	}
	s.copyFolder(t, dir, s.data())
}

func (s *Server) copyFolder(t testing.TB, from, to string) {
	t.Helper()
	cmd := exec.Command("cp", "-R", from, to)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// Run runs one of PostgreSQL's programs against the server, as superuser of the database
// postgres, with what it reads, and returns what it writes.
func (s *Server) Run(t testing.TB, input []byte, name string, args ...string) []byte {
	t.Helper()
	cmd := s.command(name, args...)
	cmd.Env = append(os.Environ(), "PGHOST="+s.Dir, "PGUSER=postgres", "PGDATABASE=postgres")
	cmd.Stdin = bytes.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, said.Bytes())
	}
	return out.Bytes()
}

// Start starts a stopped server and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	cmd := s.command("pg_ctl", "start", "-D", s.data(), "-w", "-l", filepath.Join(s.Dir, "log"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("start: %v: %s", err, out)
	}
	if err := s.WaitReady(); err != nil {
		t.Fatalf("start: %v", err)
	}
}

// Config returns a configuration that names a fresh, migrated schema on this server.
func (s *Server) Config(t testing.TB, change func(*store.Config)) store.Config {
	t.Helper()
	cfg := config(s.URL)
	if change != nil {
		change(&cfg)
	}
	if err := store.Migrate(context.Background(), cfg); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return cfg
}

// Standby starts a streaming replica of s, named in application_name, which is removed
// after the test.
func (s *Server) Standby(t testing.TB, name string) *Server {
	t.Helper()
	r, err := startServer(t) // for its folder and guard
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	r.Stop(t, "immediate")
	if err := os.RemoveAll(r.data()); err != nil {
		t.Fatal(err)
	}
	s.Run(t, nil, "pg_basebackup", "-D", r.data(), "-X", "stream", "-c", "fast", "-R", "-d", s.URL+" application_name="+name)
	if err := r.configure([]string{"unix_socket_directories='" + r.Dir + "'"}); err != nil {
		t.Fatal(err)
	}
	r.Start(t)
	return r
}

// Promote makes a standby a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if out, err := s.command("pg_ctl", "promote", "-D", s.data(), "-w").CombinedOutput(); err != nil {
		t.Fatalf("promote: %v: %s", err, out)
	}
}

// findBin finds the folder of PostgreSQL's server programs: the one brokers are told
// of, else the first in PATH, else the newest.
func findBin() (string, error) {
	if dir := os.Getenv(localpg.BinDirVar); dir != "" {
		return dir, nil
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err != nil { // the others may have no link beside it
			return "", err
		}
		return filepath.Dir(p), nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, dir := range slices.Backward(dirs) {
			if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
				return dir, nil
			}
		}
	}
	return "", errors.New("no initdb in PATH or the usual folders; install PostgreSQL's server (Debian: apt-get install postgresql)")
}

// unprivileged returns whom to run the server as, nil for ourselves: PostgreSQL
// refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root, and there is no user postgres or nobody to run PostgreSQL as")
}
