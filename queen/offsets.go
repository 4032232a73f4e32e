package queen

import "time"

// The special timestamps of OffsetQuery (Kafka's ListOffsets).
const (
	AtEnd          int64 = -1 // the high watermark
	AtStart        int64 = -2 // the log start offset
	AtMaxTimestamp int64 = -3 // the record with the highest timestamp (KIP-734)
)

// OffsetQuery asks for an offset by time: the first record whose timestamp is
// at or after Timestamp (milliseconds), or one of the special values.
type OffsetQuery struct {
	Partition    PartitionRef
	Timestamp    int64
	CurrentEpoch int32 // −1: not checked
}

// OffsetAnswer answers one OffsetQuery. With no such record Offset and Timestamp are −1.
type OffsetAnswer struct {
	Err       error
	Offset    int64
	Timestamp int64
	Epoch     int32 // of the record found; −1 for none
}

// EpochQuery asks where a leader epoch ended (Kafka's OffsetForLeaderEpoch).
type EpochQuery struct {
	Partition    PartitionRef
	CurrentEpoch int32 // −1: not checked
	Epoch        int32
}

// EpochAnswer answers one EpochQuery; epoch and end are −1 where unknown.
type EpochAnswer struct {
	Err error
	End EpochEnd
}

// Cursor is a group's position in a partition: the next offset to read.
type Cursor struct {
	Partition   PartitionRef // filled with name and topic id on reading
	Offset      int64        // −1: no position is stored
	Epoch       int32        // leader epoch the client sent along, −1 for none
	Metadata    string       // at most 4,096 bytes
	CommittedAt time.Time
	Err         error
}

// ProducerID is an idempotent producer's identity: an id never given before, and its epoch.
type ProducerID struct {
	ID    int64
	Epoch int16
}
