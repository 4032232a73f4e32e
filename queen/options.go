package queen

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"queenmq/store"
)

// The bounds of a queue's options.
const (
	dedupWindowSecondsMax        = 10 * 365 * 24 * 3600
	completedRetentionSecondsMax = dedupWindowSecondsMax
	retryLimitMax                = 1_000_000
	delaySecondsMax              = 90 * 24 * 3600
)

// RetentionGroupsMax bounds QueueOptions.RetentionGroups.
const RetentionGroupsMax = 100

// The bounds of QueueOptions.MaxMessageBytes.
const (
	MessageBytesMin = 1 << 10
	MessageBytesMax = 64 << 20
)

// Validate says which option is out of range, and what the range is.
func (o QueueOptions) Validate() error {
	if err := ValidateDedupSource(o.DedupSource); err != nil {
		return err
	}
	if err := validateLabel("namespace", o.Namespace); err != nil {
		return err
	}
	if err := validateLabel("task", o.Task); err != nil {
		return err
	}
	for _, g := range o.RetentionGroups {
		if _, err := groupName(g); err != nil {
			return err
		}
	}
	switch {
	case o.DedupWindowSeconds < 0 || o.DedupWindowSeconds > dedupWindowSecondsMax:
		return fmt.Errorf("%w: dedupWindowSeconds is %d, must be 0 (off) to %d", ErrInvalidConfig, o.DedupWindowSeconds, dedupWindowSecondsMax)
	case o.DedupSource != DedupSourceNone && o.DedupWindowSeconds == 0:
		return sourceNeedsWindow(o.DedupSource)
	case o.DedupMaxIDs < 0:
		return fmt.Errorf("%w: the number of known ids is limited to %d, must be 1 or more, or 0 (no limit)", ErrInvalidConfig, o.DedupMaxIDs)
	case o.MaxMessageBytes < MessageBytesMin || o.MaxMessageBytes > MessageBytesMax:
		return fmt.Errorf("%w: the largest message is set to %d bytes, must be %d to %d",
			ErrInvalidConfig, o.MaxMessageBytes, MessageBytesMin, MessageBytesMax)
	case o.RetentionMs < -1:
		return fmt.Errorf("%w: retention is %d ms, must be -1 (keep everything) or more", ErrInvalidConfig, o.RetentionMs)
	case o.RetentionBytes < -1:
		return fmt.Errorf("%w: retention is %d bytes, must be -1 (keep everything) or more", ErrInvalidConfig, o.RetentionBytes)
	case o.CompletedRetentionSeconds < 0 || o.CompletedRetentionSeconds > completedRetentionSecondsMax:
		return fmt.Errorf("%w: completedRetentionSeconds is %d, must be 0 to %d",
			ErrInvalidConfig, o.CompletedRetentionSeconds, completedRetentionSecondsMax)
	case !o.CleanupDelete && !o.CleanupCompact:
		return fmt.Errorf("%w: old messages must be deleted or compacted (cleanup.policy)", ErrInvalidConfig)
	case o.CleanupCompact && o.DedupSource != DedupSourceNone:
		return sourceOrCompact(o.DedupSource)
	case o.CompactionLagMinMs < 0 || o.CompactionLagMaxMs < 1 || o.CompactionLagMaxMs < o.CompactionLagMinMs:
		return fmt.Errorf("%w: min.compaction.lag.ms is %d and max.compaction.lag.ms %d; the first must be 0 or more, the second above 0 and not below the first",
			ErrInvalidConfig, o.CompactionLagMinMs, o.CompactionLagMaxMs)
	case o.TombstoneRetentionMs < 0:
		return fmt.Errorf("%w: delete.retention.ms is %d, must be 0 or more", ErrInvalidConfig, o.TombstoneRetentionMs)
	case !(o.DirtyRatioMin >= 0 && o.DirtyRatioMin <= 1):
		return fmt.Errorf("%w: min.cleanable.dirty.ratio is %v, must be 0 to 1", ErrInvalidConfig, o.DirtyRatioMin)
	case o.Compression != CompressionProducer && codecOf(o.Compression) < 0:
		return fmt.Errorf("%w: compression.type is %q, must be producer, uncompressed, gzip, snappy, lz4 or zstd", ErrInvalidConfig, o.Compression)
	case o.LeaseSeconds < 1 || o.LeaseSeconds > int(leaseMax.Seconds()):
		return fmt.Errorf("%w: leaseTime is %d seconds, must be 1 to %d", ErrInvalidConfig, o.LeaseSeconds, int(leaseMax.Seconds()))
	case o.RetryLimit < 0 || o.RetryLimit > retryLimitMax:
		return fmt.Errorf("%w: retryLimit is %d, must be 0 (none) to %d", ErrInvalidConfig, o.RetryLimit, retryLimitMax)
	case o.RetryDelayMs < 0 || o.RetryDelayMs > 1000*delaySecondsMax:
		return fmt.Errorf("%w: retryDelay is %d ms, must be 0 (at once) to %d", ErrInvalidConfig, o.RetryDelayMs, 1000*delaySecondsMax)
	case o.DelaySeconds < 0 || o.DelaySeconds > delaySecondsMax:
		return fmt.Errorf("%w: delayedProcessing is %d seconds, must be 0 (at once) to %d", ErrInvalidConfig, o.DelaySeconds, delaySecondsMax)
	case len(o.RetentionGroups) > RetentionGroupsMax:
		return fmt.Errorf("%w: retentionGroups names %d groups, at most %d may decide", ErrInvalidConfig, len(o.RetentionGroups), RetentionGroupsMax)
	case o.TimestampBeforeMaxMs < 0 || o.TimestampAfterMaxMs < 0:
		return fmt.Errorf("%w: timestamps may be %d ms early and %d ms late, neither below 0", ErrInvalidConfig, o.TimestampAfterMaxMs, o.TimestampBeforeMaxMs)
	}
	return nil
}

// validateLabel checks a label; empty is none.
func validateLabel(what, label string) error {
	if label == "" {
		return nil
	}
	return ValidateName(what, label)
}

func sourceNeedsWindow(source string) error {
	return fmt.Errorf("%w: ids of records come from %q, which needs a deduplication window above 0", ErrInvalidConfig, source)
}

func sourceOrCompact(source string) error {
	return fmt.Errorf("%w: ids of records come from %q, which a compacted queue does not have: use queen.dedup.source or cleanup.policy=compact", ErrInvalidConfig, source)
}

// Configure creates the queue or changes its options, under its row lock.
func (e *Engine) Configure(ctx context.Context, name string, p OptionsPatch) (Configured, error) {
	if err := ValidateName("queue", name); err != nil {
		return Configured{}, err
	}
	if p.Validate || p.Existing {
		// What is wrong with the options as they are now is said with their values;
		// the database has the last word.
		c, err := e.preview(ctx, name, p)
		if err != nil || p.Validate {
			return c, err
		}
	} else if err := p.alone().Validate(); err != nil {
		return Configured{}, err
	}
	mode := store.ConfigureReplace
	switch {
	case p.Existing:
		mode = store.ConfigureExisting
	case p.Merge:
		mode = store.ConfigureMerge
	}
	call := uuid.Must(uuid.NewV7())
	var row, before store.QueueRow
	var created bool
	err := e.untilKnown(ctx, func(ctx context.Context) (err error) {
		row, before, created, err = e.db.Configure(ctx, call, name, p.row(), mode)
		return err
	})
	switch {
	case errors.Is(err, store.ErrSourceNeedsWindow):
		return Configured{}, fmt.Errorf("%w: queue %q takes ids from its records, which needs a deduplication window above 0", ErrInvalidConfig, name)
	case errors.Is(err, store.ErrSourceOrCompact):
		return Configured{}, sourceOrCompact("its records")
	case errors.Is(err, store.ErrNotFound):
		return Configured{}, unknownQueue(QueueRef{Name: name})
	case err != nil:
		return Configured{}, storeError("configure", err)
	}
	after := describeRow(row)
	if q := e.catalog.cached(QueueRef{Name: name}); q != nil && q.topic == after.TopicID {
		var was QueueOptions
		q.change(func(d *Queue) { was, d.Options = d.Options, after.Options })
		e.catalog.reconfigured(q, &was, &after.Options)
	}
	return Configured{Queue: after, Before: describeRow(before).Options, Created: created}, nil
}

// alone is the patch on a new queue, but for what depends on two options: with
// a merge, the stored one may be the other.
func (p OptionsPatch) alone() QueueOptions {
	o := p.Apply(DefaultOptions(), DefaultOptions())
	if p.Merge && p.DedupSource == nil {
		o.DedupSource = DedupSourceNone
	}
	if p.Merge && p.CleanupCompact == nil {
		o.CleanupCompact = false
	}
	if p.Merge && (p.CleanupCompact == nil || p.CleanupDelete == nil) {
		o.CleanupDelete = true
	}
	if p.Merge && p.DedupWindowSeconds == nil {
		o.DedupWindowSeconds = DefaultDedupWindowSeconds
	}
	return o
}

// preview is what the patch makes of the queue as it is in the database now.
func (e *Engine) preview(ctx context.Context, name string, p OptionsPatch) (Configured, error) {
	rows, err := e.db.Queues(ctx, []string{name}, nil)
	if err != nil {
		return Configured{}, storeError("look up queue", err)
	}
	c := Configured{Queue: Queue{Name: name, Options: DefaultOptions()}, Created: len(rows) == 0}
	if !c.Created {
		c.Queue = describeRow(rows[0])
	} else if p.Existing {
		return Configured{}, unknownQueue(QueueRef{Name: name})
	}
	c.Before = c.Queue.Options
	c.Queue.Options = p.Apply(c.Before, DefaultOptions())
	return c, c.Queue.Options.Validate()
}

// row is the patch in the ledger's words.
func (p OptionsPatch) row() store.QueuePatch {
	r := store.QueuePatch{
		DedupWindowSeconds: p.DedupWindowSeconds, DedupSource: p.DedupSource, DedupMaxIDs: p.DedupMaxIDs,
		MaxMessageBytes: p.MaxMessageBytes, RetentionMs: p.RetentionMs, RetentionBytes: p.RetentionBytes,
		CompletedRetentionSeconds: p.CompletedRetentionSeconds, LogAppendTime: p.LogAppendTime,
		TimestampBeforeMaxMs: p.TimestampBeforeMaxMs, TimestampAfterMaxMs: p.TimestampAfterMaxMs, Configs: p.Configs,
		LeaseSeconds: p.LeaseSeconds, RetryLimit: p.RetryLimit, RetryDelayMs: p.RetryDelayMs,
		DelaySeconds: p.DelaySeconds,
		Namespace:    p.Namespace, Task: p.Task,
		CleanupDelete: p.CleanupDelete, CleanupCompact: p.CleanupCompact, CompactionLagMinMs: p.CompactionLagMinMs, CompactionLagMaxMs: p.CompactionLagMaxMs,
		TombstoneRetentionMs: p.TombstoneRetentionMs, DirtyRatioMin: p.DirtyRatioMin, Compression: p.Compression,
	}
	if p.RetentionGroups != nil {
		groups := groupRows(*p.RetentionGroups)
		r.RetentionGroups = &groups
	}
	if p.DedupMaxIDs != nil {
		n := maxIDsRow(*p.DedupMaxIDs)
		r.DedupMaxIDs = &n
	}
	if p.WindowFrom != "" {
		from := string(p.WindowFrom)
		r.WindowFrom = &from
	}
	return r
}

// row is the options in the ledger's words.
func (o QueueOptions) row() store.QueueOptions {
	return store.QueueOptions{
		DedupWindowSeconds: o.DedupWindowSeconds, WindowFrom: string(o.WindowFrom),
		DedupSource: o.DedupSource, DedupMaxIDs: maxIDsRow(o.DedupMaxIDs),
		MaxMessageBytes: o.MaxMessageBytes, RetentionMs: o.RetentionMs, RetentionBytes: o.RetentionBytes,
		CompletedRetentionSeconds: o.CompletedRetentionSeconds, LogAppendTime: o.LogAppendTime,
		TimestampBeforeMaxMs: o.TimestampBeforeMaxMs, TimestampAfterMaxMs: o.TimestampAfterMaxMs, Configs: o.Configs,
		LeaseSeconds: o.LeaseSeconds, RetryLimit: o.RetryLimit, RetryDelayMs: o.RetryDelayMs,
		DelaySeconds: o.DelaySeconds, RetentionGroups: groupRows(o.RetentionGroups),
		Namespace: o.Namespace, Task: o.Task,
		CleanupDelete: o.CleanupDelete, CleanupCompact: o.CleanupCompact, CompactionLagMinMs: o.CompactionLagMinMs, CompactionLagMaxMs: o.CompactionLagMaxMs,
		TombstoneRetentionMs: o.TombstoneRetentionMs, DirtyRatioMin: o.DirtyRatioMin, Compression: o.Compression,
	}
}

// describeOptions is row read back.
func describeOptions(r store.QueueOptions) QueueOptions {
	o := QueueOptions{
		DedupWindowSeconds: r.DedupWindowSeconds, WindowFrom: WindowFrom(r.WindowFrom),
		DedupSource: r.DedupSource, DedupMaxIDs: r.DedupMaxIDs,
		MaxMessageBytes: r.MaxMessageBytes, RetentionMs: r.RetentionMs, RetentionBytes: r.RetentionBytes,
		CompletedRetentionSeconds: r.CompletedRetentionSeconds, LogAppendTime: r.LogAppendTime,
		TimestampBeforeMaxMs: r.TimestampBeforeMaxMs, TimestampAfterMaxMs: r.TimestampAfterMaxMs, Configs: r.Configs,
		LeaseSeconds: r.LeaseSeconds, RetryLimit: r.RetryLimit, RetryDelayMs: r.RetryDelayMs,
		DelaySeconds: r.DelaySeconds,
		Namespace:    r.Namespace, Task: r.Task,
		CleanupDelete: r.CleanupDelete, CleanupCompact: r.CleanupCompact, CompactionLagMinMs: r.CompactionLagMinMs, CompactionLagMaxMs: r.CompactionLagMaxMs,
		TombstoneRetentionMs: r.TombstoneRetentionMs, DirtyRatioMin: r.DirtyRatioMin, Compression: r.Compression,
	}
	for _, g := range r.RetentionGroups {
		if g == ownGroup {
			g = ""
		}
		o.RetentionGroups = append(o.RetentionGroups, g)
	}
	if o.DedupMaxIDs == store.DedupMaxIDsNone {
		o.DedupMaxIDs = 0
	}
	return o
}

func maxIDsRow(n int64) int64 {
	if n == 0 {
		return store.DedupMaxIDsNone
	}
	return n
}

// groupRows are groups in the ledger's words.
func groupRows(groups []string) []string {
	rows := make([]string, len(groups))
	for i, g := range groups {
		if rows[i] = g; g == "" {
			rows[i] = ownGroup
		}
	}
	return rows
}
