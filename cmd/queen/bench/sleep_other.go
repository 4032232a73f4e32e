//go:build !linux

package bench

import "time"

// sleep is as good as the runtime's timers where the system has no better.
func sleep(d time.Duration) { time.Sleep(d) }
