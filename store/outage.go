package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// failureLineEvery is the least time between two lines about failed calls.
	failureLineEvery = time.Second
	// backAfter is how long no call may have failed before the database is said to
	// be back: connections from before an outage fail for a while after it.
	backAfter = 3 * time.Second
)

// failures tells the log of calls that failed, in one place for all of them,
// since an outage fails every call of every task: a line a second at most, with
// what callers need not know (user, host, what PostgreSQL said), and one line
// when it is over.
type failures struct {
	log  *slog.Logger
	down atomic.Bool // an outage was told and its end was not

	mu    sync.Mutex // guards what is below
	since time.Time  // the first failure of the outage
	last  time.Time  // the newest one
	told  time.Time
	more  int // not told since
}

// failed is told about every error of a call, and what the call is for, but not of
// one that its caller gave up.
func (f *failures) failed(verb string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if isOutage(err) {
		f.last = now
		if !f.down.Swap(true) {
			f.since = now
		}
	}
	if !f.told.IsZero() && now.Sub(f.told) < failureLineEvery {
		f.more++
		return
	}
	args := []any{"call", verb, "error", err, "more", f.more}
	if w := where(err); w != "" {
		args = append(args, "where", w)
	}
	f.log.Warn("database call failed", args...)
	f.told, f.more = now, 0
}

// where says in which functions an error came up, innermost first, and at which
// line of each. What PostgreSQL adds of their statements is left out.
func where(err error) string {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return ""
	}
	var at []string
	for line := range strings.Lines(pe.Where) {
		if strings.Contains(line, "PL/pgSQL") { // in any language
			at = append(at, strings.TrimSpace(line))
		}
	}
	return strings.Join(at, "; ")
}

// answered is told about every call that did not fail.
func (f *failures) answered() {
	if !f.down.Load() {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.last) >= backAfter && f.down.Swap(false) {
		f.log.Info("database is back", "after", f.last.Sub(f.since).Round(time.Millisecond))
	}
}

// isOutage says whether an error is about the database, rather than about one
// statement on a session that lives.
func isOutage(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.SeverityUnlocalized != "ERROR" {
		return classify(err, true) != refused
	}
	if pe.Code == "25006" {
		return true
	}
	switch pe.Code[:min(2, len(pe.Code))] {
	case "53", "58", "08":
		return true
	case "57":
		return pe.Code != "57014"
	}
	return false
}
