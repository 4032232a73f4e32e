package queen

import (
	"cmp"
	"context"
	"errors"
	"time"

	"queenmq/store"
)

// The bounds of one step of forgetting: each is one short autocommit call.
const (
	retentionPartitionsMax = 1000 // looked at in one statement
	retentionLooksMax      = 2000 // looked at in one round; the next goes on from there
	retentionRowsMax       = 500  // deleted in one call
	sweepRowsMax           = 1000
	// forgetBytesMax is what one call deletes of messages or of ids: 500 segments of
	// 1 MiB took 5 s of a busy machine, and a statement has 10.
	forgetBytesMax = 16 << 20

	sidecarSecondsMin = 900   // acknowledging by id needs the sidecar this long
	producerSeconds   = 86400 // Kafka's producer.id.expiration.ms
	callSeconds       = 900   // what a repeated call is answered from
	keysFromStart     = 60    // rounds after which expired keys that were locked are looked for again
)

// retain forgets, in rounds: segments past retention, sidecar rows past their
// use, and what deleted queues left. Every broker does it; steps of two brokers
// on one partition do no harm to each other.
func (e *Engine) retain(ctx context.Context) {
	failed := e.failed("retention")
	var calls, leases, keys time.Time // older ones are forgotten
	for round := 0; ; round++ {
		sleep(ctx, e.cfg.RetentionEvery)
		if ctx.Err() != nil {
			return
		}
		err := e.retainOnce(ctx)
		err = cmp.Or(err, repeatStep(ctx, func() (more bool, err error) {
			var n int
			n, calls, err = e.db.PurgeCalls(ctx, calls, callSeconds, retentionRowsMax)
			return n >= retentionRowsMax, err
		}), repeatStep(ctx, func() (more bool, err error) {
			var n int
			n, leases, err = e.db.PurgeLeases(ctx, leases, callSeconds, retentionRowsMax)
			return n >= retentionRowsMax, err
		}))
		if round%keysFromStart == 0 {
			keys = time.Time{}
		}
		err = cmp.Or(err, repeatStep(ctx, func() (more bool, err error) {
			var n int
			n, keys, err = e.db.PurgeKV(ctx, keys, retentionRowsMax)
			return n >= retentionRowsMax, err
		}))
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// retainOnce is one round: over all partitions, or over as many as a round looks
// at, from where the last one ended. So what looking costs has a bound, and of more
// partitions each waits for its turn: of 100,000 about four minutes. What fails in
// one partition does not keep the others from theirs; the first error is returned.
func (e *Engine) retainOnce(ctx context.Context) error {
	var failed error
	for looked := 0; looked < retentionLooksMax && ctx.Err() == nil; looked += retentionPartitionsMax {
		due, err := e.db.RetentionDue(ctx, e.retained, retentionPartitionsMax, retentionRowsMax, sidecarSecondsMin)
		if err != nil {
			failed = cmp.Or(failed, err)
			break
		}
		for _, d := range due {
			e.retained = d.Partition
			failed = cmp.Or(failed, e.forget(ctx, d))
		}
		if len(due) < retentionPartitionsMax {
			e.retained = 0
			break
		}
	}
	for ctx.Err() == nil {
		done, err := e.db.SweepDeleted(ctx, sweepRowsMax, forgetBytesMax)
		if err != nil || done {
			return cmp.Or(failed, err)
		}
	}
	return failed
}

// forget forgets what is due in a partition, all of it: one look finds no more
// than a step's segments, and a busy partition writes more than that in a round.
func (e *Engine) forget(ctx context.Context, d store.DueRow) error {
	for {
		if d.LogStart >= 0 {
			// The mark first: from then on nobody reads what goes.
			start, err := e.db.RaiseLogStart(ctx, d.Partition, d.LogStart)
			if errors.Is(err, store.ErrNotFound) {
				return nil // swept meanwhile
			}
			if err != nil {
				return err
			}
			e.tail.forgetBelow(d.Partition, start)
			if err := repeatStep(ctx, func() (more bool, err error) {
				_, more, err = e.db.PurgeSegments(ctx, d.Partition, retentionRowsMax, forgetBytesMax)
				return more, err
			}); err != nil {
				return err
			}
		}
		if d.Sidecar {
			if err := repeatStep(ctx, func() (more bool, err error) {
				_, more, err = e.db.PurgeSidecar(ctx, d.Partition, retentionRowsMax, forgetBytesMax, sidecarSecondsMin, producerSeconds)
				return more, err
			}); err != nil {
				return err
			}
		}
		if d.LogStart < 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		due, err := e.db.RetentionDue(ctx, d.Partition-1, 1, retentionRowsMax, sidecarSecondsMin)
		if err != nil || len(due) == 0 || due[0].Partition != d.Partition {
			return err
		}
		d = due[0]
	}
}

// repeatStep repeats a bounded step while there is more, leaving the database a
// breath between.
func repeatStep(ctx context.Context, step func() (more bool, err error)) error {
	for {
		more, err := step()
		if err != nil || !more || ctx.Err() != nil {
			return err
		}
		sleep(ctx, 5*time.Millisecond)
	}
}
