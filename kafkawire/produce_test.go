package kafkawire

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// P06: exactly one batch per partition, and at least one; nothing is stored otherwise.
func TestProduceTakesExactlyOneBatch(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	one := batch(nil, record{value: "a"})
	corrupt := bytes.Clone(one)
	corrupt[len(corrupt)-1] ^= 1
	f := func(what string, records []byte, want int16) {
		t.Helper()
		for _, version := range []int16{7, 9} {
			got := produced(ask[*kmsg.ProduceResponse](c, produceRequest(version, -1, "t", records)))
			if got.ErrorCode != want || got.BaseOffset != -1 || version >= 8 && got.ErrorMessage == nil {
				t.Errorf("%s, v%d: code %d, base offset %d, message %v; want code %d", what, version, got.ErrorCode, got.BaseOffset, got.ErrorMessage, want)
			}
		}
	}
	f("two batches", append(bytes.Clone(one), one...), codeInvalidRecord)
	f("no bytes", []byte{}, codeInvalidRecord)
	f("null", nil, codeInvalidRecord)
	f("random bytes", []byte("twenty random bytes."), codeInvalidRecord)
	f("a count that lies", batch(func(rb *kmsg.RecordBatch) { rb.NumRecords = 3 }, record{value: "a"}), codeInvalidRecord)
	f("a wrong checksum", corrupt, codeCorruptMessage)
	f("a control batch", batch(func(rb *kmsg.RecordBatch) { rb.Attributes = 0x20 }, record{value: "a"}), codeInvalidRecord)
	if n := d.end("t", 0); n != 0 {
		t.Errorf("%d records were stored", n)
	}
}

func TestProduceAnswersEveryPartitionInOrder(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 2)
	req := produceRequest(9, -1, "t", nil)
	add := func(topic string, number int32, records []byte) {
		pt := kmsg.NewProduceRequestTopic()
		pt.Topic = topic
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = number, records
		pt.Partitions = append(pt.Partitions, p)
		req.Topics = append(req.Topics, pt)
	}
	good := batch(nil, record{value: "a"}, record{value: "b"})
	add("t", 1, good)
	add("missing", 0, good)
	add("no legal name!", 0, good)
	add("t", 2, good)
	add("t", 0, good)
	add("t", 0, good)
	got := ask[*kmsg.ProduceResponse](d.dial(), req)
	want := []string{"t/0 87 -1", "t/1 0 0", "missing/0 3 -1", "no legal name!/0 17 -1", "t/2 3 -1", "t/0 0 0", "t/0 0 2"}
	for i, w := range want {
		p := got.Topics[i].Partitions[0]
		if s := fmt.Sprintf("%s/%d %d %d", got.Topics[i].Topic, p.Partition, p.ErrorCode, p.BaseOffset); s != w {
			t.Errorf("answer %d is %q, want %q", i, s, w)
		}
		if p.LogAppendTime != -1 {
			t.Errorf("answer %d has log append time %d", i, p.LogAppendTime)
		}
	}
}

func TestProduceByTopicID(t *testing.T) {
	t.Parallel()
	d := open(t)
	q := d.fake.topic("t", 1)
	c := d.dial()
	req := produceRequest(13, -1, "", batch(nil, record{value: "a"}))
	req.Topics[0].TopicID = q.TopicID
	got := ask[*kmsg.ProduceResponse](c, req)
	if p := produced(got); p.ErrorCode != 0 || got.Topics[0].TopicID != [16]byte(q.TopicID) {
		t.Errorf("code %d, id %x", p.ErrorCode, got.Topics[0].TopicID)
	}
	// The id of a topic deleted and made again is not the new one's.
	if _, err := d.fake.DeleteQueue(t.Context(), queen.QueueRef{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	d.fake.topic("t", 1)
	if p := produced(ask[*kmsg.ProduceResponse](c, req)); p.ErrorCode != codeUnknownTopicID {
		t.Errorf("the old id: code %d, want 100", p.ErrorCode)
	}
}

func TestProduceRefusesWhatItDoesNotServe(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	good := batch(nil, record{value: "a"})
	f := func(what string, req *kmsg.ProduceRequest, want int16) {
		t.Helper()
		if got := produced(ask[*kmsg.ProduceResponse](c, req)); got.ErrorCode != want {
			t.Errorf("%s: code %d, want %d", what, got.ErrorCode, want)
		}
	}
	f("acks 2", produceRequest(9, 2, "t", good), codeInvalidRequiredAcks)
	f("acks -2", produceRequest(9, -2, "t", good), codeInvalidRequiredAcks)
	txn := produceRequest(9, -1, "t", good)
	id := "txn"
	txn.TransactionID = &id
	f("a transactional id", txn, codeTransactionalIDAuth)
	zstd := batch(func(rb *kmsg.RecordBatch) { rb.Attributes = 4 }, record{value: "a"})
	f("zstd in v6", produceRequest(6, -1, "t", zstd), codeUnsupportedCompression)
	if n := d.end("t", 0); n != 0 {
		t.Errorf("%d records were stored", n)
	}
	f("zstd in v7", produceRequest(7, -1, "t", zstd), codeNone)
	f("acks 1", produceRequest(9, 1, "t", good), codeNone)
}

// P13: an idempotent resend answers the original offset.
func TestIdempotentResendAnswersOriginalOffset(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	p := ask[*kmsg.InitProducerIDResponse](c, at(kmsg.NewPtrInitProducerIDRequest(), 4))
	if p.ErrorCode != 0 || p.ProducerID < 0 || p.ProducerEpoch != 0 {
		t.Fatalf("InitProducerId: %+v", p)
	}
	send := func(sequence int32) kmsg.ProduceResponseTopicPartition {
		return produced(ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(func(rb *kmsg.RecordBatch) {
			rb.ProducerID, rb.ProducerEpoch, rb.FirstSequence = p.ProducerID, p.ProducerEpoch, sequence
		}, record{value: "a"}, record{value: "b"}, record{value: "c"}))))
	}
	for _, sequence := range []int32{0, 3, 6, 9, 12, 12, 3} {
		if got := send(sequence); got.ErrorCode != 0 || got.BaseOffset != int64(sequence) {
			t.Errorf("sequence %d: code %d, base offset %d", sequence, got.ErrorCode, got.BaseOffset)
		}
	}
	if n := d.end("t", 0); n != 15 {
		t.Errorf("log end %d, want 15", n)
	}
	if got := send(18); got.ErrorCode != codeOutOfOrderSequence {
		t.Errorf("a gap: code %d, want 45", got.ErrorCode)
	}
}

func TestInitProducerRefusesTransactions(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	f := func(id string, want int16) {
		t.Helper()
		req := at(kmsg.NewPtrInitProducerIDRequest(), 5)
		req.TransactionalID = &id
		if got := ask[*kmsg.InitProducerIDResponse](c, req); got.ErrorCode != want || got.ProducerID != -1 {
			t.Errorf("transactional id %q: code %d, producer %d; want code %d", id, got.ErrorCode, got.ProducerID, want)
		}
	}
	f("txn", codeTransactionalIDAuth)
	f("", codeInvalidRequest)
	d.fake.setFail(queen.ErrUnavailable)
	if got := ask[*kmsg.InitProducerIDResponse](c, at(kmsg.NewPtrInitProducerIDRequest(), 5)); got.ErrorCode != codeCoordinatorLoading {
		t.Errorf("without a database: code %d, want 14", got.ErrorCode)
	}
}

func TestProduceTimesOutRetriably(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.hold = true
		began := time.Now()
		got := produced(ask[*kmsg.ProduceResponse](d.dial(), produceRequest(9, -1, "t", batch(nil, record{value: "a"}))))
		if got.ErrorCode != codeRequestTimedOut || time.Since(began) != 5*time.Second {
			t.Errorf("code %d after %v, want 7 after the 5s asked for", got.ErrorCode, time.Since(began))
		}
		d.fake.release()
	})
}
