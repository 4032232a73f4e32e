package queen

import (
	"fmt"

	"github.com/google/uuid"
)

// Header is one record header. Value nil is null, distinct from empty.
type Header struct {
	Key   string
	Value []byte
}

// Message is one native message to push.
type Message struct {
	Queue     string
	Partition string // empty: Default, or chosen by key, id or turn in a fixed queue
	ID        []byte // nil: minted; otherwise 1–65,535 bytes, the client's transactionId
	Key       []byte // nil is null
	Value     []byte // nil is null (a tombstone)
	Headers   []Header
	TraceID   string // empty: none
}

// PushStatus is the outcome of one pushed message.
type PushStatus string

// The outcomes of a push.
const (
	Queued    PushStatus = "queued"
	Duplicate PushStatus = "duplicate"
	Failed    PushStatus = "error"
)

// Pushed is the outcome of one Message, in request order.
type Pushed struct {
	Status PushStatus
	// MessageID is the stored message's id; of the original for a duplicate, or
	// the zero UUID when the original can no longer be read.
	MessageID uuid.UUID
	// TransactionID is the client's id, or the text of MessageID for a minted one.
	TransactionID []byte
	Partition     string // where it went
	Offset        int64  // −1 with Failed
	Err           error  // with Failed: one of Errors
}

// IDBytesMax bounds a client's id (transactionId).
const IDBytesMax = 65_535

// validateMessage checks names and id.
func validateMessage(m *Message) error {
	if err := validateNames(m); err != nil {
		return err
	}
	return validateID(m.ID)
}

func validateNames(m *Message) error {
	if err := ValidateName("queue", m.Queue); err != nil {
		return err
	}
	if m.Partition != "" {
		if err := ValidateName("partition", m.Partition); err != nil {
			return err
		}
	}
	return nil
}

func validateID(id []byte) error {
	if id != nil && (len(id) == 0 || len(id) > IDBytesMax) {
		return fmt.Errorf("%w: a transactionId has 1 to %d bytes, this one has %d; leave it out to have one minted",
			ErrInvalidRequest, IDBytesMax, len(id))
	}
	return nil
}

// fits checks whether a message, of that nativeSize, can go to a partition.
func fits(m *Message, size int, p *partition) error {
	o := &p.queue.desc.Load().Options
	if o.CleanupCompact && m.Key == nil {
		return fmt.Errorf("%w: queue %q is compacted and takes no message without a key", ErrInvalidRecord, m.Queue)
	}
	if limit := o.MaxMessageBytes; size > limit {
		return fmt.Errorf("%w: the message takes %d bytes as a record batch, queue %q allows %d (maxMessageBytes)",
			ErrTooLarge, size, m.Queue, limit)
	}
	return nil
}
