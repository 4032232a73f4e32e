package kafkawire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listed asks for groups as "name state protocol".
func listed(c *client, version int16, states, types []string) []string {
	c.t.Helper()
	req := at(kmsg.NewPtrListGroupsRequest(), version)
	req.StatesFilter, req.TypesFilter = states, types
	r := ask[*kmsg.ListGroupsResponse](c, req)
	c.want("ListGroups", r.ErrorCode, codeNone)
	var out []string
	for _, g := range r.Groups {
		out = append(out, strings.TrimSpace(fmt.Sprint(g.Group, " ", g.GroupState, " ", g.GroupType, " ", g.ProtocolType)))
	}
	return out
}

func TestListGroups(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	c.want("commit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(8, "simple", "t", 0, 1))).ErrorCode, codeNone)
	c.leads("stable")
	c.joins(9, "joining")
	f := func(version int16, states, types []string, want ...string) {
		t.Helper()
		if got := listed(c, version, states, types); !slices.Equal(got, want) {
			t.Errorf("version %d, %q, %q: %q, want %q", version, states, types, got, want)
		}
	}
	for version := int16(0); version <= 3; version++ {
		f(version, nil, nil, "joining   consumer", "simple", "stable   consumer")
	}
	f(4, nil, nil, "joining CompletingRebalance  consumer", "simple Empty", "stable Stable  consumer")
	joining, simple, stable := "joining CompletingRebalance classic consumer", "simple Empty classic", "stable Stable classic consumer"
	f(5, nil, nil, joining, simple, stable)
	f(5, []string{"stable", "EMPTY"}, nil, simple, stable)
	f(5, []string{"Dead"}, nil)
	f(5, []string{"nonsense"}, nil)
	f(5, nil, []string{"Classic", "consumer"}, joining, simple, stable)
	f(5, nil, []string{"consumer"})
	d.twoBrokers()
	d.fake.setCoordinator(2)
	f(5, nil, nil) // another broker has them
}

func TestDeleteGroups(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	for version := int16(0); version <= 2; version++ {
		c.want("commit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(8, "simple", "t", 0, 1))).ErrorCode, codeNone)
		if version == 0 {
			c.leads("stable")
		}
		req := at(kmsg.NewPtrDeleteGroupsRequest(), version)
		req.Groups = []string{"simple", "stable", "absent", "", "simple"}
		var got []string
		for _, g := range ask[*kmsg.DeleteGroupsResponse](c, req).Groups {
			got = append(got, fmt.Sprint(g.Group, " ", g.ErrorCode))
		}
		if want := []string{"simple 0", "stable 68", "absent 69", " 69"}; !slices.Equal(got, want) {
			t.Errorf("version %d: %q, want %q", version, got, want)
		}
		if got := listed(c, 5, nil, nil); !slices.Equal(got, []string{"stable Stable classic consumer"}) {
			t.Errorf("version %d: left are %q", version, got)
		}
	}
}

func TestOffsetDelete(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 2)
	d.fake.topic("other", 1)
	c := d.dial()
	commit := func(group, topic string, generation int32, member string) {
		t.Helper()
		req := offsetCommit(8, group, topic, 0, 1)
		req.Generation, req.MemberID = generation, member
		c.want("commit", committed(ask[*kmsg.OffsetCommitResponse](c, req)).ErrorCode, codeNone)
	}
	f := func(group string, code int16, want ...string) {
		t.Helper()
		req := at(kmsg.NewPtrOffsetDeleteRequest(), 0)
		req.Group = group
		for _, topic := range []string{"t", "other", "absent"} {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = topic
			rt.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}
			req.Topics = append(req.Topics, rt)
		}
		r := ask[*kmsg.OffsetDeleteResponse](c, req)
		var got []string
		for _, rt := range r.Topics {
			got = append(got, fmt.Sprint(rt.Topic, " ", rt.Partitions[0].ErrorCode))
		}
		if r.ErrorCode != code || !slices.Equal(got, want) {
			t.Errorf("%s: code %d, %q; want %d, %q", group, r.ErrorCode, got, code, want)
		}
	}
	f("absent", 69)
	f("", 24)
	commit("simple", "t", -1, "")
	commit("simple", "other", -1, "")
	f("simple", 0, "t 0", "other 0", "absent 3")
	f("simple", 69) // nothing is left of it
	// The members of a consumer group say what they read.
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"t"}
	join := joinGroup(9, "readers", "")
	join.Protocols[0].Metadata = meta.AppendTo(nil)
	join.MemberID = ask[*kmsg.JoinGroupResponse](c, join).MemberID
	r := ask[*kmsg.JoinGroupResponse](c, join)
	c.want("SyncGroup", ask[*kmsg.SyncGroupResponse](c, syncGroup(5, "readers", r.MemberID, r.Generation, r.MemberID)).ErrorCode, codeNone)
	commit("readers", "t", r.Generation, r.MemberID)
	commit("readers", "other", r.Generation, r.MemberID)
	f("readers", 0, "t 86", "other 0", "absent 3")
	if got, _ := d.fake.FetchOffsets(t.Context(), "readers", nil); len(got) != 1 || got[0].Partition.Queue.Name != "t" {
		t.Errorf("left are %+v, want the position in t", got)
	}
	// Metadata that cannot be read might name any topic.
	c.leads("opaque")
	f("opaque", 68)
}

func TestSubscribedTopicsAreReadAsFarAsTheyAreThere(t *testing.T) {
	t.Parallel()
	meta := kmsg.NewConsumerMemberMetadata()
	for version := range int16(4) {
		meta.Version, meta.Topics, meta.UserData = version, []string{"a", "", "long.name"}, []byte("data")
		meta.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "a", Partitions: []int32{1, 2}}}
		if names, ok := subscribedTopics(meta.AppendTo(nil)); !ok || !slices.Equal(names, meta.Topics) {
			t.Errorf("version %d: %q, %v, want %q", version, names, ok, meta.Topics)
		}
	}
	meta = kmsg.NewConsumerMemberMetadata()
	if names, ok := subscribedTopics(meta.AppendTo(nil)); !ok || len(names) != 0 {
		t.Errorf("no topics: %q, %v", names, ok)
	}
	for what, bad := range map[string][]byte{
		"nothing":       {},
		"no topics":     {0, 1},
		"a lying count": {0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 1, 'a'},
		"a lying name":  {0, 1, 0, 0, 0, 1, 0, 2, 'a'},
	} {
		if names, ok := subscribedTopics(bad); ok {
			t.Errorf("%s: %q, want nothing", what, names)
		}
	}
}
