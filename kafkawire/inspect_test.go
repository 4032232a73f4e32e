package kafkawire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func TestDescribeLogDirsTellsWhatThisBrokerLeads(t *testing.T) {
	t.Parallel()
	d := open(t)
	a, b := d.fake.topic("a", 40), d.fake.topic("b", 1)
	d.fake.topic("two words", 1)
	d.fake.setBrokers(queen.Broker{ID: 1, Host: "h", Port: 1}, queen.Broker{ID: 2, Host: "h", Port: 2})
	d.fake.queues["a"].logs[7].end = 5
	c := d.dial()
	live := d.fake.Cluster().Brokers
	var want []string
	for _, q := range []queen.Queue{a, b} {
		for n := range int32(q.Partitions) {
			if leader(q.TopicID, n, live) == 1 {
				size := 0
				if q.Name == "a" && n == 7 {
					size = 50
				}
				want = append(want, fmt.Sprintf("%s/%d:%d", q.Name, n, size))
			}
		}
	}
	f := func(version int16, topics []kmsg.DescribeLogDirsRequestTopic, want []string) {
		t.Helper()
		req := at(kmsg.NewPtrDescribeLogDirsRequest(), version)
		req.Topics = topics
		resp := ask[*kmsg.DescribeLogDirsResponse](c, req)
		if resp.ErrorCode != 0 || len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 || version >= 4 && (resp.Dirs[0].TotalBytes != -1 || resp.Dirs[0].UsableBytes != -1) {
			t.Fatalf("version %d: %+v", version, resp)
		}
		var got []string
		for _, rt := range resp.Dirs[0].Topics {
			for _, p := range rt.Partitions {
				got = append(got, fmt.Sprintf("%s/%d:%d", rt.Topic, p.Partition, p.Size))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("version %d of %v: %v, want %v", version, topics, got, want)
		}
	}
	for version := int16(1); version <= 5; version++ {
		f(version, nil, want)
		f(version, []kmsg.DescribeLogDirsRequestTopic{}, nil)
	}
	all := make([]int32, 50)
	for i := range all {
		all[i] = int32(i)
	}
	f(5, []kmsg.DescribeLogDirsRequestTopic{{Topic: "absent", Partitions: []int32{0}}, {Topic: "a", Partitions: all}, {Topic: "two words", Partitions: all}},
		slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s[0] != 'a' }))
	// However often something is named, it is looked up and told once.
	f(5, []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: slices.Concat(all, all)}, {Topic: "b", Partitions: all}, {Topic: "a", Partitions: all}}, want)
}

func TestDescribeProducers(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 2)
	d.fake.queues["t"].logs[0].end = 1
	c := d.dial()
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, topic := range []string{"t", "absent", "two words", "t"} { // named again: each would cost as much again
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{0, 1, 2}
		req.Topics = append(req.Topics, rt)
	}
	resp := ask[*kmsg.DescribeProducersResponse](c, req)
	for i, want := range [][3]int16{{0, 0, 3}, {3, 3, 3}, {17, 17, 17}, {42, 42, 42}} {
		for j, p := range resp.Topics[i].Partitions {
			producers := 0
			if i == 0 && j == 0 {
				producers = 1
			}
			if p.Partition != int32(j) || p.ErrorCode != want[j] || len(p.ActiveProducers) != producers {
				t.Errorf("%s/%d: %+v, want code %d and %d producers", resp.Topics[i].Topic, j, p, want[j], producers)
			}
		}
	}
	p := resp.Topics[0].Partitions[0].ActiveProducers[0]
	if p.ProducerID != 7 || p.ProducerEpoch != 3 || p.LastSequence != 11 || p.LastTimestamp != 5 || p.CoordinatorEpoch != -1 || p.CurrentTxnStartOffset != -1 {
		t.Errorf("%+v", p)
	}
}
