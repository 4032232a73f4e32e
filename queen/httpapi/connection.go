package httpapi

import (
	"net"
	"sync"
)

// boundedListener accepts a bounded number of connections; more wait in the
// kernel's queue.
type boundedListener struct {
	net.Listener
	slots chan struct{}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// boundedConn is one connection. net/http writes the head of an answer together with
// the first 4 KB of its body, and the rest after it; where it is told to join them
// they go out by one call of the kernel, which wakes the client once.
type boundedConn struct {
	net.Conn
	release func()
	// Owned by the goroutine that answers:
	joins bool   // the next write is the first of several
	held  []byte // it
}

type connKey struct{}

// joinedMin is the size from which a body needs more than one write.
const joinedMin = 4 << 10

// writeJoined writes a body whose answer has its length.
func (x *exchange) writeJoined(body []byte) error {
	c, is := x.req.Context().Value(connKey{}).(*boundedConn)
	if !is || len(body) < joinedMin {
		_, err := x.w.Write(body)
		return err
	}
	c.joins = true
	_, err := x.w.Write(body)
	if err == nil {
		err = x.control.Flush() // what net/http still has
	}
	c.joins = false
	if err == nil && len(c.held) > 0 { // it was one write after all
		_, err = c.Write(nil)
	}
	return err
}

// Write implements net.Conn.
func (c *boundedConn) Write(b []byte) (int, error) {
	if instead := malformed(b); instead != nil {
		if _, err := c.Conn.Write(instead); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if c.joins {
		c.joins, c.held = false, append(c.held, b...)
		return len(b), nil
	}
	if len(c.held) == 0 {
		return c.Conn.Write(b)
	}
	head := len(c.held)
	pieces := net.Buffers{c.held, b}
	c.held = c.held[:0]
	n, err := pieces.WriteTo(c.Conn)
	return max(0, int(n)-head), err
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
