package queen

import (
	"context"
	"sync/atomic"

	"queenmq/store"
)

// runBuilder sorts partitions' sidecars into runs in the background, one step
// at a time, so that a push whose ids nobody can vouch for stays cheap.
type runBuilder struct {
	db     *store.DB
	due    chan int64 // partitions; when it is full the partition's next turn does
	failed func(error)
}

// runsDueMax bounds the partitions that wait to be sorted.
const runsDueMax = 1024

func newRunBuilder(db *store.DB, failed func(error)) *runBuilder {
	return &runBuilder{db: db, due: make(chan int64, runsDueMax), failed: failed}
}

// stored counts ids stored in a partition that no run covers.
func (b *runBuilder) stored(partition int64, unsorted *atomic.Int64, ids int) {
	if ids == 0 || unsorted.Add(int64(ids)) < store.RunIDs {
		return
	}
	select {
	case b.due <- partition:
		unsorted.Store(0)
	default:
	}
}

func (b *runBuilder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case partition := <-b.due:
			for more := true; more && ctx.Err() == nil; {
				var err error
				if more, err = b.db.BuildRun(ctx, partition); err != nil {
					if ctx.Err() == nil {
						b.failed(err)
					}
					more = false
				}
			}
		}
	}
}
