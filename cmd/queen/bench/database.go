package bench

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	schemaPrefix   = "queen_bench_"
	lockClass      = 0x6265 // of our advisory locks; any number nobody else uses
	connectTimeout = 10 * time.Second
)

//go:embed query/leftovers.sql
var leftoversSQL string

//go:embed query/settings.sql
var settingsSQL string

// Database is the PostgreSQL under the broker: where the baseline writes, and
// whose settings are conditions of every number.
type Database struct {
	url          string
	schema       string
	conn         *pgx.Conn // holds the schema's lock as long as the run lasts
	made         bool
	noCheckpoint bool
}

// OpenDatabase connects; name tells this run's schema from those of others.
func OpenDatabase(ctx context.Context, url, name string) (*Database, error) {
	db := &Database{url: url, schema: schemaPrefix + name}
	var err error
	if db.conn, err = db.connect(ctx); err != nil {
		return nil, fmt.Errorf("the database does not answer: %w; name one with --database-url, "+
			"or the data folder of a running `queen serve` with --data-dir", err)
	}
	return db, nil
}

// connect opens one more connection, pinned to what a durable commit means.
func (db *Database) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(db.url)
	if err != nil {
		return nil, err
	}
	cfg.ConnectTimeout = connectTimeout
	cfg.RuntimeParams["application_name"] = "queen bench"
	cfg.RuntimeParams["search_path"] = db.schema
	cfg.RuntimeParams["synchronous_commit"] = "on"
	cfg.RuntimeParams["default_transaction_isolation"] = "read committed"
	return pgx.ConnectConfig(ctx, cfg)
}

// makeSchema creates this run's schema and drops those of runs that were killed.
func (db *Database) makeSchema(ctx context.Context) error {
	if db.made {
		return nil
	}
	rows, err := db.conn.Query(ctx, leftoversSQL, schemaPrefix, lockClass)
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	old, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	for _, name := range old {
		if err := db.dropSchema(ctx, name); err != nil {
			return err
		}
	}
	if _, err := db.conn.Exec(ctx, "SELECT pg_advisory_lock($1, hashtext($2))", lockClass, db.schema); err != nil {
		return fmt.Errorf("lock schema: %w", err)
	}
	db.made = true
	// A name in a statement cannot be a parameter.
	if _, err := db.conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{db.schema}.Sanitize()); err != nil {
		return fmt.Errorf("create schema: %w; the role needs CREATE on the database", err)
	}
	return nil
}

func (db *Database) dropSchema(ctx context.Context, name string) error {
	if _, err := db.conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE"); err != nil {
		return fmt.Errorf("drop schema %s: %w", name, err)
	}
	return nil
}

// Settle writes everything dirty to disk, of the database and of the machine, so
// that what one side left in memory is not charged to the other: a sync of one file
// also waits for what others wrote. A role that may not leaves it to the server.
func (db *Database) Settle(ctx context.Context) error {
	defer syscall.Sync()
	if db.noCheckpoint {
		return nil
	}
	_, err := db.conn.Exec(ctx, "CHECKPOINT")
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "42501" { // insufficient_privilege
		db.noCheckpoint = true
		return nil
	}
	return err
}

// Settles says how rounds are kept apart, for the conditions.
func (db *Database) settles() string {
	if db.noCheckpoint {
		return "sync before every round; the role may not CHECKPOINT"
	}
	return "CHECKPOINT and sync before every round"
}

// settingNames decide what a durable write costs.
var settingNames = []string{
	"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_compression", "wal_level", "wal_sync_method",
	"shared_buffers", "wal_buffers", "max_wal_size", "checkpoint_timeout", "synchronous_standby_names", "data_checksums",
}

// settings reads them; one a server does not know is left out.
func (db *Database) settings(ctx context.Context) (map[string]string, error) {
	rows, err := db.conn.Query(ctx, settingsSQL, settingNames)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	all := make(map[string]string)
	var name string
	var value *string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		if value != nil {
			all[name] = *value
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return all, nil
}

// dataFolder is the server's own folder, where it says so and runs here.
func (db *Database) dataFolder(ctx context.Context) string {
	var dir string
	if !strings.HasPrefix(db.conn.Config().Host, "/") {
		return "" // perhaps on another machine
	}
	if db.conn.QueryRow(ctx, "SELECT current_setting('data_directory', true)").Scan(&dir) != nil {
		return ""
	}
	return dir
}

// Close drops the schema, over a new connection where the old one is broken.
func (db *Database) Close(ctx context.Context) error {
	var err error
	if db.made {
		if db.conn.IsClosed() {
			db.conn, err = db.connect(ctx)
		}
		if err == nil {
			err = db.dropSchema(ctx, db.schema)
		}
		if err != nil {
			err = fmt.Errorf("%w; drop schema %s by hand", err, db.schema)
		}
	}
	if db.conn == nil {
		return err
	}
	return errors.Join(err, db.conn.Close(ctx))
}

// closeConns ends connections, each of them.
func closeConns(ctx context.Context, conns []*pgx.Conn) error {
	var errs []error
	for _, c := range conns {
		errs = append(errs, c.Close(ctx))
	}
	return errors.Join(errs...)
}
