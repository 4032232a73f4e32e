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

func TestCodesHaveTheirErrors(t *testing.T) {
	t.Parallel()
	f := func(err error, code int16, want error) {
		t.Helper()
		if got := codeOf(err); got != code {
			t.Errorf("codeOf(%v) = %d, want %d", err, got, code)
		}
		if got := errorOf(code); !errors.Is(got, want) {
			t.Errorf("errorOf(%d) = %v, want %v", code, got, want)
		}
	}
	f(nil, 0, nil)
	f(queen.ErrUnknownQueue, 3, queen.ErrUnknownPartition)
	f(queen.ErrUnknownQueueID, 100, queen.ErrUnknownQueueID)
	f(queen.ErrOutcomeUnknown, 7, queen.ErrOutcomeUnknown)
	f(queen.ErrUnavailable, 6, queen.ErrUnavailable)
	f(queen.ErrStorageFull, 56, queen.ErrStorageFull)
	f(queen.ErrCorruptBatch, 2, queen.ErrCorruptBatch)
	f(queen.ErrInvalidRecord, 87, queen.ErrInvalidRecord)
	f(queen.ErrTooLarge, 10, queen.ErrTooLarge)
	f(queen.ErrProducerFenced, 47, queen.ErrProducerFenced)
	f(queen.ErrOutOfOrderSequence, 45, queen.ErrOutOfOrderSequence)
	f(queen.ErrDuplicateSequence, 46, queen.ErrDuplicateSequence)
}
