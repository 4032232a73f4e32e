package kafkawire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// Positions outlive their group's last member by the retention, not their commit;
// those in topics that nobody in it reads any more do not.
func TestPositionsExpireAfterTheGroupIsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const retention = time.Hour
		d := open(t, func(c *Config) { c.Groups.OffsetsRetention = retention })
		d.fake.topic("t", 1)
		d.fake.topic("u", 1)
		c := d.dial()
		join := joinGroup(3, "g", "")
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics = []string{"t"}
		join.Protocols[0].Metadata = meta.AppendTo(nil)
		join.SessionTimeoutMillis = int32((20 * time.Minute).Milliseconds())
		member := ask[*kmsg.JoinGroupResponse](c, join)
		c.want("SyncGroup", ask[*kmsg.SyncGroupResponse](c, syncGroup(5, "g", member.MemberID, 1, member.MemberID)).ErrorCode, codeNone)
		commit := func(topic string) {
			t.Helper()
			r := offsetCommit(8, "g", topic, 0, 1)
			r.MemberID, r.Generation = member.MemberID, 1
			c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, r)).ErrorCode, codeNone)
		}
		simple := func() {
			t.Helper()
			c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(8, "simple", "t", 0, 1))).ErrorCode, codeNone)
		}
		have := func(when, group string, topics ...string) {
			t.Helper()
			got, err := d.fake.FetchOffsets(context.Background(), group, nil)
			var names []string
			for _, cursor := range got {
				names = append(names, cursor.Partition.Queue.Name)
			}
			if err != nil || len(names) != len(topics) {
				t.Errorf("%s, %q has positions in %q, %v; want %q", when, group, names, err, topics)
				return
			}
			for i := range names {
				if names[i] != topics[i] {
					t.Errorf("%s, %q has positions in %q, want %q", when, group, names, topics)
				}
			}
		}
		commit("t")
		commit("u")
		simple()
		for range 16 {
			<-time.After(5 * time.Minute)
			c.want("Heartbeat", ask[*kmsg.HeartbeatResponse](c, beat("g", member.MemberID, 1)).ErrorCode, codeNone)
		}
		have("after 80 minutes", "g", "t")
		have("after 80 minutes", "simple")
		simple()
		c.want("LeaveGroup", ask[*kmsg.LeaveGroupResponse](c, leaveGroup("g", member.MemberID)).ErrorCode, codeNone)
		<-time.After(55 * time.Minute)
		have("within the retention", "g", "t")
		have("within the retention", "simple", "t")
		// Another broker's are its own business.
		d.fake.setCoordinator(2)
		<-time.After(2 * retention)
		have("while another coordinates", "g", "t")
		d.fake.setCoordinator(1)
		<-time.After(retention / 5)
		have("after the retention", "g")
		have("after the retention", "simple")
	})
}

// A broker that starts gives members the time to come back first.
func TestPositionsDoNotExpireAtTheStart(t *testing.T) {
	t.Parallel()
	for retention, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, time.Minute: 6 * time.Second, 7 * 24 * time.Hour: 10 * time.Minute,
	} {
		if got := (GroupConfig{OffsetsRetention: retention}).expiryEvery(); got != want {
			t.Errorf("with %v they are looked through every %v, want %v", retention, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		d.fake.mu.Lock()
		d.fake.cursors["g"] = map[string]queen.Cursor{"1/0": {Partition: queen.PartitionRef{Queue: queen.QueueRef{Name: "t"}}}}
		d.fake.mu.Unlock()
		have := func() int {
			got, _ := d.fake.FetchOffsets(context.Background(), "g", nil)
			return len(got)
		}
		<-time.After(10*time.Minute - time.Second)
		if have() != 1 {
			t.Error("a position of long ago was deleted at once")
		}
		<-time.After(2 * time.Second)
		if have() != 0 {
			t.Error("a position of long ago is kept")
		}
	})
}
