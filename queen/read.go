package queen

import (
	"bytes"
	"slices"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// ReadItem asks for one partition's record batches from an offset on.
type ReadItem struct {
	Partition PartitionRef
	Offset    int64
	MaxBytes  int // soft: a first batch is returned whole
	// CurrentEpoch is the leader epoch the client believes in, −1 for none.
	CurrentEpoch int32
	// LastFetchedEpoch is the epoch of the client's last record, −1 for none (KIP-595).
	LastFetchedEpoch int32
}

// ReadRequest reads from many partitions in one go.
type ReadRequest struct {
	Items    []ReadItem
	MinBytes int           // wait until this much is there …
	MaxWait  time.Duration // … or this long
	MaxBytes int           // soft, over all items; a first batch is returned whole

	times int // what a byte of batches takes of the memory for answers
}

// ReadAnswer answers one ReadItem.
type ReadAnswer struct {
	Err           error // one of Errors; the marks below are set even so where known, else −1
	LogStart      int64
	HighWatermark int64 // the next offset to be written
	LastStable    int64 // equal to HighWatermark while there are no transactions
	// Batches are whole record batches with their offsets patched in, in offset
	// order, the first one holding Offset or the next offset that exists. They
	// are immutable and shared: never written to.
	Batches [][]byte
	// Diverging is set when LastFetchedEpoch and Offset lie on a truncated branch.
	Diverging *EpochEnd

	lent *lentMemory // nil: the batches lie in memory that others read, too
	room *AnswerRoom // of all answers to one Read
}

// lentMemory is what only the reader of an answer holds.
type lentMemory struct{ rows [][]byte }

// Release gives the memory of the batches back, to be used for other answers:
// nothing may look at them any more, in this answer or a copy of it. An answer
// that is never released keeps its share of the memory for answers: each must be. The
// first of those to one Read gives back the share of all.
func (a *ReadAnswer) Release() {
	if a.room != nil {
		a.room.Release()
		a.room = nil
	}
	if a.lent == nil {
		return
	}
	for _, row := range a.lent.rows {
		store.Recycle(row)
	}
	a.lent.rows, a.Batches = nil, nil
}

// CutWhenWanted is AnswerRoom's, for all answers to one Read.
func (a *ReadAnswer) CutWhenWanted(cut func()) (stop func()) {
	if a.room == nil {
		return func() {}
	}
	return a.room.CutWhenWanted(cut)
}

// EpochEnd is the end offset of a leader epoch.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// StoredMessage is a message as it is read back. Its slices are parts of the segment
// it was read from, which they keep in memory.
type StoredMessage struct {
	ID uuid.UUID
	// TransactionID is the client's id, or the text of ID where it was minted.
	TransactionID []byte
	Offset        int64
	Partition     string
	PartitionID   int64
	Key           []byte // nil is null
	Value         []byte // nil is null
	Headers       []Header
	TraceID       string
	Timestamp     time.Time // the record's own
	CreatedAt     time.Time // when it was stored, by the database's clock
}

// bytes is what of a message has no bound of its own.
func (m *StoredMessage) bytes() int {
	n := len(m.TransactionID) + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return n
}

// detached is the message in memory of its own: what is kept of few messages of many
// segments must not keep the segments.
func (m StoredMessage) detached() StoredMessage {
	m.TransactionID, m.Key, m.Value = bytes.Clone(m.TransactionID), bytes.Clone(m.Key), bytes.Clone(m.Value)
	m.Headers = slices.Clone(m.Headers)
	for i := range m.Headers {
		m.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
	}
	return m
}
