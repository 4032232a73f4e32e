package kafkawire

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func offsetCommit(version int16, group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	r := at(kmsg.NewPtrOffsetCommitRequest(), version)
	r.Group, r.Generation = group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 7, kmsg.StringPtr("note")
	rt.Partitions = append(rt.Partitions, p)
	r.Topics = append(r.Topics, rt)
	return r
}

func committed(r *kmsg.OffsetCommitResponse) kmsg.OffsetCommitResponseTopicPartition {
	return r.Topics[0].Partitions[0]
}

// offsetFetch asks for partition 0 of the topics, or for all without topics.
func offsetFetch(version int16, group string, topics ...string) *kmsg.OffsetFetchRequest {
	r := at(kmsg.NewPtrOffsetFetchRequest(), version)
	r.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for _, name := range topics {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = name, []int32{0}
		r.Topics = append(r.Topics, t)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = name, []int32{0}
		g.Topics = append(g.Topics, gt)
	}
	r.Groups = append(r.Groups, g)
	return r
}

// fetchedOffset is the first position of an answer in any version.
func fetchedOffset(t *testing.T, r *kmsg.OffsetFetchResponse) (group int16, p kmsg.OffsetFetchResponseGroupTopicPartition) {
	t.Helper()
	if r.Version >= 8 {
		g := r.Groups[0]
		if len(g.Topics) == 0 {
			return g.ErrorCode, p
		}
		return g.ErrorCode, g.Topics[0].Partitions[0]
	}
	if len(r.Topics) == 0 {
		return r.ErrorCode, p
	}
	old := r.Topics[0].Partitions[0]
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = old.Partition, old.Offset, old.LeaderEpoch, old.Metadata, old.ErrorCode
	return r.ErrorCode, p
}

func TestCommittedOffsetComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		q := d.fake.topic("t", 1)
		c := d.dial()
		for version := int16(0); version <= 10; version++ {
			group := fmt.Sprintf("g%d", version)
			commit := offsetCommit(version, group, "t", 0, 40+int64(version))
			commit.Topics[0].TopicID = q.TopicID
			c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, commit)).ErrorCode, codeNone)

			fetch := offsetFetch(max(version, 1), group, "t")
			if version >= 8 {
				fetch.Groups[0].Topics[0].TopicID = q.TopicID
			}
			code, p := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](c, fetch))
			if code != codeNone || p.ErrorCode != codeNone || p.Offset != 40+int64(version) || text(p.Metadata) != "note" {
				t.Errorf("v%d: code %d, %+v", version, code, p)
			}
			if version >= 6 && p.LeaderEpoch != 7 {
				t.Errorf("v%d: leader epoch %d, want the 7 sent along", version, p.LeaderEpoch)
			}
		}
	})
}

// A client takes "none" as leave to start over, so only that may look like it.
func TestOffsetFetchTellsNoneFromAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		for version := int16(1); version < 10; version++ {
			for _, topic := range []string{"t", "unknown", "not a legal name"} {
				code, p := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](c, offsetFetch(version, "nobody", topic)))
				if code != codeNone || p.ErrorCode != codeNone || p.Offset != -1 || p.Metadata == nil || *p.Metadata != "" {
					t.Errorf("v%d, %s: code %d, %+v", version, topic, code, p)
				}
			}
			for _, err := range []error{queen.ErrUnavailable, queen.ErrOverloaded, queen.ErrTimedOut, queen.ErrOutcomeUnknown} {
				d.fake.setFail(err)
				code, p := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](c, offsetFetch(version, "g", "t")))
				d.fake.setFail(nil)
				if version == 1 {
					code = p.ErrorCode
				}
				c.want(fmt.Sprintf("v%d, %v", version, err), code, codeCoordinatorLoading)
			}
		}
		byID := offsetFetch(10, "g", "")
		byID.Groups[0].Topics[0].TopicID = uuid.UUID{1}
		_, p := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](c, byID))
		c.want("an unknown topic id", p.ErrorCode, codeUnknownTopicID)
	})
}

func TestOffsetFetchOfEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("a", 2)
		d.fake.topic("b", 1)
		c := d.dial()
		for _, p := range []struct {
			topic  string
			number int32
		}{{"a", 0}, {"a", 1}, {"b", 0}} {
			c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(8, "g", p.topic, p.number, 5))).ErrorCode, codeNone)
		}
		for version := int16(2); version <= 9; version++ {
			r := ask[*kmsg.OffsetFetchResponse](c, offsetFetch(version, "g"))
			got := len(r.Topics)
			if version >= 8 {
				got = len(r.Groups[0].Topics)
			}
			if got != 2 {
				t.Errorf("v%d: %d topics, want 2: %+v", version, got, r)
			}
		}
		// Empty is not null: nothing was asked for.
		none := offsetFetch(7, "g")
		none.Topics = []kmsg.OffsetFetchRequestTopic{}
		if r := ask[*kmsg.OffsetFetchResponse](c, none); len(r.Topics) != 0 || r.ErrorCode != codeNone {
			t.Errorf("an empty list gave %+v", r)
		}
		// Several groups, one of which has nothing and one has no legal name.
		several := offsetFetch(9, "g", "b")
		for _, name := range []string{"other", ""} {
			g := several.Groups[0]
			g.Group = name
			several.Groups = append(several.Groups, g)
		}
		r := ask[*kmsg.OffsetFetchResponse](c, several)
		if len(r.Groups) != 3 || r.Groups[0].Topics[0].Partitions[0].Offset != 5 || r.Groups[1].Topics[0].Partitions[0].Offset != -1 {
			t.Fatalf("several groups: %+v", r.Groups)
		}
		c.want("no name", r.Groups[2].ErrorCode, codeInvalidGroupID)
	})
}

func TestCommitsThatAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		f := func(what string, version int16, want int16, change func(*kmsg.OffsetCommitRequest)) {
			t.Helper()
			r := offsetCommit(version, "g", "t", 0, 1)
			change(r)
			c.want(what, committed(ask[*kmsg.OffsetCommitResponse](c, r)).ErrorCode, want)
		}
		generation := func(memberID string, gen int32) func(*kmsg.OffsetCommitRequest) {
			return func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = memberID, gen }
		}
		f("a generation of no group, before v9", 8, codeIllegalGeneration, generation("m", 1))
		f("a generation of no group", 9, codeGroupIDNotFound, generation("m", 1))
		f("of a member another coordinator had", 9, codeUnknownMemberID, generation(newMemberID("c"), 1))
		f("no partition of that number", 9, codeUnknownTopicOrPartition, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Partition = 1 })
		f("no such topic", 9, codeUnknownTopicOrPartition, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic = "unknown" })
		f("no such topic id", 10, codeUnknownTopicID, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].TopicID = uuid.UUID{1} })
		f("metadata of 4096 bytes", 9, codeNone, func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4096))
		})
		f("metadata of 4097 bytes", 9, codeOffsetMetadataTooLarge, func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
		})
		f("no name", 9, codeInvalidGroupID, func(r *kmsg.OffsetCommitRequest) { r.Group = "" })
		for _, err := range []error{queen.ErrUnavailable, queen.ErrOutcomeUnknown, queen.ErrStorageFull} {
			d.fake.setFail(err)
			f(err.Error(), 9, codeCoordinatorNotAvailable, func(*kmsg.OffsetCommitRequest) {})
			d.fake.setFail(nil)
		}

		// A group with members takes commits from them only, once they may.
		r := c.joins(9, "g")
		f("between JoinGroup and SyncGroup", 9, codeRebalanceInProgress, generation(r.MemberID, 1))
		ask[*kmsg.SyncGroupResponse](c, syncGroup(5, "g", r.MemberID, 1, r.MemberID))
		f("as a member", 9, codeNone, generation(r.MemberID, 1))
		f("of another generation", 9, codeIllegalGeneration, generation(r.MemberID, 2))
		f("as a stranger", 9, codeUnknownMemberID, generation("stranger", 1))
		f("as nobody", 9, codeUnknownMemberID, func(*kmsg.OffsetCommitRequest) {})
	})
}

// One bad partition does not keep the others from being stored, and of one
// named twice the last counts.
func TestCommitAnswersEachPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 2)
		c := d.dial()
		r := offsetCommit(9, "g", "t", 0, 1)
		for _, p := range []struct {
			number int32
			offset int64
		}{{9, 1}, {1, 3}, {0, 2}} {
			rp := r.Topics[0].Partitions[0]
			rp.Partition, rp.Offset = p.number, p.offset
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, rp)
		}
		got := ask[*kmsg.OffsetCommitResponse](c, r).Topics[0].Partitions
		for i, want := range []int16{codeNone, codeUnknownTopicOrPartition, codeNone, codeNone} {
			c.want(fmt.Sprintf("answer %d", i), got[i].ErrorCode, want)
		}
		_, p := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](c, offsetFetch(9, "g", "t")))
		if p.Offset != 2 {
			t.Errorf("offset %d, want the last one named, 2", p.Offset)
		}
	})
}

// Naming a group again must not make a short request ask for its positions each time.
func TestOffsetFetchAnswersAGroupOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("a", 1)
		c := d.dial()
		c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(8, "g", "a", 0, 5))).ErrorCode, codeNone)
		req := offsetFetch(8, "g")
		req.Groups = append(req.Groups, offsetFetch(8, "other").Groups[0], req.Groups[0], req.Groups[0])
		r := ask[*kmsg.OffsetFetchResponse](c, req)
		if len(r.Groups) != 4 || len(r.Groups[0].Topics) != 1 {
			t.Fatalf("%+v, want an answer to each, and the position in the first", r)
		}
		for i, want := range []int16{codeNone, codeNone, codeInvalidRequest, codeInvalidRequest} {
			if g := r.Groups[i]; g.ErrorCode != want || want != codeNone && len(g.Topics) != 0 {
				t.Errorf("group %d: %+v, want code %d", i, g, want)
			}
		}
	})
}
