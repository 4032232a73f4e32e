//go:build !linux

package bench

import "os"

// fdatasync is a whole sync where the system knows no less.
func fdatasync(f *os.File) error { return f.Sync() }
