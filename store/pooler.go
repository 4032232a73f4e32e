package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errShared is said of a pooler that shares: what a connection is opened with, what is
// prepared on it and which incarnation it met hold for one server process.
var errShared = fmt.Errorf("%w: a pooler in between gives a connection another server process from one transaction to the next; "+
	"connect to PostgreSQL itself, or have it pool sessions", ErrUnsupportedServer)

// backendOf returns the server process that answers on conn now. Nothing is prepared:
// a pooler that shares may not know of it the next time.
func backendOf(ctx context.Context, conn *pgconn.PgConn, begin string) (pid uint32, err error) {
	res, err := conn.Exec(ctx, begin+"SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, fmt.Errorf("ask which process answers: %w", err)
	}
	n, err := strconv.ParseUint(string(res[len(res)-1].Rows[0][0]), 10, 32)
	return uint32(n), err
}

// meetBackend returns the server process of conn, which was just opened, and whether
// it is another than the one the connection was told of: then a pooler is in between.
func meetBackend(ctx context.Context, conn *pgx.Conn) (pid uint32, pooled bool, err error) {
	pid, err = backendOf(ctx, conn.PgConn(), "")
	return pid, err == nil && pid != conn.PgConn().PID(), err
}

// refuseShared fails with errShared where the pooler behind conn does not keep backend for
// it alone: a second connection in a transaction is given that one, or conn another.
func refuseShared(ctx context.Context, conn *pgx.Conn, backend uint32) error {
	other, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return fmt.Errorf("open a second connection through the pooler: %w", err)
	}
	defer func() { _ = other.Close(context.WithoutCancel(ctx)) }()
	theirs, err := backendOf(ctx, other.PgConn(), "BEGIN;")
	var pe *pgconn.PgError
	switch {
	case errors.As(err, &pe) && pe.Code == "08P01": // pgbouncer that pools statements has no transactions
		return fmt.Errorf("%w: it says %q", errShared, pe.Message)
	case err != nil:
		return err
	case theirs == backend:
		return errShared
	}
	now, err := backendOf(ctx, conn.PgConn(), "")
	if err == nil && now != backend {
		return errShared
	}
	return err
}
