package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"queenmq/queen"
)

func TestEveryEngineErrorHasARow(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for _, err := range queen.Errors {
		row, known := rowOf(fmt.Errorf("somewhere: %w", err))
		if !known || !errors.Is(err, row.err) {
			t.Errorf("%v: no row", err)
			continue
		}
		if words[row.word] {
			t.Errorf("%s: two errors share this word", row.word)
		}
		words[row.word] = true
		if row.status < 400 || row.status > 599 {
			t.Errorf("%v: status %d", err, row.status)
		}
		if !strings.HasPrefix(textOf(fmt.Errorf("somewhere: %w", err)), err.Error()) {
			t.Errorf("%v: the text does not start with the sentinel's words", err)
		}
	}
	if len(words) != len(errorTable) {
		t.Errorf("%d rows for %d errors", len(errorTable), len(words))
	}
	both := fmt.Errorf("%w: %w", queen.ErrInvalidGroup, queen.ErrInvalidName)
	if row, _ := rowOf(both); row.word != "invalid_group" {
		t.Errorf("a bad group name is answered as %s", row.word)
	}
}

// TestOnlyUncertainOutcomesAskForARepeat: what may have been written, or was not
// written for now, is 503; nothing else is, so that no client repeats in vain.
func TestOnlyUncertainOutcomesAskForARepeat(t *testing.T) {
	t.Parallel()
	again := map[error]bool{
		queen.ErrOutcomeUnknown: true, queen.ErrUnavailable: true, queen.ErrStorageFull: true,
		queen.ErrTimedOut: true, queen.ErrOverloaded: true, queen.ErrClosing: true, queen.ErrNotCoordinator: true,
	}
	for _, err := range queen.Errors {
		if got := problemOf(err).status == http.StatusServiceUnavailable; got != again[err] {
			t.Errorf("%v: 503 is %v", err, got)
		}
	}
	if got := problemOf(context.DeadlineExceeded).status; got != http.StatusServiceUnavailable {
		t.Errorf("a deadline: %d", got)
	}
	p := problemOf(errors.New("pq: password=secret"))
	if p.status != 500 || p.word != "internal" || p.text != "internal error" {
		t.Errorf("an unknown error is answered as %+v", p)
	}
}
