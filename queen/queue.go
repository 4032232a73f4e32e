package queen

import (
	"cmp"
	"maps"
	"math"
	"time"

	"github.com/google/uuid"
)

// DefaultPartition is the partition of a native push that names none.
const DefaultPartition = "Default"

// Queue describes a queue (Kafka: a topic) as the catalog knows it.
type Queue struct {
	ID         int64     // never reused
	Name       string    // 1–249 bytes, see ValidateName
	TopicID    uuid.UUID // never reused, also after delete and recreate
	Partitions int       // numbers are 0 … Partitions−1, by creation order
	// Fixed is set for a queue made by a Kafka client: its partitions are named
	// "0", "1", … and a push cannot create another.
	Fixed     bool
	Options   QueueOptions
	CreatedAt time.Time
}

// QueueOptions is what /configure and topic configs set. All of it is enforced.
type QueueOptions struct {
	// DedupWindowSeconds is how long an id stays known; 0 switches deduplication off.
	DedupWindowSeconds int
	// WindowFrom says who decided DedupWindowSeconds.
	WindowFrom WindowFrom
	// DedupSource is where the id of a Kafka record comes from: none, key or
	// header:NAME. It needs a window.
	DedupSource string
	// DedupMaxIDs is how many offsets back an id is known; 0 is no limit.
	DedupMaxIDs int64
	// MaxMessageBytes bounds one record batch (Kafka: max.message.bytes).
	MaxMessageBytes int
	// RetentionMs removes segments older than this; −1 keeps everything (Kafka: retention.ms).
	RetentionMs int64
	// RetentionBytes removes a partition's oldest segments while those after them
	// have that many bytes; −1 keeps everything (Kafka: retention.bytes).
	RetentionBytes int64
	// CompletedRetentionSeconds keeps the ids of messages, for acknowledging,
	// longer than the window; 0 adds nothing.
	CompletedRetentionSeconds int
	// LogAppendTime stamps batches of Kafka clients with the broker's time (Kafka:
	// message.timestamp.type).
	LogAppendTime bool
	// TimestampBeforeMaxMs and TimestampAfterMaxMs are how far the timestamps of
	// Kafka records may lie behind and ahead of the broker's clock, unless
	// it stamps them itself (Kafka: message.timestamp.before.max.ms, …after.max.ms).
	TimestampBeforeMaxMs, TimestampAfterMaxMs int64
	// CleanupDelete lets expired messages go, CleanupCompact those whose key has a
	// newer one; one of them is set (Kafka: cleanup.policy).
	CleanupDelete, CleanupCompact bool
	// CompactionLagMinMs keeps a message from compaction while it is younger,
	// CompactionLagMaxMs does not let it wait longer (Kafka: min.compaction.lag.ms, max…).
	CompactionLagMinMs, CompactionLagMaxMs int64
	// TombstoneRetentionMs is how long a tombstone stays after what it deletes was
	// compacted away (Kafka: delete.retention.ms).
	TombstoneRetentionMs int64
	// DirtyRatioMin is how much of a log is not compacted yet when it is compacted
	// again, 0 to 1 (Kafka: min.cleanable.dirty.ratio).
	DirtyRatioMin float64
	// Compression is the codec batches of Kafka clients are stored in, as
	// compression.type names it; CompressionProducer leaves them as sent.
	Compression string
	// Configs are the topic configs that were set by name through Kafka, as text.
	// What is not one of the options above has no effect but to be reported back.
	Configs map[string]string
	// LeaseSeconds is how long a popped batch is leased where the consumer does not say.
	LeaseSeconds int
	// RetryLimit is how often a group may fail a message before it is a dead letter.
	RetryLimit int
	// RetryDelayMs is how long a group gets nothing of a partition after a failure.
	RetryDelayMs int64
	// DelaySeconds is how old a message is when native consumers first get it.
	DelaySeconds int
	// RetentionGroups decide by consumption: what all of them completed is removed,
	// whatever its age. An empty name is the group-less mode; none: nothing is.
	RetentionGroups []string
	// Namespace and Task are labels that consumers can pop by; empty is none.
	Namespace, Task string
}

// The options of a queue made natively that nobody configured. A topic made by a
// Kafka client starts from its own (window 0, seven days).
const (
	DefaultDedupWindowSeconds       = 3600
	DefaultMaxMessageBytes          = 1_048_588 // Apache Kafka's default
	DefaultRetentionMs        int64 = -1
	DefaultLeaseSeconds             = 300
	DefaultRetryLimit               = 3
	// DefaultTimestampAfterMaxMs is an hour, as in Apache Kafka since 4.0.
	DefaultTimestampAfterMaxMs int64 = 3_600_000
	TopicRetentionMs           int64 = 7 * 24 * 3600 * 1000

	DefaultTombstoneRetentionMs int64   = 24 * 3600 * 1000 // Apache Kafka's delete.retention.ms
	DefaultDirtyRatioMin        float64 = 0.5              // Apache Kafka's min.cleanable.dirty.ratio
)

// DefaultOptions are the options of a queue made natively that nobody configured.
func DefaultOptions() QueueOptions {
	return QueueOptions{
		DedupWindowSeconds: DefaultDedupWindowSeconds,
		WindowFrom:         WindowDefault,
		DedupSource:        DedupSourceNone,
		MaxMessageBytes:    DefaultMaxMessageBytes,
		RetentionMs:        DefaultRetentionMs,
		RetentionBytes:     -1,

		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  DefaultTimestampAfterMaxMs,

		CleanupDelete:        true,
		CompactionLagMaxMs:   math.MaxInt64,
		TombstoneRetentionMs: DefaultTombstoneRetentionMs,
		DirtyRatioMin:        DefaultDirtyRatioMin,
		Compression:          CompressionProducer,

		LeaseSeconds: DefaultLeaseSeconds,
		RetryLimit:   DefaultRetryLimit,
	}
}

// TopicOptions are the options of a topic made by a Kafka client that names
// none. Its window is 0: a record carries no id, the minted one could only ever
// answer "new".
func TopicOptions() QueueOptions {
	o := DefaultOptions()
	o.DedupWindowSeconds, o.WindowFrom = 0, WindowKafka
	o.RetentionMs = TopicRetentionMs
	return o
}

// OptionsPatch is what a configure request says about each option; nil says
// nothing about it. It is applied under the queue's row lock, so that two
// merges at once keep each other's keys.
type OptionsPatch struct {
	// Merge keeps the stored value of what the patch says nothing about;
	// otherwise that goes back to its default (a full replace).
	Merge bool
	// Existing answers ErrUnknownQueue where there is no such queue, instead of
	// creating one. It needs Merge.
	Existing bool
	// Validate only says what the patch would make of the queue.
	Validate bool

	DedupWindowSeconds *int
	// WindowFrom is who decided the window, where the patch has one;
	// WindowConfigured by default.
	WindowFrom                WindowFrom
	DedupSource               *string
	DedupMaxIDs               *int64
	MaxMessageBytes           *int
	RetentionMs               *int64
	RetentionBytes            *int64
	CompletedRetentionSeconds *int
	LogAppendTime             *bool
	TimestampBeforeMaxMs      *int64
	TimestampAfterMaxMs       *int64
	LeaseSeconds, RetryLimit  *int
	RetryDelayMs              *int64
	DelaySeconds              *int
	RetentionGroups           *[]string
	Namespace, Task           *string
	CleanupDelete             *bool
	CleanupCompact            *bool
	CompactionLagMinMs        *int64
	CompactionLagMaxMs        *int64
	TombstoneRetentionMs      *int64
	DirtyRatioMin             *float64
	Compression               *string
	// Configs sets topic configs by name; a nil value takes one away.
	Configs map[string]*string
}

// Apply returns the options after the patch, given those stored and the defaults
// of this queue. For a queue that does not exist yet, stored are the defaults.
func (p OptionsPatch) Apply(stored, defaults QueueOptions) QueueOptions {
	o := defaults
	if p.Merge {
		o = stored
	}
	if p.DedupWindowSeconds != nil {
		o.WindowFrom = cmp.Or(p.WindowFrom, WindowConfigured)
	}
	set(&o.DedupWindowSeconds, p.DedupWindowSeconds)
	set(&o.DedupSource, p.DedupSource)
	set(&o.DedupMaxIDs, p.DedupMaxIDs)
	set(&o.MaxMessageBytes, p.MaxMessageBytes)
	set(&o.RetentionMs, p.RetentionMs)
	set(&o.RetentionBytes, p.RetentionBytes)
	set(&o.CompletedRetentionSeconds, p.CompletedRetentionSeconds)
	set(&o.LogAppendTime, p.LogAppendTime)
	set(&o.TimestampBeforeMaxMs, p.TimestampBeforeMaxMs)
	set(&o.TimestampAfterMaxMs, p.TimestampAfterMaxMs)
	set(&o.LeaseSeconds, p.LeaseSeconds)
	set(&o.RetryLimit, p.RetryLimit)
	set(&o.RetryDelayMs, p.RetryDelayMs)
	set(&o.DelaySeconds, p.DelaySeconds)
	set(&o.RetentionGroups, p.RetentionGroups)
	set(&o.Namespace, p.Namespace)
	set(&o.Task, p.Task)
	set(&o.CleanupDelete, p.CleanupDelete)
	set(&o.CleanupCompact, p.CleanupCompact)
	set(&o.CompactionLagMinMs, p.CompactionLagMinMs)
	set(&o.CompactionLagMaxMs, p.CompactionLagMaxMs)
	set(&o.TombstoneRetentionMs, p.TombstoneRetentionMs)
	set(&o.DirtyRatioMin, p.DirtyRatioMin)
	set(&o.Compression, p.Compression)
	o.Configs = maps.Clone(o.Configs)
	for name, v := range p.Configs {
		if v == nil {
			delete(o.Configs, name)
			continue
		}
		if o.Configs == nil {
			o.Configs = map[string]string{}
		}
		o.Configs[name] = *v
	}
	return o
}

func set[T any](dst *T, v *T) {
	if v != nil {
		*dst = *v
	}
}

// Configured is what became of a configure request.
type Configured struct {
	Queue   Queue        // as it now is
	Before  QueueOptions // as it was under the same row lock; the defaults with Created
	Created bool         // the queue did not exist
}

// WindowFrom says where a queue's deduplication window came from.
type WindowFrom string

// The sources of a window.
const (
	WindowDefault    WindowFrom = "default"    // a queue made by a push, never configured
	WindowConfigured WindowFrom = "configured" // somebody chose it
	WindowKafka      WindowFrom = "kafka"      // a topic made by a Kafka client: 0
)

// QueueRef names a queue by name, or by topic id where Name is empty.
type QueueRef struct {
	Name    string
	TopicID uuid.UUID
}

// PartitionRef names a partition by its queue and its dense number.
type PartitionRef struct {
	Queue  QueueRef
	Number int32
}

// NewQueue asks for a queue to be created by a Kafka client (a fixed set of partitions).
type NewQueue struct {
	Name       string
	Partitions int  // at least 1
	Validate   bool // check only, create nothing
	Options    QueueOptions
}

// Partition is one row of the list of a queue's partitions.
type Partition struct {
	ID       int64
	Number   int
	Name     string
	LogStart int64
	LogEnd   int64 // the next offset
}

// Broker is one live broker, as Metadata reports it.
type Broker struct {
	ID   int32
	Host string
	Port int32
	// PeerAddr is where other brokers reach its Kafka door, host:port; empty: nowhere.
	PeerAddr string
	Slots    int // of the 64 of the group coordinator, those it has
}

// Cluster is what a broker knows about itself and its peers. It is answered from memory.
type Cluster struct {
	ID      string // 22 characters, base64 of a UUID, stored
	Self    int32
	Epoch   int32 // leader epoch of every partition: never goes back
	Brokers []Broker
}

// QueueAnswer answers one QueueRef: a queue, or why there is none.
type QueueAnswer struct {
	Queue Queue
	Err   error
}
