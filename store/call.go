package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// writeRows runs one write call in autocommit mode and collects its rows. verb
// names the call in errors and in the log.
func writeRows[T any](ctx context.Context, db *DB, pool *pgxpool.Pool, verb string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _, err := collect(ctx, db, pool, verb, db.writeError, scan, sql, args)
	return rows, err
}

// readRows runs one read and collects its rows. verb names the read in errors and in the log.
func readRows[T any](ctx context.Context, db *DB, pool *pgxpool.Pool, verb string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, _, err := collect(ctx, db, pool, verb, db.readError, scan, sql, args)
	return rows, err
}

// collect is both, with translate, which is db.writeError or db.readError; epoch is
// that of the connection which answered.
func collect[T any](ctx context.Context, db *DB, pool *pgxpool.Pool, verb string, translate func(string, *pgx.Conn, error) error,
	scan pgx.RowToFunc[T], sql string, args []any,
) (res []T, epoch int32, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, 0, db.acquireError(verb, err)
	}
	defer conn.Release()
	ctx, cancel := db.whileAnswered(ctx)
	defer cancel()
	rows, err := conn.Query(ctx, sql, args...)
	if err == nil {
		res, err = pgx.CollectRows(rows, scan)
	}
	if err := translate(verb, conn.Conn(), err); err != nil {
		return nil, 0, err
	}
	return res, incarnationOf(conn.Conn()).Epoch, nil
}

// answerGrace is how long after the end of its time on the server a statement's answer
// may take to arrive.
const answerGrace = 5 * time.Second

// whileAnswered bounds a statement that is about to be sent, whoever waits for it and
// however long: the server ends it at StatementTimeout, so an answer that has not come
// then and a little later does not come. The server's process stands still, or what lies
// between swallows it, and keepalives find nothing wrong. (Appends, transactions and
// timers send much first; their callers bound them.)
func (db *DB) whileAnswered(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, db.cfg.StatementTimeout+answerGrace)
}

// noColumns scans the row of a function that answers nothing.
func noColumns(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }

// only returns the one row of a result that has one or none.
func only[T any](rows []T, err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if len(rows) == 0 {
		return zero, ErrNotFound
	}
	return rows[0], nil
}

// found is only for an answer in JSON, where null is ErrNotFound.
func found[T any](rows []*T, err error) (T, error) {
	p, err := only(rows, err)
	if err == nil && p == nil {
		err = ErrNotFound
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return *p, nil
}

// orMinus1 is a column where NULL means −1.
func orMinus1(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}

// orNull is a parameter that is NULL where v is its type's zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
