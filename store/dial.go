package store

import (
	"net"
	"time"
)

// keepaliveDialer notices a peer that fell silent within 15 s + 3 × 5 s.
func keepaliveDialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Idle:     15 * time.Second,
			Interval: 5 * time.Second,
			Count:    3,
		},
	}
}
