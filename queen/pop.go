package queen

import (
	"time"

	"github.com/google/uuid"
)

// PopRequest asks for leased batches of messages.
type PopRequest struct {
	Queue     string
	Partition string // empty: any partition that has something
	// Namespace and Task choose queues by their labels where Queue is empty; an
	// empty one is any.
	Namespace, Task string
	Group           string        // empty: the group-less mode
	Batch           int           // messages at most, all partitions together; 0 means 1
	Partitions      int           // partitions at most, each with a batch of its own; 0 means 1
	MaxBytes        int           // soft bound on the batches' values: a first message is returned whole; 0 is no bound
	Wait            time.Duration // how long to wait for a first message
	Lease           time.Duration // 0: as the queue says
	AutoAck         bool          // completed on delivery
	// FromEnd and From say where a group begins in a queue it asks for the first
	// time: with what comes after that (subscriptionMode=new), or with what was stored after
	// a moment. Neither: with everything that is stored.
	FromEnd bool
	From    time.Time
	// Room, where it is set, holds the memory of the answer until it is released.
	Room *AnswerRoom
}

// Popped is a leased batch from one partition.
type Popped struct {
	Queue       string
	Partition   string
	PartitionID int64
	LeaseID     uuid.UUID // shared by the batches of one pop; zero with AutoAck
	Group       string
	Messages    []StoredMessage
}

// AckStatus is what became of a leased message.
type AckStatus string

// The outcomes a consumer can report.
const (
	AckCompleted AckStatus = "completed"
	AckFailed    AckStatus = "failed" // counted: beyond the queue's retry limit it is a dead letter
	AckRetry     AckStatus = "retry"  // given back at once, not counted
	AckDead      AckStatus = "dlq"    // a dead letter at once
)

// Ack reports the outcome of one message.
type Ack struct {
	TransactionID []byte
	PartitionID   int64
	LeaseID       uuid.UUID // zero: whatever lease is live
	Group         string
	Status        AckStatus
	Reason        string // free text, kept with a dead letter
}

// Acked is the outcome of one Ack: nil Err means it took effect.
type Acked struct {
	Err error
	// Dead: the message became a dead letter.
	Dead bool
}

// Extended is what became of a request to extend a lease.
type Extended struct {
	Partitions int       // in which it is live; 0: it is over
	Until      time.Time // by the database's clock
}
