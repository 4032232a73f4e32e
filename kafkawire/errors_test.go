package kafkawire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// What clients ask for by mistake is no line in the log, and what nobody foresaw is
// not one for each request.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	ask[*kmsg.ProduceResponse](c, produceRequest(9, 7, "t", batch(nil, record{value: "x"})))
	create := at(kmsg.NewPtrCreateTopicsRequest(), 5)
	create.Topics = append(create.Topics, newTopic("new", 1, 0))
	ask[*kmsg.CreateTopicsResponse](c, create)
	d.fake.setFail(errors.New("an error nobody foresaw"))
	for range 50 {
		ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(nil, record{value: "x"})))
	}
	var warnings []string
	for line := range strings.Lines(d.wholeLog()) {
		if strings.Contains(line, "level=WARN") {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 10 || strings.Contains(strings.Join(warnings, ""), "must be") {
		t.Errorf("%d warnings, want 10 about what nobody foresaw:\n%s", len(warnings), warnings)
	}
}

// A refusal may quote as much as a string can hold, and still fits into one.
func TestALongRefusalFitsItsString(t *testing.T) {
	t.Parallel()
	d := open(t)
	create := at(kmsg.NewPtrCreateTopicsRequest(), 4)
	create.Topics = append(create.Topics, newTopic("t", 1, 1, "retention.ms", strings.Repeat("é", 16_000)))
	got := ask[*kmsg.CreateTopicsResponse](d.dial(), create).Topics[0]
	if text := text(got.ErrorMessage); got.ErrorCode != 40 || len(text) < 100 || len(text) > 2*messageBytesMax || !utf8.ValidString(text) {
		t.Errorf("code %d, %d bytes of text: %.100q", got.ErrorCode, len(text), text)
	}
}
