package compat

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var inspectCases = []Case{
	{"inspect/topic-partitions-in-pages", describesPartitions},
	{"inspect/log-dirs", describesLogDirs},
	{"inspect/producers", describesProducers},
	{"inspect/no-election-is-needed", noElection},
	{"inspect/reassignments", reassignments},
}

func describesPartitions(_ context.Context, t *T) {
	first, second := t.topic(3), t.topic(2)
	if second.name < first.name {
		first, second = second, first
	}
	n := map[string]int{first.name: len(t.partitionsOf(first)), second.name: len(t.partitionsOf(second))}
	w := t.dial()
	v := t.max(kmsg.DescribeTopicPartitions, newest)
	page := func(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics ...string) (*kmsg.DescribeTopicPartitionsResponse, []string) {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, name := range topics {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		r := ask[*kmsg.DescribeTopicPartitionsResponse](w, req, v)
		var got []string
		for _, rt := range r.Topics {
			if rt.ErrorCode == 0 && (rt.TopicID != first.id && rt.TopicID != second.id || rt.AuthorizedOperations == -2147483648) {
				t.Errorf("topic %s: id %x, operations %d", *rt.Topic, rt.TopicID, rt.AuthorizedOperations)
			}
			for _, p := range rt.Partitions {
				t.wantCode("partition", p.ErrorCode, 0)
				if len(p.Replicas) == 0 || !slices.Contains(p.ISR, p.LeaderID) || p.LeaderEpoch < 0 {
					t.Errorf("%s/%d: %+v", *rt.Topic, p.Partition, p)
				}
				got = append(got, fmt.Sprintf("%s/%d", *rt.Topic, p.Partition))
			}
		}
		return r, got
	}
	var want []string
	for _, tp := range []topic{first, second} {
		for p := range n[tp.name] {
			want = append(want, fmt.Sprintf("%s/%d", tp.name, p))
		}
	}
	// Topics come by name, whatever the order asked, a few partitions at a time.
	var all []string
	var cursor *kmsg.DescribeTopicPartitionsRequestCursor
	for pages := 0; ; pages++ {
		r, got := page(2, cursor, second.name, first.name)
		if all = append(all, got...); len(got) > 2 || pages > 5 {
			t.Fatalf("page %d of two partitions: %v", pages, got)
		}
		if r.NextCursor == nil {
			break
		}
		cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: r.NextCursor.Topic, Partition: r.NextCursor.Partition}
	}
	if !slices.Equal(all, want) {
		t.Errorf("the pages have %v, want %v", all, want)
	}
	missing := t.name("compat-missing")
	r, _ := page(100, nil, missing)
	if len(r.Topics) != 1 {
		t.Fatalf("a topic nobody has is answered %d times", len(r.Topics))
	}
	t.wantCode("a topic nobody has", r.Topics[0].ErrorCode, kerr.UnknownTopicOrPartition.Code)
}

// partitionsOf lists a topic's partitions.
func (t *T) partitionsOf(tp topic) []int32 {
	md, err := t.adm().Metadata(t.ctx, tp.name)
	t.must(err, "metadata")
	var ps []int32
	for p := range md.Topics[tp.name].Partitions {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}

func describesLogDirs(_ context.Context, t *T) {
	tp := t.topic(2)
	w := t.dialTo(t.leader(tp.name, 0))
	offered, _ := t.offers(kmsg.DescribeLogDirs)
	size := func(v int16) int64 {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = tp.name, []int32{0}
		req.Topics = append(req.Topics, rt)
		r := ask[*kmsg.DescribeLogDirsResponse](w, req, v)
		t.wantCode("describe log dirs", r.ErrorCode, 0)
		found := int64(-1)
		for _, d := range r.Dirs {
			t.wantCode("dir "+d.Dir, d.ErrorCode, 0)
			if d.Dir == "" {
				t.Errorf("v%d: a dir without a name", v)
			}
			for _, rt := range d.Topics {
				for _, p := range rt.Partitions {
					if rt.Topic != tp.name || p.Partition != 0 || p.OffsetLag != 0 || p.IsFuture || found >= 0 {
						t.Errorf("v%d: %s/%d: %+v", v, rt.Topic, p.Partition, p)
					}
					found = p.Size
				}
			}
		}
		return found
	}
	last := int64(0)
	for v := max(offered.min, 1); v <= t.max(kmsg.DescribeLogDirs, newest); v++ {
		b := values("some", "more").encode()
		t.wantCode("produce", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, b})[0].ErrorCode, 0)
		now := size(v)
		if now != last+int64(len(b)) {
			t.Errorf("v%d: %d bytes, want %d and a batch of %d", v, now, last, len(b))
		}
		last = now
	}
}

func describesProducers(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.DescribeProducers, newest)
	id, epoch := t.newProducer(w)
	for seq := range int32(3) {
		t.wantCode("produce", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("a").from(id, epoch, seq).encode()})[0].ErrorCode, 0)
	}
	t.wantCode("produce without an id", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, values("a").encode()})[0].ErrorCode, 0)
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, name := range []string{tp.name, t.name("compat-missing")} {
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = name, []int32{0}
		req.Topics = append(req.Topics, rt)
	}
	for _, rt := range ask[*kmsg.DescribeProducersResponse](w, req, v).Topics {
		p := rt.Partitions[0]
		if rt.Topic != tp.name {
			t.wantCode("a topic nobody has", p.ErrorCode, kerr.UnknownTopicOrPartition.Code)
			continue
		}
		t.wantCode("producers", p.ErrorCode, 0)
		if len(p.ActiveProducers) != 1 {
			t.Fatalf("%d producers, want the idempotent one", len(p.ActiveProducers))
		}
		a := p.ActiveProducers[0]
		if a.ProducerID != id || a.ProducerEpoch != int32(epoch) || a.LastSequence != 2 || a.CurrentTxnStartOffset != -1 || a.LastTimestamp <= 0 {
			t.Errorf("producer %d with epoch %d is told as %+v", id, epoch, a)
		}
	}
}

func noElection(_ context.Context, t *T) {
	tp := t.topic(2)
	w := t.control()
	offered, _ := t.offers(kmsg.ElectLeaders)
	for v := offered.min; v <= t.max(kmsg.ElectLeaders, newest); v++ {
		req := kmsg.NewPtrElectLeadersRequest()
		req.TimeoutMillis = 15_000
		rt := kmsg.NewElectLeadersRequestTopic()
		rt.Topic, rt.Partitions = tp.name, []int32{0, 1, 99}
		req.Topics = append(req.Topics, rt)
		r := ask[*kmsg.ElectLeadersResponse](w, req, v)
		t.wantCode(fmt.Sprintf("v%d", v), r.ErrorCode, 0)
		if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 3 {
			t.Fatalf("v%d: three partitions asked: %+v", v, r.Topics)
		}
		for _, p := range r.Topics[0].Partitions {
			want := kerr.ElectionNotNeeded.Code
			if p.Partition == 99 {
				want = kerr.UnknownTopicOrPartition.Code
			}
			t.wantCode(fmt.Sprintf("v%d partition %d", v, p.Partition), p.ErrorCode, want)
		}
	}
}

// reassignments: a partition may be assigned to who has it already, and there is
// nothing to be cancelled.
func reassignments(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.control()
	md, err := t.adm().Metadata(t.ctx, tp.name)
	t.must(err, "metadata")
	now := md.Topics[tp.name].Partitions[0].Replicas
	offered, _ := t.offers(kmsg.AlterPartitionAssignments)
	assign := func(v int16, topic string, partition int32, replicas []int32) int16 {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis, req.AllowReplicationFactorChange = 15_000, true
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic = topic
		rt.Partitions = []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}
		req.Topics = append(req.Topics, rt)
		r := ask[*kmsg.AlterPartitionAssignmentsResponse](w, req, v)
		t.wantCode("alter", r.ErrorCode, 0)
		return r.Topics[0].Partitions[0].ErrorCode
	}
	for v := offered.min; v <= t.max(kmsg.AlterPartitionAssignments, newest); v++ {
		t.wantCode("to whom it has", assign(v, tp.name, 0, now), 0)
		t.wantCode("cancel none", assign(v, tp.name, 0, nil), kerr.NoReassignmentInProgress.Code)
		t.wantCode("to nobody", assign(v, tp.name, 0, []int32{}), kerr.InvalidReplicaAssignment.Code)
		t.wantCode("to one twice", assign(v, tp.name, 0, []int32{now[0], now[0]}), kerr.InvalidReplicaAssignment.Code)
		t.wantCode("to a broker nobody is", assign(v, tp.name, 0, []int32{9999}), kerr.InvalidReplicaAssignment.Code)
		t.wantCode("a partition there is not", assign(v, tp.name, 9, now), kerr.UnknownTopicOrPartition.Code)
		t.wantCode("a topic nobody has", assign(v, t.name("compat-missing"), 0, now), kerr.UnknownTopicOrPartition.Code)
	}
	list := kmsg.NewPtrListPartitionReassignmentsRequest()
	list.TimeoutMillis = 15_000
	rt := kmsg.NewListPartitionReassignmentsRequestTopic()
	rt.Topic, rt.Partitions = tp.name, []int32{0}
	list.Topics = append(list.Topics, rt)
	r := ask[*kmsg.ListPartitionReassignmentsResponse](w, list, t.max(kmsg.ListPartitionReassignments, newest))
	t.wantCode("list", r.ErrorCode, 0)
	if len(r.Topics) != 0 {
		t.Errorf("reassignments are under way: %+v", r.Topics)
	}
}
