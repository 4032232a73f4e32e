package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/compat/broker"
)

// raw sends a body as it is.
func raw(ctx context.Context, t *testing.T, p *broker.Process, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestOddThingsOverHTTP: L07 and the whole kind. A payload comes back byte for byte
// or is refused with its path; a name or an id works everywhere it can be sent, or
// is refused; a refused item does not touch its neighbours; nothing is a 500.
func TestOddThingsOverHTTP(t *testing.T) {
	t.Parallel()
	p := shared(t)
	run := "odd-" + uuid.NewString()[:8]

	t.Run("payloads", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		for i, payload := range []string{
			`"\u0000"`, `"a\u0000b\ud800"`, `"\udfff\ud800"`, `1e400`, `-0`, `12345678901234567890.123456789012345678901234567890`,
			`{"a":1,"a":2,"a":{"a":3}}`, `""`, `null`, `[ 1 ,	2 ]`, `"\/\b\f"`, `"` + strings.Repeat("x", 1_000_000) + `"`,
			strings.Repeat("[", 990) + strings.Repeat("]", 990), `"é漢😀` + "\u007f\u0085\u2028" + `"`,
		} {
			q := fmt.Sprint(run, "-p", i)
			status, text := raw(ctx, t, p, "POST", "/api/v1/push", `{"items":[{"queue":"`+q+`","payload":`+payload+`}]}`)
			if status != http.StatusCreated {
				t.Errorf("%.40s: %d %.300s", payload, status, text)
				continue
			}
			if status, text := raw(ctx, t, p, "GET", "/api/v1/pop/queue/"+q+"?autoAck=true", ""); status != 200 || !strings.Contains(text, `"data":`+payload+`,`) {
				t.Errorf("%.40s came back as %d %.300s", payload, status, text)
			}
		}
	})

	t.Run("bodies", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		item := func(payload string) string { return `{"items":[{"queue":"` + run + `-b","payload":` + payload + `}]}` }
		for _, f := range []struct{ body, code, says string }{
			{item(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), "bad_json", "nested deeper than 1000"},
			{item("\"\xff\""), "bad_json", "invalid UTF-8 at byte"},
			{item("\"\x00\""), "bad_json", "items[0].payload"},
			{item("\"a\nb\""), "bad_json", "items[0].payload"},
			{item("01"), "bad_json", "items[0]"},
			{item("NaN"), "bad_json", "items[0].payload"},
			{item("1") + "x", "bad_json", "text after the value"},
			{"\xef\xbb\xbf" + item("1"), "bad_json", "at byte 0"},
			{`{"items":[],"items":[]}`, "invalid_request", "items: is given twice"},
			{`{"items":[{"queue":"` + run + `-b","payload":1,"queue":"x"}]}`, "invalid_request", "items[0].queue"},
			{`{"items":[{"queue":"` + run + `-b\u0000","payload":1}]}`, "invalid_name", "control character"},
			{`{"items":[{"queue":"` + run + `-b","partition":"\ud800","payload":1}]}`, "invalid_request", "items[0].partition"},
			{`{"items":[{"queue":"` + run + `-b","transactionId":"\ud800","payload":1}]}`, "invalid_request", "items[0].transactionId"},
			{`{"items":[{"queue":"` + run + `-b","key":5,"payload":1}]}`, "invalid_request", "items[0].key: must be a string"},
		} {
			status, text := raw(ctx, t, p, "POST", "/api/v1/push", f.body)
			if status != 400 || !strings.Contains(text, `"code":"`+f.code+`"`) || !strings.Contains(text, f.says) {
				t.Errorf("%.60q: %d %.300s; want 400 %s that says %q", f.body, status, text, f.code, f.says)
			}
		}
		if status, text := raw(ctx, t, p, "GET", "/api/v1/resources/queues/"+run+"-b", ""); status != 404 {
			t.Errorf("something of it was stored: %d %s", status, text)
		}
	})

	t.Run("neighbours", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		q := run + "-n"
		status, text := raw(ctx, t, p, "POST", "/api/v1/push", `{"items":[{"queue":"`+q+`","payload":1,"transactionId":"a"},{"queue":"`+q+`","payload":2,"transactionId":"\ud800"},`+
			`{"queue":"`+q+`\u0001","payload":3},{"queue":"`+q+`","payload":"`+strings.Repeat("y", 2_000_000)+`"},{"queue":"`+q+`","payload":5,"transactionIdBase64":"AP8="}]}`)
		var vs []verdict
		if status != http.StatusCreated || json.Unmarshal([]byte(text), &vs) != nil || len(vs) != 5 {
			t.Fatalf("%d %.500s", status, text)
		}
		got := ""
		for _, v := range vs {
			got += v.Status + " "
		}
		if got != "queued error error error queued " {
			t.Errorf("outcomes %s: %s", got, text)
		}
		if ms := pop(ctx, t, p, "/api/v1/pop/queue/"+q+"?batch=10"); len(ms) != 2 {
			t.Errorf("%d messages are there, want the two", len(ms))
		}
	})

	t.Run("names", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		for _, name := range []string{
			run + "/a%2Fb?c#d", run + "..", run + " ", run + "é漢😀", run + "\"\\{}'", run + "+&=;", run + "\u007f\u0085\u202e", run + strings.Repeat("x", 249-len(run)),
		} {
			at := url.PathEscape(name)
			vs := push(ctx, t, p, item{Queue: name, Partition: name, Payload: 1, TransactionID: name})
			if vs[0].Status != "queued" || vs[0].TransactionID != name {
				t.Errorf("%q: pushed as %+v", name, vs[0])
				continue
			}
			for _, path := range []string{
				"/api/v1/resources/queues/" + at, "/api/v1/resources/queues/" + at + "/partitions", "/api/v1/resources/queues/" + at + "/depth?group=" + url.QueryEscape(name),
				"/api/v1/messages?queue=" + url.QueryEscape(name) + "&partition=" + url.QueryEscape(name) + "&consumerGroup=" + url.QueryEscape(name),
				"/api/v1/status/queues/" + at,
			} {
				if status, text := raw(ctx, t, p, "GET", path, ""); status != 200 || !json.Valid([]byte(text)) {
					t.Errorf("%q: GET %s: %d %s", name, path, status, text)
				}
			}
			ms := pop(ctx, t, p, "/api/v1/pop/queue/"+at+"/partition/"+at+"?consumerGroup="+url.QueryEscape(name))
			if len(ms) != 1 || ms[0].TransactionID != name {
				t.Errorf("%q: popped %+v", name, ms)
				continue
			}
			var acked []struct{ Success bool }
			call(ctx, t, p, "POST", "/api/v1/ack", map[string]any{
				"transactionId": name, "partitionId": ms[0].PartitionID, "leaseId": ms[0].LeaseID, "consumerGroup": name, "status": "completed",
			}, &acked, http.StatusOK)
			if !acked[0].Success {
				t.Errorf("%q: not acknowledged", name)
			}
			if status, text := raw(ctx, t, p, "GET", "/api/v1/consumer-groups/"+at, ""); status != 200 || !strings.Contains(text, `"totalLag":0`) {
				t.Errorf("%q as a group: %d %s", name, status, text)
			}
			for _, path := range []string{"/api/v1/consumer-groups/" + at, "/api/v1/resources/queues/" + at} {
				if status, text := raw(ctx, t, p, "DELETE", path, ""); status != 200 {
					t.Errorf("%q: DELETE %s: %d %s", name, path, status, text)
				}
			}
		}
	})

	t.Run("ids that are no text", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		q := run + "-ids"
		for _, id := range []string{"AA==", "/w==", "gIGC", "CgA="} {
			body := `{"items":[{"queue":"` + q + `","payload":1,"transactionIdBase64":"` + id + `"}]}`
			for n, want := range []string{"queued", "duplicate"} {
				status, text := raw(ctx, t, p, "POST", "/api/v1/push", body)
				if status != http.StatusCreated || !strings.Contains(text, `"status":"`+want+`"`) {
					t.Errorf("%s, time %d: %d %s", id, n+1, status, text)
				}
			}
			ms := pop(ctx, t, p, "/api/v1/pop/queue/"+q)
			if len(ms) != 1 {
				t.Fatalf("%s: %d messages", id, len(ms))
			}
			status, text := raw(ctx, t, p, "POST", "/api/v1/ack", `{"transactionIdBase64":"`+id+`","partitionId":"`+ms[0].PartitionID+`","leaseId":"`+ms[0].LeaseID+`","status":"completed"}`)
			if status != 200 || !strings.Contains(text, `"success":true`) {
				t.Errorf("%s: acknowledged as %d %s", id, status, text)
			}
		}
	})
}
