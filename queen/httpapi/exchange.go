package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// exchange is one request on its way to its answer.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	req     *http.Request
	control *http.ResponseController
	id      string
	names   names
	body    []byte           // read whole, for routes that have one
	room    queen.AnswerRoom // what the messages of the answer hold, until it is written
	taken   int64            // bytes taken from the budget, given back at the end
	scratch *scratch         // of a push
	unread  bool             // nobody but us reads scratch any more
	route   string           // the row's path; "none" where no row matches
	status  int              // 0 until the header is written
}

// answer is what a handler returns: a status and a JSON body, or a handler of
// the outside that writes for itself.
type answer struct {
	status  int
	body    []byte
	handler http.Handler
	at      time.Time // as of when it is; zero: now
	// undelivered is called where the client has gone before it had the answer,
	// as far as can be seen from here; nil: that makes no difference.
	undelivered func()
}

func ok(body []byte) answer { return answer{status: http.StatusOK, body: body} }

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	s.metrics.inFlight.Inc()
	x := &exchange{s: s, req: r, control: http.NewResponseController(w), id: requestID(r), route: "none"}
	x.w = &statusWriter{ResponseWriter: w, status: &x.status}
	w.Header().Set("X-Request-Id", x.id)
	defer func() {
		x.recovered(recover())
		x.giveBack()
		s.budget.give(x.taken)
		x.room.Release()
		s.metrics.inFlight.Dec()
		took := time.Since(began)
		s.metrics.answered(x.route, x.status, took)
		if s.log.Enabled(r.Context(), slog.LevelDebug) {
			s.log.Debug("http request", "method", r.Method, "path", r.URL.EscapedPath(), "status", x.status,
				"took", took, "request_id", x.id, "remote", r.RemoteAddr)
		}
		if x.status == 0 { // the answer cannot be finished: let the client see that
			panic(http.ErrAbortHandler)
		}
	}()
	a, err := x.run()
	if err != nil {
		x.writeProblem(problemOf(err))
		if _, known := rowOf(err); !known && problemOf(err).status == http.StatusInternalServerError {
			s.log.Error("http request failed", "request_id", x.id, "route", x.route, "err", err)
		}
		return
	}
	x.write(a)
}

// run finds the handler, reads the body and calls it.
func (x *exchange) run() (answer, error) {
	if x.req.ContentLength != 0 {
		// Also for a body that nobody reads: net/http reads some of it before the
		// connection is used again. It takes the deadline away at the body's end.
		_ = x.control.SetReadDeadline(time.Now().Add(x.s.cfg.BodyTimeout)) // not every test's reader has one
	}
	row, n, p := match(x.req.Method, x.req.URL.EscapedPath())
	if p != nil {
		return answer{}, p
	}
	x.route, x.names = row.path, n
	if !row.safe && x.crossOrigin() {
		return answer{}, &problem{status: http.StatusForbidden, word: "cross_origin", text: "a page of another origin may not do this"}
	}
	if row.query == noQuery {
		if err := refuseQuery(x.req.URL.RawQuery); err != nil {
			return answer{}, err
		}
	}
	switch row.body {
	case noBody:
		if x.req.ContentLength != 0 {
			return answer{}, badRequest("invalid_request", "this request takes no body")
		}
	case optionalBody:
		if x.req.ContentLength == 0 {
			break
		}
		fallthrough
	case smallBody, largeBody, pushedBody:
		max := x.s.cfg.PushBytesMax
		switch row.body {
		case smallBody, optionalBody:
			max = x.s.cfg.BodyBytesMax
		case pushedBody:
			x.memory() // read into it
		}
		body, err := x.s.readBody(x, max)
		if err != nil {
			return answer{}, err
		}
		x.body = body
	}
	return row.handle(x.s, x)
}

// crossOrigin tells whether a browser sent this for a page of another origin.
// Pop is a GET that changes something, so methods do not matter here.
func (x *exchange) crossOrigin() bool {
	r := *x.req
	r.Method = http.MethodPost
	return x.s.origin.Check(&r) != nil
}

// take takes bytes from the budget until the exchange ends.
func (x *exchange) take(n int64) error {
	if x.s.budget.try(n) {
		x.taken += n
		return nil
	}
	ctx, cancel := context.WithTimeout(x.req.Context(), x.s.cfg.InFlightWait)
	defer cancel()
	if err := x.s.budget.take(ctx, n); err != nil {
		return err
	}
	x.taken += n
	return nil
}

// context is the context of an engine call that does not wait for messages.
func (x *exchange) context() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(x.req.Context(), x.s.cfg.RequestTimeout, queen.ErrTimedOut)
}

// jsonBody starts reading the body.
func (x *exchange) jsonBody() (*reader, error) { return newReader(x.body, x.s.cfg.JSONDepthMax) }

// noMembers wants no body, or an empty object.
func (x *exchange) noMembers() error {
	if len(x.body) == 0 {
		return nil
	}
	r, err := x.jsonBody()
	if err == nil {
		err = r.object(func([]byte) error { return unknownName(r) })
	}
	if err == nil {
		err = r.end()
	}
	return err
}

func (x *exchange) write(a answer) {
	_ = x.control.SetWriteDeadline(time.Now().Add(x.s.cfg.AnswerTimeout)) // not every test's writer has one
	defer x.room.CutWhenWanted(func() { _ = x.control.SetWriteDeadline(time.Unix(1, 0)) })()
	if a.handler != nil {
		a.handler.ServeHTTP(x.w, x.req)
		if x.status == 0 {
			x.status = http.StatusOK
		}
		return
	}
	if a.undelivered != nil && x.req.Context().Err() != nil {
		// It has gone already. Later than this it may be one that has its answer and
		// closes its connection.
		a.undelivered()
		a.undelivered = nil
	}
	h := x.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if !a.at.IsZero() {
		h.Set("Age", strconv.Itoa(int(time.Since(a.at).Seconds())))
	}
	if a.status != http.StatusNoContent {
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	x.w.WriteHeader(a.status)
	if a.status != http.StatusNoContent && x.req.Method != http.MethodHead {
		err := x.writeJoined(a.body) // a client that has gone needs no answer
		if a.undelivered == nil {
			return
		}
		if err == nil {
			err = x.control.Flush()
		}
		if err != nil && !errors.Is(err, http.ErrNotSupported) { // not every test's writer flushes
			a.undelivered()
		}
	}
}

// writeProblem answers an error: {"error": text, "code": word, "requestId": id}.
func (x *exchange) writeProblem(p *problem) {
	if p.allow != "" {
		x.w.Header().Set("Allow", p.allow)
	}
	if p.status == http.StatusServiceUnavailable {
		x.w.Header().Set("Retry-After", "1")
	}
	b := append([]byte(nil), `{"error":`...)
	b = appendString(b, p.text)
	b = append(b, `,"code":`...)
	b = appendString(b, p.word)
	b = append(b, `,"requestId":`...)
	b = appendString(b, x.id)
	if p.items != nil {
		b = append(b, `,"items":`...)
		b = append(b, p.items...)
	}
	x.write(answer{status: p.status, body: append(b, '}')})
}

// recovered turns a panic into a 500; the process goes on.
func (x *exchange) recovered(v any) {
	if v == nil || v == http.ErrAbortHandler { //nolint:errorlint // the value itself, as net/http compares it
		return
	}
	x.s.metrics.panics.Inc()
	x.s.log.Error("http handler panicked", "request_id", x.id, "route", x.route, "panic", v, "stack", string(debug.Stack()))
	if x.status == 0 {
		x.writeProblem(&problem{status: http.StatusInternalServerError, word: "internal", text: "internal error"})
		return
	}
	x.status = 0 // half an answer is out
}

// requestID is the client's own id where it is short and plain, else a new one.
func requestID(r *http.Request) string {
	const max = 128
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > max {
		return uuid.NewString()
	}
	for _, c := range []byte(id) {
		switch {
		case c-'a' < 26, c-'A' < 26, c-'0' < 10, c == '-', c == '_', c == '.':
		default:
			return uuid.NewString()
		}
	}
	return id
}

// statusWriter remembers the status that went out.
type statusWriter struct {
	http.ResponseWriter
	status *int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if *w.status == 0 {
		*w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	if *w.status == 0 {
		*w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
