package queen

import "errors"

// The errors a door may see. Each door translates them with one table; a test
// in each door checks that no error of Errors lacks a row there. Errors are
// compared with errors.Is; the text around them says what, why and how to fix
// it, and may be shown to the user.
var (
	// ErrOutcomeUnknown: the commit's answer was lost and repeating the call did
	// not resolve it in time. The write happened or did not; retry is right.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnavailable: nothing was written, PostgreSQL cannot be reached or refuses
	// for now; retry is right.
	ErrUnavailable = errors.New("database unavailable")
	// ErrStorageFull: nothing was written, PostgreSQL has no space left.
	ErrStorageFull = errors.New("storage full")
	// ErrTimedOut: the deadline of the request passed before anything was written.
	ErrTimedOut = errors.New("timed out")
	// ErrOverloaded: a bound on bytes or requests in flight is reached; nothing was written.
	ErrOverloaded = errors.New("overloaded")
	// ErrClosing: this broker is shutting down; nothing was written.
	ErrClosing = errors.New("broker is shutting down")

	// ErrUnknownQueue: no queue of that name exists.
	ErrUnknownQueue = errors.New("unknown queue")
	// ErrUnknownQueueID: no queue has that topic id (KIP-516).
	ErrUnknownQueueID = errors.New("unknown queue id")
	// ErrUnknownPartition: the queue exists, the partition does not.
	ErrUnknownPartition = errors.New("unknown partition")
	// ErrQueueExists: the name is taken.
	ErrQueueExists = errors.New("queue already exists")
	// ErrInvalidName: a queue, partition or group name breaks the rules of names.
	ErrInvalidName = errors.New("invalid name")
	// ErrInvalidPartitions: a partition count is out of range.
	ErrInvalidPartitions = errors.New("invalid partition count")
	// ErrInvalidConfig: an option is unknown or its value is refused.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrPolicy: what the queue is set to forbids it.
	ErrPolicy = errors.New("not allowed by the queue's policy")
	// ErrInvalidRequest: the request contradicts itself or lacks something.
	ErrInvalidRequest = errors.New("invalid request")

	// ErrCorruptBatch: a record batch whose CRC or length does not match its bytes.
	ErrCorruptBatch = errors.New("corrupt record batch")
	// ErrInvalidRecord: a record batch that is well formed but not allowed.
	ErrInvalidRecord = errors.New("invalid record")
	// ErrInvalidTimestamp: a record's timestamp is outside what the queue allows.
	ErrInvalidTimestamp = errors.New("invalid timestamp")
	// ErrTooLarge: a batch or message is larger than the queue allows.
	ErrTooLarge = errors.New("message too large")
	// ErrUnsupportedCompression: a compression type that is not served.
	ErrUnsupportedCompression = errors.New("unsupported compression type")
	// ErrTransactional: transactional ids and batches are not served.
	ErrTransactional = errors.New("transactions are not supported")

	// ErrOutOfOrderSequence: a gap in a producer's sequence numbers.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrDuplicateSequence: a batch older than the five remembered ones.
	ErrDuplicateSequence = errors.New("duplicate sequence number")
	// ErrProducerFenced: a newer epoch of this producer id has written.
	ErrProducerFenced = errors.New("producer epoch is fenced")
	// ErrUnknownProducer: a sequence above 0 from a producer this partition does not know.
	ErrUnknownProducer = errors.New("unknown producer id")

	// ErrOffsetOutOfRange: an offset below the log start or above the log end.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrFencedEpoch: the client's leader epoch is older than the log's.
	ErrFencedEpoch = errors.New("fenced leader epoch")
	// ErrUnknownEpoch: the client's leader epoch is newer than the log's.
	ErrUnknownEpoch = errors.New("unknown leader epoch")

	// ErrInvalidGroup: a consumer group id that is empty or not allowed.
	ErrInvalidGroup = errors.New("invalid consumer group")
	// ErrNotCoordinator: another broker coordinates the group by now; nothing was written.
	ErrNotCoordinator = errors.New("not the coordinator of the group")
	// ErrUnknownGroup: a consumer group that has neither members nor positions.
	ErrUnknownGroup = errors.New("unknown consumer group")
	// ErrGroupNotEmpty: a consumer group that somebody is still in.
	ErrGroupNotEmpty = errors.New("consumer group is not empty")
	// ErrMetadataTooLarge: the text stored with an offset is too long.
	ErrMetadataTooLarge = errors.New("offset metadata too large")
	// ErrLeaseLost: the lease named by an ack has ended or was never given.
	ErrLeaseLost = errors.New("lease lost")
	// ErrUnresolvable: an id to acknowledge that no longer names a message.
	ErrUnresolvable = errors.New("unresolvable")
)

// Errors lists every error above, for the tests that keep the doors' tables complete.
var Errors = []error{
	ErrOutcomeUnknown, ErrUnavailable, ErrStorageFull, ErrTimedOut, ErrOverloaded, ErrClosing,
	ErrUnknownQueue, ErrUnknownQueueID, ErrUnknownPartition, ErrQueueExists, ErrInvalidName,
	ErrInvalidPartitions, ErrInvalidConfig, ErrPolicy, ErrInvalidRequest,
	ErrCorruptBatch, ErrInvalidRecord, ErrInvalidTimestamp, ErrTooLarge, ErrUnsupportedCompression, ErrTransactional,
	ErrOutOfOrderSequence, ErrDuplicateSequence, ErrProducerFenced, ErrUnknownProducer,
	ErrOffsetOutOfRange, ErrFencedEpoch, ErrUnknownEpoch,
	ErrInvalidGroup, ErrNotCoordinator, ErrUnknownGroup, ErrGroupNotEmpty, ErrMetadataTooLarge, ErrLeaseLost, ErrUnresolvable,
}
