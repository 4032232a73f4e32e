package kafkawire

import (
	"log/slog"
	"sync"
	"time"
)

// sampler bounds the warnings that strangers can make us write: the first
// lines of each period are warnings, the rest go to debug.
type sampler struct {
	lines  int
	period time.Duration

	mu    sync.Mutex
	began time.Time
	n     int
}

func newSampler(lines int, period time.Duration) *sampler {
	return &sampler{lines: lines, period: period}
}

func (s *sampler) log(l *slog.Logger, msg string, args ...any) {
	s.mu.Lock()
	now := time.Now()
	if now.Sub(s.began) > s.period {
		s.began, s.n = now, 0
	}
	s.n++
	quiet := s.n > s.lines
	s.mu.Unlock()
	if quiet {
		l.Debug(msg, args...)
		return
	}
	l.Warn(msg, args...)
}
