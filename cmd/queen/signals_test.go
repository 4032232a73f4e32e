package main

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestASignalToldTwiceIsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		var ended []os.Signal
		ctx, release := untilTold(signals, func(s os.Signal) { ended = append(ended, s) })
		defer release()
		if ctx.Err() != nil {
			t.Fatal("told before the first signal")
		}
		signals <- syscall.SIGTERM
		<-ctx.Done()
		<-time.After(signalAgain - 1)
		signals <- syscall.SIGINT
		synctest.Wait()
		if len(ended) != 0 {
			t.Errorf("ended by %v, which came with the first", ended)
		}
		<-time.After(1)
		signals <- syscall.SIGINT
		synctest.Wait()
		if len(ended) != 1 || ended[0] != syscall.SIGINT {
			t.Errorf("ended by %v, want by the second signal", ended)
		}
	})
}
