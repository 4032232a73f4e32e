package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	pollEvery = 20 * time.Millisecond
	// adoptSettle is how long a leftover server is looked at before it is
	// believed: the signal its dying parent left it may still be on its way.
	adoptSettle = 250 * time.Millisecond
	// leftoverWait is how long the children of a dead postmaster get to follow it.
	leftoverWait = 2 * time.Second
)

var errServerEnded = errors.New("the server process ended")

// process is one postmaster.
type process struct {
	pid     int
	adopted bool
	exited  chan struct{}
	err     error // set before exited closes
}

// exitErr is why it ended; only after exited closed.
func (p *process) exitErr() error {
	if p.err != nil {
		return fmt.Errorf("%w (%w)", errServerEnded, p.err)
	}
	return errServerEnded
}

// adoptOrLaunch returns a postmaster of our cluster: the one that is already
// there, when it is as we want it, else a new one. What a dead one left behind
// is cleared away first. Runs on the supervisor's thread.
func (s *Server) adoptOrLaunch(ctx context.Context) (*process, error) {
	file, exists, err := readPidfile(s.pgDir)
	if err != nil {
		return nil, err
	}
	if exists && isServer(file.pid, s.pgDir) {
		p := s.watch(file.pid)
		if s.adoptable(ctx, p) {
			return p, nil
		}
		if err := s.waitGone(ctx, p); err != nil {
			return nil, err
		}
	}
	killLeftovers(s.pgDir)
	// No server of this cluster lives. The process these files name got the
	// number of a dead one, or is the dead one as a zombie nobody collects, and
	// the server would refuse to start because of it.
	socket := socketPath(s.socketDir, s.cfg.Port)
	for _, stale := range []string{pidfilePath(s.pgDir), socket + ".lock", socket} {
		if err := os.Remove(stale); err == nil {
			s.cfg.Log.InfoContext(ctx, "removed what a killed server left", "file", stale)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove what a killed server left: %w", err)
		}
	}
	return s.launch(ctx)
}

// adoptable looks at a leftover server for a moment: it must stay, not be on its
// way out, and listen where our URL points.
func (s *Server) adoptable(ctx context.Context, p *process) bool {
	deadline := time.After(s.cfg.StartTimeout)
	settled := time.After(adoptSettle)
	for {
		file, exists, err := readPidfile(s.pgDir)
		if err != nil || !exists || file.pid != p.pid || file.status == "stopping" {
			return false
		}
		if file.socketDir != "" && (file.socketDir != s.socketDir || file.port != s.cfg.Port) {
			s.cfg.Log.InfoContext(ctx, "leftover database server listens elsewhere, stopping it", "pid", p.pid, "socket", file.socketDir)
			p.signal(syscall.SIGINT)
			return false
		}
		select {
		case <-settled:
			settled = nil
		case <-time.After(pollEvery):
		case <-p.exited:
			return false
		case <-deadline:
			return false
		case <-ctx.Done():
			return false
		}
		if settled == nil && file.status != "" {
			return true
		}
	}
}

// waitGone waits for a server that is shutting down, and loses patience when it
// takes too long or when we are told to stop.
func (s *Server) waitGone(ctx context.Context, p *process) error {
	s.cfg.Log.InfoContext(ctx, "waiting for a leftover database server to shut down", "pid", p.pid)
	select {
	case <-p.exited:
	case <-time.After(s.cfg.StartTimeout):
		s.abandon(p)
	case <-ctx.Done():
		s.abandon(p)
		return ctx.Err()
	}
	return nil
}

// launch starts a postmaster. Runs on the supervisor's thread.
func (s *Server) launch(ctx context.Context) (*process, error) {
	args := []string{"-D", s.pgDir}
	fixed := fixedSettings(s.socketDir, s.cfg.Port)
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		args = append(args, "-c", name+"="+fixed[name])
	}
	// A file and not a pipe: it must not break when we die before the server.
	out, err := os.OpenFile(s.startLogPath(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start log: %w", err)
	}
	defer out.Close()
	// Only Stop ends the server, so its context must not.
	cmd := s.bin.command(context.WithoutCancel(ctx), s.as, s.pgDir, "postgres", args...)
	cmd.Stdout, cmd.Stderr = out, out
	if !s.cfg.detached {
		dieWithParent(cmd.SysProcAttr, syscall.SIGINT)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	p := &process{pid: cmd.Process.Pid, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// watch follows a postmaster that is not our child.
func (s *Server) watch(pid int) *process {
	p := &process{pid: pid, adopted: true, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		tick := time.NewTicker(5 * pollEvery)
		defer tick.Stop()
		for !gone(pid, s.pgDir) {
			<-tick.C
		}
	}()
	return p
}

func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(p.pid, sig) // it may have ended in between
	}
}

// shutdown ends the server within what Stop's caller allowed.
func (s *Server) shutdown(p *process) error {
	s.mu.Lock()
	ctx := s.stopCtx
	s.mu.Unlock()
	p.signal(syscall.SIGINT)
	select {
	case <-p.exited:
		killLeftovers(s.pgDir) // its logger may be a moment behind
		return nil
	case <-ctx.Done():
	}
	s.abandon(p)
	return fmt.Errorf("database did not shut down in time and was ended at once: %w", ctx.Err())
}

// abandon ends a server without a checkpoint, and all that is left of it.
func (s *Server) abandon(p *process) {
	p.signal(syscall.SIGQUIT)
	select {
	case <-p.exited:
	case <-time.After(immediateWait):
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
	killLeftovers(s.pgDir)
}

// killLeftovers ends the children of a dead postmaster. They notice its death
// by themselves, but not in the middle of a long statement, and while one lives
// no new server can start.
func killLeftovers(pgDir string) {
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		deadline := time.Now().Add(leftoverWait)
		for {
			pids := serverProcesses(pgDir)
			if len(pids) == 0 {
				return
			}
			if time.Now().After(deadline) {
				break
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, sig)
			}
			time.Sleep(pollEvery)
		}
	}
}

// runLocked runs a program that dies with us: the thread that starts it must
// not end before it.
func runLocked(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

func (s *Server) startLogPath() string { return filepath.Join(s.dataDir, "start.log") }

// complaint is what the server itself said about why it did not start: in its
// log if it got as far as opening one, else in ours.
func (s *Server) complaint() string {
	early, _ := os.ReadFile(s.startLogPath())
	if !strings.Contains(string(early), "logging collector") {
		return messages(string(early), "LOG:", "FATAL:", "PANIC:", "DETAIL:", "HINT:")
	}
	logs, _ := filepath.Glob(filepath.Join(globEscape(s.pgDir), "log", "*"))
	var newest time.Time
	var late string
	for _, name := range logs {
		if fi, err := os.Stat(name); err == nil && fi.ModTime().After(newest) {
			newest, late = fi.ModTime(), string(tail(name, 64<<10))
		}
	}
	if i := strings.LastIndex(late, "starting PostgreSQL"); i >= 0 {
		late = late[i:]
	}
	return messages(late, "FATAL:", "PANIC:", "DETAIL:", "HINT:")
}

// messages picks the last few messages of the given levels out of a log; those
// to clients who came too early, and what is added to them, explain nothing.
func messages(log string, levels ...string) string {
	var found []string
	early := map[string]bool{} // what their lines begin with, but for the time
	for line := range strings.SplitSeq(log, "\n") {
		for _, level := range levels {
			from, msg, ok := strings.Cut(line, level)
			if !ok {
				continue
			}
			_, process, _ := strings.Cut(from, "[")
			if strings.Contains(msg, "the database system is ") {
				early[process] = true
			} else if !early[process] {
				found = append(found, strings.TrimSpace(msg))
			}
		}
	}
	return strings.Join(found[max(0, len(found)-5):], "; ")
}

func tail(name string, n int64) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil
	}
	b := make([]byte, min(n, fi.Size()))
	m, _ := f.ReadAt(b, fi.Size()-int64(len(b)))
	return b[:m]
}
