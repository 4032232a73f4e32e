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

// untilKnown repeats a call until its outcome is known, whoever waits for it; the
// call must be one whose repeat is right. At the end of WriteTimeout the outcome
// stays unknown. Unlike repeated it goes on only while there is a doubt.
func (e *Engine) untilKnown(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.WriteTimeout)
	defer cancel()
	var doubt error
	for pause := e.cfg.RetryMin; ; pause = min(2*pause, e.cfg.RetryMax) {
		one, done := context.WithTimeout(ctx, e.cfg.CallTimeout)
		err := call(one)
		done()
		if errors.Is(err, store.ErrOutcomeUnknown) {
			doubt = err
		}
		if err == nil || doubt == nil || isVerdict(err) {
			return err
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return doubt
		}
	}
}
