package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// consume is a heartbeat of a member that has said everything before.
func consume(group, memberID string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r := at(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
	r.Group, r.MemberID, r.MemberEpoch = group, memberID, epoch
	return r
}

// consumes is the heartbeat of a member that joins.
func consumes(group, memberID string, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	r := consume(group, memberID, 0)
	r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 60_000, append([]string{}, topics...)
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return r
}

// owning says what the member owns.
func owning(r *kmsg.ConsumerGroupHeartbeatRequest, topic uuid.UUID, numbers ...int32) *kmsg.ConsumerGroupHeartbeatRequest {
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if len(numbers) > 0 {
		r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic, Partitions: numbers})
	}
	return r
}

// given is an assignment as text, "-" where the answer has none.
func given(r *kmsg.ConsumerGroupHeartbeatResponse) string {
	if r.Assignment == nil {
		return "-"
	}
	var s []string
	for _, t := range r.Assignment.Topics {
		s = append(s, fmt.Sprint(t.Partitions))
	}
	return strings.Join(s, " ")
}

func (c *client) beats(r *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	c.t.Helper()
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](c, r)
}

// hears checks an answer: code, epoch and assignment.
func (c *client) hears(r *kmsg.ConsumerGroupHeartbeatRequest, code int16, epoch int32, assignment string) *kmsg.ConsumerGroupHeartbeatResponse {
	c.t.Helper()
	a := c.beats(r)
	if a.ErrorCode != code || a.MemberEpoch != epoch || given(a) != assignment {
		c.t.Fatalf("code %d (%s), epoch %d, assignment %q, want %d, %d, %q",
			a.ErrorCode, text(a.ErrorMessage), a.MemberEpoch, given(a), code, epoch, assignment)
	}
	if (a.ErrorCode == codeNone) == (a.ErrorMessage != nil) {
		c.t.Fatalf("code %d with message %q", a.ErrorCode, text(a.ErrorMessage))
	}
	return a
}

func TestConsumerGroupOverTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		topic := d.fake.topic("t", 4).TopicID
		c := d.dial()
		a := c.hears(consumes("g", "m1", "t"), codeNone, 1, "[0 1 2 3]")
		if text(a.MemberID) != "m1" || a.HeartbeatIntervalMillis != 5000 {
			t.Errorf("member %q, interval %d ms", text(a.MemberID), a.HeartbeatIntervalMillis)
		}
		c.hears(consumes("g", "m2", "t"), codeNone, 2, "")
		c.hears(owning(consume("g", "m1", 1), topic, 0, 1, 2, 3), codeNone, 1, "[0 1]")
		c.hears(consume("g", "m2", 2), codeNone, 2, "-")
		c.hears(owning(consume("g", "m1", 1), topic, 0, 1), codeNone, 2, "-")
		c.hears(consume("g", "m2", 2), codeNone, 2, "[2 3]")
		d.holds(1)

		// Silence for a session, 45 s.
		<-time.After(40 * time.Second)
		c.hears(consume("g", "m1", 2), codeNone, 2, "-")
		<-time.After(10 * time.Second)
		c.hears(consume("g", "m1", 2), codeNone, 3, "[0 1 2 3]")
		c.hears(consume("g", "m2", 2), codeUnknownMemberID, 0, "-")
		c.hears(consume("g", "m1", epochLeave), codeNone, epochLeave, "-")
		d.keeps(1)
		<-time.After(11 * time.Minute)
		d.holds(0)
		c = d.dial() // the idle connection was closed
		// After that it is a group of another coordinator, or of none: who was in it joins again.
		c.hears(consume("g", "m1", 3), codeUnknownMemberID, 0, "-")
		c.hears(consume("g", "m1", epochLeave), codeGroupIDNotFound, 0, "-")
	})
}

// In v0 the coordinator makes the member id.
func TestConsumerMemberIDIsMadeInVersion0(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	a := c.hears(at(consumes("g", "", "t"), 0), codeNone, 1, "[0]")
	b := c.hears(at(consumes("g", "", "t"), 0), codeNone, 2, "")
	if text(a.MemberID) == text(b.MemberID) || uuid.Validate(text(a.MemberID)) != nil {
		t.Errorf("members %q and %q", text(a.MemberID), text(b.MemberID))
	}
	c.hears(at(consume("g", text(b.MemberID), 2), 0), codeNone, 2, "-")
}

func TestConsumerHeartbeatsThatAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	f := func(what string, want int16, change func(*kmsg.ConsumerGroupHeartbeatRequest)) {
		t.Helper()
		r := consumes("g", "m", "t")
		change(r)
		a := c.beats(r)
		c.want(what, a.ErrorCode, want)
		if text(a.ErrorMessage) == "" {
			t.Errorf("%s: no message", what)
		}
	}
	long := strings.Repeat("x", 250)
	f("no member id", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" })
	f("a long member id", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = long })
	f("no group", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" })
	f("an empty instance", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = new(string) })
	f("a long instance", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &long })
	f("an empty rack", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = new(string) })
	f("an epoch below -2", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 })
	f("away without an instance", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = epochAway })
	f("no rebalance timeout", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })
	f("no owned partitions", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })
	f("some owned partitions", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { owning(r, uuid.UUID{1}, 0) })
	f("no subscription", codeInvalidRequest, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil })
	f("no such assignor", codeUnsupportedAssignor, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = kmsg.StringPtr("sticky") })
	f("no regular expression", codeInvalidRegularExpression, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = kmsg.StringPtr("t(") })
	f("a way out of the brackets", codeInvalidRegularExpression, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = kmsg.StringPtr("t)(") })
	f("a long regular expression", codeInvalidRegularExpression, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicRegex = kmsg.StringPtr(strings.Repeat("x", regexLengthMax+1))
	})
	f("a short regular expression that repeats much", codeInvalidRegularExpression, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicRegex = kmsg.StringPtr("(" + strings.Repeat("x?", 100) + "){1000}")
	})
	d.holds(0)
	d.fake.setFail(queen.ErrUnavailable)
	f("no database", codeCoordinatorNotAvailable, func(*kmsg.ConsumerGroupHeartbeatRequest) {})
	d.fake.setFail(nil)
	d.fake.setCoordinator(2)
	a := c.beats(consumes("g", "m", "t"))
	c.want("another coordinator", a.ErrorCode, codeNotCoordinator)
}

// What is accepted is compiled to no more than it counts as, and what repeats nothing is accepted.
func TestRegularExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	f := func(regex string, allowed bool) {
		t.Helper()
		if steps, err := checkSubscription(regex); (err == nil) != allowed {
			t.Errorf("%.20q of %d bytes: %d steps, %v", regex, len(regex), steps, err)
			return
		}
		if !allowed {
			return
		}
		parsed, err := syntax.Parse(regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		steps := stepsOf(parsed)
		prog, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		runes := 0
		for _, i := range prog.Inst {
			runes += len(i.Rune)
		}
		if n := len(prog.Inst); n > steps+8 || 4*runes > steps*regexStepBytes {
			t.Errorf("%.20q is compiled to %d steps with %d runes, and counts as %d steps", regex, n, runes, steps)
		}
	}
	for _, part := range []string{"x", ".", "^", "x?", ".*", "x+?", "()", "(x)", "|", "ab|", "(?i)x", "[a-c]", "[^a-c]", `\bx`, `\d`, "(?:x|yz)?"} {
		f(strings.Repeat(part, regexLengthMax/len(part)), true)
	}
	f(`\pL+`, true)
	f(`(((x|yz){10}){10}){5}`, true)
	f(`(((x|yz){10}){10}){10}`+strings.Repeat("((x|yz)){300}", 4), false)
	f(strings.Repeat(`\pL`, 1000), false)
	for _, part := range []string{"x", ".?", "(xy)", "[abz]"} {
		for _, times := range []string{"{1000}", "{1000,}", "{0,1000}"} {
			f("("+part+")"+times, true)
			f("("+strings.Repeat(part, 20)+")"+times, false)
		}
	}
}

// A member's expression is compared with each name once, not with each heartbeat.
func TestHeartbeatsKeepWhatAnExpressionMatches(t *testing.T) {
	t.Parallel()
	topics := func(names ...string) *topicImage {
		img := &topicImage{byName: map[string]imageTopic{}, names: map[uuid.UUID]string{}}
		for _, name := range names {
			id := uuid.NewSHA1(uuid.Nil, []byte(name))
			img.byName[name], img.names[id] = imageTopic{id, 1}, name
		}
		return img
	}
	g := newConsumerGroup(modelLimits)
	regex := "t.*"
	r := &consumerHeartbeat{memberID: "m", rebalance: time.Minute, regex: &regex, knowsOwned: true}
	now := time.Unix(1000, 0)
	a := g.heartbeat(now, r, topics("t1"))
	was := g.regexes[regex]
	if a.code != codeNone || len(a.assignment) != 1 {
		t.Fatalf("%+v", a)
	}
	was.re = regexp.MustCompile("t2") // what a new name is compared with
	a = g.heartbeat(now, &consumerHeartbeat{memberID: "m", epoch: a.epoch, rebalance: -1}, topics("t1", "t2", "t3"))
	if g.regexes[regex] != was || len(a.assignment) != 2 {
		t.Errorf("made anew: %v; assigned %v, want t1, as before, and t2", g.regexes[regex] != was, a.assignment)
	}
}

// Members keep what they have while the database is away, and learn of new
// topics and partitions within a second and a heartbeat.
func TestConsumerGroupFollowsTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t1", 1)
		c := d.dial()
		join := consumes("g", "m")
		join.SubscribedTopicNames, join.SubscribedTopicRegex = nil, kmsg.StringPtr("t[0-9]")
		c.hears(join, codeNone, 1, "[0]")
		d.fake.topic("t2", 2)
		d.fake.topic("xt3", 1) // names must match whole
		c.hears(consume("g", "m", 1), codeNone, 1, "-")
		<-time.After(time.Second)
		c.hears(consume("g", "m", 1), codeNone, 2, "[0] [0 1]")
		if _, err := d.fake.AddPartitions(t.Context(), "t1", 2, false); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		d.fake.setFail(queen.ErrUnavailable)
		c.hears(consume("g", "m", 2), codeNone, 2, "-")
		d.fake.setFail(nil)
		<-time.After(time.Second)
		c.hears(consume("g", "m", 2), codeNone, 3, "[0 1] [0 1]")
		if _, err := d.fake.DeleteQueue(t.Context(), queen.QueueRef{Name: "t2"}); err != nil {
			t.Fatal(err)
		}
		// Somebody who joins sees the topics as they are now, and so does everybody after.
		c.hears(consumes("g", "m2", "t1"), codeNone, 4, "")
		c.hears(consume("g", "m", 3), codeNone, 3, "[0]")
	})
}

func TestCommitsOfConsumerGroups(t *testing.T) {
	t.Parallel()
	d := open(t)
	topic := d.fake.topic("t", 2).TopicID
	c := d.dial()
	c.hears(consumes("g", "m1", "t"), codeNone, 1, "[0 1]")
	f := func(what string, version int16, memberID string, epoch, partition int32, want int16) {
		t.Helper()
		r := offsetCommit(version, "g", "t", partition, 7)
		r.MemberID, r.Generation, r.Topics[0].TopicID = memberID, epoch, topic
		c.want(what, committed(ask[*kmsg.OffsetCommitResponse](c, r)).ErrorCode, want)
	}
	g := func(what string, memberID *string, epoch int32, want int16) {
		t.Helper()
		r := offsetFetch(9, "g", "t")
		r.Groups[0].MemberID, r.Groups[0].MemberEpoch = memberID, epoch
		code, _ := fetchedOffset(t, ask[*kmsg.OffsetFetchResponse](c, r))
		c.want(what, code, want)
	}
	m1, nobody := "m1", "nobody"
	f("a member", 9, m1, 1, 0, codeNone)
	f("by topic id", 10, m1, 1, 0, codeNone)
	f("before the protocol", 8, m1, 1, 0, codeUnsupportedVersion)
	f("nobody", 9, nobody, 1, 0, codeUnknownMemberID)
	f("an admin", 9, "", -1, 0, codeUnknownMemberID)
	c.hears(consumes("g", "m2", "t"), codeNone, 2, "")
	c.hears(owning(consume("g", m1, 1), topic, 0, 1), codeNone, 1, "[0]")
	c.hears(owning(consume("g", m1, 1), topic, 0), codeNone, 2, "-")
	c.hears(consume("g", "m2", 2), codeNone, 2, "[1]")
	f("what it had all the while", 9, m1, 1, 0, codeNone)
	f("what it had all the while, by id", 10, m1, 1, 0, codeNone)
	f("what another has", 9, m1, 1, 1, codeStaleMemberEpoch)
	f("what another has, by id", 10, m1, 1, 1, codeStaleMemberEpoch)
	f("an epoch to come", 9, m1, 3, 0, codeStaleMemberEpoch)
	g("an admin asks", nil, -1, codeNone)
	g("a member asks", &m1, 2, codeNone)
	g("a member of another epoch asks", &m1, 1, codeStaleMemberEpoch)
	g("nobody asks", &nobody, 2, codeUnknownMemberID)
	// A group that another coordinator had: its members join again and read on.
	r := offsetCommit(9, "moved", "t", 0, 7)
	r.MemberID, r.Generation = uuid.NewString(), 5
	c.want("forgotten", committed(ask[*kmsg.OffsetCommitResponse](c, r)).ErrorCode, codeUnknownMemberID)
	r.MemberID = "iy1Pp7t4RrWUhI0nNQ0Qdg" // as Java writes a UUID
	c.want("forgotten", committed(ask[*kmsg.OffsetCommitResponse](c, r)).ErrorCode, codeUnknownMemberID)
}

// Each protocol's requests to a group of the other one.
func TestGroupsOfTwoProtocols(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()

	c.leads("classic")
	c.hears(consumes("classic", "m", "t"), codeGroupIDNotFound, 0, "-")
	c.hears(consume("classic", "m", 1), codeGroupIDNotFound, 0, "-")
	c.hears(consume("classic", "m", epochLeave), codeGroupIDNotFound, 0, "-")

	c.hears(consumes("new", "m", "t"), codeNone, 1, "[0]")
	c.want("JoinGroup", ask[*kmsg.JoinGroupResponse](c, joinGroup(9, "new", "")).ErrorCode, codeInconsistentProtocol)
	c.want("SyncGroup", ask[*kmsg.SyncGroupResponse](c, syncGroup(5, "new", "m", 1)).ErrorCode, codeUnknownMemberID)
	c.want("Heartbeat", ask[*kmsg.HeartbeatResponse](c, beat("new", "m", 1)).ErrorCode, codeUnknownMemberID)
	describe := at(kmsg.NewPtrDescribeGroupsRequest(), 6)
	describe.Groups = []string{"new"}
	g := ask[*kmsg.DescribeGroupsResponse](c, describe).Groups[0]
	if g.State != groupGone || g.ErrorCode != codeGroupIDNotFound {
		t.Errorf("DescribeGroups: %+v", g)
	}
	g = ask[*kmsg.DescribeGroupsResponse](c, at(describe, 5)).Groups[0]
	if g.State != groupGone || g.ErrorCode != codeNone {
		t.Errorf("DescribeGroups v5: %+v", g)
	}
	want := []string{"classic Stable classic consumer", "new Stable consumer consumer"}
	if got := listed(c, 5, nil, nil); !slices.Equal(got, want) {
		t.Errorf("ListGroups: %q, want %q", got, want)
	}
	if got := listed(c, 5, nil, []string{"Consumer"}); !slices.Equal(got, want[1:]) {
		t.Errorf("ListGroups by type: %q, want %q", got, want[1:])
	}
	del := at(kmsg.NewPtrDeleteGroupsRequest(), 2)
	del.Groups = []string{"new"}
	c.want("DeleteGroups", ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeNonEmptyGroup)

	// An operator removes the member; the group is then empty, and can be deleted.
	left := ask[*kmsg.LeaveGroupResponse](c, leaveGroup("new", "nobody", "m"))
	if left.Members[0].ErrorCode != codeUnknownMemberID || left.Members[1].ErrorCode != codeNone {
		t.Errorf("LeaveGroup: %+v", left.Members)
	}
	if got, want := listed(c, 5, []string{"Empty"}, nil), []string{"new Empty consumer consumer"}; !slices.Equal(got, want) {
		t.Errorf("ListGroups: %q, want %q", got, want)
	}
	c.want("DeleteGroups", ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeNone)
	c.want("DeleteGroups again", ask[*kmsg.DeleteGroupsResponse](c, del).Groups[0].ErrorCode, codeGroupIDNotFound)

	// An empty group is whatever comes next.
	c.hears(consumes("both", "m", "t"), codeNone, 1, "[0]")
	c.hears(consume("both", "m", epochLeave), codeNone, epochLeave, "-")
	r := c.leads("both")
	c.hears(consumes("both", "m", "t"), codeGroupIDNotFound, 0, "-")
	ask[*kmsg.LeaveGroupResponse](c, leaveGroup("both", r.MemberID))
	c.hears(consumes("both", "m", "t"), codeNone, 1, "[0]")
}

func TestOffsetDeleteOfConsumerGroups(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	d.fake.topic("u", 1)
	c := d.dial()
	for _, topic := range []string{"t", "u"} {
		c.want("commit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(8, "g", topic, 0, 1))).ErrorCode, codeNone)
	}
	c.hears(consumes("g", "m", "t"), codeNone, 1, "[0]")
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	for _, topic := range []string{"t", "u"} {
		req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	r := ask[*kmsg.OffsetDeleteResponse](c, req)
	c.want("OffsetDelete", r.ErrorCode, codeNone)
	c.want("subscribed to", r.Topics[0].Partitions[0].ErrorCode, codeGroupSubscribedToTopic)
	c.want("not subscribed to", r.Topics[1].Partitions[0].ErrorCode, codeNone)
}

// Groups that nobody is in are kept only as long as they are few.
func TestEmptyConsumerGroupsAreBounded(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.Groups.GroupsMax = 20 })
	d.fake.topic("t", 1)
	c := d.dial()
	for i := range 40 {
		g := fmt.Sprint("g", i)
		c.hears(consumes(g, "m", "t"), codeNone, 1, "[0]")
		c.hears(consume(g, "m", epochLeave), codeNone, epochLeave, "-")
	}
	d.keeps(2)
	for i := range 18 {
		c.hears(consumes(fmt.Sprint("full", i), "m", "t"), codeNone, 1, "[0]")
	}
	c.hears(consumes("more", "m", "t"), codeCoordinatorNotAvailable, 0, "-")
	c.hears(consumes("g0", "m", "t"), codeNone, 3, "[0]")
}

// What all groups hold together is bounded: who joins is to try again, who is in stays.
func TestConsumerGroupsShareTheBoundOnBytes(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.Groups.BytesMax = 1200 })
	d.fake.topic("t", 1)
	c := d.dial()
	c.hears(consumes("g1", "m", "t"), codeNone, 1, "[0]")
	c.hears(consumes("g2", "m", "t"), codeNone, 1, "[0]")
	c.hears(consumes("g3", "m", "t"), codeCoordinatorNotAvailable, 0, "-")
	c.hears(consume("g1", "m", 1), codeNone, 1, "-")
	c.hears(consume("g2", "m", epochLeave), codeNone, epochLeave, "-")
	c.hears(consumes("g3", "m", "t"), codeNone, 1, "[0]")
}

// Joins that come together share a list of topics, and none uses an older one.
func TestImagesAreFreshAndShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		slow := &slowLists{fake: f}
		images := newTopicImages(slow, 100)
		seen := make(chan *topicImage)
		for range 50 {
			go func() {
				image, err := images.fresh(t.Context())
				if err != nil {
					t.Error(err)
				}
				seen <- image
			}()
		}
		synctest.Wait()
		f.topic("t", 1)
		for range 50 {
			<-seen
		}
		if slow.lists != 2 {
			t.Errorf("%d lists for 50 that came together", slow.lists)
		}
		image, err := images.fresh(t.Context())
		if _, ok := image.byName["t"]; err != nil || !ok {
			t.Errorf("a topic made before is not there: %v", err)
		}
		again, err := images.current(t.Context())
		if again != image || err != nil {
			t.Errorf("another image, %v, although nothing changed", err)
		}
		// While an image is made, heartbeats do with the one before.
		f.topic("u", 1)
		<-time.After(time.Second)
		go func() { seen <- must(images.fresh(t.Context())) }()
		synctest.Wait()
		began := time.Now()
		if again = must(images.current(t.Context())); again != image || time.Since(began) != 0 {
			t.Errorf("a heartbeat waited %v", time.Since(began))
		}
		if newer := <-seen; newer != must(images.current(t.Context())) {
			t.Error("the newer image is not used")
		}
		f.setFail(errors.New("gone"))
		if _, err := images.fresh(t.Context()); err == nil {
			t.Error("a fresh image without a database")
		}
	})
}

func must(image *topicImage, err error) *topicImage {
	if err != nil {
		panic(err)
	}
	return image
}

// slowLists is an engine that takes a second to list queues.
type slowLists struct {
	*fake
	lists int
}

func (s *slowLists) AllQueues(ctx context.Context) ([]queen.Queue, error) {
	s.lists++
	<-time.After(time.Second)
	return s.fake.AllQueues(ctx)
}
