package kafkawire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeTopicPartitionsInPages(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.PartitionsMax = 100 })
	d.fake.topic("b", 5)
	d.fake.topic("a", 3)
	d.fake.topic("two words", 1)
	d.fake.topic("wide", 1)
	d.fake.queues["wide"].Partitions = 101
	c := d.dial()
	page := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics ...string) (got []string, next string) {
		t.Helper()
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, name := range topics {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, req)
		for _, rt := range resp.Topics {
			if rt.ErrorCode != 0 {
				got = append(got, fmt.Sprintf("%s!%d", *rt.Topic, rt.ErrorCode))
			}
			for _, p := range rt.Partitions {
				if p.LeaderID != 1 || !slices.Equal(p.Replicas, []int32{1}) || !slices.Equal(p.ISR, []int32{1}) || p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil || rt.AuthorizedOperations != topicOperations {
					t.Errorf("%+v", p)
				}
				got = append(got, fmt.Sprintf("%s/%d", *rt.Topic, p.Partition))
			}
		}
		if resp.NextCursor != nil {
			next = fmt.Sprintf("%s/%d", resp.NextCursor.Topic, resp.NextCursor.Partition)
		}
		return got, next
	}
	f := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics []string, next string, want ...string) {
		t.Helper()
		if got, n := page(limit, cursor, topics...); !slices.Equal(got, want) || n != next {
			t.Errorf("%d of %v from %v: %v and next %q, want %v and %q", limit, topics, cursor, got, n, want, next)
		}
	}
	at := func(topic string, p int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: p}
	}
	f(2000, nil, nil, "", "a/0", "a/1", "a/2", "b/0", "b/1", "b/2", "b/3", "b/4", "wide!17")
	f(2, nil, nil, "a/2", "a/0", "a/1")
	f(2, at("a", 2), nil, "b/1", "a/2", "b/0")
	f(3, nil, nil, "b/0", "a/0", "a/1", "a/2")
	f(10, at("b", 1), nil, "", "b/1", "b/2", "b/3", "b/4", "wide!17")
	f(10, at("aa", 0), nil, "", "b/0", "b/1", "b/2", "b/3", "b/4", "wide!17")
	f(-1, at("b", 4), []string{"b"}, "", "b/4")
	f(10, at("b", 99), []string{"b"}, "")
	f(10, at("b", 99), []string{"absent", "b", "zzz"}, "", "zzz!3")
	f(10, nil, []string{"b", "a", "absent", "two words", "a"}, "", "a/0", "a/1", "a/2", "absent!3", "b/0", "b/1", "b/2", "b/3", "b/4", "two words!17")
	f(10, at("a", -1), []string{"a"}, "", "a!42")
}
