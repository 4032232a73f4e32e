//go:build !linux

package store

import (
	"net"
	"time"
)

// dialer connects with keepalive.
func dialer(timeout time.Duration) *net.Dialer { return keepaliveDialer(timeout) }
