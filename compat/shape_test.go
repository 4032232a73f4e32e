package compat

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic made by a Kafka client has no window: the same record a thousand
// times is a thousand messages, each with an id of its own.
func TestKafkaTopicsStoreEveryRecord(t *testing.T) {
	t.Parallel()
	p := shared(t)
	for how, create := range map[string]bool{"by CreateTopics": true, "by auto-create": false} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, time.Minute)
			topic := fmt.Sprintf("shape-%t", create)
			cl := kafka(t, p, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
			if create {
				if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, topic); err != nil {
					t.Fatal(err)
				}
			}
			const n = 1000
			var rs []*kgo.Record
			for range n {
				rs = append(rs, &kgo.Record{Key: []byte("k"), Value: []byte(`{"same":true}`), Headers: []kgo.RecordHeader{
					{Key: "transactionId", Value: []byte("one")}, {Key: "queen-transaction-id", Value: []byte("one")},
				}})
			}
			if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if q := describeQueue(ctx, t, p, topic); q.DedupWindowSeconds != 0 {
				t.Errorf("window of %d seconds, want 0", q.DedupWindowSeconds)
			}
			ids := make(map[string]bool)
			var last popped
			for len(ids) < n {
				ms := pop(ctx, t, p, "/api/v1/pop/queue/"+topic+"?batch=1000&consumerGroup=g&autoAck=true")
				if len(ms) == 0 {
					t.Fatalf("%d of %d messages came", len(ids), n)
				}
				for _, m := range ms {
					if m.TransactionID != m.ID || ids[m.ID] {
						t.Fatalf("offset %d: transaction id %s, message id %s, seen before: %t", m.Offset, m.TransactionID, m.ID, ids[m.ID])
					}
					ids[m.ID] = true
					last = m
				}
			}
			if ms := pop(ctx, t, p, "/api/v1/pop/queue/"+topic+"?consumerGroup=g"); len(ms) > 0 {
				t.Errorf("a message beyond the %d: offset %d", n, ms[0].Offset)
			}
			leased := pop(ctx, t, p, "/api/v1/pop/queue/"+topic+"?batch=10&consumerGroup=other")
			if len(leased) != 10 {
				t.Fatalf("another group got %d messages, want 10", len(leased))
			}
			for _, m := range leased {
				var acks []struct {
					Success bool   `json:"success"`
					Error   string `json:"error"`
				}
				call(ctx, t, p, "POST", "/api/v1/ack", map[string]any{
					"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": m.LeaseID,
					"consumerGroup": "other", "status": "completed",
				}, &acks, http.StatusOK)
				if len(acks) != 1 || !acks[0].Success {
					t.Fatalf("ack of %s: %+v", m.TransactionID, acks)
				}
			}
			next := pop(ctx, t, p, "/api/v1/pop/queue/"+topic+"?batch=1&consumerGroup=other")
			if len(next) != 1 || next[0].Offset != 10 {
				t.Errorf("after ten acks: %+v, want offset 10", next)
			}
			if last.Offset != n-1 {
				t.Errorf("last offset %d, want %d", last.Offset, n-1)
			}
			// Window 0: two pushes of one id are two messages.
			first := push(ctx, t, p, item{Queue: topic, Payload: 1, TransactionID: "x"})[0]
			again := push(ctx, t, p, item{Queue: topic, Payload: 1, TransactionID: "x"})[0]
			if first.Status != "queued" || again.Status != "queued" || again.Offset != first.Offset+1 {
				t.Errorf("pushes of one id where the window is 0: %+v, %+v", first, again)
			}
		})
	}
}

// A queue made over HTTP keeps its window, whatever Kafka clients do to it.
func TestHTTPQueuesKeepTheirWindow(t *testing.T) {
	t.Parallel()
	p, ctx := shared(t), within(t, time.Minute)
	const name = "kept-window"
	first := push(ctx, t, p, item{Queue: name, Payload: "a", TransactionID: "id-1"})[0]
	if first.Status != "queued" || first.Offset != 0 {
		t.Fatalf("first push: %+v", first)
	}
	cl := kafka(t, p, kgo.DefaultProduceTopic(name))
	const n = 1000
	var rs []*kgo.Record
	for range n {
		rs = append(rs, kgo.StringRecord("same"))
	}
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	again := push(ctx, t, p, item{Queue: name, Payload: "b", TransactionID: "id-1"})[0]
	if again.Status != "duplicate" || again.MessageID != first.MessageID || again.Offset != 0 {
		t.Errorf("second push: %+v, want a duplicate of %+v", again, first)
	}
	if q := describeQueue(ctx, t, p, name); q.DedupWindowSeconds != 3600 {
		t.Errorf("window of %d seconds, want 3600", q.DedupWindowSeconds)
	}
	got := readAll(ctx, t, p, name, n+1)
	for i, r := range got {
		if r.Offset != int64(i) {
			t.Fatalf("offset %d where %d is due", r.Offset, i)
		}
	}
	if string(got[0].Value) != `"a"` || string(got[n].Value) != "same" {
		t.Errorf("values %q … %q", got[0].Value, got[n].Value)
	}
	minted := push(ctx, t, p, item{Queue: name, Payload: nil})[0]
	if minted.Status != "queued" || minted.TransactionID != minted.MessageID {
		t.Errorf("a push without an id: %+v, want its message id as transaction id", minted)
	}
}

// Both doors write and read one log: interleaved, every reader sees one order.
func TestBothDoorsShareOneLog(t *testing.T) {
	t.Parallel()
	p, ctx := shared(t), within(t, time.Minute)
	const name, n = "mixed", 500
	push(ctx, t, p, item{Queue: name, Payload: "first"})
	done := make(chan error, 1)
	go func() {
		cl := kafka(t, p, kgo.DefaultProduceTopic(name), kgo.ProducerLinger(0))
		for i := range n {
			if err := cl.ProduceSync(ctx, &kgo.Record{Value: fmt.Appendf(nil, `"kafka %d"`, i)}).FirstErr(); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range n {
		push(ctx, t, p, item{Queue: name, Payload: fmt.Sprintf("http %d", i), TransactionID: fmt.Sprintf("id %d", i)})
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	overKafka := readAll(ctx, t, p, name, 2*n+1)
	next := map[string]int{}
	for i, r := range overKafka {
		if r.Offset != int64(i) {
			t.Fatalf("offset %d where %d is due", r.Offset, i)
		}
		var door string
		var k int
		if _, err := fmt.Sscanf(string(r.Value), `"%5s%d"`, &door, &k); err != nil {
			continue // the first
		}
		if k != next[door] {
			t.Fatalf("%s at %d, where %d of its door is due", r.Value, i, next[door])
		}
		next[door]++
	}
	var overHTTP []popped
	for len(overHTTP) < 2*n+1 {
		ms := pop(ctx, t, p, "/api/v1/pop/queue/"+name+"?batch=1000&consumerGroup=g&autoAck=true")
		if len(ms) == 0 {
			t.Fatalf("%d of %d messages came over HTTP", len(overHTTP), 2*n+1)
		}
		overHTTP = append(overHTTP, ms...)
	}
	for i, m := range overHTTP {
		if m.Offset != int64(i) || string(m.Data) != string(overKafka[i].Value) {
			t.Fatalf("message %d: %s at %d over HTTP, %s over Kafka", i, m.Data, m.Offset, overKafka[i].Value)
		}
	}
}
