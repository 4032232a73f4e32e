package kafkawire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// request is one decoded frame.
type request struct {
	api           *api
	version       int16
	correlationID int32
	clientID      string       // empty where the client sent null
	body          kmsg.Request // its byte fields alias the frame, which is dropped with the reply
	share         share        // of the server's room, given back when the reply is there, or later where appends read the frame
	replyHeld     int64        // of the server's room for replies, given back when the reply is written
	// frame is what body aliases, where its memory is to be used again.
	frame []byte
	// over ends what the request's answer was waited for with, once it is written or
	// never will be; nil where there is nothing to end.
	over context.CancelFunc
	// reading are the appends that read from the frame. A reply may be written, or
	// given up, before they are done: the frame is kept, and its room, until then.
	reading []*queen.Pending
}

// answer waits for a request's reply. A nil response without an error writes
// nothing; an error closes the connection.
type answer func() (kmsg.Response, error)

// reply is a request in its place in the order of replies.
type reply struct {
	req *request
	// wait is set where the read loop started the request. Without it the write
	// loop runs the handler when its turn comes, which is what makes every
	// request but Produce wait for the reply before it.
	wait answer
	// ahead is what the request was counted with in conn.ahead.
	ahead int64
}

// conn is one connection: a read loop that starts requests in order, a write
// loop that answers them in that order, and a bounded channel between them.
//
//	read loop ──► frame, table, decode ──► [start Produce] ──► replies ──► write loop ──► wait or run, encode, write
//
// The read loop always has the next read under way, so a hang-up ends the wait
// of a Fetch or JoinGroup at once.
type conn struct {
	srv  *Server
	nc   net.Conn
	host string
	log  *slog.Logger

	// ctx ends when the client hangs up or the server stops: waits end, appends
	// that were started do not.
	ctx  context.Context
	end  context.CancelCauseFunc
	done chan struct{} // closed when the write loop has ended

	in      *bufio.Reader // owned by the read loop
	replies chan *reply

	// serial counts the requests in replies that a Produce must not overtake:
	// those not started, and those started by the write loop that are no Produce.
	serial atomic.Int64
	// ahead is the room held by requests that were read and wait for their turn.
	// Beyond aheadBytesMax no more are read; turn, which holds one, says that it is less.
	ahead atomic.Int64
	turn  chan struct{}
	// open counts requests read and not yet answered; such a connection is not idle.
	open atomic.Int64

	out []byte // owned by the write loop

	// Owned by the write loop, see relay.go:
	links   map[string]*link // to coordinators, by address
	peer    bool             // another broker is at the far end,
	peerFor string           // and speaks for a client at this address
}

func newConn(s *Server, nc net.Conn, host string) *conn {
	c := &conn{
		srv: s, nc: nc, host: host,
		log:     s.log.With("remote", host),
		done:    make(chan struct{}),
		turn:    make(chan struct{}, 1),
		in:      bufio.NewReaderSize(nc, ownBytes),
		replies: make(chan *reply, s.cfg.PipelineMax),
	}
	c.ctx, c.end = context.WithCancelCause(s.ctx)
	return c
}

// stop ends waits and reading; what was started is still answered. It does not wait.
func (c *conn) stop(why error) {
	c.end(why)
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
}

// serve runs both loops and returns when they have ended.
func (c *conn) serve() {
	c.log.Debug("connected")
	kill := context.AfterFunc(c.srv.ctx, func() { _ = c.nc.Close() })
	defer kill()

	var reading sync.WaitGroup
	var readErr error
	reading.Go(func() {
		defer close(c.replies)
		readErr = c.readLoop()
		c.end(readErr)
	})
	writeErr := c.writeLoop()
	c.end(writeErr)
	close(c.done)
	_ = c.nc.Close()
	reading.Wait()
	// What was read before a hang-up was sent before it: a producer that asks for
	// no answer may well close right behind its last batch.
	hungUp := errors.Is(context.Cause(c.ctx), errHangUp)
	for r := range c.replies {
		switch {
		case r.wait != nil:
		case r.req.api.lasting:
			_, _ = c.handle(r.req) // nobody reads the answer
		case r.req.api.start != nil && hungUp:
			c.start(r.req)
		}
		c.release(r)
	}

	for _, l := range c.links {
		_ = l.nc.Close()
	}
	var bad *badFrame
	switch why := context.Cause(c.ctx); {
	case errors.As(why, &bad):
		c.srv.noise.log(c.log, "closed a connection", "reason", why)
	default:
		c.log.Debug("closed", "reason", why)
	}
}

// aheadBytesMax is how much room requests that wait for their turn may hold before no
// more are read: who sends many and reads no answer would take it from everybody.
const aheadBytesMax = 4 << 10

func (c *conn) readLoop() error {
	for {
		for c.ahead.Load() > aheadBytesMax {
			select {
			case <-c.turn:
			case <-c.done:
				return net.ErrClosed
			case <-c.ctx.Done():
				return context.Cause(c.ctx)
			}
		}
		req, err := c.readRequest()
		if err != nil {
			return err
		}
		c.open.Add(1)
		r := &reply{req: req}
		if req.api.start != nil && c.serial.Load() == 0 {
			r.wait = c.start(req)
		} else {
			c.serial.Add(1)
			r.ahead = req.share.bytes()
			c.ahead.Add(r.ahead)
		}
		select {
		case c.replies <- r:
		case <-c.done:
			c.release(r)
			return net.ErrClosed
		}
	}
}

// readRequest reads and decodes the next frame, bounded in size and in time.
func (c *conn) readRequest() (*request, error) {
	cfg := &c.srv.cfg
	if err := c.awaitFrame(); err != nil {
		return nil, err
	}
	// From its first byte on, a frame has a deadline.
	if err := c.readDeadline(cfg.FrameTimeout); err != nil {
		return nil, err
	}
	head, err := c.in.Peek(4)
	if err != nil {
		return nil, cutShort(err)
	}
	if err := checkSize([4]byte(head), max(cfg.ProduceBytesMax, cfg.FrameBytesMax)); err != nil {
		return nil, err
	}
	var b [prefixBytes]byte
	if _, err := io.ReadFull(c.in, b[:]); err != nil {
		return nil, cutShort(err)
	}
	p := parsePrefix(b)
	a, err := c.srv.lookup(p)
	if err != nil {
		return nil, err
	}
	var held share
	req, err := c.readRest(p, a, &held)
	if err != nil {
		c.srv.room.leave(&held)
		return nil, err
	}
	req.share = held
	return req, nil
}

// awaitFrame waits for the first byte of a frame. Only a connection without an
// open request can be idle.
func (c *conn) awaitFrame() error {
	for {
		if err := c.readDeadline(c.srv.cfg.IdleTimeout); err != nil {
			return err
		}
		_, err := c.in.Peek(1)
		switch {
		case err == nil:
			return nil
		case c.ctx.Err() != nil:
			return context.Cause(c.ctx)
		case errors.Is(err, io.EOF):
			return errHangUp
		case errors.Is(err, os.ErrDeadlineExceeded) && c.open.Load() > 0:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errIdle
		default:
			return fmt.Errorf("%w: %w", errHangUp, err)
		}
	}
}

// readDeadline sets the deadline of the coming reads, but never undoes stop's.
func (c *conn) readDeadline(d time.Duration) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return fmt.Errorf("%w: %w", errHangUp, err)
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// readRest reads a frame behind its prefix. Room is taken as bytes come: a
// declared size alone keeps nobody else out.
func (c *conn) readRest(p prefix, a *api, held *share) (*request, error) {
	n := int(p.size) - (prefixBytes - 4)
	cfg := &c.srv.cfg
	// The first bytes come into memory that the connection has anyway.
	if _, err := c.in.Peek(min(n, ownBytes)); err != nil {
		return nil, cutShort(err)
	}
	// Decoding can cost more than the frame; see api.expands.
	decoding := int64(n) * (a.expands - 1)
	part := roomFirst
	if n <= ownBytes {
		part, decoding = roomServe, 0
		if err := c.take(held, part, int64(n)*a.expands); err != nil {
			return nil, err
		}
	}
	step := func(next int) error {
		if n > ownBytes {
			if err := c.take(held, part, int64(next)); err != nil {
				return err
			}
			part = pieceOf(roomRest, int64(n-next)) // of what may come after
		}
		return c.readDeadline(cfg.FrameTimeout + time.Duration(next/cfg.FrameRateMin)*time.Second)
	}
	frame, err := readBody(c.in, n, step)
	if err != nil {
		return nil, cutShort(err)
	}
	if err := c.take(held, pieceOf(roomServe, decoding), decoding); err != nil {
		return nil, err
	}
	r, err := a.decode(p, frame, cfg)
	if err == nil && a.start != nil && n > frameStep {
		r.frame = frame
	}
	return r, err
}

// errNoRoom is why a frame was not read although nothing is wrong with it.
var errNoRoom = errors.New("no room for a frame: InFlightBytesMax reached")

// take waits for n bytes of a part of the room.
func (c *conn) take(held *share, part int, n int64) error {
	if c.srv.room.tryTake(held, part, n) {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(c.ctx, c.srv.cfg.InFlightWait, errNoRoom)
	defer stop()
	err := c.srv.room.take(ctx, held, part, n)
	if errors.Is(err, errNoRoom) {
		c.srv.noise.log(c.log, "closed a connection", "reason", err)
	}
	return err
}

// cutShort words the end of the stream, or of patience, inside a frame.
func cutShort(err error) error {
	switch {
	case errors.Is(err, errNoRoom), errors.Is(err, errHangUp), errors.Is(err, queen.ErrClosing):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w in the middle of a frame", errHangUp)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return badFramef("a frame took too long to arrive")
	}
	return fmt.Errorf("%w: %w", errHangUp, err)
}

// start begins a request that may overlap others of its kind. It runs under the
// server's context: a hang-up must not tear what was begun.
func (c *conn) start(req *request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			err := c.panicked(req, p)
			a = func() (kmsg.Response, error) { return nil, err }
		}
	}()
	return req.api.start(c, c.srv.ctx, req)
}

func (c *conn) handle(req *request) (resp kmsg.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.panicked(req, p)
		}
	}()
	ctx := c.ctx
	if req.api.lasting {
		ctx = c.srv.ctx
	}
	if resp, ok := c.relay(ctx, req); ok {
		return resp, nil
	}
	return req.api.handle(c, ctx, req)
}

// panicked turns a handler's panic into the end of its connection, as net/http
// does: other clients must not pay for one request.
func (c *conn) panicked(req *request, p any) error {
	req.frame = nil // who knows what reads it now
	c.log.Error("BUG: a handler panicked", "request", req.api.name, "version", req.version, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("handling %s: panic: %v", req.api.name, p)
}

func (c *conn) writeLoop() error {
	for r := range c.replies {
		c.ahead.Add(-r.ahead)
		select {
		case c.turn <- struct{}{}:
		default:
		}
		if err := c.serveReply(r); err != nil {
			return err
		}
	}
	return context.Cause(c.ctx)
}

// serveReply waits for a reply, writes it, and lets go of what it held.
func (c *conn) serveReply(r *reply) error {
	defer c.release(r)
	frame, s, err := c.encoded(r)
	if frame != nil {
		err = c.write(frame, s)
	}
	if s != nil {
		s.release()
	}
	return err
}

// encoded waits for a reply and encodes it; the frame is nil where there is none. The
// decoded reply, which is as large or larger, ends with this call: the frame may be
// read slowly. s is set, also with an error, where parts of it are somebody else's memory.
func (c *conn) encoded(r *reply) (frame *splicer, s spliced, err error) {
	req := r.req
	size := req.api.lately(req.body)
	if req.api.room == roomBefore {
		if err := c.replyRoom(req, replyMaking*size.bytes.Load()); err != nil {
			return nil, nil, err
		}
	}
	resp, err := c.finish(r)
	if req.api.start == nil { // so does what was asked
		c.srv.room.leave(&req.share)
	}
	if is, ok := resp.(spliced); ok {
		s = is // only then: what comes of a failed assertion keeps resp alive
	}
	if err == nil && resp != nil && req.api.room == roomAfter {
		err = c.replyRoom(req, size.bytes.Load())
	}
	if err != nil || resp == nil {
		return nil, s, err
	}
	frame = &splicer{b: c.out[:0]}
	if err := frame.encode(req.correlationID, resp); err != nil {
		return nil, s, fmt.Errorf("answering %s: %w", req.api.name, err)
	}
	if s != nil {
		s.encoded()
	}
	size.saw(int64(len(frame.b)))
	c.srv.replies.settle(&req.replyHeld, int64(len(frame.b)))
	return frame, s, nil
}

// replyRoom waits for room for a reply of about n bytes.
func (c *conn) replyRoom(r *request, n int64) error {
	err := c.srv.replies.take(c.ctx, &r.replyHeld, n)
	if errors.Is(err, errNoReplyRoom) {
		c.srv.noise.log(c.log, "closed a connection", "reason", err)
	}
	return err
}

// finish gives r's response, running its handler if nobody has yet.
func (c *conn) finish(r *reply) (kmsg.Response, error) {
	switch {
	case r.wait != nil:
		return r.wait()
	case r.req.api.start != nil:
		r.wait = c.start(r.req)
		c.serial.Add(-1) // the next Produce may overlap this one
		return r.wait()
	case c.ctx.Err() != nil && !r.req.api.lasting: // nobody is there to read the answer
		return nil, context.Cause(c.ctx)
	}
	return c.handle(r.req)
}

// release ends r's place in the order: its reply is written, or never will be.
func (c *conn) release(r *reply) {
	if r.wait == nil {
		c.serial.Add(-1)
	}
	if r.req.over != nil {
		r.req.over()
	}
	c.srv.replies.settle(&r.req.replyHeld, 0)
	c.srv.giveBack(r.req)
	c.open.Add(-1)
}

// park gives back what r holds of the room above n bytes. Handlers that wait call
// it; like them, it runs in the write loop.
func (c *conn) park(r *request, n int64) { c.srv.room.park(&r.share, n) }

// write writes a frame; s is set where parts of it are somebody else's memory.
func (c *conn) write(w *splicer, s spliced) error {
	cfg := &c.srv.cfg
	size := w.size()
	limit := cfg.WriteTimeout + time.Duration(size/cfg.FrameRateMin)*time.Second
	if err := c.nc.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("%w: %w", errHangUp, err)
	}
	cut := func() { _ = c.nc.SetWriteDeadline(time.Unix(1, 0)) }
	if s != nil && size > outKept {
		defer s.cutWhenWanted(cut)()
	}
	if len(w.b) > outKept {
		defer c.srv.replies.cutWhenWanted(cut)()
	}
	if _, err := w.bufs.WriteTo(c.nc); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.srv.noise.log(c.log, "closed a connection", "reason", "the client does not read its replies", "reply", size)
		}
		return fmt.Errorf("write reply: %w", err)
	}
	if c.out = w.b; cap(c.out) > outKept {
		c.out = nil
	}
	return nil
}

// outKept is the largest buffer for replies a connection keeps between two of them.
const outKept = 64 << 10
