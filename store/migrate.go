package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed schema/*.sql
var migrationFiles embed.FS

//go:embed schema/functions/*.sql
var functionFiles embed.FS

var (
	//go:embed query/migration_lock.sql
	migrationLockSQL string
	//go:embed query/schema_find.sql
	schemaFindSQL string
	//go:embed query/files_create.sql
	filesCreateSQL string
	//go:embed query/files_list.sql
	filesListSQL string
	//go:embed query/files_put.sql
	filesPutSQL string
	//go:embed query/file_forget.sql
	fileForgetSQL string
	//go:embed query/functions_unused.sql
	functionsUnusedSQL string
	//go:embed query/functions_missing.sql
	functionsMissingSQL string
	//go:embed query/scratch_set.sql
	scratchSetSQL string
	//go:embed query/scratch_get.sql
	scratchGetSQL string
)

// versionTable is tern's; search_path chooses the schema.
const versionTable = "schema_version"

// sqlFile is a migration or a function: what is applied, and known by its checksum.
type sqlFile struct {
	name string // the file's, without .sql
	text string
}

func (f sqlFile) checksum() string {
	sum := sha256.Sum256([]byte(f.text))
	return hex.EncodeToString(sum[:])
}

// functionName is the name of a numbered function, which is also its file's.
var functionName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*_[0-9]+$`)

// Migrate brings the schema to the state this binary needs: it creates it,
// applies the missing migrations, installs the missing functions and drops
// functions nobody calls. Any number of them may run at once, and a killed one is
// continued by the next. A schema migrated further is refused with ErrNewerSchema.
func Migrate(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	cc, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return fmt.Errorf("%w; postgres://ROLE:PASSWORD@HOST:5432/DATABASE is one that can be read", err)
	}
	cfg.pin(&cc.Config)
	cc.RuntimeParams["statement_timeout"] = "0" // an index on a large table takes its time
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return fmt.Errorf("migrate: %w", openError(err))
	}
	// Closing ends the session and with it the lock.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	backend, pooled, err := meetBackend(ctx, conn)
	if err == nil && pooled { // whose lock would be somebody else's
		err = refuseShared(ctx, conn, backend)
	}
	if err == nil {
		err = checkServer(ctx, conn, cfg)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", lostError(err, conn.IsClosed()))
	}
	if err := migrateOn(ctx, conn, cfg, migrationFiles, functionFiles); err != nil {
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "55P03" {
			return fmt.Errorf("migrate: %w: another session holds a lock on a table of schema %q for more than %v: %w",
				ErrUnavailable, cfg.Schema, cfg.LockTimeout, err)
		}
		// Each step commits whole, and the next run finds what is done.
		return fmt.Errorf("migrate: %w", lostError(err, conn.IsClosed()))
	}
	return nil
}

// migrateOn is Migrate on a connection, with the files given.
func migrateOn(ctx context.Context, conn *pgx.Conn, cfg Config, migrations, functions fs.FS) error {
	// One migration at a time in the whole database. Waiting for one's turn
	// has no bound but ctx; waiting for a table has lock_timeout, because whoever
	// waits for a table blocks all that come after.
	if _, err := conn.Exec(ctx, migrationLockSQL); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	rights, err := findSchema(ctx, conn, cfg.Schema)
	if err != nil {
		return err
	}
	if !rights.exists {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+quote(cfg.Schema)); err != nil {
			return rights.explain(cfg.Schema, fmt.Errorf("create schema %q: %w", cfg.Schema, err))
		}
	} else if err := rights.mayUse(cfg.Schema); err != nil {
		return err
	}
	if rights.exists && !rights.create {
		err = checkMigrated(ctx, conn, cfg, rights, migrations, functions)
	} else if err = migrateTables(ctx, conn, cfg, migrations); err == nil {
		err = installFunctions(ctx, conn, functions)
	}
	return rights.explain(cfg.Schema, err)
}

// checkMigrated is Migrate for a role that may change rows and nothing else: it is
// enough that there is nothing to do.
func checkMigrated(ctx context.Context, conn *pgx.Conn, cfg Config, rights schemaRights, migrations, functions fs.FS) error {
	files, applied, err := filesAndApplied(ctx, conn, migrations, functions)
	if err != nil {
		return err
	}
	for _, f := range files {
		was, ok := applied[f.name]
		if !ok {
			return fmt.Errorf("%w: schema %q lacks %s, and role %q may not change it: run queen migrate as role %q",
				ErrNotMigrated, cfg.Schema, f.name, rights.role, rights.owner)
		}
		if was != f.checksum() {
			return fmt.Errorf("%w: %s was applied to schema %q with another text", ErrChangedText, f.name, cfg.Schema)
		}
		delete(applied, f.name)
	}
	for name := range applied {
		if !functionName.MatchString(name) {
			return fmt.Errorf("%w: schema %q has %s, which this binary does not know; run a newer one", ErrNewerSchema, cfg.Schema, name)
		}
	}
	for _, f := range files { // somebody is about to call it
		if _, err := conn.Exec(ctx, filesPutSQL, f.name, f.checksum()); err != nil {
			return fmt.Errorf("note %s: %w", f.name, err)
		}
	}
	return nil
}

// filesAndApplied returns all that this binary ships, and what the schema has of it.
func filesAndApplied(ctx context.Context, conn *pgx.Conn, trees ...fs.FS) (shipped []sqlFile, applied map[string]string, err error) {
	for i, dir := range []string{"schema", "schema/functions"} {
		sub, err := fs.Sub(trees[i], dir)
		if err != nil {
			return nil, nil, err
		}
		files, err := readFiles(sub)
		if err != nil {
			return nil, nil, err
		}
		shipped = append(shipped, files...)
	}
	var pe *pgconn.PgError
	if applied, err = appliedFiles(ctx, conn); errors.As(err, &pe) && pe.Code == "42P01" { // somebody made an empty schema
		return shipped, nil, nil
	}
	return shipped, applied, err
}

// migrateTables applies the missing migrations, each in a transaction of its own.
func migrateTables(ctx context.Context, conn *pgx.Conn, cfg Config, files fs.FS) error {
	sub, err := fs.Sub(files, "schema")
	if err != nil {
		return err
	}
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return fmt.Errorf("version table: %w", err)
	}
	if err := m.LoadMigrations(sub); err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	if _, err := conn.Exec(ctx, filesCreateSQL); err != nil {
		return fmt.Errorf("create table of files: %w", err)
	}
	applied, err := appliedFiles(ctx, conn)
	if err != nil {
		return err
	}
	from, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	if int(from) > len(m.Migrations) {
		return fmt.Errorf("%w: schema %q is at version %d, this binary knows %d; run a newer one",
			ErrNewerSchema, cfg.Schema, from, len(m.Migrations))
	}
	shipped, err := readFiles(sub)
	if err != nil {
		return err
	}
	for _, f := range shipped[:from] {
		if was, ok := applied[f.name]; ok && was != f.checksum() {
			return fmt.Errorf("%w: migration %s was applied to schema %q with another text; write a new migration "+
				"(before the first release: drop the schema)", ErrChangedText, f.name, cfg.Schema)
		}
	}
	m.OnStart = func(seq int32, name, _, _ string) {
		cfg.Log.Info("migration", "schema", cfg.Schema, "version", seq, "name", name)
	}
	if err := m.Migrate(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	for _, f := range shipped {
		if _, ok := applied[f.name]; !ok {
			if _, err := conn.Exec(ctx, filesPutSQL, f.name, f.checksum()); err != nil {
				return fmt.Errorf("note migration %s: %w", f.name, err)
			}
		}
	}
	if from == 0 && cfg.Scratch {
		if _, err := conn.Exec(ctx, scratchSetSQL); err != nil {
			return fmt.Errorf("mark as scratch: %w", err)
		}
	}
	return nil
}

// installFunctions creates the functions that are missing and drops those no
// binary asked for lately, in one transaction.
func installFunctions(ctx context.Context, conn *pgx.Conn, files fs.FS) error {
	sub, err := fs.Sub(files, "schema/functions")
	if err != nil {
		return err
	}
	shipped, err := readFiles(sub)
	if err != nil {
		return err
	}
	var scratch bool
	if err := conn.QueryRow(ctx, scratchGetSQL).Scan(&scratch); err != nil {
		return fmt.Errorf("read scratch mark: %w", err)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		applied, err := appliedFiles(ctx, tx)
		if err != nil {
			return err
		}
		names := make([]string, len(shipped))
		for i, f := range shipped {
			if !functionName.MatchString(f.name) {
				return fmt.Errorf("BUG: %s.sql is not named like a numbered function", f.name)
			}
			names[i] = f.name
		}
		missing, err := missingFunctions(ctx, tx, names)
		if err != nil {
			return err
		}
		for _, f := range shipped {
			was, known := applied[f.name]
			if known && was != f.checksum() {
				if !scratch {
					return fmt.Errorf("%w: function %s was changed without a new number", ErrChangedText, f.name)
				}
				if err := dropFunction(ctx, tx, f.name); err != nil {
					return err
				}
				missing[f.name] = true
			}
			if missing[f.name] {
				if _, err := tx.Exec(ctx, f.text); err != nil {
					return fmt.Errorf("create function %s: %w", f.name, err)
				}
			}
			// Also says that somebody is about to call it.
			if _, err := tx.Exec(ctx, filesPutSQL, f.name, f.checksum()); err != nil {
				return fmt.Errorf("note function %s: %w", f.name, err)
			}
		}
		return dropUnused(ctx, tx, names)
	})
}

// dropUnused drops the functions that are not shipped, that no broker alive in
// the last hour registered and no migration asked for in that time.
func dropUnused(ctx context.Context, tx pgx.Tx, shipped []string) error {
	rows, err := tx.Query(ctx, functionsUnusedSQL, shipped)
	if err != nil {
		return fmt.Errorf("find unused functions: %w", err)
	}
	unused, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("find unused functions: %w", err)
	}
	for _, name := range unused {
		if err := dropFunction(ctx, tx, name); err != nil {
			return err
		}
	}
	return nil
}

// dropFunction drops a function, whose name matches functionName.
func dropFunction(ctx context.Context, tx pgx.Tx, name string) error {
	if _, err := tx.Exec(ctx, "DROP FUNCTION IF EXISTS "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("drop function %s: %w", name, err)
	}
	if _, err := tx.Exec(ctx, fileForgetSQL, name); err != nil {
		return fmt.Errorf("forget function %s: %w", name, err)
	}
	return nil
}

// FunctionNames lists the numbered functions this binary calls, in order.
func FunctionNames() []string {
	sub, err := fs.Sub(functionFiles, "schema/functions")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	files, err := readFiles(sub)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	return names
}

// querier is what a connection and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// missingFunctions says which of names the schema lacks.
func missingFunctions(ctx context.Context, q querier, names []string) (map[string]bool, error) {
	rows, err := q.Query(ctx, functionsMissingSQL, names)
	if err != nil {
		return nil, fmt.Errorf("find missing functions: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find missing functions: %w", err)
	}
	missing := make(map[string]bool, len(list))
	for _, name := range list {
		missing[name] = true
	}
	return missing, nil
}

// appliedFiles returns the checksums of what was applied, by name.
func appliedFiles(ctx context.Context, q querier) (map[string]string, error) {
	rows, err := q.Query(ctx, filesListSQL)
	if err != nil {
		return nil, fmt.Errorf("list applied files: %w", err)
	}
	applied := map[string]string{}
	var name, checksum string
	_, err = pgx.ForEachRow(rows, []any{&name, &checksum}, func() error {
		applied[name] = checksum
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list applied files: %w", err)
	}
	return applied, nil
}

// readFiles reads the .sql files of a folder, in order of name.
func readFiles(dir fs.FS) ([]sqlFile, error) {
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, err
	}
	files := make([]sqlFile, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		files = append(files, sqlFile{name: strings.TrimSuffix(path.Base(name), ".sql"), text: string(text)})
	}
	return files, nil
}
