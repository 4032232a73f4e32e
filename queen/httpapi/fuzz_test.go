package httpapi

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
		`[[[[`, `{"a":{"a":{}}}`, `{"a":"b","long":"plain text that is read at once, é"}`, "{\"a\":\"b\nc\"}", `["no end`, `-0.0e+1`, `"\u0000\uDFFF"`, " \t\r\n1 ", `{"items":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want := json.Valid(body) && utf8.Valid(body)
		if got := isJSON(body, 10_000); got != want {
			t.Fatalf("read as JSON: %v, by the standard library: %v", got, want)
		}
		if r, err := newReader(body, 10_000); err == nil {
			// What is known of the whole body changes nothing but the time it takes.
			slow := *r
			slow.plain = false
			got, err := r.raw()
			want, wantErr := slow.raw()
			if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) || r.pos != slow.pos {
				t.Fatalf("read as %q, %v up to %d; slowly as %q, %v up to %d", got, err, r.pos, want, wantErr, slow.pos)
			}
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

// FuzzBodies: whatever is sent to a route that takes a body, the answer is JSON and
// never a 500; what is no JSON by the standard library is a 4xx that says where, and
// changes nothing.
func FuzzBodies(f *testing.F) {
	var taking []route
	for _, r := range routes {
		if r.body != noBody {
			taking = append(taking, r)
		}
	}
	slices.SortFunc(taking, func(a, b route) int { return cmp.Compare(a.method+a.path, b.method+b.path) })
	for i, r := range taking {
		for _, body := range hostile {
			f.Add(uint8(i), []byte(body))
		}
		for _, x := range goldenExchanges(f) {
			u, err := url.Parse(x.target)
			if err != nil {
				f.Fatal(err)
			}
			if row, _, p := match(x.method, u.EscapedPath()); p == nil && row.method == r.method && row.path == r.path && x.body != "" {
				f.Add(uint8(i), []byte(x.body))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		r := taking[int(which)%len(taking)]
		if len(body) == 0 && r.body == optionalBody {
			return
		}
		s, e := newTestServer(Config{})
		w := do(s, r.method, concrete(r.path), string(body)+" ")
		if w.Code >= 500 || w.Code < 200 {
			t.Fatalf("%s %s %q: %d %s", r.method, r.path, body, w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) || !utf8.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s %q: answered %q", r.method, r.path, body, w.Body)
		}
		if json.Valid(body) && utf8.Valid(body) {
			return
		}
		if w.Code != 400 && w.Code != 413 || !strings.Contains(w.Body.String(), `"error":`) {
			t.Fatalf("%s %s %q is no JSON: %d %s", r.method, r.path, body, w.Code, w.Body)
		}
		if len(e.queues) > 0 {
			t.Fatalf("%s %s %q is no JSON, but made a queue", r.method, r.path, body)
		}
	})
}

// hostile are bodies that no route takes.
var hostile = []string{
	" ", "x", "{", "[", `"`, "nul", "01", "1e", "{}x", "{,}", `{"a"}`, `{"a":}`, "{\"a\":\"\xff\"}", "{\"\xff\":1}", "\xef\xbb\xbf{}", "{\"a\":\"\x00\"}",
	strings.Repeat("[", 5000), strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), `{"a":1,"a":1}`, `{"nosuch":1}`, "5", `"text"`, "null",
}

// TestEveryBodyIsReadStrictly: each of them is a 400 everywhere, with what is wrong
// and where; and so is every described member that is given twice.
func TestEveryBodyIsReadStrictly(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for _, r := range routes {
		if r.body == noBody {
			continue
		}
		f := func(body string) {
			t.Helper()
			s, _ := newTestServer(Config{})
			w := do(s, r.method, concrete(r.path), body)
			var a struct{ Error, Code string }
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 400 || a.Error == "" || a.Code == "" {
				t.Errorf("%s %s %.40q: %d %s", r.method, r.path, body, w.Code, w.Body)
			}
			if where, _, says := strings.Cut(a.Error, ": "); !says && !strings.Contains(where, "at byte ") && !strings.Contains(where, "missing") && !strings.Contains(where, "exactly one of") {
				t.Errorf("%s %s %.40q: %q does not say where", r.method, r.path, body, a.Error)
			}
		}
		for _, body := range hostile {
			f(body)
		}
		schema := d.at(d.operation(r.method, r.path), "requestBody", "content", "application/json", "schema")
		d.eachMember(schema, "%s", 0, func(body, name string) {
			member := `"` + name + `":[[]]`
			f(strings.Replace(body, member, `"`+name+`":null,"`+name+`":null`, 1))
		})
	}
}

// goldenExchanges are those of all files.
func goldenExchanges(t testing.TB) []goldenExchange {
	t.Helper()
	files, err := filepath.Glob("testdata/*.http")
	if err != nil {
		t.Fatal(err)
	}
	var all []goldenExchange
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parseExchanges(t, string(text))...)
	}
	return all
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
