package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type migrateCommand struct {
	databaseFlags
}

// Run migrates the external database, or the managed one, started for it.
func (c *migrateCommand) Run(p *process) error {
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
