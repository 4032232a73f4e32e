package queen

import (
	"time"

	"github.com/google/uuid"
)

// PopRequest asks for a leased batch of messages.
type PopRequest struct {
	Queue     string
	Partition string        // empty: any partition that has something
	Group     string        // empty: the group-less mode
	Batch     int           // messages at most; 0 means 1
	MaxBytes  int           // soft bound on the batch's values: a first message is returned whole; 0 is no bound
	Wait      time.Duration // how long to wait for a first message
	Lease     time.Duration // 0: 300 s
	AutoAck   bool          // completed on delivery
	// FromEnd: a group that has no position yet starts at the end (subscriptionMode=new).
	FromEnd bool
}

// Popped is a leased batch from one partition. No messages: nothing was there.
type Popped struct {
	Queue       string
	Partition   string
	PartitionID int64
	LeaseID     uuid.UUID // zero with AutoAck
	Group       string
	Messages    []StoredMessage
}

// AckStatus is what became of a leased message.
type AckStatus string

// The outcomes a consumer can report. Retry gives the message back at once.
const (
	AckCompleted AckStatus = "completed"
	AckFailed    AckStatus = "failed"
	AckRetry     AckStatus = "retry"
)

// Ack reports the outcome of one message.
type Ack struct {
	TransactionID []byte
	PartitionID   int64
	LeaseID       uuid.UUID // zero: whatever lease is live
	Group         string
	Status        AckStatus
	Reason        string // free text with Failed
}

// Acked is the outcome of one Ack: nil Err means it took effect.
type Acked struct {
	Err error
}
