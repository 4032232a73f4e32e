package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// long runs a call, named verb, that may take until timeout, longer than a statement may
// otherwise, on a connection for rare work. One of these is kept for what is
// short: while windows are read and runs are sorted, heartbeats go on and
// partitions come into being. The error of f is returned as it is.
func (db *DB) long(ctx context.Context, verb string, timeout time.Duration, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case db.longs <- struct{}{}:
		defer func() { <-db.longs }()
	case <-ctx.Done():
		return db.acquireError(verb, context.Cause(ctx))
	}
	pooled, err := db.admin.Acquire(ctx)
	if err != nil {
		return db.acquireError(verb, err)
	}
	defer pooled.Release()
	conn := pooled.Conn()
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d", timeout.Milliseconds())); err != nil {
		return db.readError(verb, conn, err)
	}
	err = f(ctx, conn)
	if conn.IsClosed() {
		return err
	}
	_, reset := conn.Exec(ctx, "RESET statement_timeout")
	return errors.Join(err, db.readError(verb, conn, reset))
}
