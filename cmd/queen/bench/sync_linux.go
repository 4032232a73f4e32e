package bench

import (
	"os"
	"syscall"
)

// fdatasync is what PostgreSQL does to its log by default here.
func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
