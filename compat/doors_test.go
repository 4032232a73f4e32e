package compat

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// door is a message as pop shows it, whole.
type door struct {
	TransactionID *string `json:"transactionId"`
	Data          json.RawMessage
	DataBase64    *string
	Tombstone     bool
	Offset        int64
	Key           *string
	KeyBase64     *string
	PartitionID   string
	LeaseID       string
	Headers       []struct {
		Key         string
		Value       *string
		ValueBase64 *string
	}
}

// value is the message's value as bytes; nil for none.
func (d *door) value(t *testing.T) []byte {
	t.Helper()
	switch {
	case d.Tombstone:
		return nil
	case d.DataBase64 != nil:
		return unBase64(t, *d.DataBase64)
	}
	return d.Data
}

func unBase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// headers are name=value texts, with null where there is no value.
func (d *door) headers(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, h := range d.Headers {
		switch {
		case h.Value != nil:
			all = append(all, h.Key+"="+*h.Value)
		case h.ValueBase64 != nil:
			all = append(all, h.Key+"="+string(unBase64(t, *h.ValueBase64)))
		default:
			all = append(all, h.Key+" null")
		}
	}
	return all
}

func kafkaHeaders(r *kgo.Record) []string {
	var all []string
	for _, h := range r.Headers {
		if h.Value == nil {
			all = append(all, h.Key+" null")
		} else {
			all = append(all, h.Key+"="+string(h.Value))
		}
	}
	return all
}

// TestBothDoorsSeeOneQueue: H15. What one door writes the other reads: values,
// keys, headers, nulls, offsets, order.
func TestBothDoorsSeeOneQueue(t *testing.T) {
	t.Parallel()
	p := shared(t)
	run := "-" + uuid.NewString()[:8]
	popAll := func(ctx context.Context, t *testing.T, path string) []door {
		t.Helper()
		var a struct{ Messages []door }
		call(ctx, t, p, "GET", path, nil, &a, http.StatusOK, http.StatusNoContent)
		return a.Messages
	}

	t.Run("pushed over HTTP, read by Kafka", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		var items []map[string]any
		for i := range 10 {
			items = append(items, map[string]any{
				"queue": "http-to-kafka" + run, "payload": map[string]any{"n": i}, "transactionId": fmt.Sprint("id-", i), "key": fmt.Sprint("k", i),
				"headers": []map[string]any{{"key": "h", "value": "v"}, {"key": "h", "value": nil}, {"key": "b", "valueBase64": "/wA="}},
			})
		}
		items[9] = map[string]any{"queue": "http-to-kafka" + run, "tombstone": true, "keyBase64": "/w==", "transactionIdBase64": "/w=="}
		var vs []verdict
		call(ctx, t, p, "POST", "/api/v1/push", map[string]any{"items": items}, &vs, http.StatusCreated)
		for i, r := range readAll(ctx, t, p, "http-to-kafka"+run, 10) {
			value, key := fmt.Sprintf(`{"n":%d}`, i), fmt.Sprint("k", i)
			headers := []string{"queen-transaction-id=" + fmt.Sprint("id-", i), "h=v", "h null", "b=\xff\x00"}
			if i == 9 {
				value, key, headers = "", "\xff", []string{"queen-transaction-id=\xff"}
			}
			if r.Offset != vs[i].Offset || string(r.Value) != value || (r.Value == nil) != (i == 9) || string(r.Key) != key || !slices.Equal(kafkaHeaders(r), headers) {
				t.Errorf("%d: offset %d, value %q, key %q, headers %q; want %d, %q, %q, %q", i, r.Offset, r.Value, r.Key, kafkaHeaders(r), vs[i].Offset, value, key, headers)
			}
		}
	})

	t.Run("produced by Kafka, popped over HTTP", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		sent := []*kgo.Record{
			{Value: []byte("\x00\xff not JSON")},
			{Value: nil, Key: []byte("k")},
			{Value: []byte{}, Key: []byte{}},
			{Value: []byte("null")},
			{Value: []byte(`{"a": 1e400, "a":2}`)},
			{Value: []byte(strings.Repeat("[", 1500) + strings.Repeat("]", 1500))},
			{Value: []byte(`"\ud800\u0000"`), Key: []byte("\xfe")},
			{Value: []byte("1"), Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte("\xff")}, {Key: "", Value: []byte{}}, {Key: "queen-transaction-id", Value: []byte("the client's own")}}},
			{Value: []byte("\"\xff\"")},
			{Value: []byte(" 2 ")},
		}
		cl := kafka(t, p, kgo.DefaultProduceTopic("kafka-to-http"+run), kgo.AllowAutoTopicCreation())
		for _, r := range sent {
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		got := popAll(ctx, t, "/api/v1/pop/queue/kafka-to-http"+run+"?batch=100&wait=true&timeout=30000")
		if len(got) != len(sent) {
			t.Fatalf("%d messages, want %d", len(got), len(sent))
		}
		for i, r := range sent {
			d := &got[i]
			var key []byte
			switch {
			case d.Key != nil:
				key = []byte(*d.Key)
			case d.KeyBase64 != nil:
				key = unBase64(t, *d.KeyBase64)
			}
			// White space around a value is not part of the JSON, and not kept by the reader here.
			value := d.value(t)
			if d.Offset != r.Offset || !bytes.Equal(value, bytes.TrimSpace(r.Value)) || (value == nil) != (r.Value == nil) ||
				!bytes.Equal(key, r.Key) || (key == nil) != (r.Key == nil) || !slices.Equal(d.headers(t), kafkaHeaders(r)) {
				t.Errorf("%d: offset %d, value %q, key %q, headers %q; want %d, %q, %q, %q", i, d.Offset, value, key, d.headers(t), r.Offset, r.Value, r.Key, kafkaHeaders(r))
			}
			if d.TransactionID == nil || *d.TransactionID == "the client's own" {
				t.Errorf("%d: a record's header was taken for its id", i)
			}
		}
	})

	t.Run("both at once on one partition", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		const each = 500
		cl := kafka(t, p, kgo.DefaultProduceTopic("both-doors"+run))
		if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, "both-doors"+run); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			for i := range each {
				if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf(`"k%d"`, i))).FirstErr(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for i := range each / 5 {
			var items []item
			for n := range 5 {
				items = append(items, item{Queue: "both-doors" + run, Partition: "0", Payload: fmt.Sprint("h", i*5+n)})
			}
			push(ctx, t, p, items...)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var byKafka, byHTTP []string
		next := map[byte]int{}
		for i, r := range readAll(ctx, t, p, "both-doors"+run, 2*each) {
			byKafka = append(byKafka, fmt.Sprint(r.Offset, r.Value))
			if want := fmt.Sprintf(`"%c%d"`, r.Value[1], next[r.Value[1]]); r.Offset != int64(i) || string(r.Value) != want {
				t.Fatalf("record %d: offset %d, %s; want the next of its door, %s", i, r.Offset, r.Value, want)
			}
			next[r.Value[1]]++
		}
		for len(byHTTP) < 2*each {
			got := popAll(ctx, t, "/api/v1/pop/queue/both-doors"+run+"?batch=300&autoAck=true")
			if len(got) == 0 {
				break
			}
			for _, d := range got {
				byHTTP = append(byHTTP, fmt.Sprint(d.Offset, []byte(d.Data)))
			}
		}
		if !slices.Equal(byKafka, byHTTP) {
			t.Errorf("%d records by Kafka and %d by HTTP differ", len(byKafka), len(byHTTP))
		}
	})

	t.Run("a group of one name has one position", func(t *testing.T) {
		t.Parallel()
		ctx := within(t, 2*time.Minute)
		cl := kafka(t, p, kgo.DefaultProduceTopic("one-group"+run), kgo.AllowAutoTopicCreation())
		for i := range 10 {
			if err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		admin := kadm.NewClient(cl)
		position := func(group string) int64 {
			t.Helper()
			os, err := admin.FetchOffsets(ctx, group)
			if err != nil {
				t.Fatal(err)
			}
			if o, has := os.Lookup("one-group"+run, 0); has {
				return o.At
			}
			return -1
		}
		var other kadm.Offsets
		other.AddOffset("one-group"+run, 0, 2, -1)
		if err := admin.CommitAllOffsets(ctx, "doors-other"+run, other); err != nil {
			t.Fatal(err)
		}
		got := popAll(ctx, t, "/api/v1/pop/queue/one-group"+run+"?batch=4&consumerGroup=doors-same"+run)
		var acks []map[string]any
		for _, d := range got {
			acks = append(acks, map[string]any{"transactionId": d.TransactionID, "partitionId": d.PartitionID, "leaseId": d.LeaseID, "status": "completed"})
		}
		call(ctx, t, p, "POST", "/api/v1/ack/batch", map[string]any{"acknowledgments": acks, "consumerGroup": "doors-same" + run}, nil, http.StatusOK)
		if same, other := position("doors-same"+run), position("doors-other"+run); same != 4 || other != 2 {
			t.Errorf("after acks of 4 messages the group is at %d, another at %d; want 4 and 2", same, other)
		}
		var forward kadm.Offsets
		forward.AddOffset("one-group"+run, 0, 8, -1)
		if err := admin.CommitAllOffsets(ctx, "doors-same"+run, forward); err != nil {
			t.Fatal(err)
		}
		if got := popAll(ctx, t, "/api/v1/pop/queue/one-group"+run+"?batch=100&consumerGroup=doors-same"+run); len(got) != 2 || got[0].Offset != 8 {
			t.Errorf("after a Kafka commit of 8: %d messages, want offsets 8 and 9", len(got))
		}
	})
}
