package kafkawire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func widen(topic string, count int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	for _, r := range replicas {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
	}
	return t
}

func TestCreatePartitions(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.PartitionsMax = 10 })
	d.fake.topic("t", 2)
	d.fake.topic("other", 1)
	c := d.dial()
	send := func(version int16, validate bool, topics ...kmsg.CreatePartitionsRequestTopic) []kmsg.CreatePartitionsResponseTopic {
		t.Helper()
		req := at(kmsg.NewPtrCreatePartitionsRequest(), version)
		req.Topics, req.ValidateOnly, req.TimeoutMillis = topics, validate, 1000
		return ask[*kmsg.CreatePartitionsResponse](c, req).Topics
	}
	f := func(want int16, topic kmsg.CreatePartitionsRequestTopic) {
		t.Helper()
		for _, validate := range []bool{true, false} {
			rt := send(3, validate, topic)[0]
			if rt.Topic != topic.Topic || rt.ErrorCode != want || (rt.ErrorMessage == nil) != (want == 0) {
				t.Errorf("%+v (validate only: %v): %+v, want code %d", topic, validate, rt, want)
			}
		}
	}
	f(37, widen("t", 2))
	f(37, widen("t", 0))
	f(37, widen("t", -1))
	f(37, widen("t", 11))
	f(3, widen("absent", 2))
	f(3, widen("two words", 2))
	f(39, widen("t", 4, []int32{1}))
	f(39, widen("t", 3, []int32{1}, []int32{1}))
	f(39, widen("t", 3, []int32{}))
	f(39, widen("t", 3, []int32{9}))
	f(39, widen("t", 3, []int32{1, 1}))
	if n := d.fake.queues["t"].Partitions; n != 2 {
		t.Fatalf("refused, and yet there are %d partitions", n)
	}
	send(3, true, widen("t", 3))
	if n := d.fake.queues["t"].Partitions; n != 2 {
		t.Fatalf("only validated, and yet there are %d partitions", n)
	}
	for version := int16(0); version <= 3; version++ {
		if rt := send(version, false, widen("t", 3+int32(version), []int32{1})); rt[0].ErrorCode != 0 || d.fake.queues["t"].Partitions != 3+int(version) {
			t.Errorf("version %d: %+v", version, rt)
		}
	}
	rts := send(3, false, widen("t", 8), widen("other", 2), widen("t", 9))
	if len(rts) != 2 || rts[0].ErrorCode != 42 || rts[1].ErrorCode != 0 || d.fake.queues["t"].Partitions != 6 {
		t.Errorf("one topic twice: %+v, %d partitions", rts, d.fake.queues["t"].Partitions)
	}
}

func TestDeleteRecords(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(nil, record{}, record{}, record{}, record{}, record{})))
	for version := int16(0); version <= 2; version++ {
		f := func(topic string, partition int32, offset int64, code int16, low int64) {
			t.Helper()
			req := at(kmsg.NewPtrDeleteRecordsRequest(), version)
			rt := kmsg.NewDeleteRecordsRequestTopic()
			rt.Topic = topic
			rt.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}
			req.Topics, req.TimeoutMillis = append(req.Topics, rt), 1000
			got := ask[*kmsg.DeleteRecordsResponse](c, req).Topics[0]
			if p := got.Partitions[0]; got.Topic != topic || p.Partition != partition || p.ErrorCode != code || p.LowWatermark != low {
				t.Errorf("version %d, %s/%d before %d: %+v, want code %d, low watermark %d", version, topic, partition, offset, got, code, low)
			}
		}
		f("t", 0, 6, 1, -1)
		f("t", 0, -2, 1, -1)
		f("t", 0, int64(version)+1, 0, int64(version)+1)
		f("t", 0, 0, 0, int64(version)+1)
		f("t", 1, 0, 3, -1)
		f("absent", 0, 0, 3, -1)
		f("two words", 0, 0, 3, -1)
		if version == 2 {
			f("t", 0, -1, 0, 5)
		}
	}
}
