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
	RunIDs      = 65536 // in a run of level 0
	RunFanout   = 16    // runs merged into one of the next level
	RunLevelMax = 1     // a merge sorts RunIDs × RunFanout ids at most
)

// runBuildTimeout bounds one step; a merge sorts a million ids.
const runBuildTimeout = time.Minute

// BuildRun makes one step of sorting a partition's sidecar into runs and says
// whether there was one to make. Runs are derived: they change the cost of a
// probe, never its verdict.
func (db *DB) BuildRun(ctx context.Context, partition int64) (bool, error) {
	return db.buildRun(ctx, partition, RunIDs, RunFanout, RunLevelMax)
}

func (db *DB) buildRun(ctx context.Context, partition int64, ids, fanout, levelMax int) (did bool, err error) {
	err = db.long(ctx, runBuildTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		return db.writeError(conn, conn.QueryRow(ctx, runBuildSQL, partition, ids, fanout, levelMax).Scan(&did))
	})
	if err != nil {
		return false, fmt.Errorf("build run: %w", err)
	}
	return did, nil
}
