package kafkawire

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func offsetAt(c *client, version int16, topic string, number int32, when int64, epoch int32) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	req := at(kmsg.NewPtrListOffsetsRequest(), version)
	req.ReplicaID = -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{
		{Partition: number, Timestamp: when, CurrentLeaderEpoch: epoch},
	}}}
	return ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
}

// O01: a time finds the first record at or after it.
func TestTimeLookupFindsFirstAtOrAfter(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	for _, ts := range []int64{2, 4, 6, 8} {
		ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(nil, record{value: "x", timestamp: ts})))
	}
	for version := int16(1); version <= 11; version++ {
		for _, f := range [][3]int64{{0, 0, 2}, {1, 0, 2}, {2, 0, 2}, {3, 1, 4}, {4, 1, 4}, {5, 2, 6}, {7, 3, 8}, {8, 3, 8}, {9, -1, -1}} {
			if p := offsetAt(c, version, "t", 0, f[0], -1); p.ErrorCode != 0 || p.Offset != f[1] || p.Timestamp != f[2] {
				t.Errorf("v%d, time %d: offset %d, timestamp %d, code %d; want %d, %d", version, f[0], p.Offset, p.Timestamp, p.ErrorCode, f[1], f[2])
			}
		}
	}
}

func TestSpecialTimes(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	for _, ts := range []int64{5, 9, 7} {
		ask[*kmsg.ProduceResponse](c, produceRequest(9, -1, "t", batch(nil, record{value: "x", timestamp: ts})))
	}
	f := func(when int64, since int16, offset, timestamp int64, epoch int32) {
		t.Helper()
		for version := int16(1); version <= 11; version++ {
			want := fmt.Sprint(0, " ", offset, " ", timestamp, " ", epoch)
			if version < 4 {
				want = fmt.Sprint(0, " ", offset, " ", timestamp, " ", -1)
			}
			if version < since {
				want = "35 -1 -1 -1"
			}
			p := offsetAt(c, version, "t", 0, when, -1)
			if got := fmt.Sprint(p.ErrorCode, " ", p.Offset, " ", p.Timestamp, " ", p.LeaderEpoch); got != want {
				t.Errorf("time %d in v%d: %s, want %s", when, version, got, want)
			}
		}
	}
	f(-1, 1, 3, -1, 7)
	f(-2, 1, 0, -1, 7)
	f(-3, 7, 1, 9, 7)
	f(-4, 8, 0, -1, 7)
	f(-5, 9, -1, -1, -1)
	f(-6, 11, -1, -1, -1)
	f(-7, 99, 0, 0, 0)
}

func TestListOffsetsErrors(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	f := func(topic string, number int32, epoch int32, want int16) {
		t.Helper()
		if p := offsetAt(c, 7, topic, number, -1, epoch); p.ErrorCode != want || want != 0 && p.Offset != -1 {
			t.Errorf("%s/%d at epoch %d: code %d, offset %d; want code %d", topic, number, epoch, p.ErrorCode, p.Offset, want)
		}
	}
	f("t", 0, -1, 0)
	f("t", 0, 7, 0)
	f("t", 0, 6, codeFencedLeaderEpoch)
	f("t", 0, 8, codeUnknownLeaderEpoch)
	f("t", 1, -1, codeUnknownTopicOrPartition)
	f("t", -1, -1, codeUnknownTopicOrPartition)
	f("missing", 0, -1, codeUnknownTopicOrPartition)
	f("not legal!", 0, -1, codeUnknownTopicOrPartition)
	d.fake.setFail(queen.ErrUnavailable)
	f("t", 0, -1, codeNotLeaderOrFollower)
}

// O17: the current epoch ends at the log end; one that never was is unknown.
func TestOffsetForLeaderEpoch(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	for range 10 {
		d.put("t", 0, "x")
	}
	f := func(topic string, number, current, epoch int32, want string) {
		t.Helper()
		for version := int16(2); version <= 4; version++ {
			req := at(kmsg.NewPtrOffsetForLeaderEpochRequest(), version)
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
				{Partition: number, CurrentLeaderEpoch: current, LeaderEpoch: epoch},
			}}}
			p := ask[*kmsg.OffsetForLeaderEpochResponse](c, req).Topics[0].Partitions[0]
			if got := fmt.Sprint(p.ErrorCode, " ", p.LeaderEpoch, " ", p.EndOffset); got != want {
				t.Errorf("v%d, %s/%d, epoch %d of %d: %s, want %s", version, topic, number, epoch, current, got, want)
			}
		}
	}
	f("t", 0, -1, 7, "0 7 10")
	f("t", 0, 7, 7, "0 7 10")
	f("t", 0, -1, 8, "0 -1 -1")
	f("t", 0, -1, 6, "0 -1 -1")
	f("t", 0, -1, -1, "0 -1 -1")
	f("t", 0, 6, 7, "74 -1 -1")
	f("t", 0, 8, 7, "75 -1 -1")
	f("t", 5, -1, 7, "3 -1 -1")
	f("missing", 0, -1, 7, "3 -1 -1")
	f("not legal!", 0, -1, 7, "3 -1 -1")
}
