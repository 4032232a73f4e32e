package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPushJSON: the reader takes exactly what the standard library takes (and
// is valid UTF-8, and not too deep); a push never panics nor answers 500, and
// what it stores comes back byte for byte.
func FuzzPushJSON(f *testing.F) {
	for _, seed := range []string{
		`{"items":[{"queue":"q","payload":{"a":[1,2.5e-3,null,true,"\ud83d\ude00"]},"transactionId":"t","key":"k","headers":{"a":null}}]}`,
		`{"items":[{"queue":"q","dataBase64":"/w==","headers":[{"key":"a","valueBase64":"/w=="}]},1,{"queue":""}]}`,
		`{"items":[{"queue":"q","tombstone":true,"transactionId":"\ud800"}]}`,
		`[[[[`, `{"a":{"a":{}}}`, `-0.0e+1`, `"\u0000\uDFFF"`, " \t\r\n1 ", `{"items":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want := json.Valid(body) && utf8.Valid(body)
		if got := isJSON(body, 10_000); got != want {
			t.Fatalf("read as JSON: %v, by the standard library: %v", got, want)
		}
		var text string
		if err := json.Unmarshal(body, &text); err == nil && want && bytes.HasPrefix(bytes.TrimSpace(body), []byte(`"`)) {
			r, _ := newReader(body, 10)
			got, err := r.str()
			if err == nil && string(got) != text {
				t.Fatalf("string read as %q, by the standard library as %q", got, text)
			}
			if err != nil && !strings.Contains(text, "\ufffd") {
				t.Fatalf("string refused: %v", err)
			}
		}

		s, e := newTestServer(Config{})
		w := do(s, "POST", "/api/v1/push", string(body)+" ")
		if w.Code != 201 && w.Code != 400 && w.Code != 413 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("answered %s", w.Body)
		}
		stored := 0
		for _, p := range e.parts {
			stored += len(p.msgs)
			for _, m := range p.msgs {
				if m.Value != nil && json.Valid(m.Value) && !bytes.Contains(body, m.Value) && !bytes.Contains(body, []byte("ase64")) {
					t.Fatalf("stored %q, which was not sent", m.Value)
				}
			}
			for {
				w := do(s, "GET", "/api/v1/pop/queue/"+escape(p.queue)+"/partition/"+escape(p.Name)+"?autoAck=true", "")
				if w.Code == 204 {
					break
				}
				if w.Code != 200 || !json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes()) {
					t.Fatalf("pop: %d %q", w.Code, w.Body)
				}
				if m := p.msgs[0]; m.Value != nil && isJSON(m.Value, 1000) && !bytes.Contains(w.Body.Bytes(), m.Value) {
					t.Fatalf("popped %s without %s", w.Body, m.Value)
				}
			}
		}
		if w.Code != 201 && stored > 0 {
			t.Fatalf("%d, but %d stored", w.Code, stored)
		}
	})
}

// escape escapes every byte of a name.
func escape(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		b.WriteString("%" + string(hexDigits[c>>4]) + string(hexDigits[c&15]))
	}
	return b.String()
}

// FuzzRoutes: any request line gets an answer of ours, and a body in JSON.
func FuzzRoutes(f *testing.F) {
	for _, r := range routes {
		f.Add(r.method, r.path, "", "")
	}
	f.Add("GET", "/api/v1/pop/queue/%2f%00%ff", "batch=1&wait=false", "")
	f.Add("POST", "/api/v1/ack", "", `{"transactionId":"a","partitionId":"1","status":"completed"}`)
	f.Add("POST", "/api/v1/configure", "a=b", `{"queue":"q","options":{"dedupWindowSeconds":1}}`)
	f.Add("POST", "/api/v1/fetch", "", `{"entries":[{"queue":"q","offset":0}]}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		target := path
		if query != "" {
			target += "?" + query
		}
		line := method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"
		r, err := readRequest(line, body)
		if err != nil {
			return // net/http answers 400 by itself
		}
		if strings.Contains(query, "wait") { // would park
			return
		}
		s, _ := newTestServer(Config{})
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code >= 500 || w.Code < 200 {
			t.Fatalf("%q: %d %s", line, w.Code, w.Body)
		}
		if w.Body.Len() > 0 && w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q: %s", line, w.Body)
		}
		if w.Header().Get("X-Request-Id") == "" {
			t.Fatalf("%q: no request id", line)
		}
	})
}

func readRequest(line, body string) (*http.Request, error) {
	r, err := http.ReadRequest(bufioReader(line))
	if err != nil {
		return nil, err
	}
	r.Body = http.NoBody
	if body != "" {
		r.Body = readCloser(body)
		r.ContentLength = int64(len(body))
	}
	return r, nil
}

func bufioReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

func readCloser(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }
