package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"queenmq/store"
	"queenmq/store/localpg"
)

// database is where the ledger lives: a server of ours or of somebody else's.
type database struct {
	config store.Config
	local  *localpg.Server // nil when external
	// dir is the data folder. Beside an external database it holds the broker's
	// id and read cache, and there is one only when it is named.
	dir    string
	unlock func() error // of dir, beside an external database
}

// place is where things are kept: a folder, or a database. An empty one is a
// mistake, also in the environment: what is meant to be kept somewhere would go to
// the default folder.
type place string

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *place) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return errors.New("is empty: give it a value, or leave it out")
	}
	*p = place(b)
	return nil
}

// openDatabase starts the managed server, or takes the external one's address
// as it is: whether it answers shows when it is migrated.
func openDatabase(ctx context.Context, f databaseFlags, log *slog.Logger) (*database, error) {
	db := &database{config: store.Config{
		URL: string(f.DatabaseURL), UnsafeDatabase: f.UnsafeDatabase, Application: version, Log: log,
	}}
	if f.DatabaseURL != "" {
		return db, db.takeFolder(f.DataDir)
	}
	dir, err := dataDir(f.DataDir)
	if err != nil {
		return nil, err
	}
	db.dir = dir
	if db.local, err = localpg.Start(ctx, localpg.Config{DataDir: dir, BinDir: string(f.PostgresBin), Log: log}); err != nil {
		return nil, folderError(dir, err)
	}
	db.config.URL = db.local.URL()
	return db, nil
}

// takeFolder makes and locks the folder in which a broker beside an external
// database keeps its id: two brokers with one id would push each other out.
func (db *database) takeFolder(named place) (err error) {
	dir := string(named)
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return folderError(dir, fmt.Errorf("make the data folder: %w", err))
	}
	db.dir = dir
	db.unlock, err = localpg.Lock(dir)
	return folderError(dir, err)
}

// folderError says what to do about a folder that cannot be used.
func folderError(dir string, err error) error {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, syscall.ENOSPC} {
		if errors.Is(err, e) && !strings.Contains(err.Error(), "--data-dir") {
			return fmt.Errorf("%w; the data folder is %s: choose another with --data-dir, or run as the user it belongs to", err, dir)
		}
	}
	return err
}

func (db *database) migrate(ctx context.Context) error {
	return db.named(store.Migrate(ctx, db.config))
}

// named says of an error which database it came from, where the user said that.
func (db *database) named(err error) error {
	if err == nil || db.local != nil {
		return err
	}
	return fmt.Errorf("--database-url: %w", err)
}

// kind is the word of the ready line.
func (db *database) kind() string {
	if db.local != nil {
		return "managed"
	}
	return "external"
}

// gone is closed when a managed server is gone for good; nil, and so never, for
// an external one.
func (db *database) gone() <-chan struct{} {
	if db.local == nil {
		return nil
	}
	return db.local.Done()
}

func (db *database) close(ctx context.Context) error {
	if db.local == nil {
		if db.unlock != nil {
			return db.unlock()
		}
		return nil
	}
	return db.local.Stop(ctx)
}

// dataDir is the folder asked for, or the user's state folder.
func dataDir(asked place) (string, error) {
	if asked != "" {
		return string(asked), nil
	}
	if os.Geteuid() == 0 {
		// Not in root's home: the user who runs PostgreSQL must reach it.
		return "/var/lib/queen", nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "queen"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no data folder: %w", errors.Join(err, errors.New("name one with --data-dir")))
	}
	return filepath.Join(home, ".local", "state", "queen"), nil
}
