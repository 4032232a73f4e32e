package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What an error of this package may be, by errors.Is. The text around it says
// which call, and what PostgreSQL said.
var (
	// ErrOutcomeUnknown: the call was sent and its answer was lost, or its commit
	// may not have reached the synchronous standby. It took effect or not;
	// repeating the same call finds out.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnavailable: nothing was written; PostgreSQL cannot be reached, or
	// refuses for now. Retry is right.
	ErrUnavailable = errors.New("database unavailable")
	// ErrStorageFull: nothing was written; PostgreSQL has no space left.
	ErrStorageFull = errors.New("database storage full")

	// ErrCorrupted: nothing was written; PostgreSQL cannot read what it stored.
	ErrCorrupted = errors.New("data corrupted")

	// ErrNotMigrated: the schema lacks something this binary calls.
	ErrNotMigrated = errors.New("database schema not migrated")
	// ErrNewerSchema: the schema was migrated by a newer version.
	ErrNewerSchema = errors.New("database schema is newer than this version")
	// ErrChangedText: a migration or function that was applied has another text in this binary.
	ErrChangedText = errors.New("released SQL was changed")
	// ErrForbidden: the role lacks a right that this binary needs.
	ErrForbidden = errors.New("not allowed in the database")
	// ErrUnsafeDatabase: the server is set to lose commits when its machine stops.
	ErrUnsafeDatabase = errors.New("unsafe database")
	// ErrUnsupportedServer: the server is too old, the database's encoding is not UTF8, or
	// there is a pooler in between that drops what connections are opened with, or shares their server processes.
	ErrUnsupportedServer = errors.New("unsupported database server")

	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrExists: the name is taken.
	ErrExists = errors.New("already exists")
)

// outcome is what an error says about the statement it came from.
type outcome int

const (
	refused     outcome = iota // rolled back, and would be again: a mistake of ours, or bad input
	unavailable                // rolled back or never sent; the same call may work later
	full                       // rolled back for want of space
	unknown                    // sent, and no definite answer
)

// classify judges an error of a statement in autocommit mode. closed says
// whether the connection did not survive.
//
// The server's ERROR is definite: the transaction is rolled back before the
// reply is sent. FATAL and PANIC are not: the session may have been told to end
// while its commit was being acknowledged.
func classify(err error, closed bool) outcome {
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) || pgconn.SafeToRetry(err) {
		return unavailable // nothing was sent
	}
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		if closed || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return unknown
		}
		return refused // the connection lives: an argument or a result that does not fit its type
	}
	if pe.SeverityUnlocalized != "ERROR" {
		return classifyFatal(pe.Code)
	}
	switch pe.Code {
	case "53100": // disk_full
		return full
	case "40001", // serialization_failure
		"40P01", // deadlock_detected
		"55P03", // lock_not_available: lock_timeout
		"55006", // object_in_use
		"57014", // query_canceled: statement_timeout
		"25006", // read_only_sql_transaction: a standby, or maintenance
		"26000", // invalid_sql_statement_name: the pooler gave us another server connection
		"72000": // snapshot_too_old
		return unavailable
	}
	if pe.Code == "0A000" && pe.Routine == "RevalidateCachedQuery" {
		return unavailable // cached plan must not change result type: prepared again next time
	}
	switch pe.Code[:min(2, len(pe.Code))] {
	case "53", // insufficient resources: memory, connections
		"58", // system errors: I/O
		"57", // operator intervention
		"08": // connection exceptions reported by a pooler
		return unavailable
	}
	return refused
}

// classifyFatal judges the error that ended a session which had been opened.
func classifyFatal(code string) outcome {
	switch code {
	case "57P03", // cannot_connect_now
		"57P05", // idle_session_timeout: it was idle, so it had not read the call
		"25P03", // idle_in_transaction_session_timeout: before the commit was sent
		"53300": // too_many_connections: said instead of opening
		return unavailable
	}
	return unknown // 57P01 admin_shutdown, 57P02 crash_shutdown, and whatever else
}

// writeError translates the error of a write call, named verb, that was one statement
// in autocommit mode on conn. It must also be called on success: a commit that did
// not wait for its synchronous standby is a success PostgreSQL warned about.
func (db *DB) writeError(verb string, conn *pgx.Conn, err error) error {
	s := sessionOf(conn)
	unreplicated := s.unreplicated
	s.unreplicated = false
	if err == nil {
		if unreplicated {
			return fmt.Errorf("%s: %w: committed, but canceled while waiting for the synchronous standby", verb, ErrOutcomeUnknown)
		}
		db.failures.answered()
		return nil
	}
	db.failures.failed(verb, err)
	db.lost(conn, err)
	switch classify(err, conn.IsClosed()) {
	case unknown:
		return fmt.Errorf("%s: %w: %w", verb, ErrOutcomeUnknown, err)
	case unavailable:
		return fmt.Errorf("%s: %w: %w", verb, ErrUnavailable, err)
	case full:
		return fmt.Errorf("%s: %w: %w", verb, ErrStorageFull, err)
	default:
		return refusedError(verb, err)
	}
}

// readError translates the error of a read, named verb, on conn: an answer that was
// lost is only unavailable, because there is nothing to be unsure of.
func (db *DB) readError(verb string, conn *pgx.Conn, err error) error {
	if err == nil {
		db.failures.answered()
		return nil
	}
	db.failures.failed(verb, err)
	db.lost(conn, err)
	switch classify(err, conn.IsClosed()) {
	case unknown, unavailable:
		return fmt.Errorf("%s: %w: %w", verb, ErrUnavailable, err)
	case full:
		return fmt.Errorf("%s: %w: %w", verb, ErrStorageFull, err)
	default:
		return refusedError(verb, err)
	}
}

// refusedError is that of a call which would be refused again; where PostgreSQL found a
// page, a row or an index damaged it says so.
func refusedError(verb string, err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) && (pe.Code == "XX001" || pe.Code == "XX002") {
		return fmt.Errorf("%s: %w: %w", verb, ErrCorrupted, err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// acquireError translates the error of taking a connection from a pool for the call
// named verb, when nothing has been sent yet.
func (db *DB) acquireError(verb string, err error) error {
	db.failures.failed(verb, err)
	return fmt.Errorf("%s: %w: %w", verb, ErrUnavailable, err)
}

// lostError says ErrUnavailable of what failed because the connection broke or the
// server was not ready, and may be done again from the start.
func lostError(err error, closed bool) error {
	if errors.Is(err, ErrUnsupportedServer) {
		return err // a pooler ends the connection as it says so
	}
	switch classify(err, closed) {
	case unknown, unavailable:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// oneLine is an error of several attempts, which pgx puts below each other.
type oneLine struct{ error }

func (e oneLine) Error() string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ").Replace(e.error.Error())
}

func (e oneLine) Unwrap() error { return e.error }

// openError translates the error of the first connection: what no retry can
// mend is returned as it is.
func openError(err error) error {
	err = oneLine{err}
	for _, final := range []error{ErrNotMigrated, ErrUnsafeDatabase, ErrUnsupportedServer} {
		if errors.Is(err, final) {
			return err
		}
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		switch {
		case strings.HasPrefix(pe.Code, "28"), pe.Code == "3D000", pe.Code == "42501":
			return err // who we are, a database that does not exist, or may not be entered
		case pe.Code == "42704", pe.Code == "22023":
			return err // the URL sets a parameter that does not exist, or to what it cannot be
		case pe.Code == "08P01": // what pgbouncer says of a parameter it does not know
			return fmt.Errorf("%w: a pooler that does not pass on what connections ask for; connect to PostgreSQL itself: %w", ErrUnsupportedServer, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
