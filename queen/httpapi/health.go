package httpapi

import (
	"context"
	"net/http"
	"time"

	"queenmq/queen"
)

// livez serves GET /livez: this process answers. It never asks the database, so
// that an outage there does not restart every broker.
func (s *Server) livez(*exchange) (answer, error) { return ok([]byte(`{"status":"alive"}`)), nil }

// readyz serves GET /readyz: 200 where this broker takes writes, else 503.
func (s *Server) readyz(x *exchange) (answer, error) {
	if err := s.ready(x.req.Context()); err != nil {
		return answer{}, notReady(err)
	}
	return ok([]byte(`{"status":"ready"}`)), nil
}

// health serves GET /health, as readyz with the version, for people and for the
// published clients.
func (s *Server) health(x *exchange) (answer, error) {
	if err := s.ready(x.req.Context()); err != nil {
		return answer{}, notReady(err)
	}
	b := []byte(`{"status":"healthy","database":"connected","version":`)
	return ok(append(appendString(b, s.cfg.Version), '}')), nil
}

func (s *Server) ready(ctx context.Context) error {
	if s.closing.Load() {
		return queen.ErrClosing
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.ReadyTimeout, queen.ErrTimedOut)
	defer cancel()
	return s.engine.Ready(ctx)
}

// notReady is any reason as a 503, so that a balancer reads one thing.
func notReady(err error) *problem {
	p := problemOf(err)
	p.status = http.StatusServiceUnavailable
	return p
}

// status serves GET /status from memory: who this broker is, and its peers.
func (s *Server) status(*exchange) (answer, error) {
	c := s.engine.Cluster()
	b := []byte(`{"version":`)
	b = appendString(b, s.cfg.Version)
	b = append(b, `,"uptimeSeconds":`...)
	b = appendInt(b, int64(time.Since(s.started).Seconds()))
	b = append(b, `,"closing":`...)
	b = appendBool(b, s.closing.Load())
	b = append(b, `,"clusterId":`...)
	b = appendString(b, c.ID)
	b = append(b, `,"brokerId":`...)
	b = appendInt(b, int64(c.Self))
	b = append(b, `,"leaderEpoch":`...)
	b = appendInt(b, int64(c.Epoch))
	b = append(b, `,"brokers":[`...)
	for i, k := range c.Brokers {
		b = appendComma(b, i)
		b = append(b, `{"id":`...)
		b = appendInt(b, int64(k.ID))
		b = append(b, `,"kafka":{"host":`...)
		b = appendString(b, k.Host)
		b = append(b, `,"port":`...)
		b = appendInt(b, int64(k.Port))
		b = append(b, `},"groupSlots":`...)
		b = appendInt(b, int64(k.Slots))
		b = append(b, '}')
	}
	return ok(append(b, "]}"...)), nil
}

// prometheus serves GET /metrics/prometheus.
func (s *Server) prometheus(*exchange) (answer, error) {
	return answer{handler: s.metrics.exposed}, nil
}
