package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed query/queue_configure.sql
var queueConfigureSQL string

// QueueOptions are the columns of a queue that its users choose, named as in the
// table. A new one also needs its line in queue_options_set_1 and in QueuePatch.
type QueueOptions struct {
	DedupWindowSeconds        int    `json:"dedup_window_seconds"`
	WindowFrom                string `json:"window_from"`   // "default", "configured" or "kafka"
	DedupSource               string `json:"dedup_source"`  // of a Kafka record's id: "none", "key" or "header:NAME"
	DedupMaxIDs               int64  `json:"dedup_max_ids"` // how many offsets back an id is known
	MaxMessageBytes           int    `json:"max_message_bytes"`
	RetentionMs               int64  `json:"retention_ms"`
	RetentionBytes            int64  `json:"retention_bytes"`
	CompletedRetentionSeconds int    `json:"completed_retention_seconds"`
	LogAppendTime             bool   `json:"log_append_time"`
	TimestampBeforeMaxMs      int64  `json:"timestamp_before_max_ms"`
	TimestampAfterMaxMs       int64  `json:"timestamp_after_max_ms"`
	// What becomes of old messages: what expired goes, what was superseded goes, or both.
	CleanupDelete        bool    `json:"cleanup_delete"`
	CleanupCompact       bool    `json:"cleanup_compact"`
	CompactionLagMinMs   int64   `json:"compaction_lag_min_ms"`
	CompactionLagMaxMs   int64   `json:"compaction_lag_max_ms"`
	TombstoneRetentionMs int64   `json:"tombstone_retention_ms"`
	DirtyRatioMin        float64 `json:"dirty_ratio_min"`
	Compression          string  `json:"compression"` // of Kafka batches as stored; "producer": as sent
	// Configs are the topic configs set by name through Kafka, as text; never nil
	// when read.
	Configs      map[string]string `json:"configs"`
	LeaseSeconds int               `json:"lease_seconds"`
	RetryLimit   int               `json:"retry_limit"`
	RetryDelayMs int64             `json:"retry_delay_ms"`
	DelaySeconds int               `json:"delay_seconds"`
	// RetentionGroups: what all of them completed may go; never nil when read.
	RetentionGroups []string `json:"retention_groups"`
	// Namespace and Task are labels; empty is none.
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
}

// DedupMaxIDsNone as QueueOptions.DedupMaxIDs sets no limit.
const DedupMaxIDsNone = math.MaxInt64

// DefaultQueueOptions are the table's defaults: the options of a native queue
// nobody configured.
func DefaultQueueOptions() QueueOptions {
	return QueueOptions{
		DedupWindowSeconds: 3600,
		WindowFrom:         "default",
		DedupSource:        "none",
		DedupMaxIDs:        DedupMaxIDsNone,
		MaxMessageBytes:    1048588, // Kafka's max.message.bytes
		RetentionMs:        -1,      // everything is kept
		RetentionBytes:     -1,

		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  3_600_000, // Kafka's message.timestamp.after.max.ms

		CleanupDelete:        true,
		CompactionLagMaxMs:   math.MaxInt64,
		TombstoneRetentionMs: 86_400_000, // Kafka's delete.retention.ms
		DirtyRatioMin:        0.5,
		Compression:          "producer",

		LeaseSeconds:    300,
		RetryLimit:      3,
		RetentionGroups: []string{},

		Configs: map[string]string{},
	}
}

// QueuePatch says what Configure changes; nil leaves an option out.
type QueuePatch struct {
	DedupWindowSeconds        *int    `json:"dedup_window_seconds,omitempty"`
	WindowFrom                *string `json:"window_from,omitempty"`
	DedupSource               *string `json:"dedup_source,omitempty"`
	DedupMaxIDs               *int64  `json:"dedup_max_ids,omitempty"`
	MaxMessageBytes           *int    `json:"max_message_bytes,omitempty"`
	RetentionMs               *int64  `json:"retention_ms,omitempty"`
	RetentionBytes            *int64  `json:"retention_bytes,omitempty"`
	CompletedRetentionSeconds *int    `json:"completed_retention_seconds,omitempty"`
	LogAppendTime             *bool   `json:"log_append_time,omitempty"`
	TimestampBeforeMaxMs      *int64  `json:"timestamp_before_max_ms,omitempty"`
	TimestampAfterMaxMs       *int64  `json:"timestamp_after_max_ms,omitempty"`
	Namespace                 *string `json:"namespace,omitempty"`
	Task                      *string `json:"task,omitempty"`

	CleanupDelete        *bool    `json:"cleanup_delete,omitempty"`
	CleanupCompact       *bool    `json:"cleanup_compact,omitempty"`
	CompactionLagMinMs   *int64   `json:"compaction_lag_min_ms,omitempty"`
	CompactionLagMaxMs   *int64   `json:"compaction_lag_max_ms,omitempty"`
	TombstoneRetentionMs *int64   `json:"tombstone_retention_ms,omitempty"`
	DirtyRatioMin        *float64 `json:"dirty_ratio_min,omitempty"`
	Compression          *string  `json:"compression,omitempty"`

	LeaseSeconds *int   `json:"lease_seconds,omitempty"`
	RetryLimit   *int   `json:"retry_limit,omitempty"`
	RetryDelayMs *int64 `json:"retry_delay_ms,omitempty"`
	DelaySeconds *int   `json:"delay_seconds,omitempty"`
	// RetentionGroups: nil leaves it out; an empty list is none.
	RetentionGroups *[]string `json:"retention_groups,omitempty"`
	// Configs sets topic configs by name; a nil value takes one away.
	Configs map[string]*string `json:"-"`
}

// ErrSourceOrCompact: a source of record ids in a compacted queue.
var ErrSourceOrCompact = errors.New("source of record ids in a compacted queue")

// ErrSourceNeedsWindow: a source of record ids without a window to look for them in.
var ErrSourceNeedsWindow = errors.New("source of record ids without a deduplication window")

// ConfigureMode says what becomes of options that a patch leaves out, and of
// a queue that does not exist.
type ConfigureMode int

// The modes of Configure.
const (
	ConfigureReplace  ConfigureMode = iota // left out: back to the default; a missing queue is created
	ConfigureMerge                         // left out: kept; a missing queue is created
	ConfigureExisting                      // left out: kept; a missing queue is ErrNotFound
)

// Configure applies a patch under the queue's row lock. It returns the row after,
// the row before (the defaults of a new queue) and whether the queue is new. A
// window counts as configured where the patch does not say where it is from. A repeat
// of a call, under the same id, is told what its first attempt did.
func (db *DB) Configure(ctx context.Context, call uuid.UUID, name string, p QueuePatch, mode ConfigureMode) (after, before QueueRow, created bool, err error) {
	if p.DedupWindowSeconds != nil && p.WindowFrom == nil {
		configured := "configured"
		p.WindowFrom = &configured
	}
	options, err := json.Marshal(p)
	if err == nil && mode == ConfigureReplace {
		d := DefaultQueueOptions()
		if err = json.Unmarshal(options, &d); err == nil {
			options, err = json.Marshal(d)
		}
	}
	if err != nil {
		return QueueRow{}, QueueRow{}, false, fmt.Errorf("configure queue: %w", err)
	}
	if p.Configs == nil {
		p.Configs = map[string]*string{}
	}
	type change struct {
		After, Before QueueRow
		Created       bool
	}
	c, err := found(writeRows(ctx, db, db.admin, "configure queue", pgx.RowTo[*change], queueConfigureSQL,
		call, name, mode != ConfigureExisting, json.RawMessage(options), mode == ConfigureReplace, p.Configs))
	return c.After, c.Before, c.Created, optionsError(err)
}

// optionsError names the constraint of the table that options broke.
func optionsError(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	switch pe.ConstraintName {
	case "queues_source_needs_window":
		return fmt.Errorf("%w: %w", ErrSourceNeedsWindow, err)
	case "queues_source_or_compact":
		return fmt.Errorf("%w: %w", ErrSourceOrCompact, err)
	}
	return err
}
