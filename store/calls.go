package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed query/calls_purge.sql
var callsPurgeSQL string

// PurgeCalls forgets up to about rowsMax calls that are older than keepSeconds,
// those after a moment; it returns how many went, and the moment to go on after.
// The zero time starts at the oldest.
func (db *DB) PurgeCalls(ctx context.Context, after time.Time, keepSeconds, rowsMax int) (deleted int, upto time.Time, err error) {
	return db.purgeAfter(ctx, "purge calls", callsPurgeSQL, after, keepSeconds, rowsMax)
}

// purgeAfter makes a step of forgetting that goes on where the one before ended; args
// are the statement's.
func (db *DB) purgeAfter(ctx context.Context, verb, sql string, args ...any) (deleted int, upto time.Time, err error) {
	type answer struct {
		deleted int
		upto    time.Time
	}
	scan := func(row pgx.CollectableRow) (a answer, err error) {
		err = row.Scan(&a.deleted, &a.upto)
		return a, err
	}
	a, err := only(writeRows(ctx, db, db.admin, verb, scan, sql, args...))
	return a.deleted, a.upto, err
}
