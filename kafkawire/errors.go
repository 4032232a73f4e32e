package kafkawire

import (
	"context"
	"errors"
	"strings"

	"queenmq/queen"
)

// Kafka's error codes, as far as this door uses them.
const (
	codeNone                     int16 = 0
	codeOffsetOutOfRange         int16 = 1
	codeCorruptMessage           int16 = 2
	codeUnknownTopicOrPartition  int16 = 3
	codeLeaderNotAvailable       int16 = 5
	codeNotLeaderOrFollower      int16 = 6
	codeRequestTimedOut          int16 = 7
	codeMessageTooLarge          int16 = 10
	codeOffsetMetadataTooLarge   int16 = 12
	codeCoordinatorLoading       int16 = 14
	codeCoordinatorNotAvailable  int16 = 15
	codeNotCoordinator           int16 = 16
	codeInvalidTopic             int16 = 17
	codeInvalidRequiredAcks      int16 = 21
	codeIllegalGeneration        int16 = 22
	codeInconsistentProtocol     int16 = 23
	codeInvalidGroupID           int16 = 24
	codeUnknownMemberID          int16 = 25
	codeInvalidSessionTimeout    int16 = 26
	codeRebalanceInProgress      int16 = 27
	codeInvalidTimestamp         int16 = 32
	codeUnsupportedVersion       int16 = 35
	codeTopicAlreadyExists       int16 = 36
	codeInvalidPartitions        int16 = 37
	codeInvalidReplicationFactor int16 = 38
	codeInvalidReplicaAssignment int16 = 39
	codeInvalidConfig            int16 = 40
	codeInvalidRequest           int16 = 42
	codePolicyViolation          int16 = 44
	codeOutOfOrderSequence       int16 = 45
	codeDuplicateSequence        int16 = 46
	codeInvalidProducerEpoch     int16 = 47
	codeTransactionalIDAuth      int16 = 53
	codeKafkaStorage             int16 = 56
	codeUnknownProducerID        int16 = 59
	codeNonEmptyGroup            int16 = 68
	codeGroupIDNotFound          int16 = 69
	codeFetchSessionIDNotFound   int16 = 70
	codeInvalidFetchSessionEpoch int16 = 71
	codeFencedLeaderEpoch        int16 = 74
	codeUnknownLeaderEpoch       int16 = 75
	codeUnsupportedCompression   int16 = 76
	codeMemberIDRequired         int16 = 79
	codeGroupMaxSizeReached      int16 = 81
	codeFencedInstanceID         int16 = 82
	codeElectionNotNeeded        int16 = 84
	codeNoReassignmentInProgress int16 = 85
	codeGroupSubscribedToTopic   int16 = 86
	codeInvalidRecord            int16 = 87
	codeUnknownTopicID           int16 = 100
	codeFetchSessionTopicID      int16 = 106
	codeFencedMemberEpoch        int16 = 110
	codeUnreleasedInstanceID     int16 = 111
	codeUnsupportedAssignor      int16 = 112
	codeStaleMemberEpoch         int16 = 113
	codeMismatchedEndpointType   int16 = 114
	codeUnsupportedEndpointType  int16 = 115
	codeInvalidRegularExpression int16 = 128
	codeRebootstrapRequired      int16 = 129
	codeUnknownServerError       int16 = -1
)

// errorRow is one line of the table between the room's errors and Kafka's codes.
type errorRow struct {
	err  error
	code int16
	// coordinator is the code in answers of a group coordinator, where it differs.
	coordinator int16
}

// errorTable is the one place where the room's errors become Kafka's codes. A
// retriable code stands wherever repeating is right: the unknown outcome is a
// time-out, never UNKNOWN_SERVER_ERROR, which clients take as final.
var errorTable = []errorRow{
	{err: queen.ErrUnavailable, code: codeNotLeaderOrFollower, coordinator: codeCoordinatorNotAvailable},
	{err: queen.ErrClosing, code: codeNotLeaderOrFollower, coordinator: codeNotCoordinator},
	{err: queen.ErrOutcomeUnknown, code: codeRequestTimedOut, coordinator: codeCoordinatorNotAvailable},
	{err: queen.ErrTimedOut, code: codeRequestTimedOut},
	{err: queen.ErrOverloaded, code: codeRequestTimedOut, coordinator: codeCoordinatorLoading},
	{err: queen.ErrStorageFull, code: codeKafkaStorage, coordinator: codeCoordinatorNotAvailable},

	{err: queen.ErrUnknownPartition, code: codeUnknownTopicOrPartition},
	{err: queen.ErrUnknownQueue, code: codeUnknownTopicOrPartition},
	{err: queen.ErrUnknownQueueID, code: codeUnknownTopicID},
	{err: queen.ErrQueueExists, code: codeTopicAlreadyExists},
	{err: queen.ErrInvalidName, code: codeInvalidTopic},
	{err: queen.ErrInvalidPartitions, code: codeInvalidPartitions},
	{err: queen.ErrInvalidConfig, code: codeInvalidConfig},
	{err: queen.ErrPolicy, code: codePolicyViolation},
	{err: queen.ErrInvalidRequest, code: codeInvalidRequest},

	{err: queen.ErrCorruptBatch, code: codeCorruptMessage},
	{err: queen.ErrInvalidRecord, code: codeInvalidRecord},
	{err: queen.ErrInvalidTimestamp, code: codeInvalidTimestamp},
	{err: queen.ErrTooLarge, code: codeMessageTooLarge},
	{err: queen.ErrUnsupportedCompression, code: codeUnsupportedCompression},
	{err: queen.ErrTransactional, code: codeTransactionalIDAuth},

	{err: queen.ErrOutOfOrderSequence, code: codeOutOfOrderSequence},
	{err: queen.ErrDuplicateSequence, code: codeDuplicateSequence},
	{err: queen.ErrProducerFenced, code: codeInvalidProducerEpoch},
	{err: queen.ErrUnknownProducer, code: codeUnknownProducerID},

	{err: queen.ErrOffsetOutOfRange, code: codeOffsetOutOfRange},
	{err: queen.ErrFencedEpoch, code: codeFencedLeaderEpoch},
	{err: queen.ErrUnknownEpoch, code: codeUnknownLeaderEpoch},

	{err: queen.ErrInvalidGroup, code: codeInvalidGroupID},
	{err: queen.ErrNotCoordinator, code: codeNotCoordinator},
	{err: queen.ErrUnknownGroup, code: codeGroupIDNotFound},
	{err: queen.ErrGroupNotEmpty, code: codeNonEmptyGroup},
	{err: queen.ErrMetadataTooLarge, code: codeOffsetMetadataTooLarge},
	// The native API's own; no Kafka request meets them.
	{err: queen.ErrLeaseLost, code: codeUnknownServerError},
	{err: queen.ErrUnresolvable, code: codeUnknownServerError},
}

// The door's own refusals: the room knows no acks, no replicas, no elections.
var (
	errInvalidAcks       = errors.New("acks must be -1, 0 or 1")
	errReplicationFactor = errors.New("replication factor must be positive, or -1")
	errAssignment        = errors.New("invalid replica assignment")
	errNoElection        = errors.New("leader election not needed for topic partition")
	errNoReassignment    = errors.New("no reassignment is in progress")
)

// doorErrors are the rows of these.
var doorErrors = []errorRow{
	{err: errInvalidAcks, code: codeInvalidRequiredAcks},
	{err: errReplicationFactor, code: codeInvalidReplicationFactor},
	{err: errAssignment, code: codeInvalidReplicaAssignment},
	{err: errNoElection, code: codeElectionNotNeeded},
	{err: errNoReassignment, code: codeNoReassignmentInProgress},
}

// rowOf is the row of an error, nil without one.
func rowOf(err error) *errorRow {
	for _, table := range [][]errorRow{errorTable, doorErrors} {
		for i := range table {
			if errors.Is(err, table[i].err) {
				return &table[i]
			}
		}
	}
	return nil
}

// codeOf is the Kafka code of an error. One without a row is answered as a
// time-out: the client repeats, the log says why.
func codeOf(err error) int16 {
	if err == nil {
		return codeNone
	}
	if row := rowOf(err); row != nil {
		return row.code
	}
	return codeRequestTimedOut
}

// coordinatorCode is codeOf in the answers of a group coordinator.
func coordinatorCode(err error) int16 {
	if err == nil {
		return codeNone
	}
	switch row := rowOf(err); {
	case row == nil:
		return codeCoordinatorNotAvailable
	case row.coordinator != codeNone:
		return row.coordinator
	default:
		return row.code
	}
}

// note logs an error without a row, as far as there are few, and returns err.
func (c *conn) note(r *request, err error) error {
	if err != nil && rowOf(err) == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		c.srv.unexpected.log(c.log, "unexpected error", "request", r.api.name, "err", err)
	}
	return err
}

// messageBytesMax bounds the text beside an error code: it may quote what a client
// sent, and a string of the older versions ends at 32,767 bytes.
const messageBytesMax = 1 << 10

// message is the text sent along with an error code, nil without an error.
func message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	if len(s) > messageBytesMax {
		s = strings.ToValidUTF8(s[:messageBytesMax], "") + "…"
	}
	return &s
}
