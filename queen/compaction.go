package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"queenmq/store"
)

// The bounds of one step of compaction.
const (
	compactLookMax  = 500     // partitions looked at in one statement
	compactReadMax  = 4 << 20 // bytes of segments read at once, and one segment
	compactRowsMax  = 1000    // segments read at once
	compactWriteMax = 1 << 20 // bytes written by one call, and one segment
	compactEditsMax = 250     // segments changed by one call
	compactBreath   = 2 * time.Millisecond
)

// compact takes superseded messages out of the partitions of compacted queues, in
// rounds. Live brokers share the partitions out; two that take the same one, for a
// moment, do no harm: what one changed the other finds changed, and leaves.
func (e *Engine) compact(ctx context.Context) {
	failed := e.failed("compaction")
	for {
		sleep(ctx, e.cfg.CompactEvery)
		if ctx.Err() != nil {
			return
		}
		if err := e.compactOnce(ctx, e.brokers.takes); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// compactOnce is one round over the partitions that take admits. What fails in
// one does not keep the others from theirs; the first error is returned.
func (e *Engine) compactOnce(ctx context.Context, take func(partition int64) bool) error {
	var failed error
	var queue int64
	number := -1
	seen := make(map[int64]compactedTo)
	for ctx.Err() == nil {
		rows, err := e.db.CompactionDue(ctx, queue, number, compactLookMax)
		if err != nil {
			return cmp.Or(failed, err)
		}
		for i := range rows {
			queue, number = rows[i].Queue, rows[i].Number
			e.meetCompaction(seen, &rows[i])
			if !take(rows[i].Partition) || !worthCompacting(&rows[i]) {
				continue
			}
			err := e.compactPartition(ctx, &rows[i])
			if errors.Is(err, errCompactedElsewhere) || errors.Is(err, store.ErrNotCompacted) {
				continue // the next round looks again
			}
			failed = cmp.Or(failed, err)
		}
		if len(rows) < compactLookMax {
			e.compactions.Store(&seen)
			break
		}
	}
	return failed
}

// compactedTo is what a round found of a partition's compaction.
type compactedTo struct{ cleanTo, cleanBytes int64 }

// meetCompaction drops what memory holds of a partition that was compacted since
// the last round, by whichever broker: what it has was right and stays readable, but
// nobody would ever see that anything went.
func (e *Engine) meetCompaction(seen map[int64]compactedTo, r *store.CompactionRow) {
	now := compactedTo{r.CleanTo, r.CleanBytes}
	seen[r.Partition] = now
	if last := e.compactions.Load(); last == nil || (*last)[r.Partition] != now {
		e.tail.forget(r.Partition)
	}
}

// worthCompacting decides as Kafka's cleaner does: enough of the log is dirty, or
// something dirty has waited too long, or a tombstone is due.
func worthCompacting(r *store.CompactionRow) bool {
	if r.Tombstones {
		return true
	}
	if r.Upto <= r.CleanTo || r.DirtyBytes == 0 {
		return false
	}
	return r.Overdue || float64(r.DirtyBytes) > r.DirtyRatioMin*float64(r.CleanBytes+r.DirtyBytes)
}

// errCompactedElsewhere: another broker changed the partition's segments meanwhile,
// or retention removed them.
var errCompactedElsewhere = errors.New("segments changed while they were compacted")

// compactPartition compacts a partition up to where it may. When there are more
// keys than fit a map, it takes several passes, each from the start of the log.
func (e *Engine) compactPartition(ctx context.Context, r *store.CompactionRow) error {
	clean := store.Compacted{CleanTo: r.CleanTo, CleanTotal: r.CleanTotal}
	for {
		latest := newLatestKeys(e.cfg.CompactKeysMax)
		upto, total, err := e.learnKeys(ctx, r, clean.CleanTo, latest)
		if err != nil {
			return err
		}
		more := upto > clean.CleanTo
		if more {
			clean.CleanTo, clean.CleanTotal = upto, total
		}
		if err := e.rewrite(ctx, r, newCompaction(latest, r.Now, r.TombstoneRetentionMs), &clean); err != nil {
			return err
		}
		if err := e.db.CompactionDone(ctx, r.Partition, clean); err != nil {
			return err
		}
		e.metrics.compactions.Inc()
		if !more || upto >= r.Upto || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// learnKeys shows the map the keys from an offset on: all that may be compacted,
// or as many as it takes, and at least those of one segment. It returns where that
// ends, and the running size of the log there. Nothing of a transaction is
// passed: whether its records count is not known to be decided.
func (e *Engine) learnKeys(ctx context.Context, r *store.CompactionRow, from int64, latest *latestKeys) (upto, total int64, err error) {
	upto = from
	err = e.scan(ctx, r.Partition, from, r.Upto, func(row store.SegmentRow) (bool, error) {
		if latest.full() {
			return false, nil
		}
		seg, err := loadRow(row)
		if err != nil {
			return false, err
		}
		for i := range seg.batches {
			if seg.batches[i].mark.Flags&(flagControl|flagTransactional) != 0 {
				return false, nil
			}
		}
		for i := range seg.batches {
			b := &seg.batches[i]
			if err := eachRecord(b.data, storedRecordsMax, func(r record) error {
				if r.Key != nil {
					latest.see(r.Key, b.base+int64(r.OffsetDelta))
				}
				return nil
			}); err != nil {
				return false, fmt.Errorf("batch at offset %d: %w", b.base, err)
			}
		}
		upto, total = row.End+1, row.TotalSize
		return true, nil
	})
	return upto, total, err
}

// rewrite takes out of the log, up to clean.CleanTo, what goes, in bounded steps
// upwards, and notes what is left.
func (e *Engine) rewrite(ctx context.Context, r *store.CompactionRow, c *compaction, clean *store.Compacted) error {
	var edits []store.CompactedSegment
	size, removed := 0, 0
	flush := func() error {
		if len(edits) == 0 {
			return nil
		}
		done, err := e.db.CompactSegments(ctx, r.Partition, edits)
		if err != nil {
			return err
		}
		if done < len(edits) {
			return errCompactedElsewhere
		}
		e.metrics.compacted.Add(float64(removed))
		e.tail.forget(r.Partition)
		edits, size, removed = edits[:0], 0, 0
		sleep(ctx, compactBreath)
		return nil
	}
	clean.CleanBytes, clean.TombstonesDue = 0, time.Time{}
	end, err := e.logEnd(ctx, r.Partition)
	if err != nil {
		return err
	}
	err = e.scan(ctx, r.Partition, r.LogStart, clean.CleanTo, func(row store.SegmentRow) (bool, error) {
		out, err := c.segment(row, row.End+1 == end)
		if err != nil {
			return false, err
		}
		clean.CleanBytes += int64(out.Size)
		// One that is due and still there is the log's last record: it waits for another.
		due := time.Unix(int64(out.tombstonesDue), 0)
		if due.After(r.Now) && (clean.TombstonesDue.IsZero() || due.Before(clean.TombstonesDue)) {
			clean.TombstonesDue = due
		}
		if !out.changed {
			return true, nil
		}
		edits = append(edits, out.CompactedSegment)
		size += len(out.Data)
		removed += out.removed
		if size >= compactWriteMax || len(edits) >= compactEditsMax {
			return true, flush()
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// logEnd is a partition's next offset; it only grows.
func (e *Engine) logEnd(ctx context.Context, partition int64) (int64, error) {
	ms, err := e.db.Marks(ctx, []int64{partition})
	if err == nil && !ms[0].Found {
		err = store.ErrNotCompacted
	}
	if err != nil {
		return 0, err
	}
	return ms[0].NextOffset, nil
}

// scan calls f for a partition's segments that lie from an offset on and below
// another, in order, until it returns false.
func (e *Engine) scan(ctx context.Context, partition, from, below int64, f func(store.SegmentRow) (bool, error)) error {
	for from < below {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows, err := e.db.ScanSegments(ctx, partition, from, compactReadMax, compactRowsMax)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if row.End >= below {
				return nil
			}
			if more, err := f(row); err != nil || !more {
				return err
			}
			from = row.End + 1
		}
		sleep(ctx, compactBreath)
	}
	return nil
}
