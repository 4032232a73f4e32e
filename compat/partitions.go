package compat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var partitionCases = []Case{
	{"partitions/create", createPartitions},
	{"partitions/create-refusals", createPartitionsRefusals},
	{"records/delete", deleteRecords},
	{"groups/list-with-filters", listGroups},
	{"groups/delete", deleteGroups},
	{"offsets/delete", deleteOffsets},
}

func (w *wire) widen(version int16, validate bool, topic string, count int32, replicas ...[]int32) int16 {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis, req.ValidateOnly = 15_000, validate
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, count
	for _, r := range replicas {
		rt.Assignment = append(rt.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
	}
	req.Topics = append(req.Topics, rt)
	r := ask[*kmsg.CreatePartitionsResponse](w, req, version)
	if len(r.Topics) != 1 {
		w.t.Fatalf("CreatePartitions of one topic answered %d", len(r.Topics))
	}
	return r.Topics[0].ErrorCode
}

func createPartitions(_ context.Context, t *T) {
	tp := t.topic(1)
	t.produceTo(tp, 0, "before")
	w := t.control()
	offered, _ := t.offers(kmsg.CreatePartitions)
	n := int32(1)
	for v := offered.min; v <= t.max(kmsg.CreatePartitions, newest); v++ {
		n++
		t.wantCode(fmt.Sprintf("validate v%d", v), w.widen(v, true, tp.name, n), 0)
		t.wantCode(fmt.Sprintf("create v%d", v), w.widen(v, false, tp.name, n), 0)
	}
	if again := t.await(tp.name, int(n)); again.id != tp.id {
		t.Errorf("the topic has another id")
	}
	for p := range n {
		t.produceTo(tp, p, "after")
	}
	t.wantStored(tp, 0, 2)
	t.wantStored(tp, n-1, 1)
}

// produceTo stores one record.
func (t *T) produceTo(tp topic, partition int32, value string) {
	w := t.dialTo(t.leader(tp.name, partition))
	got := w.produce(tp, t.max(kmsg.Produce, newest), -1, part{partition, values(value).encode()})
	t.wantCode("produce", got[0].ErrorCode, 0)
}

func createPartitionsRefusals(_ context.Context, t *T) {
	tp := t.topic(2)
	w := t.control()
	v := t.max(kmsg.CreatePartitions, newest)
	for _, validate := range []bool{true, false} {
		t.wantCode("as many as there are", w.widen(v, validate, tp.name, 2), kerr.InvalidPartitions.Code)
		t.wantCode("fewer", w.widen(v, validate, tp.name, 1), kerr.InvalidPartitions.Code)
		t.wantCode("none", w.widen(v, validate, tp.name, 0), kerr.InvalidPartitions.Code)
		t.wantCode("a topic nobody has", w.widen(v, validate, t.name("compat-missing"), 2), kerr.UnknownTopicOrPartition.Code)
		t.wantCode("two added, one assigned", w.widen(v, validate, tp.name, 4, []int32{1}), kerr.InvalidReplicaAssignment.Code)
		t.wantCode("assigned to a broker nobody is", w.widen(v, validate, tp.name, 3, []int32{9999}), kerr.InvalidReplicaAssignment.Code)
		t.wantCode("assigned to nobody", w.widen(v, validate, tp.name, 3, []int32{}), kerr.InvalidReplicaAssignment.Code)
	}
	t.await(tp.name, 2)
}

func deleteRecords(_ context.Context, t *T) {
	tp := t.topic(1)
	for range 10 {
		t.produceTo(tp, 0, "x")
	}
	w := t.dialTo(t.leader(tp.name, 0))
	offered, _ := t.offers(kmsg.DeleteRecords)
	for v := offered.min; v <= t.max(kmsg.DeleteRecords, newest); v++ {
		f := func(what, topic string, partition int32, before int64, code int16, low int64) {
			got := w.deleteRecords(topic, v, partition, before)
			t.wantCode(fmt.Sprintf("%s v%d", what, v), got.ErrorCode, code)
			if got.LowWatermark != low {
				t.Errorf("%s v%d: low watermark %d, want %d", what, v, got.LowWatermark, low)
			}
		}
		at := int64(v) + 1
		f("some", tp.name, 0, at, 0, at)
		f("again", tp.name, 0, at, 0, at)
		f("fewer", tp.name, 0, 0, 0, at)
		f("beyond the end", tp.name, 0, 11, kerr.OffsetOutOfRange.Code, -1)
		f("a partition nobody has", tp.name, 7, 1, kerr.UnknownTopicOrPartition.Code, -1)
		f("a topic nobody has", t.name("compat-missing"), 0, 1, kerr.UnknownTopicOrPartition.Code, -1)
		fv := t.max(kmsg.Fetch, newest)
		t.wantCode("fetch below", w.fetch(tp, fv, fetchSpec{maxBytes: 1 << 20, offset: at - 1}, 0).ErrorCode, kerr.OffsetOutOfRange.Code)
		got := w.fetch(tp, fv, fetchSpec{maxBytes: 1 << 20, offset: at}, 0)
		t.wantCode("fetch", got.ErrorCode, 0)
		if got.LogStartOffset != at || got.HighWatermark != 10 {
			t.Errorf("fetch: log start %d, high watermark %d, want %d and 10", got.LogStartOffset, got.HighWatermark, at)
		}
		if v == t.max(kmsg.DeleteRecords, newest) {
			f("all", tp.name, 0, -1, 0, 10)
		}
	}
	starts, err := t.adm().ListStartOffsets(t.ctx, tp.name)
	t.must(err, "list start offsets")
	if o, _ := starts.Lookup(tp.name, 0); o.Offset != 10 {
		t.Errorf("the log starts at %d, want 10", o.Offset)
	}
	t.produceTo(tp, 0, "y")
	t.wantStored(tp, 0, 11)
}

// commitAs stores a position for a group nobody is in.
func (t *T) commitAs(group string, topics ...string) {
	position := make(kadm.Offsets)
	for _, name := range topics {
		position.AddOffset(name, 0, 1, -1)
	}
	t.coordinator(group)
	t.must(t.adm().CommitAllOffsets(t.ctx, group, position), "commit")
}

// joined brings a consumer into a group and waits until it is stable.
func (t *T) joined(group, topic string) {
	t.coordinator(group)
	cl := t.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()))
	go cl.PollFetches(t.ctx)
	t.until(group+" is stable", func() bool {
		d, err := t.adm().DescribeGroups(t.ctx, group)
		return err == nil && d[group].State == "Stable"
	})
}

func listGroups(_ context.Context, t *T) {
	tp := t.topic(1)
	empty, stable := t.group(), t.group()
	t.commitAs(empty, tp.name)
	t.joined(stable, tp.name)
	offered, _ := t.offers(kmsg.ListGroups)
	w := t.dialTo(t.coordinator(stable))
	for v := offered.min; v <= t.max(kmsg.ListGroups, newest); v++ {
		list := func(states, types []string) map[string]kmsg.ListGroupsResponseGroup {
			req := kmsg.NewPtrListGroupsRequest()
			req.StatesFilter, req.TypesFilter = states, types
			r := ask[*kmsg.ListGroupsResponse](w, req, v)
			t.wantCode("list", r.ErrorCode, 0)
			out := make(map[string]kmsg.ListGroupsResponseGroup)
			for _, g := range r.Groups {
				if g.Group == empty || g.Group == stable {
					out[g.Group] = g
				}
			}
			return out
		}
		all := list(nil, nil)
		if len(all) != 2 || all[stable].ProtocolType != "consumer" {
			t.Errorf("v%d: %+v, want both groups", v, all)
		}
		if v >= 4 {
			if all[empty].GroupState != "Empty" || all[stable].GroupState != "Stable" {
				t.Errorf("v%d: %+v", v, all)
			}
			for state, want := range map[string]string{"Empty": empty, "Stable": stable, "stable": stable} {
				if got := list([]string{state}, nil); len(got) != 1 || got[want].Group != want {
					t.Errorf("v%d: in state %s are %+v", v, state, got)
				}
			}
			if got := list([]string{"Dead"}, nil); len(got) != 0 {
				t.Errorf("v%d: in state Dead are %+v", v, got)
			}
		}
		if v >= 5 {
			if all[empty].GroupType != "classic" || all[stable].GroupType != "classic" {
				t.Errorf("v%d: %+v", v, all)
			}
			if got := list(nil, []string{"Classic"}); len(got) != 2 {
				t.Errorf("v%d: of type classic are %+v", v, got)
			}
			if got := list(nil, []string{"consumer"}); len(got) != 0 {
				t.Errorf("v%d: of type consumer are %+v", v, got)
			}
		}
	}
}

func deleteGroups(_ context.Context, t *T) {
	tp := t.topic(1)
	stable := t.group()
	t.joined(stable, tp.name)
	offered, _ := t.offers(kmsg.DeleteGroups)
	w := t.dialTo(t.coordinator(stable))
	for v := offered.min; v <= min(t.max(kmsg.DeleteGroups, newest), 2); v++ {
		empty, missing := t.group(), t.group()
		t.commitAs(empty, tp.name)
		t.coordinator(missing)
		del := func() string {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{empty, stable, missing, ""}
			var got []string
			for _, g := range ask[*kmsg.DeleteGroupsResponse](w, req, v).Groups {
				got = append(got, fmt.Sprint(g.Group, " ", g.ErrorCode))
			}
			slices.Sort(got)
			return strings.Join(got, ", ")
		}
		line := func(codes ...int) string {
			want := []string{fmt.Sprint(empty, " ", codes[0]), stable + " 68", missing + " 69", " 69"}
			slices.Sort(want)
			return strings.Join(want, ", ")
		}
		if got, want := del(), line(0); got != want {
			t.Errorf("v%d: %s, want %s", v, got, want)
		}
		if got, want := del(), line(69); got != want {
			t.Errorf("v%d again: %s, want %s", v, got, want)
		}
		if c := w.committed(empty, tp, t.max(kmsg.OffsetFetch, newest)); c.groupCode != 0 || c.offset != -1 {
			t.Errorf("v%d: the deleted group's position is %+v, want -1", v, c)
		}
	}
}

func deleteOffsets(_ context.Context, t *T) {
	tp, other := t.topic(1), t.topic(1)
	missing := t.name("compat-missing")
	del := func(group string) (int16, map[string]int16) {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		for _, name := range []string{tp.name, other.name, missing} {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = name
			rt.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
			req.Topics = append(req.Topics, rt)
		}
		r := ask[*kmsg.OffsetDeleteResponse](t.dialTo(t.coordinator(group)), req, 0)
		codes := make(map[string]int16)
		for _, rt := range r.Topics {
			codes[rt.Topic] = rt.Partitions[0].ErrorCode
		}
		return r.ErrorCode, codes
	}
	simple := t.group()
	t.commitAs(simple, tp.name, other.name)
	code, codes := del(simple)
	t.wantCode("of a group without members", code, 0)
	t.wantCode("a position", codes[tp.name], 0)
	t.wantCode("another", codes[other.name], 0)
	t.wantCode("in a topic nobody has", codes[missing], kerr.UnknownTopicOrPartition.Code)
	code, _ = del(t.group())
	t.wantCode("of a group there is not", code, kerr.GroupIDNotFound.Code)
	stable := t.group()
	t.joined(stable, tp.name)
	code, codes = del(stable)
	t.wantCode("of a consumer group", code, 0)
	t.wantCode("in a topic it subscribes to", codes[tp.name], kerr.GroupSubscribedToTopic.Code)
	t.wantCode("in one that it does not", codes[other.name], 0)
}
