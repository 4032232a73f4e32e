package httpapi

import (
	"bytes"
	"net/http"
)

// plainTail is how net/http heads its own answer to a request it could not read,
// which no handler sees. It writes the answer in one piece and closes.
var plainTail = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// malformed turns such an answer into one in the form of all others; nil where b
// is anything else, and so the answer of a handler. Where net/http comes to
// word its answers differently they go out as they are.
func malformed(b []byte) []byte {
	const version = "HTTP/1.1 "
	line, text, is := bytes.Cut(b[:min(len(b), 512)], plainTail)
	if !is || !bytes.HasPrefix(line, []byte(version)) || bytes.IndexByte(line, '\n') >= 0 {
		return nil
	}
	word := "malformed_request"
	switch {
	case bytes.HasPrefix(text, []byte("431")):
		word = "headers_too_large"
	case string(text) == "400 "+http.StatusText(http.StatusBadRequest):
		text = []byte("400 Bad Request: the request line or a header is malformed; is the path well escaped?")
	}
	body := appendString([]byte(`{"error":`), text)
	body = append(body, `,"code":`...)
	body = append(appendString(body, word), '}')
	out := append([]byte(nil), line...)
	out = append(out, "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "...)
	out = appendInt(out, int64(len(body)))
	return append(append(out, "\r\n\r\n"...), body...)
}
