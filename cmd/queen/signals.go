package main

import (
	"context"
	"errors"
	"os"
	"time"
)

// signalAgain is how soon after the first signal another is the same wish told
// twice: who stops a process group (timeout, a supervisor, a shell's job) often tells
// the process as well.
const signalAgain = time.Second

// untilTold returns a context that ends with the first signal. One that comes
// signalAgain later or more goes to end; release gives back what waits for it.
func untilTold(signals <-chan os.Signal, end func(os.Signal)) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	released := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel(errors.New(s.String() + " signal received"))
				case time.Since(first) >= signalAgain:
					end(s)
				}
			case <-released:
				return
			}
		}
	}()
	return ctx, func() { close(released); cancel(nil) }
}
