package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestOutageIsALineASecondAndOneWhenItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := failures{log: slog.New(slog.NewTextHandler(&out, nil))}
		lines := func(text string, want int) {
			t.Helper()
			if got := strings.Count(out.String(), text); got != want {
				t.Fatalf("%q %d times, want %d:\n%s", text, got, want, out.String())
			}
		}
		gone := fmt.Errorf("dial: %w", errors.New("connection refused"))
		for range 100 { // ten seconds
			f.failed("append", gone)
			<-time.After(100 * time.Millisecond)
		}
		lines("level=WARN", 10)
		lines("more=9", 9)
		f.answered() // one connection of many
		lines("back", 0)
		f.failed("append", gone)
		<-time.After(backAfter)
		for range 3 {
			f.answered()
		}
		lines("database is back", 1)
	})
}

func TestOneStatementIsNoOutage(t *testing.T) {
	t.Parallel()
	pg := func(severity, code string) error {
		return fmt.Errorf("call: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	f := func(err error, want bool) {
		t.Helper()
		if got := isOutage(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	f(pg("ERROR", "55P03"), false)
	f(pg("ERROR", "57014"), false)
	f(pg("ERROR", "40001"), false)
	f(pg("ERROR", "42501"), false)
	f(pg("ERROR", "53100"), true)
	f(pg("ERROR", "25006"), true)
	f(pg("FATAL", "57P01"), true)
	f(pg("FATAL", "57P03"), true)
	f(context.DeadlineExceeded, true)
	f(errors.New("unexpected EOF"), true)

	var out bytes.Buffer
	fs := failures{log: slog.New(slog.NewTextHandler(&out, nil))}
	fs.failed("append", fmt.Errorf("acquire: %w", context.Canceled))
	if out.Len() != 0 {
		t.Errorf("a caller that gave up: %s", out.String())
	}
	fs.failed("append", pg("ERROR", "42501"))
	if !strings.Contains(out.String(), "42501") || fs.down.Load() {
		t.Errorf("a refused statement: down is %v, log %q", fs.down.Load(), out.String())
	}
}
