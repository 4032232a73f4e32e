package store

import (
	"net"
	"strings"
	"syscall"
	"time"
)

// tcpUserTimeout is how long sent bytes may stay unacknowledged before the
// connection counts as broken; the system's default is about 15 minutes.
const tcpUserTimeout = 15 * time.Second

const sockoptTCPUserTimeout = 0x12 // TCP_USER_TIMEOUT, the same on all Linux architectures

// dialer connects with keepalive, and with a bound on unacknowledged bytes.
func dialer(timeout time.Duration) *net.Dialer {
	d := keepaliveDialer(timeout)
	d.Control = func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var optErr error
		err := c.Control(func(fd uintptr) {
			optErr = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, sockoptTCPUserTimeout, int(tcpUserTimeout.Milliseconds()))
		})
		if err != nil {
			return err
		}
		return optErr
	}
	return d
}
