package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"queenmq/queen"
)

// errorRow translates one error of the engine. The word is unique, so that a
// client can translate back.
type errorRow struct {
	err    error
	status int
	word   string
	// fetch is the name /fetch uses in an entry: the published clients compare
	// it with Kafka's names. Empty: the word in capitals.
	fetch string
}

// errorTable lists every error of queen.Errors; of an error that is several of
// them, the first row counts, so the special stands before the general. Those answered 503 carry
// Retry-After: repeating the same request is right.
var errorTable = []errorRow{
	{err: queen.ErrOutcomeUnknown, status: http.StatusServiceUnavailable, word: "outcome_unknown"},
	{err: queen.ErrUnavailable, status: http.StatusServiceUnavailable, word: "unavailable"},
	{err: queen.ErrStorageFull, status: http.StatusServiceUnavailable, word: "storage_full"},
	{err: queen.ErrTimedOut, status: http.StatusServiceUnavailable, word: "timed_out"},
	{err: queen.ErrOverloaded, status: http.StatusServiceUnavailable, word: "overloaded"},
	{err: queen.ErrClosing, status: http.StatusServiceUnavailable, word: "closing"},

	{err: queen.ErrUnknownQueue, status: http.StatusNotFound, word: "unknown_queue", fetch: "UNKNOWN_TOPIC_OR_PARTITION"},
	{err: queen.ErrUnknownQueueID, status: http.StatusNotFound, word: "unknown_queue_id"},
	{err: queen.ErrUnknownPartition, status: http.StatusBadRequest, word: "unknown_partition", fetch: "UNKNOWN_TOPIC_OR_PARTITION"},
	{err: queen.ErrQueueExists, status: http.StatusConflict, word: "queue_exists"},
	{err: queen.ErrInvalidGroup, status: http.StatusBadRequest, word: "invalid_group"},
	{err: queen.ErrInvalidName, status: http.StatusBadRequest, word: "invalid_name"},
	{err: queen.ErrNotCoordinator, status: http.StatusServiceUnavailable, word: "not_coordinator"},
	{err: queen.ErrUnknownGroup, status: http.StatusNotFound, word: "unknown_group"},
	{err: queen.ErrGroupNotEmpty, status: http.StatusConflict, word: "group_not_empty"},
	{err: queen.ErrPolicy, status: http.StatusConflict, word: "policy"},
	{err: queen.ErrInvalidPartitions, status: http.StatusBadRequest, word: "invalid_partitions"},
	{err: queen.ErrInvalidConfig, status: http.StatusBadRequest, word: "invalid_config"},
	{err: queen.ErrInvalidRequest, status: http.StatusBadRequest, word: "invalid_request"},

	{err: queen.ErrCorruptBatch, status: http.StatusInternalServerError, word: "corrupt_batch"},
	{err: queen.ErrInvalidRecord, status: http.StatusBadRequest, word: "invalid_record"},
	{err: queen.ErrInvalidTimestamp, status: http.StatusBadRequest, word: "invalid_timestamp"},
	{err: queen.ErrTooLarge, status: http.StatusRequestEntityTooLarge, word: "message_too_large"},
	{err: queen.ErrUnsupportedCompression, status: http.StatusBadRequest, word: "unsupported_compression"},
	{err: queen.ErrTransactional, status: http.StatusBadRequest, word: "transactional"},

	{err: queen.ErrOutOfOrderSequence, status: http.StatusConflict, word: "out_of_order_sequence"},
	{err: queen.ErrDuplicateSequence, status: http.StatusConflict, word: "duplicate_sequence"},
	{err: queen.ErrProducerFenced, status: http.StatusConflict, word: "producer_fenced"},
	{err: queen.ErrUnknownProducer, status: http.StatusConflict, word: "unknown_producer"},

	{err: queen.ErrOffsetOutOfRange, status: http.StatusBadRequest, word: "offset_out_of_range"},
	{err: queen.ErrFencedEpoch, status: http.StatusConflict, word: "fenced_epoch"},
	{err: queen.ErrUnknownEpoch, status: http.StatusConflict, word: "unknown_epoch"},

	{err: queen.ErrMetadataTooLarge, status: http.StatusBadRequest, word: "metadata_too_large"},
	{err: queen.ErrLeaseLost, status: http.StatusConflict, word: "lease_lost"},
	{err: queen.ErrUnresolvable, status: http.StatusNotFound, word: "unresolvable"},
}

// rowOf is the row of an error that came out of the engine. A deadline of ours
// reads as timed out; anything unknown is our mistake, and its text stays inside.
func rowOf(err error) (errorRow, bool) {
	for _, row := range errorTable {
		if errors.Is(err, row.err) {
			return row, true
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return rowOf(queen.ErrTimedOut)
	}
	return errorRow{err: err, status: http.StatusInternalServerError, word: "internal"}, false
}

// textOf is what a user reads about an engine error. It starts with the
// sentinel's own words, whatever was wrapped around them.
func textOf(err error) string {
	row, known := rowOf(err)
	if !known {
		return "internal error"
	}
	text, is := err.Error(), row.err.Error()
	if strings.HasPrefix(text, is) {
		return text
	}
	return is + ": " + text
}

// fetchName is the name /fetch gives an error in an entry.
func fetchName(err error) string {
	row, _ := rowOf(err)
	if row.fetch != "" {
		return row.fetch
	}
	return strings.ToUpper(row.word)
}

// problem is an error of the request's form, found by the door itself.
type problem struct {
	status int
	word   string
	text   string
	allow  string // the Allow header, with 405
	items  []byte // the answer per item, where every item was refused
}

// Error implements error.
func (p *problem) Error() string { return p.text }

// badRequest is a 400 with a word and a text.
func badRequest(word, text string) *problem {
	return &problem{status: http.StatusBadRequest, word: word, text: text}
}

// problemOf is how any error is answered.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var b *bodyError
	if errors.As(err, &b) {
		return badRequest(b.word(), b.Error())
	}
	row, _ := rowOf(err)
	return &problem{status: row.status, word: row.word, text: textOf(err)}
}
