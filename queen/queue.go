package queen

import (
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
	// header:NAME; empty is none. It needs a window.
	DedupSource string
	// DedupMaxIDs is how many offsets back an id is known; 0 is no limit.
	DedupMaxIDs int64
	// MaxMessageBytes bounds one record batch (Kafka: max.message.bytes).
	MaxMessageBytes int
	// RetentionMs removes segments older than this; −1 keeps everything (Kafka: retention.ms).
	RetentionMs int64
}

// The options of a queue made natively that nobody configured. A topic made by a
// Kafka client starts from its own (window 0, seven days).
const (
	DefaultDedupWindowSeconds       = 3600
	DefaultMaxMessageBytes          = 1_048_588 // Apache Kafka's default
	DefaultRetentionMs        int64 = -1
)

// DefaultOptions are the options of a queue made natively that nobody configured.
func DefaultOptions() QueueOptions {
	return QueueOptions{
		DedupWindowSeconds: DefaultDedupWindowSeconds,
		WindowFrom:         WindowDefault,
		MaxMessageBytes:    DefaultMaxMessageBytes,
		RetentionMs:        DefaultRetentionMs,
	}
}

// OptionsPatch is what a configure request says about each option; nil says
// nothing about it. It is applied under the queue's row lock, so that two
// merges at once keep each other's keys.
type OptionsPatch struct {
	// Merge keeps the stored value of what the patch says nothing about;
	// otherwise that goes back to its default (a full replace).
	Merge              bool
	DedupWindowSeconds *int
	MaxMessageBytes    *int
	RetentionMs        *int64
}

// Apply returns the options after the patch, given those stored and the defaults
// of this queue. For a queue that does not exist yet, stored are the defaults.
func (p OptionsPatch) Apply(stored, defaults QueueOptions) QueueOptions {
	o := defaults
	if p.Merge {
		o = stored
	}
	if p.DedupWindowSeconds != nil {
		o.DedupWindowSeconds, o.WindowFrom = *p.DedupWindowSeconds, WindowConfigured
	}
	if p.MaxMessageBytes != nil {
		o.MaxMessageBytes = *p.MaxMessageBytes
	}
	if p.RetentionMs != nil {
		o.RetentionMs = *p.RetentionMs
	}
	return o
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
	ID          int32
	Host        string
	Port        int32
	Coordinator bool // this broker coordinates the consumer groups
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
