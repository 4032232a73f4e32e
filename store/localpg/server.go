package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// firstStartsMax is how often a server that was never ready is tried.
const firstStartsMax = 3

// Server is a running local PostgreSQL. Its one goroutine of importance is the
// supervisor; it starts the server, starts it again when it dies, and shuts it
// down.
type Server struct {
	// Immutable after Start.
	cfg       Config
	as        *account
	bin       binaries
	dataDir   string
	pgDir     string
	socketDir string
	lock      *folderLock
	cancel    context.CancelFunc // asks the supervisor to shut down
	done      chan struct{}

	mu      sync.Mutex
	pid     int             // the postmaster's; 0 while there is none
	stopCtx context.Context // set by the first Stop: how long a fast shutdown may take
	err     error           // why there is no server any more; set before done closes
	stopErr error           // what Stop answers; set before done closes
}

// Start makes the cluster if there is none, starts its server or adopts the one
// a killed predecessor left, and returns when the first connection succeeded.
// The context bounds the start only; Stop ends the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s, err := prepare(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("local database: %w", err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	first := make(chan error, 1)
	go s.supervise(life, first)
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		// The start's own context may be over; a server that is not ready yet has
		// nothing worth a slow shutdown.
		short, release := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer release()
		return nil, fmt.Errorf("local database: %w", errors.Join(err, s.Stop(short)))
	}
	return s, nil
}

// prepare does everything up to the first launch and holds the folder's lock
// when it succeeds.
func prepare(ctx context.Context, cfg Config) (_ *Server, err error) {
	as, err := chooseAccount(filepath.Join(cfg.DataDir, "pg"))
	if err != nil {
		return nil, err
	}
	dataDir, err := makeDataDir(cfg.DataDir, as)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(dataDir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, as: as, dataDir: dataDir, pgDir: filepath.Join(dataDir, "pg"),
		lock: lock, done: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.release())
		}
	}()
	if err := sweepUnfinished(dataDir); err != nil {
		return nil, err
	}
	major, err := clusterMajor(s.pgDir)
	if err != nil {
		return nil, err
	}
	if s.bin, err = locate(ctx, cfg.BinDir, as, major); err != nil {
		return nil, err
	}
	if err := checkReach(ctx, dataDir, as, s.bin); err != nil {
		return nil, err
	}
	if major == 0 {
		began := time.Now()
		if err := initCluster(ctx, s.bin, as, dataDir, s.pgDir); err != nil {
			return nil, err
		}
		cfg.Log.InfoContext(ctx, "database cluster made", "dir", s.pgDir, "postgres", s.bin.major,
			"user", as.String(), "took", time.Since(began).Round(time.Millisecond))
	}
	if s.pgDir, err = filepath.EvalSymlinks(s.pgDir); err != nil {
		return nil, err
	}
	if err := includeSettings(s.pgDir); err != nil {
		return nil, err
	}
	if s.socketDir, err = makeSocketDir(dataDir, cfg.Port, as); err != nil {
		return nil, err
	}
	tuned := tunedSettings(MemoryBytes(), walCompression(ctx, s.bin, as, s.pgDir))
	if err := writeSettings(s.pgDir, as, tuned, cfg.Settings); err != nil {
		return nil, err
	}
	return s, nil
}

// supervise owns the server until Stop or until it cannot be started any more.
// It stays on one thread: the system ends the server when the thread that
// started it ends, which must mean that we died and nothing else.
func (s *Server) supervise(ctx context.Context, first chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	defer s.releaseFolder(ctx)

	failures, limit, wait := 0, firstStartsMax, restartWaitMin
	for {
		began := time.Now()
		p, err := s.adoptOrLaunch(ctx)
		if err == nil {
			s.setPID(p.pid)
			if err = s.waitReady(ctx, p); err == nil {
				s.cfg.Log.InfoContext(ctx, "database ready", "pid", p.pid, "postgres", s.bin.major,
					"adopted", p.adopted, "took", time.Since(began).Round(time.Millisecond), "url", s.URL())
				if limit == firstStartsMax {
					limit = s.cfg.RestartsMax
					first <- nil
				}
				failures = 0
				began = time.Now()
				select {
				case <-p.exited:
					err = fmt.Errorf("server ended: %w", p.exitErr())
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil {
				s.end(nil, s.shutdown(p))
				return
			}
			s.abandon(p)
			s.setPID(0)
			if p.adopted && errors.Is(err, errServerEnded) {
				continue // it was on its way out when we met it
			}
		}
		if ctx.Err() != nil {
			s.end(nil, nil)
			return
		}
		if time.Since(began) > restartWaitMax {
			wait = restartWaitMin
		}
		failures++
		if failures > limit {
			err = fmt.Errorf("given up after %d failed starts: %w", failures, err)
			s.end(err, nil)
			first <- err
			return
		}
		s.cfg.Log.ErrorContext(ctx, "database server is not running, starting it again", "error", err, "wait", wait)
		select {
		case <-ctx.Done():
			s.end(nil, nil)
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, restartWaitMax)
	}
}

// end records how it ended; the supervisor returns right after.
func (s *Server) end(err, stopErr error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid, s.err, s.stopErr = 0, err, stopErr
}

func (s *Server) setPID(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

func (s *Server) releaseFolder(ctx context.Context) {
	if s.socketDir != filepath.Join(s.dataDir, "run") {
		// Fails when somebody put something there; the next start uses it again.
		_ = os.Remove(s.socketDir)
	}
	if err := s.lock.release(); err != nil {
		s.cfg.Log.WarnContext(ctx, "data folder not unlocked", "error", err)
	}
}

// Stop shuts the server down: fast until the context ends, then immediately
// (the next start recovers from the log), and reports when it was not clean.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	if s.stopCtx == nil {
		s.stopCtx = ctx
	}
	s.mu.Unlock()
	s.cancel()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopErr
}

// Done is closed when the server is gone for good: after Stop, or when it could
// not be started again, which Err explains.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server is gone; nil while it is not, and after Stop.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// DataDir is the data folder without links.
func (s *Server) DataDir() string { return s.dataDir }

// PID is the process id of the running postmaster; 0 between a death and the
// start after it.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// Version is the major version of the server.
func (s *Server) Version() int { return s.bin.major }
