package kafkawire

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"queenmq/queen"
)

func TestEveryErrorOfTheRoomHasARow(t *testing.T) {
	t.Parallel()
	rows := make(map[error]int)
	for _, row := range errorTable {
		rows[row.err]++
	}
	for _, err := range queen.Errors {
		if rows[err] != 1 {
			t.Errorf("%v has %d rows in errorTable, want 1", err, rows[err])
		}
		delete(rows, err)
	}
	for err := range rows {
		t.Errorf("errorTable has a row for %v, which is not one of queen.Errors", err)
	}
}

// A client repeats only what Kafka calls retriable; whatever may have been
// written, or may work in a moment, must be one of those.
func TestWhatMayWorkLaterIsRetriable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		queen.ErrOutcomeUnknown, queen.ErrUnavailable, queen.ErrStorageFull, queen.ErrTimedOut,
		queen.ErrOverloaded, queen.ErrClosing, errors.New("an error nobody foresaw"),
	} {
		wrapped := fmt.Errorf("append segment: %w", err)
		for _, code := range []int16{codeOf(wrapped), coordinatorCode(wrapped), produceCode(wrapped), metadataCode(wrapped)} {
			if !kerr.IsRetriable(kerr.ErrorForCode(code)) {
				t.Errorf("%v is answered with %v, which clients do not repeat", err, kerr.ErrorForCode(code))
			}
		}
	}
}

func TestProduceNeverAnswersUnknownServerError(t *testing.T) {
	t.Parallel()
	for _, err := range append([]error{errors.New("an error nobody foresaw")}, queen.Errors...) {
		if code := produceCode(err); code == codeUnknownServerError || code == codeNone {
			t.Errorf("%v is answered with %d", err, code)
		}
	}
}

func TestErrorsHaveKafkasCodes(t *testing.T) {
	t.Parallel()
	f := func(err error, code int16) {
		t.Helper()
		if got := codeOf(err); got != code {
			t.Errorf("codeOf(%v) = %d, want %d", err, got, code)
		}
	}
	f(nil, 0)
	f(queen.ErrUnknownQueue, 3)
	f(queen.ErrUnknownQueueID, 100)
	f(queen.ErrOutcomeUnknown, 7)
	f(queen.ErrUnavailable, 6)
	f(queen.ErrStorageFull, 56)
	f(queen.ErrCorruptBatch, 2)
	f(queen.ErrInvalidRecord, 87)
	f(queen.ErrTooLarge, 10)
	f(queen.ErrProducerFenced, 47)
	f(queen.ErrOutOfOrderSequence, 45)
	f(queen.ErrDuplicateSequence, 46)
}
