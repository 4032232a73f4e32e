package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// Proxy stands on a loopback port in front of a server, and is the network's
// ill will: it breaks connections, refuses them, and swallows what is said.
//
// In front of PostgreSQL it reads the messages of the protocol well enough to
// know which statement a call runs, so that one call can be held back while the
// broker believes its connection lost, or its answer be dropped.
//
//	broker ──TCP──► Proxy ──unix or TCP──► PostgreSQL
//	client ──TCP──► Proxy ──TCP──► broker
type Proxy struct {
	ln      net.Listener
	network string
	plain   bool // carries bytes of any protocol

	mu      sync.Mutex
	target  string
	conns   map[*proxied]struct{}
	closed  bool
	refuses bool
	shut    [2]chan struct{} // per way: not nil while nothing passes, closed when it does again
	trap    *trap
	wg      sync.WaitGroup
}

// Way is a direction through a proxy.
type Way int

// The ways: to the server, and back to the client.
const (
	There Way = iota
	Back
)

// trap waits for the next call of a statement.
type trap struct {
	match string // part of the statement's text
	reply bool   // let the call through and drop its reply; otherwise hold the call
	held  *Held
}

// Held is a call caught by a trap.
type Held struct {
	caught chan struct{} // closed when a call is in the trap and its client cut off
	conn   *proxied
	call   []byte // from the Bind to the Sync, not yet sent
	err    error
}

// proxied is one connection through the proxy.
type proxied struct {
	client, server net.Conn
	statements     map[string]string // name → text, as parsed
	ended          chan struct{}     // closed when the server has ended its side
	broken         chan struct{}     // closed by close
	once           sync.Once
}

// NewProxy listens on a free loopback port and forwards to the PostgreSQL at the
// target, such as "unix" and a socket's path, while ctx lives.
func NewProxy(ctx context.Context, network, target string) (*Proxy, error) {
	return newProxy(ctx, network, target, false)
}

// NewLink is a proxy over TCP for any protocol. It has no target before Aim.
func NewLink(ctx context.Context) (*Proxy, error) { return newProxy(ctx, "tcp", "", true) }

func newProxy(ctx context.Context, network, target string, plain bool) (*Proxy, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{ln: ln, network: network, target: target, plain: plain, conns: make(map[*proxied]struct{})}
	p.wg.Go(func() { p.accept(ctx) })
	return p, nil
}

// Addr is where to connect, host:port.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Resume()
	err := p.ln.Close()
	p.Cut()
	p.wg.Wait()
	return err
}

// Cut breaks every connection through the proxy; new ones are let in.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// Aim has connections made from now on go to another address.
func (p *Proxy) Aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Refuse breaks every connection, and each new one at once, until Admit.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refuses = true
	p.mu.Unlock()
	p.Cut()
}

// Admit ends Refuse.
func (p *Proxy) Admit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = false
}

// Swallow lets nothing more pass these ways: connections stay, and are made, but
// what is said does not arrive before Resume. Both ways it is a black hole; only
// back, the server acts and its answers come late.
func (p *Proxy) Swallow(ways ...Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range ways {
		if p.shut[w] == nil {
			p.shut[w] = make(chan struct{})
		}
	}
}

// Resume ends Swallow: what was said meanwhile arrives now, unless its
// connection was cut.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w, shut := range p.shut {
		if shut != nil {
			close(shut)
		}
		p.shut[w] = nil
	}
}

// pass waits until a way is open; false means that the connection broke first.
func (p *Proxy) pass(c *proxied, w Way) bool {
	for {
		p.mu.Lock()
		shut := p.shut[w]
		p.mu.Unlock()
		if shut == nil {
			return true
		}
		select {
		case <-shut:
		case <-c.broken:
			return false
		}
	}
}

// carry copies one way to the end of what is said there.
func (p *Proxy) carry(c *proxied, w Way, to io.Writer, from io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.pass(c, w) {
				return net.ErrClosed
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

func (c *proxied) close() {
	c.once.Do(func() { close(c.broken) })
	_ = c.client.Close()
	_ = c.server.Close()
}

func (p *Proxy) accept(ctx context.Context) {
	var d net.Dialer
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, refuses := p.target, p.refuses
		p.mu.Unlock()
		if refuses {
			_ = client.Close()
			continue
		}
		server, err := d.DialContext(ctx, p.network, target)
		if err != nil {
			_ = client.Close() // the server is down: so is the door
			continue
		}
		c := &proxied{
			client: client, server: server, statements: make(map[string]string),
			ended: make(chan struct{}), broken: make(chan struct{}),
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			c.close()
			return
		}
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() {
			p.backward(c)
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
		p.wg.Go(func() {
			held := p.forward(c)
			_ = client.Close()
			if !held {
				_ = server.Close()
			}
		})
	}
}

// backward carries what the server says to its end, though nobody may be left
// to hear it.
func (p *Proxy) backward(c *proxied) {
	defer close(c.ended)
	defer c.client.Close()
	_ = p.carry(c, Back, c.client, c.server) // either end may break at any time
	_, _ = io.Copy(io.Discard, c.server)
}

// HoldNext catches the next call of a statement whose text contains match: the
// call is not sent, and its client's connection breaks, as if the network had
// swallowed it. Release sends it after all.
func (p *Proxy) HoldNext(match string) *Held { return p.set(match, false) }

// DropReplyOfNext lets the next such call through and breaks the client's
// connection before any answer: PostgreSQL does it, nobody hears of it.
func (p *Proxy) DropReplyOfNext(match string) *Held { return p.set(match, true) }

func (p *Proxy) set(match string, reply bool) *Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &Held{caught: make(chan struct{})}
	p.trap = &trap{match: match, reply: reply, held: h}
	return h
}

// Disarm takes away a trap that has caught nothing.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = nil
}

// spring takes the trap if this statement is the one it waits for.
func (p *Proxy) spring(text string) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	if t == nil || !strings.Contains(text, t.match) {
		return nil
	}
	p.trap = nil
	return t
}

// messageMax bounds one message; a call of the broker holds at most a few segments.
const messageMax = 256 << 20

// readMessage reads one message with its head; typed is false for the messages
// that begin a connection.
func readMessage(r io.Reader, typed bool) ([]byte, error) {
	n := 4
	if typed {
		n = 5
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[n-4:]))
	if size < 4 || size > messageMax {
		return nil, fmt.Errorf("message of %d bytes", size)
	}
	msg := make([]byte, n-4+size)
	copy(msg, head)
	_, err := io.ReadFull(r, msg[n:])
	return msg, err
}

// forward carries what the client says; true means that the server's end is
// kept for a held call.
func (p *Proxy) forward(c *proxied) bool {
	if p.plain {
		_ = p.carry(c, There, c.server, c.client) // as in backward
		return false
	}
	first, err := readMessage(c.client, false)
	if err != nil {
		return false
	}
	if !p.pass(c, There) {
		return false
	}
	if _, err := c.server.Write(first); err != nil {
		return false
	}
	for {
		msg, err := readMessage(c.client, true)
		if err != nil {
			return false
		}
		text := ""
		switch msg[0] {
		case 'P': // Parse: name, text
			name, rest := cString(msg[5:])
			sql, _ := cString(rest)
			c.statements[name] = sql
		case 'B': // Bind: portal, statement name
			_, rest := cString(msg[5:])
			name, _ := cString(rest)
			text = c.statements[name]
		case 'Q': // Query: text
			text, _ = cString(msg[5:])
		}
		if text != "" {
			if t := p.spring(text); t != nil {
				return p.catch(c, t, msg)
			}
		}
		if !p.pass(c, There) {
			return false
		}
		if _, err := c.server.Write(msg); err != nil {
			return false
		}
	}
}

// catch collects the call up to its end and breaks the client's connection.
func (p *Proxy) catch(c *proxied, t *trap, call []byte) bool {
	h := t.held
	defer close(h.caught)
	for last := call[0]; last != 'S' && last != 'Q'; {
		msg, err := readMessage(c.client, true)
		if err != nil {
			h.err = fmt.Errorf("the call ended half way: %w", err)
			return false
		}
		call, last = append(call, msg...), msg[0]
	}
	h.conn, h.call = c, call
	_ = c.client.Close() // before the server hears of the call, so that no reply can slip through
	if t.reply {
		h.err = h.send()
	}
	return true
}

// Caught waits until a call is in the trap.
func (h *Held) Caught(ctx context.Context) error {
	select {
	case <-h.caught:
		return h.err
	case <-ctx.Done():
		return fmt.Errorf("no call came: %w", context.Cause(ctx))
	}
}

// Release sends a held call and waits until the server has done it.
func (h *Held) Release(ctx context.Context) error {
	if err := h.Caught(ctx); err != nil {
		return err
	}
	if h.call == nil {
		return errors.New("the call was released before")
	}
	if err := h.send(); err != nil {
		return err
	}
	return h.Done(ctx)
}

// Drop forgets a held call: the server never hears of it.
func (h *Held) Drop(ctx context.Context) error {
	if err := h.Caught(ctx); err != nil {
		return err
	}
	h.call = nil
	h.conn.close()
	return nil
}

// send gives the server the call and the end of the connection behind it.
func (h *Held) send() error {
	_, err := h.conn.server.Write(append(h.call, 'X', 0, 0, 0, 4))
	h.call = nil
	if err != nil {
		return fmt.Errorf("send the held call: %w", err)
	}
	return nil
}

// Done waits until the server has finished with a call that was sent.
func (h *Held) Done(ctx context.Context) error {
	if err := h.Caught(ctx); err != nil {
		return err
	}
	select {
	case <-h.conn.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server has not finished with the call: %w", context.Cause(ctx))
	}
}

func cString(b []byte) (string, []byte) {
	s, rest, _ := bytes.Cut(b, []byte{0})
	return string(s), rest
}
