package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed query/run_build.sql
var runBuildSQL string

// The shape of the sorted runs. A probe reads at most about twice RunIDs hashes
// that no run covers, and per id one small row per run.
const (
	RunIDs      = 131072 // in a run of level 0
	RunFanout   = 8      // runs merged into one of the next level
	RunLevelMax = 1      // a merge sorts RunIDs × RunFanout ids at most
)

// runBuildTimeout bounds one step; a merge sorts a million ids.
const runBuildTimeout = time.Minute

// BuildRun makes one step of sorting a partition's sidecar into runs and says
// whether there was one to make. Runs are derived: they change the cost of a
// probe, never its verdict.
func (db *DB) BuildRun(ctx context.Context, partition int64) (bool, error) {
	return db.buildRun(ctx, partition, RunIDs, RunFanout, RunLevelMax)
}

func (db *DB) buildRun(ctx context.Context, partition int64, ids, fanout, levelMax int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, runBuildTimeout)
	defer cancel()
	conn, err := db.admin.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("build run: %w", acquireError(err))
	}
	defer conn.Release()
	// Longer than a statement on this connection may take otherwise.
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d", runBuildTimeout.Milliseconds())); err != nil {
		return false, fmt.Errorf("build run: %w", db.writeError(conn.Conn(), err))
	}
	rows, err := conn.Query(ctx, runBuildSQL, partition, ids, fanout, levelMax)
	var did []bool
	if err == nil {
		did, err = pgx.CollectRows(rows, pgx.RowTo[bool])
	}
	if err := db.writeError(conn.Conn(), err); err != nil {
		return false, fmt.Errorf("build run: %w", err)
	}
	if _, err := conn.Exec(ctx, "RESET statement_timeout"); err != nil {
		return false, fmt.Errorf("build run: %w", db.writeError(conn.Conn(), err))
	}
	return did[0], nil
}
