package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// safeError is an error of pgconn's that says nothing was sent.
type safeError struct{ error }

func (safeError) SafeToRetry() bool { return true }

func TestClassifyKnowsWhatWasWritten(t *testing.T) {
	t.Parallel()
	reply := func(severity, code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code})
	}
	stale := &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "0A000", Routine: "RevalidateCachedQuery"}
	for _, c := range []struct {
		name   string
		err    error
		closed bool
		want   outcome
	}{
		// Nothing was sent.
		{"dial failed", &pgconn.ConnectError{}, true, unavailable},
		{"connection found closed before sending", safeError{io.EOF}, true, unavailable},
		{"context ended before sending", safeError{context.Canceled}, false, unavailable},

		// Something was sent, no reply came.
		{"cut before the reply", io.ErrUnexpectedEOF, true, unknown},
		{"deadline while waiting", fmt.Errorf("timeout: %w", context.DeadlineExceeded), true, unknown},
		{"canceled while waiting", context.Canceled, false, unknown},

		// The session was ended by the server.
		{"terminated", reply("FATAL", "57P01"), true, unknown},
		{"another backend crashed", reply("FATAL", "57P02"), true, unknown},
		{"the whole server stopped", reply("PANIC", "XX000"), true, unknown},
		{"protocol error of a pooler", reply("FATAL", "08P01"), true, unknown},
		{"severity left out by a pooler", &pgconn.PgError{Severity: "FATAL", Code: "57P01"}, true, unknown},
		{"starting up", reply("FATAL", "57P03"), true, unavailable},
		{"ended while idle", reply("FATAL", "57P05"), true, unavailable},
		{"ended while idle in a transaction", reply("FATAL", "25P03"), true, unavailable},
		{"no connection slot", reply("FATAL", "53300"), true, unavailable},

		// The statement was rolled back; later it may work.
		{"serialization failure", reply("ERROR", "40001"), false, unavailable},
		{"deadlock", reply("ERROR", "40P01"), false, unavailable},
		{"lock timeout", reply("ERROR", "55P03"), false, unavailable},
		{"statement timeout", reply("ERROR", "57014"), false, unavailable},
		{"standby", reply("ERROR", "25006"), false, unavailable},
		{"out of memory", reply("ERROR", "53200"), false, unavailable},
		{"read error of the disk", reply("ERROR", "58030"), false, unavailable},
		{"plan of an older table", stale, false, unavailable},
		{"disk full", reply("ERROR", "53100"), false, full},

		// The statement was rolled back, and would be again.
		{"unique violation", reply("ERROR", "23505"), false, refused},
		{"bad input", reply("ERROR", "22P02"), false, refused},
		{"no such function", reply("ERROR", "42883"), false, refused},
		{"another unsupported feature", reply("ERROR", "0A000"), false, refused},
		{"a corrupt page", reply("ERROR", "XX001"), false, refused},
		{"an argument that does not encode", errors.New("cannot encode"), false, refused},
	} {
		if got := classify(c.err, c.closed); got != c.want {
			t.Errorf("%s: classify(%v, closed=%v) = %d, want %d", c.name, c.err, c.closed, got, c.want)
		}
	}
}

func TestConfigNamesFieldValueAndRange(t *testing.T) {
	t.Parallel()
	f := func(change func(*Config), want string) {
		t.Helper()
		c := Config{}.withDefaults()
		change(&c)
		got := ""
		if err := c.validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("validate: %q, want %q", got, want)
		}
	}
	f(func(*Config) {}, "")
	f(func(c *Config) { c.ReadConns = -1 }, "ReadConns is -1, must be 1 to 1000")
	f(func(c *Config) { c.Schema = "pg_queen" }, `Schema is "pg_queen", must be at most 63 bytes and not begin with pg_`)
	f(func(c *Config) { c.LockTimeout = c.StatementTimeout }, "LockTimeout is 10s, must be at least 1ms and below StatementTimeout (10s)")
}
