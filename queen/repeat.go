package queen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queenmq/store"
)

// repeated makes a call that carries an id, and makes the same call again while its
// outcome is not known or the database is not to be had, until WriteTimeout or
// the end of ctx. again is set once an attempt may still be under way.
func (e *Engine) repeated(ctx context.Context, verb string, call func(ctx context.Context, again bool) error) error {
	deadline := time.Now().Add(e.cfg.WriteTimeout)
	backoff := e.cfg.RetryMin
	unknown := false
	for {
		attempt, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
		err := call(attempt, unknown)
		cancel()
		if err == nil {
			return nil
		}
		unknown = unknown || errors.Is(err, store.ErrOutcomeUnknown)
		retry := errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrStorageFull)
		if !retry || ctx.Err() != nil || time.Now().After(deadline) {
			if unknown {
				return fmt.Errorf("%w: the database did not confirm in time; retry", ErrOutcomeUnknown)
			}
			if !retry {
				e.log.Error(verb+" failed", "error", err)
			}
			return storeError(verb, err)
		}
		e.log.Debug(verb+" repeated", "error", err)
		sleep(ctx, backoff)
		backoff = min(2*backoff, e.cfg.RetryMax)
	}
}
