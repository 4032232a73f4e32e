package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"
)

// answering is a broker's door that answers one thing.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestClientErrorsSayTheFixAndHaveACode(t *testing.T) {
	t.Parallel()
	f := func(url string, wantCode int, want ...string) {
		t.Helper()
		code, out, log := runQueen("queue", "get", "q", "--url", url)
		for _, w := range want {
			if !strings.Contains(log, w) {
				t.Errorf("stderr %q lacks %q", log, w)
			}
		}
		if code != wantCode || (out != "") != (wantCode == 0) {
			t.Errorf("code %d, stdout %q, stderr %q; want code %d", code, out, log, wantCode)
		}
	}
	f(answering(t, 404, `{"error":"unknown queue: \"q\"","code":"unknown_queue","requestId":"r"}`), exitFailed, `unknown queue: "q"`, "queen queue list")
	f(answering(t, 503, `{"error":"database unavailable: x","code":"unavailable","requestId":"r"}`), exitRetry, "database unavailable", "repeat the command")
	f(answering(t, 503, `{"error":"outcome unknown","code":"outcome_unknown","requestId":"r"}`), exitRetry, "may have happened", "--id")
	f(answering(t, 502, `<html>`), exitFailed, "502", "--url")
	f(answering(t, 200, `<html>`), exitFailed, "not JSON", "--url")
	f(answering(t, 200, `[]`), 0)
	f("http://127.0.0.1:1", exitRetry, "no answer from http://127.0.0.1:1", "queen serve", "QUEEN_URL")
	f("127.0.0.1:6632", exitUsage, "--url", "http://127.0.0.1:6632")
	f("ftp://x", exitUsage, "--url")
	// What an answer says is shown, not obeyed.
	f(answering(t, 400, `{"error":"bad \u001b[2J\u009b name","code":"invalid_name","requestId":"r"}`), exitFailed, `bad \x1b[2J\u009b name`)
}

func TestClientUsageErrorsNameTheMistake(t *testing.T) {
	t.Parallel()
	f := func(want string, args ...string) {
		t.Helper()
		code, out, log := runQueen(append(args, "--url", "http://127.0.0.1:1")...)
		if code != exitUsage || out != "" || !strings.Contains(log, want) {
			t.Errorf("queen %v: code %d, stdout %q, stderr %q; want code %d and %q", args, code, out, log, exitUsage, want)
		}
	}
	f("--id names one message", "push", "q", "1", "2", "--id", "a")
	f("--text and --bytes", "push", "q", "1", "--text", "--bytes")
	f("--header", "push", "q", "1", "-H", "nothing")
	f("--batch", "pop", "q", "--batch", "0")
	f("--lease", "pop", "q", "--lease", "10ms")
	f("whole seconds", "pop", "q", "--lease", "1500ms")
	f("at least 1s", "pop", "q", "--lease", "0s")
	f("at least 1s", "kv", "put", "n", "k", "1", "--ttl", "1ms")
	f("whole seconds", "kv", "incr", "n", "k", "--ttl", "1500ms")
	f("--replace", "queue", "set", "q", "leaseTime=null")
	f("--from-partition", "queue", "browse", "q", "--offset", "3")
	f("--id is empty", "push", "q", "1", "--id", "")
	f("--lease is empty", "ack", "7", "a", "--lease=")
	f("--group is empty", "pop", "q", "-g", "")
	f("<queue> is empty", "queue", "get", "")
	f("which messages", "ack", "7")
	f("status", "ack", "7", "a", "--status", "done")
	f("OPTION=VALUE", "queue", "set", "q", "dedupWindowSeconds")
	f("--yes", "queue", "delete", "q")
	f("--yes", "group", "delete", "g")
	f("say where to", "group", "seek", "g", "q")
	f("say where to", "group", "seek", "g", "q", "--to-end", "--to-start")
	f("--partition", "group", "seek", "g", "q", "--to-offset", "1")
	f("--ttl", "kv", "put", "n", "k", "1")
	f("--ttl", "kv", "put", "n", "k", "1", "--ttl", "1h", "--forever")
	f("not JSON", "kv", "put", "n", "k", "x", "--forever")
	f("output", "queue", "list", "-o", "yaml")
}

// What was not pushed is told, however the lines of stdin end.
func TestPushOfLinesSaysWhatItLeftOut(t *testing.T) {
	t.Parallel()
	url := answering(t, 201, `[{"index":0,"status":"queued","offset":0}]`)
	code, out, log := runQueenOn("1\n"+strings.Repeat("2", pushLineBytes+1)+"\n3\n", "push", "q", "--url", url)
	if code != exitFailed || !strings.Contains(out, "queued") || !strings.Contains(log, "line 2 of stdin") {
		t.Errorf("a line that is too long: code %d, stdout %q, stderr %q; want the one before it pushed, and a failure", code, out, log)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	var stdout, stderr bytes.Buffer
	code = run(stopped, []string{"push", "q", "--url", url}, strings.NewReader("1\n"), &stdout, &stderr)
	if code != exitFailed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("interrupted: code %d, stdout %q, stderr %q; want a failure, and nothing pushed", code, &stdout, &stderr)
	}
}

// A mistake in the middle of many lines is found by its number.
func TestPushOfLinesNamesTheLine(t *testing.T) {
	t.Parallel()
	url := answering(t, 201, `[]`)
	lines := strings.Repeat("1\n", pushLines+7)
	code, _, log := runQueenOn(lines+"nonsense\n3\n", "push", "q", "--url", url)
	want := fmt.Sprintf("line %d of stdin", pushLines+8)
	if code != exitFailed || !strings.Contains(log, want) || !strings.Contains(log, fmt.Sprintf("the first %d lines were pushed", pushLines)) {
		t.Errorf("code %d, stderr %q; want %q and what was pushed", code, log, want)
	}
}

// A list that is not shown whole says how to go on.
func TestListsSayThatThereIsMore(t *testing.T) {
	t.Parallel()
	f := func(want, body string, args ...string) {
		t.Helper()
		code, out, log := runQueen(append(args, "-o", "table", "--url", answering(t, 200, body))...)
		if code != 0 || !strings.HasSuffix(out, "\n"+want+"\n") {
			t.Errorf("queen %v: code %d, stdout %q, stderr %q; want %q at its end", args, code, out, log, want)
		}
	}
	f("more: --from-partition 7", `{"partitions":[{"id":"1","number":6,"name":"p"}],"next":7}`, "queue", "partitions", "q")
	f("3 in these; more: --from-partition 7", `{"pending":3,"partitions":[{"partition":"p","pending":3}],"next":7}`, "queue", "depth", "q")
	f("3 in these", `{"pending":3,"partitions":[{"partition":"p","pending":3}],"next":null}`, "queue", "depth", "q", "--from-partition", "6")
	f("9 in all; more: --skip 5", `{"queues":[{"name":"q"}],"total":9}`, "queue", "list", "--skip", "4")
	f("perhaps more: --skip 5", `[{"name":"g"}]`, "group", "list", "--skip", "4", "-n", "1")
}

// TestNothingShownIsObeyed: no cell, and no JSON on a terminal, has a character that
// a terminal takes for a command, and nothing is lost by that (reliability F46).
func TestNothingShownIsObeyed(t *testing.T) {
	t.Parallel()
	evil := "a\x1b]0;x\x07\x9b\u009b31m\u202eb\r\n\x7f\u200b\U000e0001é漢😀\xff"
	for _, s := range []string{harmless(evil), (&table{head: []string{"H"}, rows: [][]string{{evil}, {evil, evil}}}).text()} {
		for _, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
			for _, r := range line {
				if !unicode.IsPrint(r) {
					t.Errorf("%q has %U", line, r)
				}
			}
		}
	}
	if got, want := harmless("a\x1b\u009b\xffé漢😀\n"), `a\x1b\u009b\xffé漢😀\n`; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	text := `{"a":"` + "\u009b\u202e\x7f\U000e0001é😀" + `","b": 1.00}`
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		p := &process{stdout: &out, terminal: terminal}
		if err := p.writeJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if !terminal {
			if out.String() != text+"\n" {
				t.Errorf("to a program: %q, want the answer as it is", out.String())
			}
			continue
		}
		for _, r := range out.String() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%q has %U", out.String(), r)
			}
		}
		var was, is map[string]any
		if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal(out.Bytes(), &is) != nil || fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("on a terminal %s is %v, want %v", out.String(), is, was)
		}
		if !strings.Contains(out.String(), "1.00") {
			t.Errorf("a number changed: %s", out.String())
		}
	}
}

func TestTableIsAligned(t *testing.T) {
	t.Parallel()
	tab := &table{head: []string{"A", "BB", "C"}, foot: "all"}
	tab.add("é", "x", "1")
	tab.add(strings.Repeat("y", cellMax+1), "", strings.Repeat("z", cellMax+1))
	long := strings.Repeat("y", cellMax-1) + "…"
	pad := strings.Repeat(" ", cellMax-1)
	want := "A" + pad + "  BB  C\n" + "é" + pad + "  x   1\n" + long + "      " + strings.Repeat("z", cellMax+1) + "\nall\n"
	if got := tab.text(); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// TestCommandLineAgainstABroker runs the commands as a person would, one after the other.
func TestCommandLineAgainstABroker(t *testing.T) {
	t.Parallel()
	b := serve(t, openTempDir(t))
	url := "http://" + readyPattern.FindStringSubmatch(b.ready)[2]
	f := func(wantCode int, want, stdin string, args ...string) string {
		t.Helper()
		code, out, log := runQueenOn(stdin, append(args, "--url", url)...)
		if code != wantCode || !strings.Contains(out+log, want) {
			t.Fatalf("queen %q: code %d, stdout %s, stderr %s; want code %d and %q", args, code, out, log, wantCode, want)
		}
		return out
	}
	f(0, `"status":"queued"`, "", "push", "orders", `{"n": 1.00}`, "--id", "a")
	f(0, `"status":"duplicate"`, "", "push", "orders", `{"n": 1.00}`, "--id", "a")
	f(0, "queued  p          1", "{\"a\":1}\n\"x\"\n", "push", "orders", "-p", "p", "-o", "table", "--key", "k", "-H", "h=v=w")
	f(1, "not JSON", "", "push", "orders", "hello")
	f(0, "queued", "", "push", "comma", `{"a":1,"b":2}`)
	f(0, `"data":{"a":1,"b":2}`, "", "pop", "comma", "--auto-ack")
	f(2, "argument 3 is not UTF-8", "", "push", "raw", "\xff\x1b", "--bytes")
	f(0, "queued", "\xff\x1b", "push", "raw", "--bytes")
	f(1, "--bytes", "a\xff", "push", "raw", "--text")
	f(0, "base64:/xs=", "", "pop", "raw", "--auto-ack", "-o", "table")
	f(1, "too large", "", "push", "orders", `"`+strings.Repeat("x", 1<<20)+`"`)
	f(3, "nothing to pop", "", "pop", "absent")

	// What pop wrote is what ack reads.
	f(0, `"name":"orders"`, "", "queue", "get", "orders", "-o", "json")
	got := f(0, `"data":{"n": 1.00}`, "", "pop", "orders", "-g", "g", "-n", "10", "-p", "Default")
	f(0, `"status":"processing"`, "", "queue", "browse", "orders", "-g", "g", "-s", "processing")
	f(0, `"success":true`, got, "ack")
	f(1, "took no effect", got, "ack")
	f(1, "queen pop -o json", "nonsense", "ack")
	f(3, "nothing to acknowledge", "\n", "ack")

	dead := f(0, `"data":{"a":1}`, "", "pop", "orders", "-g", "g", "-p", "p")
	f(0, `"success":true`, dead, "ack", "--status", "dlq", "--reason", "poison \x1b")
	f(0, `poison \x1b`, "", "dlq", "list", "orders", "-g", "g", "-o", "table")
	f(0, `"total":0`, "", "dlq", "list", "orders", "-g", "other")
	f(3, "1 of the 1 ids named", "", "dlq", "replay", "orders", "999999")
	f(0, "1 replayed", "", "dlq", "replay", "orders", "-o", "table")
	f(0, `"deleted":0`, "", "dlq", "purge", "orders", "--yes")
	f(2, "--yes", "", "dlq", "purge", "orders")

	f(0, "2 in all", "", "queue", "depth", "orders", "-g", "g", "-o", "table")
	f(0, "dedupWindowSeconds", "", "queue", "set", "orders", "dedupWindowSeconds=60", "-o", "table")
	f(0, `"dedupWindowSeconds":60`, "", "queue", "set", "orders", "retentionSeconds=3600")
	f(0, "back to their default: dedupWindowSeconds, retentionSeconds", "", "queue", "set", "orders", "--replace", "-o", "table")
	f(1, "dedupWindow: is not an option", "", "queue", "set", "orders", "dedupWindow=60")
	f(0, "orders", "", "queue", "list", "--search", "ord", "-o", "table")
	f(0, "Default", "", "queue", "partitions", "orders", "-o", "table")

	f(0, `"name":"g"`, "", "group", "list")
	f(0, "0       p", "", "group", "seek", "g", "orders", "--to-start", "-o", "table")
	f(0, "orders", "", "group", "get", "g", "-o", "table")
	f(0, `"deleted":true`, "", "group", "delete", "g", "--yes")
	f(1, "queen group list", "", "group", "delete", "g", "--yes")

	f(0, `"version":`, "", "kv", "put", "n", "k", `{"a": 1}`, "--forever")
	f(0, `"value":{"a": 1}`, "", "kv", "get", "n", "k")
	f(3, "no such key", "", "kv", "get", "n", "none")
	f(0, `"won":true`, "", "kv", "once", "n", "o", "--ttl", "1h")
	f(1, "somebody has the key", "", "kv", "once", "n", "o", "--ttl", "1h")
	f(0, `"value":5`, "", "kv", "incr", "n", "c", "--by", "5", "--ttl", "1h")
	f(0, "k    ", "", "kv", "list", "n", "k", "-o", "table")
	f(1, "the key has version ", "", "kv", "delete", "n", "k", "--expect", "999999")
	f(3, "no such key", "", "kv", "delete", "n", "none")
	f(1, "expect", "", "kv", "delete", "n", "k", "--expect=-1")
	f(0, `"value":""`, "", "kv", "put", "n", "empty", "", "--text", "--forever")
	f(0, `"applied":true`, "", "kv", "delete", "n", "k")

	f(0, `"deleted":true`, "", "queue", "delete", "orders", "--yes")
	f(1, "queen queue list", "", "queue", "get", "orders")
}
