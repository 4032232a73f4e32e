package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// resetTimeout bounds giving a connection back its own statement timeout.
const resetTimeout = 5 * time.Second

// long runs a call, named verb, whose statements may take until timeout, which is longer
// than they may elsewhere, on a connection of the pool for rare work. One connection of
// that pool is always left to what is short, so that heartbeats go on and partitions
// come into being while windows are read and runs are sorted. The error of f is
// returned as it is.
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
	// ctx may have ended between two statements of f, and the connection lives on in
	// the pool: it must not keep the long timeout for whoever takes it next.
	ctx, cancelReset := context.WithTimeout(context.WithoutCancel(ctx), resetTimeout)
	defer cancelReset()
	_, reset := conn.Exec(ctx, "RESET statement_timeout")
	if reset != nil {
		_ = conn.Close(ctx)
	}
	return errors.Join(err, db.readError(verb, conn, reset))
}
