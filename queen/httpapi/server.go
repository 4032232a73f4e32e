package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"queenmq/queen"
)

// Server is the native HTTP door. It owns no goroutine besides those of its
// http.Server.
type Server struct {
	// Immutable after New.
	cfg     Config
	engine  Engine
	log     *slog.Logger
	metrics *metrics
	budget  *budget
	http    *http.Server
	origin  *http.CrossOriginProtection
	started time.Time
	// document is the OpenAPI document, merged when first asked for.
	document func() ([]byte, error)

	closing atomic.Bool
	parked  parked // ended by Shutdown: waiting requests answer at once
}

// New makes a door in front of an engine.
func New(cfg Config, e Engine) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, engine: e, log: cfg.Logger,
		metrics: newMetrics(cfg.Registry),
		budget:  newBudget(cfg.InFlightBytesMax),
		origin:  http.NewCrossOriginProtection(),
		started: time.Now(),

		document: sync.OnceValues(func() ([]byte, error) { return document(fragments, cfg.Version) }),
	}
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: cfg.ReadHeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.HeaderBytesMax,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	return s
}

// Handler is the door as a handler, for a server of the caller's own.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve answers requests from l until Shutdown; it returns
// http.ErrServerClosed then, as http.Server does.
func (s *Server) Serve(l net.Listener) error {
	return s.http.Serve(&boundedListener{Listener: l, slots: make(chan struct{}, s.cfg.ConnectionsMax)})
}

// Shutdown turns /readyz to 503, stops accepting, lets parked requests answer
// at once and waits for the rest, at most until ctx ends: then it closes what is
// left of the connections, since there may be no engine behind them any more.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closing.Store(true)
	s.parked.end(queen.ErrClosing)
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	return err
}

// waiting is the context of an engine call that may wait: it ends with the
// client, with Shutdown, and RequestTimeout after the wait asked for.
func (s *Server) waiting(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithTimeoutCause(ctx, wait+s.cfg.RequestTimeout, queen.ErrTimedOut)
	ctx, cancel := context.WithCancelCause(ctx)
	leave := s.parked.enter(cancel)
	return ctx, func() { leave(); cancel(nil); end() }
}

// parked is the set of requests that wait, so that Shutdown can end them.
type parked struct {
	mu    sync.Mutex
	ended error // set once
	waits map[*context.CancelCauseFunc]struct{}
}

func (p *parked) enter(cancel context.CancelCauseFunc) (leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		cancel(p.ended)
		return func() {}
	}
	if p.waits == nil {
		p.waits = make(map[*context.CancelCauseFunc]struct{})
	}
	p.waits[&cancel] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waits, &cancel)
	}
}

func (p *parked) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = why
	for cancel := range p.waits {
		(*cancel)(why)
	}
}
