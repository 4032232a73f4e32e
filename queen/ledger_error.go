package queen

import (
	"errors"
	"fmt"

	"queenmq/store"
)

// told says whether the ledger has told the log of this failure, as it does of
// every call: in an outage all tasks fail, and one line a second is enough.
func told(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrStorageFull)
}

// isVerdict says whether an error is what the ledger decided about a call, and would
// say again.
func isVerdict(err error) bool {
	for _, is := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrLeased, store.ErrFenced, store.ErrSourceNeedsWindow, store.ErrSourceOrCompact,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// storeError translates an error of the ledger into one of Errors. What
// PostgreSQL said stays out of its text, which a client may see: it can name
// users, hosts and paths, and is in the log.
func storeError(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrOutcomeUnknown):
		return &ledgerError{verb, ErrOutcomeUnknown, err}
	case errors.Is(err, store.ErrStorageFull):
		return &ledgerError{verb, ErrStorageFull, err}
	case errors.Is(err, store.ErrCorrupted):
		return &ledgerError{verb, ErrCorruptBatch, err}
	case errors.Is(err, ErrCorruptBatch): // found by us in what was read
		return fmt.Errorf("%s: %w", verb, err)
	default:
		// Also what we did not foresee: it was rolled back, and a retry is right.
		return &ledgerError{verb, ErrUnavailable, err}
	}
}

// ledgerError is one of Errors, for a cause that is not for everybody.
type ledgerError struct {
	verb      string
	is, cause error
}

// Error implements error.
func (e *ledgerError) Error() string { return e.is.Error() + ": " + e.verb }

// Unwrap lets errors.Is see both.
func (e *ledgerError) Unwrap() []error { return []error{e.is, e.cause} }

// detail is an error for the log, with its cause.
func detail(err error) error {
	var l *ledgerError
	if errors.As(err, &l) {
		return l.cause
	}
	return err
}
