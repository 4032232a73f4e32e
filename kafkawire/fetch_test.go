package kafkawire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// put appends batches of one record each behind the door's back.
func (d *door) put(topic string, number int32, values ...string) {
	for _, v := range values {
		res, err := d.fake.Append(d.t.Context(), []queen.AppendItem{{
			Partition: queen.PartitionRef{Queue: queen.QueueRef{Name: topic}, Number: number},
			Batch:     batch(nil, record{value: v}),
		}})[0].Result(d.t.Context())
		if err != nil {
			d.t.Fatalf("append %q: %v, %v", v, res, err)
		}
	}
}

// recordValues are those of all records in a partition's answer.
func recordValues(t *testing.T, p kmsg.FetchResponseTopicPartition) string {
	t.Helper()
	var vs []string
	for b := p.RecordBatches; len(b) > 0; {
		var rb kmsg.RecordBatch
		if err := rb.ReadFrom(b); err != nil {
			t.Fatalf("read batch: %v", err)
		}
		b = b[12+rb.Length:]
		rest := rb.Records
		for range rb.NumRecords {
			var r kmsg.Record
			n := int(rest[0]>>1) + 1 // short ones only
			if rest[0]&0x80 != 0 {
				n = (int(rest[0]&0x7f)|int(rest[1])<<7)>>1 + 2
			}
			if err := r.ReadFrom(rest[:n]); err != nil {
				t.Fatalf("read record: %v", err)
			}
			rest = rest[n:]
			vs = append(vs, string(r.Value))
		}
	}
	return strings.Join(vs, " ")
}

func TestFetchRoundTripsInEveryVersion(t *testing.T) {
	t.Parallel()
	d := open(t)
	q := d.fake.topic("t", 1)
	c := d.dial()
	for version := int16(4); version <= 18; version++ {
		ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(nil, record{value: fmt.Sprint("v", version)})))
		req := fetchRequest(version, "t", int64(version-4), 0)
		if version >= 13 {
			req.Topics[0].Topic, req.Topics[0].TopicID = "", q.TopicID
		}
		got := fetched(ask[*kmsg.FetchResponse](c, req))
		if got.ErrorCode != 0 || recordValues(t, got) != fmt.Sprint("v", version) {
			t.Errorf("v%d: code %d, %q", version, got.ErrorCode, recordValues(t, got))
		}
		if end := int64(version - 3); got.HighWatermark != end || got.LastStableOffset != end {
			t.Errorf("v%d: high watermark %d, last stable offset %d, want %d", version, got.HighWatermark, got.LastStableOffset, end)
		}
		if version >= 11 && got.PreferredReadReplica != -1 {
			t.Errorf("v%d: preferred replica %d", version, got.PreferredReadReplica)
		}
	}
}

// The reply written around the room's buffers is what kmsg would have written.
func TestFetchReplyIsKmsgs(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("big"), copiedBelow)
	for version := int16(4); version <= 18; version++ {
		resp := at(kmsg.NewPtrFetchRequest(), version).ResponseKind().(*kmsg.FetchResponse)
		resp.SessionID = 77
		parts := []askedPartition{
			{partitionKey: partitionKey{topic: "a", number: 1}},
			{partitionKey: partitionKey{topic: "a", number: 2}},
			{partitionKey: partitionKey{topic: "b", number: 0}},
			{partitionKey: partitionKey{topic: "b", number: 9}},
		}
		if version >= 13 {
			for i := range parts {
				parts[i].id, parts[i].topic = [16]byte{parts[i].topic[0]}, ""
			}
		}
		answers := []partitionAnswer{
			{ReadAnswer: queen.ReadAnswer{HighWatermark: 10, LastStable: 9, LogStart: 1, Batches: [][]byte{[]byte("small"), big, []byte("s"), big, big}}},
			{ReadAnswer: queen.ReadAnswer{HighWatermark: 5, LastStable: 5}},
			{code: 1, ReadAnswer: queen.ReadAnswer{HighWatermark: -1, LastStable: -1, LogStart: -1, Diverging: &queen.EpochEnd{Epoch: 3, EndOffset: 4}}},
			{ReadAnswer: queen.ReadAnswer{HighWatermark: 6, Batches: [][]byte{big}}},
		}
		f := (&fetchReply{FetchResponse: resp, answers: answers}).fill(parts, []bool{true, true, true, false})
		w := splicer{b: make([]byte, 0, 16)} // small: it must survive growing
		if err := w.encode(99, f); err != nil {
			t.Fatal(err)
		}
		got := bytes.Join(w.bufs, nil)

		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				resp.Topics[i].Partitions[j].RecordBatches = bytes.Join(f.batches[i*2+j], []byte{})
				if resp.Topics[i].Partitions[j].RecordBatches == nil {
					resp.Topics[i].Partitions[j].RecordBatches = []byte{}
				}
			}
		}
		plain := splicer{}
		if err := plain.encode(99, resp); err != nil {
			t.Fatal(err)
		}
		if want := bytes.Join(plain.bufs, nil); !bytes.Equal(got, want) {
			t.Errorf("v%d: the spliced reply differs from kmsg's:\n%x\n%x", version, got, want)
		}
	}
}

// F01: a long poll on an empty topic waits, without and with a session.
func TestLongPollWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("empty", 3)
		c := d.dial()
		f := func(what string, wait time.Duration, lowest, highest int, next func(i int) *kmsg.FetchRequest) {
			t.Helper()
			n := 0
			for began := time.Now(); time.Since(began) < 10*time.Second; n++ {
				ask[*kmsg.FetchResponse](c, next(n))
			}
			if n < lowest || n > highest {
				t.Errorf("%s, max wait %v: %d fetches in 10 s, want %d to %d", what, wait, n, lowest, highest)
			}
		}
		f("no session", 500*time.Millisecond, 20, 22, func(int) *kmsg.FetchRequest {
			return fetchRequest(11, "empty", 0, 500*time.Millisecond)
		})
		first := fetchRequest(11, "empty", 0, 500*time.Millisecond)
		first.SessionEpoch = 0
		id := ask[*kmsg.FetchResponse](c, first).SessionID
		epoch := int32(0)
		next := func(wait time.Duration) *kmsg.FetchRequest {
			req := fetchRequest(11, "empty", 0, wait)
			epoch++
			req.Topics, req.SessionID, req.SessionEpoch = nil, id, epoch
			return req
		}
		f("session", 500*time.Millisecond, 20, 22, func(int) *kmsg.FetchRequest { return next(500 * time.Millisecond) })
		f("session", 5*time.Second, 2, 3, func(int) *kmsg.FetchRequest { return next(5 * time.Second) })
	})
}

// F02: data wakes a long poll at once; too little data waits for the deadline.
func TestLongPollWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c, producer := d.dial(), d.dial()
		req := fetchRequest(11, "t", 0, 30*time.Second)
		began := time.Now()
		corr := c.send(req)
		<-time.After(time.Second)
		ask[*kmsg.ProduceResponse](producer, produceRequest(9, -1, "t", batch(nil, record{value: "x"})))
		got := fetched(c.receive(req, corr).(*kmsg.FetchResponse))
		if took := time.Since(began); took != time.Second || recordValues(t, got) != "x" {
			t.Errorf("woken after %v with %q", took, recordValues(t, got))
		}

		began = time.Now()
		req = fetchRequest(11, "t", 0, 2*time.Second)
		req.MinBytes = 100_000
		got = fetched(ask[*kmsg.FetchResponse](c, req))
		if took := time.Since(began); took != 2*time.Second || recordValues(t, got) != "x" {
			t.Errorf("too little data: answered after %v with %q", took, recordValues(t, got))
		}
	})
}

// A client that wants more at least than at most would wait for ever.
func TestFetchMinBytesAboveMaxBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.put("t", 0, strings.Repeat("x", 60))
		req := fetchRequest(11, "t", 0, time.Minute)
		req.MinBytes, req.MaxBytes = 1<<20, 100
		began := time.Now()
		ask[*kmsg.FetchResponse](d.dial(), req)
		if took := time.Since(began); took != 0 {
			t.Errorf("answered after %v", took)
		}
	})
}

// F04: a first batch above all limits comes whole.
func TestFirstBatchComesWhole(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	d.put("t", 0, strings.Repeat("x", 8000), "a", "b")
	for _, version := range []int16{4, 11} {
		req := fetchRequest(version, "t", 0, 0)
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 1024, 1024
		if got := recordValues(t, fetched(ask[*kmsg.FetchResponse](d.dial(), req))); len(got) != 8000 {
			t.Errorf("v%d: %d bytes", version, len(got))
		}
	}
}

// F08: beyond the end is an error at once.
func TestFetchPastTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.put("t", 0, "a", "b", "c")
		began := time.Now()
		got := fetched(ask[*kmsg.FetchResponse](d.dial(), fetchRequest(11, "t", 1000, 30*time.Second)))
		if got.ErrorCode != codeOffsetOutOfRange || len(got.RecordBatches) != 0 || time.Since(began) != 0 {
			t.Errorf("code %d, %d bytes, after %v", got.ErrorCode, len(got.RecordBatches), time.Since(began))
		}
	})
}

func TestFetchErrorsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		q := d.fake.topic("t", 1)
		c := d.dial()
		began := time.Now()
		f := func(what string, version int16, want int16, change func(*kmsg.FetchRequestTopic)) {
			t.Helper()
			req := fetchRequest(version, "t", 0, 30*time.Second)
			if version >= 13 {
				req.Topics[0].Topic, req.Topics[0].TopicID = "", q.TopicID
			}
			change(&req.Topics[0])
			if got := fetched(ask[*kmsg.FetchResponse](c, req)); got.ErrorCode != want {
				t.Errorf("%s: code %d, want %d", what, got.ErrorCode, want)
			}
		}
		f("no such topic", 12, 3, func(t *kmsg.FetchRequestTopic) { t.Topic = "missing" })
		f("no legal name", 12, 3, func(t *kmsg.FetchRequestTopic) { t.Topic = "not legal!" })
		f("no such partition", 12, 3, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].Partition = 1 })
		f("no such id", 13, 100, func(t *kmsg.FetchRequestTopic) { t.TopicID[0] ^= 0xff })
		f("no id", 13, 100, func(t *kmsg.FetchRequestTopic) { t.TopicID = [16]byte{} })
		f("an old epoch", 12, 74, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].CurrentLeaderEpoch = 6 })
		f("a future epoch", 12, 75, func(t *kmsg.FetchRequestTopic) { t.Partitions[0].CurrentLeaderEpoch = 8 })
		mixed := fetchRequest(12, "t", 0, 30*time.Second) // one that would wait, one refused by the door
		mixed.Topics = append(mixed.Topics, mixed.Topics[0])
		mixed.Topics[1].Topic = "not legal!"
		if got := ask[*kmsg.FetchResponse](c, mixed); got.Topics[0].Partitions[0].ErrorCode != 0 || got.Topics[1].Partitions[0].ErrorCode != 3 {
			t.Errorf("mixed: %+v", got.Topics)
		}
		d.fake.setFail(queen.ErrUnavailable)
		f("no database", 12, 6, func(*kmsg.FetchRequestTopic) {})
		if took := time.Since(began); took != 0 {
			t.Errorf("errors took %v", took)
		}
	})
}

func TestFetchTellsOfDivergingEpochs(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	d.put("t", 0, "a", "b")
	req := fetchRequest(12, "t", 2, time.Minute)
	req.Topics[0].Partitions[0].LastFetchedEpoch = 9
	got := fetched(ask[*kmsg.FetchResponse](d.dial(), req))
	if got.DivergingEpoch.Epoch != 7 || got.DivergingEpoch.EndOffset != 2 || len(got.RecordBatches) != 0 {
		t.Errorf("diverging %+v with %d bytes", got.DivergingEpoch, len(got.RecordBatches))
	}
}

func TestOldFetchGetsNoZstd(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(func(rb *kmsg.RecordBatch) { rb.Attributes = 4 }, record{value: "a"})))
	if got := fetched(ask[*kmsg.FetchResponse](c, fetchRequest(9, "t", 0, 0))); got.ErrorCode != codeUnsupportedCompression || len(got.RecordBatches) != 0 {
		t.Errorf("v9: code %d, %d bytes; want 76", got.ErrorCode, len(got.RecordBatches))
	}
	if got := fetched(ask[*kmsg.FetchResponse](c, fetchRequest(10, "t", 0, 0))); got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
		t.Errorf("v10: code %d, %d bytes", got.ErrorCode, len(got.RecordBatches))
	}
}
