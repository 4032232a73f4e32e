package httpapi

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

func TestPopHandsOnWhatWasAsked(t *testing.T) {
	t.Parallel()
	f := func(target string, want queen.PopRequest) {
		t.Helper()
		s, e := newTestServer(Config{PopBatchDefault: 7, PopBytesMax: 1000})
		push(t, s, `{"items":[{"queue":"q","partition":"p/1","payload":1}]}`)
		want.Queue, want.MaxBytes, want.Partitions = "q", 1000, max(want.Partitions, 1)
		do(s, "GET", "/api/v1/pop/queue/q"+target, "")
		if e.lastPop != want {
			t.Errorf("%s\n got %+v\nwant %+v", target, e.lastPop, want)
		}
	}
	f("", queen.PopRequest{Batch: 7})
	f("/partition/p%2F1?batch=3", queen.PopRequest{Partition: "p/1", Batch: 3})
	f("?consumerGroup=g&leaseSeconds=60", queen.PopRequest{Batch: 7, Group: "g", Lease: time.Minute})
	f("?consumerGroup=__QUEUE_MODE__&autoAck=true", queen.PopRequest{Batch: 7, AutoAck: true})
	f("?wait=true&timeout=1234", queen.PopRequest{Batch: 7, Wait: 1234 * time.Millisecond})
	f("?wait=true", queen.PopRequest{Batch: 7, Wait: 30 * time.Second})
	f("?wait=false&timeout=1234&frames=true&conflation=false", queen.PopRequest{Batch: 7})
	f("?subscriptionMode=new", queen.PopRequest{Batch: 7, FromEnd: true})
	f("?subscriptionFrom=now", queen.PopRequest{Batch: 7, FromEnd: true})
	f("?subscriptionMode=all", queen.PopRequest{Batch: 7})
	f("?subscriptionFrom=2026-01-02T03:04:05Z", queen.PopRequest{Batch: 7, From: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	f("?partitions=5&namespace=n&task=t", queen.PopRequest{Batch: 7, Partitions: 5, Namespace: "n", Task: "t"})
	f("?autopilot=true", queen.PopRequest{Batch: 7, Partitions: partitionsAuto})
	f("?autopilot=true&partitions=3", queen.PopRequest{Batch: 7, Partitions: 3})
}

func TestAckHandsOnWhatWasSaid(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	lease := uuid.MustParse("01900000-0000-7000-8000-0000000000ff")
	w := do(s, "POST", "/api/v1/ack/batch", `{"consumerGroup":"g","acknowledgments":[
		{"transactionId":"a","partitionId":"3","leaseId":"01900000-0000-7000-8000-0000000000ff","status":"failed","error":"why"},
		{"transactionId":"b","partitionId":4,"consumerGroup":"own","status":"retry"},
		{"transactionId":"c","partitionId":"5","consumerGroup":null,"status":"completed"}]}`)
	if w.Code != 200 {
		t.Fatal(w.Body)
	}
	want := []queen.Ack{
		{TransactionID: []byte("a"), PartitionID: 3, LeaseID: lease, Group: "g", Status: queen.AckFailed, Reason: "why"},
		{TransactionID: []byte("b"), PartitionID: 4, Group: "own", Status: queen.AckRetry},
		{TransactionID: []byte("c"), PartitionID: 5, Group: "g", Status: queen.AckCompleted},
	}
	if !reflect.DeepEqual(e.lastAcks, want) {
		t.Errorf("\n got %+v\nwant %+v", e.lastAcks, want)
	}
	do(s, "POST", "/api/v1/ack", `{"transactionId":"a","partitionId":"3","status":"completed","consumerGroup":"__QUEUE_MODE__"}`)
	if len(e.lastAcks) != 1 || e.lastAcks[0].Group != "" {
		t.Errorf("the group-less mode: %+v", e.lastAcks)
	}
}

func TestAckAnswers503OnlyWhereNothingIsKnown(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	e.down = queen.ErrOutcomeUnknown
	const one = `{"transactionId":"a","partitionId":"3","status":"completed"}`
	if w := do(s, "POST", "/api/v1/ack", one); w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"outcome_unknown"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	const gone = `{"transactionId":"a","partitionId":"x","status":"completed"}`
	if w := do(s, "POST", "/api/v1/ack/batch", `{"acknowledgments":[`+one+`,`+gone+`]}`); w.Code != 200 ||
		!strings.Contains(w.Body.String(), `"code":"outcome_unknown"`) || !strings.Contains(w.Body.String(), `"code":"unresolvable"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do(s, "POST", "/api/v1/ack/batch", `{"acknowledgments":[]}`); w.Code != 200 || w.Body.String() != "[]" {
		t.Errorf("nothing to do: %d %s", w.Code, w.Body)
	}
}

func TestFetchHandsOnWhatWasAsked(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{FetchBytesMax: 1000, FetchEntryDefault: 500})
	f := func(body string, want queen.FetchRequest) {
		t.Helper()
		if w := do(s, "POST", "/api/v1/fetch", body); w.Code != 200 {
			t.Fatalf("%s: %s", body, w.Body)
		}
		if !reflect.DeepEqual(e.lastFetch, want) {
			t.Errorf("%s\n got %+v\nwant %+v", body, e.lastFetch, want)
		}
	}
	f(`{"entries":[{"queue":"q","partition":null,"offset":9223372036854775807}],"maxWaitMs":20,"minBytes":30}`, queen.FetchRequest{
		Items:   []queen.FetchItem{{Queue: "q", Offset: 1<<63 - 1, MaxBytes: 500}},
		MaxWait: 20 * time.Millisecond, MinBytes: 30, MaxBytes: 1000,
	})
	f(`{"entries":[{"queue":"q","partition":"p","offset":5,"maxBytes":1001}],"maxBytes":999,"minBytes":2000}`, queen.FetchRequest{
		Items:    []queen.FetchItem{{Queue: "q", Partition: "p", Offset: 5, MaxBytes: 1000}},
		MinBytes: 1000, MaxBytes: 999,
	})
	if w := do(s, "POST", "/api/v1/fetch", `{"entries":[]}`); w.Code != 200 || w.Body.String() != `{"entries":[]}` {
		t.Errorf("nothing to do: %d %s", w.Code, w.Body)
	}
}

func TestNullEmptyAndJSONNullStayApart(t *testing.T) {
	t.Parallel()
	f := func(member, popped, fetched string) {
		t.Helper()
		s, _ := newTestServer(Config{})
		if got := push(t, s, item(member)); got[0].Status != "queued" {
			t.Fatalf("%s: %+v", member, got)
		}
		w := do(s, "POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":0}]}`)
		if !strings.Contains(w.Body.String(), `,`+fetched+`,"ts"`) {
			t.Errorf("%s: fetched %s, want %s", member, w.Body, fetched)
		}
		w = do(s, "GET", "/api/v1/pop/queue/q", "")
		if !strings.Contains(w.Body.String(), `,`+popped+`,"offset"`) {
			t.Errorf("%s: popped %s, want %s", member, w.Body, popped)
		}
	}
	f(`"payload":null`, `"data":null`, `"payload":null`)
	f(`"tombstone":true`, `"tombstone":true`, `"tombstone":true`)
	f(`"dataBase64":""`, `"dataBase64":""`, `"payloadBase64":""`)
	f(`"data":""`, `"data":""`, `"payload":""`)
	f(`"dataBase64":"bnVsbA=="`, `"data":null`, `"payload":null`) // the bytes of null
	f(`"dataBase64":"e30gIA=="`, `"data":{}  `, `"payload":{}  `)
	f(`"payloadBase64":"e30gfQ=="`, `"dataBase64":"e30gfQ=="`, `"payloadBase64":"e30gfQ=="`) // "{} }"
}

func TestRetentionInMillisecondsIsRoundedUp(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	o := queen.DefaultOptions()
	o.RetentionMs = 1001
	e.queue("t", o)
	if w := do(s, "GET", "/api/v1/resources/queues/t", ""); !strings.Contains(w.Body.String(), `"retentionSeconds":2,"retentionMs":1001`) {
		t.Errorf("%s", w.Body)
	}
}

func TestFetchNamesEveryError(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		queen.ErrOffsetOutOfRange: "OFFSET_OUT_OF_RANGE",
		queen.ErrUnknownQueue:     "UNKNOWN_TOPIC_OR_PARTITION",
		queen.ErrUnknownPartition: "UNKNOWN_TOPIC_OR_PARTITION",
		queen.ErrUnavailable:      "UNAVAILABLE",
	} {
		if got := fetchName(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestStringsAreEscapedForJSONAndTerminals(t *testing.T) {
	t.Parallel()
	f := func(in, want string) {
		t.Helper()
		if got := string(appendString(nil, in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	f("é😀</script>", `"é😀</script>"`)
	f("\x00\x1b\x7f", `"\u0000\u001b\u007f"`)
	f("a\"\\\r\n\tb", `"a\"\\\r\n\tb"`)
	f("a\xffb\xc3", "\"a\ufffdb\ufffd\"")
	f("", `""`)
}
