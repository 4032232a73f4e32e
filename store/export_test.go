package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// BuildRunOf is BuildRun with runs small enough for a test.
func BuildRunOf(db *DB, ctx context.Context, partition int64, ids, fanout, levelMax int) (bool, error) {
	return db.buildRun(ctx, partition, runShape{ids: ids, fanout: fanout, levelMax: levelMax})
}

// BuildRunBeyond is BuildRunOf where so few runs are left as they are.
func BuildRunBeyond(db *DB, ctx context.Context, partition int64, ids, few int) (bool, error) {
	return db.buildRun(ctx, partition, runShape{ids: ids, few: few, fanout: 2, levelMax: 1})
}

// Pools shows the pools to tests: write, read, admin.
func (db *DB) Pools() (write, read, admin *pgxpool.Pool) { return db.write, db.read, db.admin }

// Long runs f as a call that may take until timeout.
func (db *DB) Long(ctx context.Context, timeout time.Duration, f func(context.Context, *pgx.Conn) error) error {
	return db.long(ctx, "test", timeout, f)
}

// Pin gives a test's own connection the settings of a pooled one.
func (c Config) Pin(cc *pgconn.Config) { c.pin(cc) }

// AppendCall returns the statement of Append and its arguments.
func AppendCall(segs []Segment, wait bool) (sql string, args []any) {
	return appendSQL, append(appendArgs(segs, 1, wait, join(dataOf(segs)).b), follows(segs))
}

// RegisterTypes gives a test's own connection the types of a pooled one.
func RegisterTypes(m *pgtype.Map) {
	registerArrays(m)
}

// Migration internals, for tests with files of their own.
var (
	MigrationFiles = migrationFiles
	FunctionFiles  = functionFiles
	MigrateOn      = migrateOn
)

// QueryWriter runs a statement on a connection of the kind Append uses and scans its one row.
func (db *DB) QueryWriter(ctx context.Context, sql string, args []any, dst ...any) error {
	return db.write.QueryRow(ctx, sql, args...).Scan(dst...)
}

// SortRun returns the entries of a run, and where each of its blocks ends.
func SortRun(in []int64, perBlock int) (entries []int64, ends []int32) {
	return runEntries(in).sorted(perBlock)
}

// UUIDArray is what hashes are sent as.
type UUIDArray = uuidArray
