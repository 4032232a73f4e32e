package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"queenmq/queen"
)

// Server is the Kafka door. Its goroutines are one accept loop per Serve and
// two loops per connection, one for each frame that appends read longer than its
// client waits, the clock of the groups and what deletes their old positions;
// Shutdown waits for all of them.
type Server struct {
	cfg     Config // immutable after New
	engine  Engine
	log     *slog.Logger
	apis    map[int16]*api // immutable after New
	room    *room
	replies *replyRoom
	noise   *sampler // bounds the lines hostile bytes can write
	// unexpected bounds those about errors that nobody foresaw, which may come with each request.
	unexpected *sampler

	creations creations
	hidden    hiddenNames
	sessions  *sessionCache
	groups    *groups
	images    *topicImages

	offsetsShown offsetsShown

	ctx  context.Context // ends with New's context or at the deadline of Shutdown: everything ends at once
	kill context.CancelFunc

	mu        sync.Mutex
	stopping  bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	perIP     map[string]int
	running   sync.WaitGroup
	expiry    sync.WaitGroup // of the goroutine that deletes old positions
}

// New makes a server. When ctx ends, everything ends at once; Shutdown is the
// polite way.
func New(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:        cfg,
		engine:     cfg.Engine,
		log:        cfg.Logger,
		apis:       make(map[int16]*api),
		room:       newRoom(cfg.InFlightBytesMax),
		replies:    newReplyRoom(&cfg),
		noise:      newSampler(10, time.Minute),
		unexpected: newSampler(10, time.Minute),
		images:     newTopicImages(cfg.Engine, cfg.PartitionsMax),
		sessions:   newSessionCache(cfg.SessionsMax, cfg.SessionPartitionsMax),
		listeners:  make(map[net.Listener]struct{}),
		conns:      make(map[*conn]struct{}),
		perIP:      make(map[string]int),
	}
	for _, a := range table(cfg) {
		s.apis[a.key] = &a
	}
	s.ctx, s.kill = context.WithCancel(ctx)
	s.groups = openGroups(s.ctx, cfg.Groups, cfg.Engine.Coordinator)
	s.expiry.Go(func() { s.expireOffsets(s.ctx) })
	return s, nil
}

// Serve accepts connections until the listener fails or Shutdown is called,
// which gives nil. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }()
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}()
	defer context.AfterFunc(s.ctx, func() { _ = l.Close() })()

	pause := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 5 * time.Millisecond
			s.admit(nc)
			continue
		}
		s.mu.Lock()
		stopping := s.stopping
		s.mu.Unlock()
		if stopping || s.ctx.Err() != nil {
			return nil
		}
		var ne net.Error
		if !errors.As(err, &ne) || errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept kafka connection: %w", err)
		}
		// Out of file descriptors and the like: the next one may work.
		s.log.Warn("accepting a connection failed, trying again", "err", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil
		}
		pause = min(2*pause, time.Second)
	}
}

// admit starts a connection's loops, or closes it at a bound.
func (s *Server) admit(nc net.Conn) {
	host := hostOf(nc.RemoteAddr())
	s.mu.Lock()
	why := ""
	switch {
	case s.stopping:
		why = "shutting down"
	case len(s.conns) >= s.cfg.ConnectionsMax:
		why = "ConnectionsMax reached"
	case s.perIP[host] >= s.cfg.ConnectionsPerIPMax:
		why = "ConnectionsPerIPMax reached"
	}
	if why != "" {
		s.mu.Unlock()
		_ = nc.Close()
		s.noise.log(s.log, "connection refused", "remote", host, "reason", why)
		return
	}
	c := newConn(s, nc, host)
	s.conns[c] = struct{}{}
	s.perIP[host]++
	s.running.Add(1)
	s.mu.Unlock()

	go func() {
		defer s.running.Done()
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		if s.perIP[host]--; s.perIP[host] == 0 {
			delete(s.perIP, host)
		}
	}()
}

// Shutdown stops accepting and reading, lets requests under way be answered and
// waits for all goroutines. When ctx ends first, connections are closed and its
// error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		c.stop(queen.ErrClosing)
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		s.kill()
		<-done
	}
	s.kill()
	s.groups.close()
	s.expiry.Wait()
	return err
}

// giveBack returns the room of a request that is over, and its frame, as soon as
// nobody reads it any more.
func (s *Server) giveBack(r *request) {
	for len(r.reading) > 0 && isDone(r.reading[0]) {
		r.reading = r.reading[1:]
	}
	give := func() {
		if r.frame != nil {
			reuseFrame(r.frame)
			r.frame, r.body = nil, nil
		}
		s.room.leave(&r.share)
	}
	if len(r.reading) == 0 {
		give()
		return
	}
	// Its connection, one of running, still runs.
	s.running.Go(func() {
		for _, p := range r.reading {
			select {
			case <-p.Done():
			case <-s.ctx.Done():
				return
			}
		}
		give()
	})
}

func isDone(p *queen.Pending) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// hostOf is the address of a peer without its port.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
