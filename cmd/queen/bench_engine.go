package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
	"queenmq/store"
)

// ownEngine is an engine without doors, on a PostgreSQL of its own that lives as
// long as a load.
type ownEngine struct {
	engine  *queen.Engine
	dataDir string

	folder   string // removed at the end
	database *database
	db       *store.DB
}

// startEngine starts both in a new folder.
func startEngine(ctx context.Context, log *slog.Logger) (_ *ownEngine, err error) {
	o := &ownEngine{}
	if o.folder, err = newLoadFolder(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.stop(ctx))
		}
	}()
	o.dataDir = filepath.Join(o.folder, "data")
	if o.database, err = openDatabase(ctx, databaseFlags{DataDir: place(o.dataDir)}, log); err != nil {
		return nil, err
	}
	if err := o.database.migrate(ctx); err != nil {
		return nil, err
	}
	if o.db, err = store.Open(ctx, o.database.config); err != nil {
		return nil, err
	}
	o.engine, err = queen.Open(ctx, queen.Config{
		DB: o.db, Log: log,
		Broker: queen.BrokerConfig{ID: -1, Instance: uuid.New(), Host: "127.0.0.1", Port: 1, Version: version}, // nobody connects
	})
	return o, err
}

// stop closes what was started and removes the folder.
func (o *ownEngine) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var errs []error
	if o.engine != nil {
		errs = append(errs, o.engine.Close(ctx))
	}
	if o.db != nil {
		o.db.Close()
	}
	if o.database != nil {
		errs = append(errs, o.database.close(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(o.folder))...)
}
