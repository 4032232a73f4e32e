//go:build !linux

package broker

import "syscall"

// dieWithParent does nothing here: a broker may be left by a test that is killed.
func dieWithParent(*syscall.SysProcAttr) {}
