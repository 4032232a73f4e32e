package store

import "github.com/jackc/pgx/v5/pgxpool"

// BuildRunOf is BuildRun with runs small enough for a test.
var BuildRunOf = (*DB).buildRun

// Pools shows the pools to tests: write, read, admin.
func (db *DB) Pools() (write, read, admin *pgxpool.Pool) { return db.write, db.read, db.admin }

// Migration internals, for tests with files of their own.
var (
	MigrationFiles = migrationFiles
	FunctionFiles  = functionFiles
	MigrateOn      = migrateOn
)
