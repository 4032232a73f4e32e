package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"queenmq/queen"
)

// budget bounds the bytes of all bodies in flight. What does not fit waits, in
// no particular order; the caller's context ends the wait.
type budget struct {
	mu    sync.Mutex
	free  int64
	freed chan struct{} // closed when bytes come back; nil where nobody waits
}

func newBudget(n int64) *budget { return &budget{free: n} }

// try takes n bytes where they are there.
func (b *budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free < n {
		return false
	}
	b.free -= n
	return true
}

// take takes n bytes, waiting for them; ErrOverloaded where ctx ended first.
func (b *budget) take(ctx context.Context, n int64) error {
	for {
		b.mu.Lock()
		if b.free >= n {
			b.free -= n
			b.mu.Unlock()
			return nil
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return queen.ErrOverloaded
		}
	}
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.free += n
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	b.mu.Unlock()
}

// firstRead is what a body gets before it has shown any byte.
const firstRead = 16 << 10

// shownTimes is how many times what it has shown a small body is believed to be.
const shownTimes = 8

// readBody reads the body of a request: at most max bytes, within the deadline
// set for it, taking from the budget as bytes really arrive, so that a declared length
// alone holds nothing.
func (s *Server) readBody(x *exchange, max int64) ([]byte, error) {
	r := x.req
	if r.ContentLength > max {
		return nil, tooLarge(r, max)
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, &problem{status: http.StatusUnsupportedMediaType, word: "unsupported_encoding", text: "a compressed body is not served; send it without Content-Encoding"}
	}
	if strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/x-queen") {
		return nil, &problem{status: http.StatusUnsupportedMediaType, word: "unsupported_media_type", text: "binary bodies are not served; send JSON"}
	}
	whole := max + 1 // one byte more, to see the end
	if r.ContentLength >= 0 {
		whole = r.ContentLength + 1
	}
	var buf []byte
	if x.scratch != nil {
		buf = x.scratch.body[:0]
	}
	room := int64(0) // of the budget, and so of buf
	for {
		more := min(whole, 2*room+firstRead)
		if shown := int64(len(buf)); whole <= min(firstRead+shownTimes*shown, scratchBytesMax) {
			more = whole
		}
		if int64(len(buf)) == room || more == whole && more > room {
			if err := x.take(more - room); err != nil {
				return nil, err
			}
			room = more
			if room > int64(cap(buf)) {
				buf = append(make([]byte, 0, room), buf...)
				if x.scratch != nil {
					x.scratch.body = buf
				}
			}
		}
		n, err := r.Body.Read(buf[len(buf):room])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > max:
			return nil, tooLarge(r, max)
		case err == nil:
		case errors.Is(err, io.EOF):
			return buf, nil
		default:
			return nil, readProblem(err)
		}
	}
}

// tooLarge refuses a body. Many clients only listen once all of it is sent, and
// would see a broken connection instead of the answer; so up to twice the limit
// is read and thrown away, unless the client asked first, or means to send more.
func tooLarge(r *http.Request, max int64) *problem {
	if r.Header.Get("Expect") == "" && r.ContentLength <= 2*max {
		_, _ = io.CopyN(io.Discard, r.Body, 2*max) // what then remains ends the connection
	}
	return &problem{
		status: http.StatusRequestEntityTooLarge, word: "body_too_large",
		text: "the body is larger than " + string(appendInt(nil, max)) + " bytes; send less at once",
	}
}

func readProblem(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{status: http.StatusRequestTimeout, word: "body_timeout", text: "the body did not arrive in time"}
	}
	return badRequest("body_unreadable", "the body could not be read: it ends early or is badly chunked")
}
