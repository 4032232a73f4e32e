package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

type migrateCommand struct {
	databaseFlags
}

// Run migrates the external database, or the managed one, started for it.
func (c *migrateCommand) Run(p *process) error {
	if c.DatabaseURL != "" {
		c.DataDir = "" // a broker's id is not needed, and its folder may be in use
	} else if err := c.mustExist(); err != nil {
		return err
	}
	db, err := openDatabase(p.ctx, c.databaseFlags, p.log)
	if err != nil {
		return err
	}
	migrated := db.migrate(p.ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), time.Minute)
	defer cancel()
	if err := errors.Join(migrated, db.close(ctx)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "migrated")
	return err
}

// mustExist refuses to make a database where there is none to migrate.
func (c *migrateCommand) mustExist() error {
	dir, err := dataDir(c.DataDir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "pg")); err != nil {
		return fmt.Errorf("no database of ours in %s: %w; name one with --database-url, or its folder with --data-dir", dir, err)
	}
	return nil
}
