package bench

import (
	"syscall"
	"time"
)

// sleep waits in the kernel: time.Sleep rounds up to a millisecond where the
// process is idle, which would be in every latency. It may return early.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // an interrupted one returns early
}
