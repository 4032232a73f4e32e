package store

import (
	"context"
	_ "embed"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	//go:embed query/run_list.sql
	runListSQL string
	//go:embed query/run_due.sql
	runDueSQL string
	//go:embed query/run_rows.sql
	runRowsSQL string
	//go:embed query/run_blocks.sql
	runBlocksSQL string
	//go:embed query/run_write.sql
	runWriteSQL string
)

// RunIDs is how many ids a run of level 0 has, about. A probe reads at most about
// twice as many hashes that no run covers, and per id one small row per run.
const RunIDs = 65536

// runShape is what a partition's runs are to be like.
type runShape struct {
	ids      int // of a run of level 0
	few      int // so many runs are left as they are
	fanout   int // runs merged into one of the next level
	levelMax int
}

// shapeOfRuns: a merge sorts half a million ids, some 12 MB for a moment. Ten million
// ids have 19 large runs and some small ones, so where there are no more than that,
// merging would make nothing cheaper that is not cheap enough.
var shapeOfRuns = runShape{ids: RunIDs, few: 24, fanout: 8, levelMax: 1}

// runBuildTimeout bounds one step; a merge sorts half a million ids.
const runBuildTimeout = time.Minute

// run is a sorted run: an entry for each hash of the rows from first to last, both offsets.
type run struct {
	last, first int64
	level, ids  int32
}

// BuildRun makes one step of sorting a partition's sidecar into runs and says
// whether it made one: a run of level 0 of the oldest rows that no run covers, if
// they have RunIDs hashes, else one of some neighbours of a level, where a partition
// has more than a few. Runs are
// derived: they change the cost of a probe, never its verdict. Sorting is done here:
// in PostgreSQL it took almost three times as long (DESIGN.md, D27).
func (db *DB) BuildRun(ctx context.Context, partition int64) (bool, error) {
	return db.buildRun(ctx, partition, shapeOfRuns)
}

func (db *DB) buildRun(ctx context.Context, partition int64, shape runShape) (did bool, err error) {
	// One connection for all: rows read in one incarnation of the database must
	// not become a run in another.
	err = db.long(ctx, "build run", runBuildTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		w, err := planRun(ctx, conn, partition, shape)
		if err != nil {
			return db.readError("build run", conn, err)
		}
		if w == nil {
			return nil
		}
		entries, ends := w.entries.sorted(runBlockIDs)
		w.entries = nil
		var wrote *bool
		err = conn.QueryRow(ctx, runWriteSQL, partition, w.above, w.replaced, w.first, w.last, w.level, w.ids,
			entries, ends).Scan(&wrote)
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.Code == "23505" { // unique_violation
			return nil // somebody else was faster
		}
		did = err == nil && wrote != nil
		return db.writeError("build run", conn, err)
	})
	return did && err == nil, err
}

// runWork is a run to be written.
type runWork struct {
	run
	above    int64 // of level 0: the end of the newest run
	replaced []int64
	entries  runEntries
}

// planRun decides on a step and reads what it sorts; nil: there is none to make.
func planRun(ctx context.Context, conn *pgx.Conn, partition int64, shape runShape) (*runWork, error) {
	runs, err := listRuns(ctx, conn, partition)
	if err != nil {
		return nil, err
	}
	w := &runWork{above: -1, replaced: []int64{}}
	if len(runs) > 0 {
		w.above = runs[len(runs)-1].last
	}
	var first, last, n *int64
	if err := conn.QueryRow(ctx, runDueSQL, partition, w.above, shape.ids).Scan(&first, &last, &n); err != nil {
		return nil, err
	}
	if n != nil && *n >= int64(shape.ids) {
		if !spansRun(*first, *last) {
			return nil, nil
		}
		w.first, w.last, w.ids = *first, *last, int32(*n)
		w.entries = make(runEntries, 0, *n)
		rows, err := conn.Query(ctx, runRowsSQL, partition, w.above, w.last)
		if err != nil {
			return nil, err
		}
		return w, w.collectRows(rows)
	}
	merged := shape.neighbours(runs)
	if merged == nil {
		return nil, nil
	}
	w.first, w.last, w.level = merged[0].first, merged[shape.fanout-1].last, merged[0].level+1
	shift := map[int64]int64{}
	for _, r := range merged {
		w.first = min(w.first, r.first)
		w.ids += r.ids
		w.replaced = append(w.replaced, r.last)
	}
	if !spansRun(w.first, w.last) {
		return nil, nil
	}
	for _, r := range merged {
		shift[r.last] = r.first - w.first
	}
	w.entries = make(runEntries, 0, w.ids)
	rows, err := conn.Query(ctx, runBlocksSQL, partition, w.replaced)
	if err != nil {
		return nil, err
	}
	return w, w.collectBlocks(rows, shift)
}

// spansRun says whether a run may reach so far: its entries count offsets from its
// first in 32 bits. Few ids among billions of minted ones are left to the sidecar,
// because an offset that wrapped would hide its id.
func spansRun(first, last int64) bool { return last-first <= math.MaxInt32 }

func listRuns(ctx context.Context, conn *pgx.Conn, partition int64) ([]run, error) {
	rows, err := conn.Query(ctx, runListSQL, partition)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r run, err error) {
		err = row.Scan(&r.last, &r.first, &r.level, &r.ids)
		return r, err
	})
}

// neighbours returns the oldest runs of the lowest level below levelMax that has
// a fanout of them side by side, or nil.
func (s runShape) neighbours(runs []run) (out []run) {
	if len(runs) <= s.few {
		return nil
	}
	for end := s.fanout; end <= len(runs); end++ {
		some := runs[end-s.fanout : end]
		same := int(some[0].level) < s.levelMax && (out == nil || some[0].level < out[0].level)
		for _, r := range some {
			same = same && r.level == some[0].level
		}
		if same {
			out = some
		}
	}
	return out
}

// collectRows adds the ids of sidecar rows.
func (w *runWork) collectRows(rows pgx.Rows) error {
	defer rows.Close()
	var hashes [][16]byte
	for rows.Next() {
		row := binaryRow{values: rows.RawValues()}
		base := row.integer(0)
		hashes = row.uuids(hashes[:0])
		if row.err != nil {
			return row.err
		}
		for k := range hashes {
			if hashes[k] != ([16]byte{}) { // minted
				w.entries = append(w.entries, runEntry(&hashes[k], base-w.first+int64(k)))
			}
		}
	}
	return rows.Err()
}

// collectBlocks adds the ids of runs that are merged. shift says by the end of each
// run how much further its first offset is than that of the new one.
func (w *runWork) collectBlocks(rows pgx.Rows, shift map[int64]int64) error {
	defer rows.Close()
	var entries []int64
	for rows.Next() {
		row := binaryRow{values: rows.RawValues()}
		by := shift[row.integer(0)]
		entries = row.int8s(entries[:0])
		if row.err != nil {
			return row.err
		}
		for _, e := range entries {
			w.entries = append(w.entries, e+by)
		}
	}
	return rows.Err()
}
