package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"queenmq/queen"
)

type pushedJSON struct {
	Index     int     `json:"index"`
	MessageID *string `json:"message_id"`
	ID        *string `json:"transaction_id"`
	Partition string  `json:"partition"`
	Status    string  `json:"status"`
	Offset    *int64  `json:"offset"`
	Error     string  `json:"error"`
	Code      string  `json:"code"`
}

func push(t *testing.T, s *Server, body string) []pushedJSON {
	t.Helper()
	w := do(s, "POST", "/api/v1/push", body)
	if w.Code != http.StatusCreated {
		t.Fatalf("push: %d %s", w.Code, w.Body)
	}
	var got []pushedJSON
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return got
}

func item(members string) string { return `{"items":[{"queue":"q",` + members + `}]}` }

func TestPushRefusesABodyOfTheWrongForm(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	for name, tc := range map[string]struct {
		body string
		code string
		has  string
	}{
		"empty":               {" ", "bad_json", "body: a value was expected"},
		"not an object":       {`[]`, "invalid_request", "body: must be an object"},
		"no items":            {`{}`, "invalid_request", `"items" is missing`},
		"items twice":         {`{"items":[],"items":[]}`, "invalid_request", "items: is given twice"},
		"items of a type":     {`{"items":{}}`, "invalid_request", "items: must be an array"},
		"items null":          {`{"items":null}`, "invalid_request", "items: must be an array"},
		"another member":      {`{"items":[],"x":1}`, "unknown_field", "x: is not known"},
		"text behind":         {`{"items":[]} x`, "bad_json", "at byte 13"},
		"cut":                 {`{"items":[{"queue":"q","payload":`, "bad_json", "items[0].payload"},
		"cut string":          {`{"items":[{"queue":"q`, "bad_json", "items[0].queue: the string does not end"},
		"single quotes":       {`{'items':[]}`, "bad_json", "member name"},
		"comma behind":        {`{"items":[1,]}`, "bad_json", "items[1]"},
		"NaN":                 {item(`"payload":NaN`), "bad_json", "items[0].payload"},
		"leading zero":        {item(`"payload":01`), "bad_json", "',' or '}'"},
		"bare dot":            {item(`"payload":1.`), "bad_json", "a digit"},
		"bare exponent":       {item(`"payload":1e`), "bad_json", "a digit"},
		"plus":                {item(`"payload":+1`), "bad_json", "a value"},
		"minus alone":         {item(`"payload":-`), "bad_json", "a value"},
		"control in string":   {item("\"payload\":\"a\nb\""), "bad_json", "control character"},
		"NUL in string":       {item("\"payload\":\"a\x00b\""), "bad_json", "control character"},
		"unknown escape":      {item(`"payload":"\x"`), "bad_json", "unknown escape"},
		"bad hex":             {item(`"payload":"\u00g0"`), "bad_json", "hexadecimal"},
		"invalid UTF-8":       {item("\"payload\":\"\xff\""), "bad_json", "invalid UTF-8 at byte 34"},
		"overlong UTF-8":      {item("\"payload\":\"\xc0\x80\""), "bad_json", "invalid UTF-8"},
		"surrogate in UTF-8":  {item("\"payload\":\"\xed\xa0\x80\""), "bad_json", "invalid UTF-8"},
		"deep":                {item(`"payload":` + deep), "bad_json", "items[0].payload"},
		"deep in what no one": {`{"x":` + deep + `}`, "bad_json", "nested deeper than 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := newTestServer(Config{})
			w := do(s, "POST", "/api/v1/push", tc.body)
			var got struct{ Error, Code, RequestID string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if w.Code != 400 || got.Code != tc.code || !strings.Contains(got.Error, tc.has) {
				t.Errorf("%d %s, want 400 %s with %q", w.Code, w.Body, tc.code, tc.has)
			}
			if len(e.queues) != 0 {
				t.Error("something was stored")
			}
		})
	}
}

func TestPushRefusesAnItemAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65_536)
	for name, tc := range map[string]struct{ item, code, has string }{
		"no object":            {`1`, "invalid_request", "must be an object"},
		"array":                {`[{"queue":"q"}]`, "invalid_request", "must be an object"},
		"no queue":             {`{"payload":1}`, "invalid_request", "queue is missing"},
		"queue null":           {`{"queue":null,"payload":1}`, "invalid_request", "queue: must be a string"},
		"queue number":         {`{"queue":7,"payload":1}`, "invalid_request", "queue: must be a string"},
		"queue twice":          {`{"queue":"q","queue":"r","payload":1}`, "invalid_request", "queue: is one too many"},
		"queue with NUL":       {`{"queue":"\u0000","payload":1}`, "invalid_name", "control"},
		"queue half surrogate": {`{"queue":"\ud800","payload":1}`, "invalid_request", "surrogate"},
		"long queue":           {`{"queue":"` + strings.Repeat("q", 250) + `","payload":1}`, "invalid_name", "249"},
		"partition empty":      {`{"queue":"q","partition":"","payload":1}`, "invalid_name", "partition: is empty"},
		"partition number":     {`{"queue":"q","partition":3,"payload":1}`, "invalid_request", "partition: must be a string"},
		"no payload":           {`{"queue":"q"}`, "invalid_request", "is missing"},
		"payload and data":     {`{"queue":"q","payload":1,"data":2}`, "invalid_request", "data: is one too many"},
		"data and tombstone":   {`{"queue":"q","data":1,"tombstone":true}`, "invalid_request", "tombstone: is one too many"},
		"data and base64":      {`{"queue":"q","dataBase64":"","data":[1,{"a":2}]}`, "invalid_request", "data: is one too many"},
		"tombstone false":      {`{"queue":"q","tombstone":false}`, "invalid_request", "can only be true"},
		"bad base64":           {`{"queue":"q","dataBase64":"a"}`, "invalid_request", "is not base64"},
		"loose base64":         {`{"queue":"q","dataBase64":"/x=="}`, "invalid_request", "is not base64"},
		"base64 number":        {`{"queue":"q","dataBase64":1}`, "invalid_request", "must be a string"},
		"id empty":             {`{"queue":"q","payload":1,"transactionId":""}`, "invalid_transaction_id", "is empty"},
		"id empty base64":      {`{"queue":"q","payload":1,"transactionIdBase64":""}`, "invalid_transaction_id", "is empty"},
		"id too long":          {`{"queue":"q","payload":1,"transactionId":"` + long + `"}`, "invalid_transaction_id", "65536"},
		"id number":            {`{"queue":"q","payload":1,"transactionId":7}`, "invalid_request", "must be a string"},
		"id object":            {`{"queue":"q","payload":1,"transactionId":{"a":[1]}}`, "invalid_request", "must be a string"},
		"id half surrogate":    {`{"queue":"q","payload":1,"transactionId":"a\udc00"}`, "invalid_request", "surrogate"},
		"two ids":              {`{"queue":"q","payload":1,"transactionId":"a","transactionIdBase64":"YQ=="}`, "invalid_request", "one too many"},
		"misspelt id":          {`{"queue":"q","payload":1,"transactionID":"a"}`, "unknown_field", "transactionID: is not known"},
		"case counts":          {`{"Queue":"q","payload":1}`, "unknown_field", "Queue"},
		"key number":           {`{"queue":"q","payload":1,"key":1}`, "invalid_request", "key: must be a string"},
		"two keys":             {`{"queue":"q","payload":1,"key":"a","keyBase64":""}`, "invalid_request", "one too many"},
		"headers string":       {`{"queue":"q","payload":1,"headers":"a"}`, "invalid_request", "headers: must be"},
		"header number":        {`{"queue":"q","payload":1,"headers":{"a":1,"b":"c"}}`, "invalid_request", "headers.a: must be a string"},
		"header pair":          {`{"queue":"q","payload":1,"headers":[{"value":"b"}]}`, "invalid_request", "headers[0]: key is missing"},
		"header pair twice":    {`{"queue":"q","payload":1,"headers":[{"key":"a","value":"b","valueBase64":""}]}`, "invalid_request", "one too many"},
		"header pair more":     {`{"queue":"q","payload":1,"headers":[{"key":"a","x":1},2]}`, "unknown_field", "headers[0].x"},
		"trace number":         {`{"queue":"q","payload":1,"traceId":1}`, "invalid_request", "traceId: must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := newTestServer(Config{})
			got := push(t, s, `{"items":[{"queue":"ok","payload":1},`+tc.item+`,{"queue":"ok","payload":2}]}`)
			if len(got) != 3 || got[0].Status != "queued" || got[2].Status != "queued" || *got[2].Offset != 1 {
				t.Fatalf("the neighbours: %+v", got)
			}
			bad := got[1]
			if bad.Index != 1 || bad.Status != "error" || bad.Code != tc.code || !strings.HasPrefix(bad.Error, "items[1]") || !strings.Contains(bad.Error, tc.has) {
				t.Errorf("%+v, want %s with %q", bad, tc.code, tc.has)
			}
			if bad.MessageID != nil || bad.Offset != nil {
				t.Errorf("a refused item has an id or an offset: %+v", bad)
			}
			if len(e.queues) != 1 || len(e.parts) != 1 || e.parts[1].LogEnd != 2 {
				t.Error("the refused item left something behind")
			}
			if w := do(s, "POST", "/api/v1/push", `{"items":[`+tc.item+`]}`); w.Code != 400 || !valid(w.Body.Bytes()) || !strings.HasPrefix(w.Body.String(), `{"error":"items[0]`) {
				t.Errorf("alone: %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestPushKeepsEveryIDOfTheContract(t *testing.T) {
	t.Parallel()
	f := func(member, want string) {
		t.Helper()
		s, e := newTestServer(Config{})
		got := push(t, s, item(`"payload":1,`+member))
		if got[0].Status != "queued" {
			t.Fatalf("%.60s: %+v", member, got[0])
		}
		if stored := string(e.parts[1].msgs[0].TransactionID); stored != want {
			t.Errorf("%.60s: stored as %.60q", member, stored)
		}
		if again := push(t, s, item(`"payload":1,`+member)); again[0].Status != "duplicate" {
			t.Errorf("%.60s: again: %+v", member, again[0])
		}
	}
	longest := strings.Repeat("x", 65_535)
	f(`"transactionId":"`+longest+`"`, longest)
	f(`"transactionId":"\u0000"`, "\x00")
	f(`"transactionId":"\ud83d\ude00 \u00e9\/\"\\\b\f\n\r\t"`, "😀 é/\"\\\b\f\n\r\t")
	f(`"transactionId":"😀"`, "😀")
	f(`"transactionIdBase64":"//8="`, "\xff\xff")
	f(`"\u0074ransactionId":"escaped name"`, "escaped name")
}

func TestPushAnswers503OnlyWhereNothingIsKnown(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	e.down = queen.ErrUnavailable
	body := `{"items":[{"queue":"q","payload":1,"transactionId":"a"},{"queue":"q","payload":2,"transactionId":"b"}]}`
	w := do(s, "POST", "/api/v1/push", body)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"unavailable","requestId":"r","items":[{"index":0`) {
		t.Fatalf("database away: %d %v %s", w.Code, w.Header(), w.Body)
	}
	e.down = nil
	if got := push(t, s, body); got[0].Status != "queued" || got[1].Status != "queued" {
		t.Fatalf("the failed push poisoned its ids: %+v", got)
	}

	e.poison = "poison"
	got := push(t, s, `{"items":[{"queue":"q","payload":"poison","transactionId":"c"},{"queue":"q","payload":3,"transactionId":"d"}]}`)
	if got[0].Status != "error" || got[0].Code != "outcome_unknown" || got[1].Status != "queued" {
		t.Errorf("one of two: %+v", got)
	}
	if *got[0].ID != "c" {
		t.Errorf("a failed item does not say which: %+v", got[0])
	}
	got = push(t, s, `{"items":[{"queue":"q","payload":"poison"},{"queue":"q"}]}`)
	if got[0].Code != "outcome_unknown" || got[1].Code != "invalid_request" {
		t.Errorf("a refusal is a definite outcome: %+v", got)
	}
	if w := do(s, "POST", "/api/v1/push", `{"items":[{"queue":"q","payload":"poison"}]}`); w.Code != 503 {
		t.Errorf("the only item's outcome is unknown: %d", w.Code)
	}
}

// TestPushStaysADuplicateAfterTheOriginalWasConsumed: D02, as far as a door can
// get it wrong.
func TestPushStaysADuplicateAfterTheOriginalWasConsumed(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	first := push(t, s, item(`"payload":1,"transactionId":"a"`))
	if w := do(s, "GET", "/api/v1/pop/queue/q?autoAck=true", ""); w.Code != 200 {
		t.Fatal(w.Code)
	}
	again := push(t, s, item(`"payload":1,"transactionId":"a"`))
	if again[0].Status != "duplicate" || *again[0].MessageID != *first[0].MessageID || *again[0].Offset != 0 {
		t.Errorf("%+v", again)
	}
	e.now = e.now.Add(3601 * time.Second)
	if later := push(t, s, item(`"payload":1,"transactionId":"a"`)); later[0].Status != "queued" {
		t.Errorf("after the window: %+v", later)
	}
}

func TestPushToAFixedQueueRefusesAnUnknownPartition(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	e.queue("t", queen.DefaultOptions()).Fixed = true
	w := do(s, "POST", "/api/v1/push", `{"items":[{"queue":"t","partition":"x","payload":1}]}`)
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"code":"unknown_partition"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPushBoundsItsItems(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{PushItemsMax: 3})
	body := func(n int) string {
		return `{"items":[` + strings.Repeat(`{"queue":"q","payload":1},`, n-1) + `{"queue":"q","payload":1}]}`
	}
	if got := push(t, s, body(3)); len(got) != 3 {
		t.Fatalf("%d outcomes", len(got))
	}
	if w := do(s, "POST", "/api/v1/push", body(4)); w.Code != 413 || !strings.Contains(w.Body.String(), "too_many_items") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if e.parts[1].LogEnd != 3 {
		t.Errorf("%d stored", e.parts[1].LogEnd)
	}
}

func TestPushTenThousandItemsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{})
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range 10_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"q","payload":{"n":%d},"transactionId":"t%d"}`, i, i%9_999)
	}
	b.WriteString(`]}`)
	got := push(t, s, b.String())
	for i, o := range got[:9_999] {
		if o.Index != i || o.Status != "queued" || *o.Offset != int64(i) || *o.ID != fmt.Sprintf("t%d", i) {
			t.Fatalf("item %d: %+v", i, o)
		}
	}
	if last := got[9_999]; last.Status != "duplicate" || *last.Offset != 0 {
		t.Errorf("the repeat: %+v", last)
	}
}
