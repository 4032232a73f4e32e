package compat

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a bare connection that speaks exactly the version asked for, in the
// order asked for. Cases use it where a client would choose or hide something.
type wire struct {
	t    *T
	conn net.Conn
	r    *bufio.Reader
	form *kmsg.RequestFormatter
	corr int32
}

// frameMax bounds what a case is ready to read; the suite asks for nothing larger.
const frameMax = 64 << 20

// dial connects to the first broker that answers.
func (t *T) dial() *wire { return t.dialTo(t.brokers...) }

// dialTo connects to the first of some addresses that answers. The connection
// ends with the case.
func (t *T) dialTo(addrs ...string) *wire {
	conn, err := t.connect(addrs...)
	t.must(err, "dial")
	return t.speak(conn)
}

func (t *T) connect(addrs ...string) (net.Conn, error) {
	var first error
	for _, addr := range addrs {
		d := net.Dialer{Timeout: 10 * time.Second}
		conn, err := d.DialContext(t.ctx, "tcp", addr)
		if err == nil {
			if deadline, ok := t.ctx.Deadline(); ok {
				err = conn.SetDeadline(deadline)
			}
			return conn, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func (t *T) speak(conn net.Conn) *wire {
	w := &wire{
		t: t, conn: conn, r: bufio.NewReader(conn),
		form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("compat")),
	}
	t.cleanup(w.close)
	return w
}

func (w *wire) close() { _ = w.conn.Close() }

// frame encodes a request at a version under the next correlation id.
func (w *wire) frame(req kmsg.Request, version int16) ([]byte, int32) {
	w.corr++
	req.SetVersion(version)
	return w.form.AppendRequest(nil, req, w.corr), w.corr
}

// send writes a request and answers its correlation id.
func (w *wire) send(req kmsg.Request, version int16) int32 {
	f, corr := w.frame(req, version)
	w.write(f)
	return corr
}

func (w *wire) write(b []byte) {
	_, err := w.conn.Write(b)
	w.t.must(err, "write")
}

// reply is one frame as it came, behind its length.
type reply struct {
	corr int32
	body []byte // behind the correlation id; a flexible header's tags still in front
}

func (w *wire) read() (reply, error) {
	var head [8]byte
	if _, err := io.ReadFull(w.r, head[:]); err != nil {
		return reply{}, err
	}
	size := int32(binary.BigEndian.Uint32(head[:4]))
	if size < 4 || size > frameMax {
		return reply{}, fmt.Errorf("frame of %d bytes", size)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(w.r, body); err != nil {
		return reply{}, err
	}
	return reply{int32(binary.BigEndian.Uint32(head[4:])), body}, nil
}

// next reads the reply to the request with this correlation id, which must be
// the next to come.
func (w *wire) next(corr int32) []byte {
	r, err := w.read()
	w.t.must(err, "read")
	if r.corr != corr {
		w.t.Fatalf("reply to request %d where that to %d was due", r.corr, corr)
	}
	return r.body
}

// decode reads a body into the response of a request. ApiVersions never has a
// flexible header: its reader does not know the version yet.
func decode(body []byte, req kmsg.Request) (kmsg.Response, error) {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		var err error
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, err
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("%d bytes hold a reply of %d", len(body), len(again))
	}
	return resp, nil
}

// skipTags drops the tagged fields of a response header.
func skipTags(b []byte) ([]byte, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 {
		return nil, fmt.Errorf("response header without tags")
	}
	b = b[used:]
	for range n {
		_, tag := binary.Uvarint(b)
		if tag <= 0 {
			return nil, fmt.Errorf("response header cut short")
		}
		size, used := binary.Uvarint(b[tag:])
		if used <= 0 || uint64(len(b)-tag-used) < size {
			return nil, fmt.Errorf("response header cut short")
		}
		b = b[tag+used+int(size):]
	}
	return b, nil
}

// ask sends a request and reads its reply, strictly: the next frame must be it
// and hold nothing else.
func ask[R kmsg.Response](w *wire, req kmsg.Request, version int16) R {
	corr := w.send(req, version)
	return answer[R](w, req, corr)
}

// answer reads the reply to a request sent before.
func answer[R kmsg.Response](w *wire, req kmsg.Request, corr int32) R {
	resp, err := decode(w.next(corr), req)
	w.t.must(err, fmt.Sprintf("decode %s v%d", kmsg.NameForKey(req.Key()), req.GetVersion()))
	return resp.(R)
}

// ended tells whether the broker closes the connection without another byte.
func (w *wire) ended(within time.Duration) bool {
	_ = w.conn.SetReadDeadline(time.Now().Add(within))
	_, err := w.r.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
