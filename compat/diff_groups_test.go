//go:build java

package compat

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func diffGroups(s *side) {
	s.coordinator("diff-group") // waits until there is one
	find := func(kind int8, keys ...string) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType, req.CoordinatorKeys = kind, keys
			if len(keys) > 0 {
				req.CoordinatorKey = keys[0]
			}
			return req
		}
	}
	s.each("coordinator", find(0, "diff-group"))
	s.ends("coordinator-of-empty", find(0, ""))
	s.last("coordinators", find(0, "diff-group", "diff-other")())
	s.last("coordinator-of-kind-9", find(9, "x")())
	s.last("coordinator-of-nobody", find(0)())

	join := func(group, member string, session time.Duration, change func(*kmsg.JoinGroupRequest)) func() kmsg.Request {
		return func() kmsg.Request {
			req := joinRequest(group, member, session)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	half := time.Second * 30
	s.ends("join-short-session", join("diff-joins", "", time.Second, nil))
	s.ends("join-long-session", join("diff-joins", "", time.Hour, nil))
	s.ends("join-empty-group", join("", "", half, nil))
	s.ends("join-unknown-member", join("diff-joins", "who", half, nil))
	s.last("join-no-protocols", join("diff-joins", "m", half, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })())
	s.last("join-no-type", join("diff-joins", "m", half, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })())
	s.last("join-half", join("diff-halves", "", half, nil)())

	for v := s.served[kmsg.JoinGroup.Int16()].min; v <= s.served[kmsg.JoinGroup.Int16()].max; v++ {
		group := fmt.Sprint("diff-group-", v)
		s.version = v
		first, _ := s.ask("join", v, join(group, "", half, nil)()).(*kmsg.JoinGroupResponse)
		if v >= 4 {
			s.members[first.MemberID] = "member-1"
			first, _ = s.ask("join-with-id", v, join(group, first.MemberID, half, nil)()).(*kmsg.JoinGroupResponse)
		}
		id, generation := first.MemberID, first.Generation
		s.members[id] = "member-1"
		lesser := func(key kmsg.Key) int16 { return min(v, s.served[key.Int16()].max) }
		describe := func(label string) {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups, req.IncludeAuthorizedOperations = []string{group}, v%2 == 1
			s.ask(label, lesser(kmsg.DescribeGroups), req)
		}
		beat := func(label, member string, generation int32) {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = group, member, generation
			s.ask(label, lesser(kmsg.Heartbeat), req)
		}
		synced := func(label, member string, generation int32, change func(*kmsg.SyncGroupRequest)) {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID, req.Generation = group, member, generation
			req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = member, []byte("all of it")
			req.GroupAssignment = append(req.GroupAssignment, a)
			if change != nil {
				change(req)
			}
			s.ask(label, lesser(kmsg.SyncGroup), req)
		}
		describe("describe-completing")
		beat("beat-completing", id, generation)
		synced("sync-old-generation", id, generation-1, nil)
		synced("sync-unknown", "who", generation, nil)
		if v >= 5 {
			synced("sync-other-type", id, generation, func(r *kmsg.SyncGroupRequest) { r.ProtocolType = kmsg.StringPtr("other") })
			synced("sync-other-protocol", id, generation, func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("other") })
		}
		synced("sync", id, generation, nil)
		synced("sync-again", id, generation, nil)
		describe("describe-stable")
		beat("beat", id, generation)
		beat("beat-old", id, generation-1)
		beat("beat-newer", id, generation+1)
		beat("beat-unknown", "who", generation)
		s.ask("join-other-type", v, join(group, id, half, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "other" })())
		s.ask("join-other-protocol", v, join(group, id, half, func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "other" })())
		leave := func(label, member string) {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = group, member
			rm := kmsg.NewLeaveGroupRequestMember()
			rm.MemberID = member
			req.Members = append(req.Members, rm)
			s.ask(label, lesser(kmsg.LeaveGroup), req)
		}
		drop := func(label string) {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{group}
			s.ask(label, lesser(kmsg.DeleteGroups), req)
		}
		drop("delete-with-member")
		leave("leave-unknown", "who")
		leave("leave", id)
		leave("leave-again", id)
		describe("describe-empty")
		beat("beat-empty", id, generation)
		drop("delete")
		drop("delete-again")
		describe("describe-deleted")
		beat("beat-deleted", id, generation)
	}
	static := join("diff-static", "", half, func(r *kmsg.JoinGroupRequest) { r.InstanceID = kmsg.StringPtr("one") })
	first, _ := s.last("static", static()).(*kmsg.JoinGroupResponse)
	s.members[first.MemberID] = "member-1"
	again, _ := s.last("static-again", static()).(*kmsg.JoinGroupResponse)
	s.members[again.MemberID] = "member-2"
	fenced := kmsg.NewPtrHeartbeatRequest()
	fenced.Group, fenced.MemberID, fenced.Generation, fenced.InstanceID = "diff-static", first.MemberID, again.Generation, kmsg.StringPtr("one")
	s.last("static-fenced", fenced)
	gone := kmsg.NewPtrLeaveGroupRequest()
	gone.Group = "diff-static"
	for _, instance := range []string{"one", "two"} {
		rm := kmsg.NewLeaveGroupRequestMember()
		rm.InstanceID = kmsg.StringPtr(instance)
		gone.Members = append(gone.Members, rm)
	}
	s.last("static-removed", gone)
	for _, filter := range []string{"Stable", "Empty", "nonsense"} {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = []string{filter}, []string{"nonsense"}
		s.last("list-"+filter, req)
	}
}

func diffCommits(s *side) {
	tp := s.made("commits", 2, nil)
	const group = "diff-commits"
	s.coordinator(group)
	put := func(c commit, change func(*kmsg.OffsetCommitRequest)) func() kmsg.Request {
		return func() kmsg.Request {
			req := offsetCommitRequest(group, tp, c)
			if change != nil {
				change(req)
			}
			return req
		}
	}
	get := func(group string, t topic) func() kmsg.Request {
		return func() kmsg.Request { return offsetFetchRequest(group, s.version, t) }
	}
	s.each("none-yet", get(group, tp))
	s.each("commit", put(commit{offset: 5, leaderEpoch: -1, metadata: kmsg.StringPtr("m")}, nil))
	s.each("fetch", get(group, tp))
	s.each("fetch-of-nobody", get("diff-nobody", tp))
	s.each("fetch-no-topic", get(group, noTopic))
	s.ends("commit-null-metadata", put(commit{partition: 1, offset: 5, leaderEpoch: 0}, nil))
	s.ends("commit-minus-2", put(commit{partition: 1, offset: -2, leaderEpoch: -1}, nil))
	s.ends("commit-no-partition", put(commit{partition: 9, offset: 5, leaderEpoch: -1}, nil))
	s.each("commit-no-topic", put(commit{offset: 5, leaderEpoch: -1}, func(r *kmsg.OffsetCommitRequest) {
		r.Topics[0].Topic, r.Topics[0].TopicID = noTopic.name, noTopic.id
	}))
	s.ends("commit-long-metadata", put(commit{offset: 5, leaderEpoch: -1, metadata: kmsg.StringPtr(strings.Repeat("x", 4097))}, nil))
	s.each("commit-unknown-member", put(commit{offset: 5, leaderEpoch: -1, member: "who", generation: 3}, nil))
	s.each("commit-unknown-group", put(commit{offset: 5, leaderEpoch: -1, member: "who", generation: 3}, func(r *kmsg.OffsetCommitRequest) { r.Group = "diff-no-group" }))
	s.ends("commit-nothing", put(commit{}, func(r *kmsg.OffsetCommitRequest) { r.Topics = nil }))
	all := func() kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = group
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group, rg.Topics = group, nil
		req.Groups = append(req.Groups, rg)
		return req
	}
	s.ask("all", 2, all())
	s.ask("all", 7, all())
	s.last("all", all())
	member := all().(*kmsg.OffsetFetchRequest)
	member.Groups[0].MemberID, member.Groups[0].MemberEpoch = kmsg.StringPtr("who"), 3
	s.last("all-of-a-member", member)
	drop := func(group, topic string, partition int32) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = group
			req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}}}}
			return req
		}
	}
	s.each("delete", drop(group, tp.name, 0))
	s.each("delete-again", drop(group, tp.name, 0))
	s.each("delete-no-topic", drop(group, noTopic.name, 0))
	s.each("delete-of-nobody", drop("diff-nobody", tp.name, 0))
	s.each("fetch-deleted", get(group, tp))
	groups := func(names ...string) func() kmsg.Request {
		return func() kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = names
			return req
		}
	}
	s.last("delete-group", groups(group)())
	s.each("delete-unknown-group", groups("diff-nobody"))
	s.ends("delete-empty-name", groups(""))
	s.each("fetch-after", get(group, tp))
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group, "", "diff-nobody"}
	s.last("describe", describe)
}

func diffConsumerGroups(s *side) {
	tp := s.made("consumers", 2, nil)
	const group, id = "diff-consumers", "AAAAAAAAAAAAAAAAAAAAAA"
	s.coordinator(group)
	beat := func(label string, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = group, id, 0
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, []string{tp.name}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if change != nil {
			change(req)
		}
		got, _ := s.last(label, req).(*kmsg.ConsumerGroupHeartbeatResponse)
		return got
	}
	type hb = *kmsg.ConsumerGroupHeartbeatRequest
	beat("empty-group", func(r hb) { r.Group = "" })
	beat("no-member-id", func(r hb) { r.MemberID = "" })
	beat("no-timeout", func(r hb) { r.RebalanceTimeoutMillis = -1 })
	beat("no-subscription", func(r hb) { r.SubscribedTopicNames = nil })
	beat("no-partitions", func(r hb) { r.Topics = nil })
	beat("partitions-at-join", func(r hb) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: tp.id, Partitions: []int32{0}}}
	})
	beat("unknown-assignor", func(r hb) { r.ServerAssignor = kmsg.StringPtr("nonsense") })
	beat("bad-regex", func(r hb) { r.SubscribedTopicRegex, r.SubscribedTopicNames = kmsg.StringPtr("["), nil })
	beat("empty-instance", func(r hb) { r.InstanceID = kmsg.StringPtr("") })
	beat("epoch-minus-3", func(r hb) { r.MemberEpoch = -3 })
	beat("unknown-member", func(r hb) { r.MemberEpoch = 3 })
	beat("leave-unknown-group", func(r hb) { r.MemberEpoch, r.Group = -1, "diff-nobody" })
	joined := beat("join", nil)
	epoch := joined.MemberEpoch
	beat("owns-all", func(r hb) {
		r.MemberEpoch = epoch
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: tp.id, Partitions: []int32{0, 1}}}
	})
	beat("keep", func(r hb) {
		r.MemberEpoch, r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = epoch, -1, nil, nil
	})
	beat("epoch-ahead", func(r hb) { r.MemberEpoch = epoch + 5 })
	beat("epoch-behind", func(r hb) { r.MemberEpoch = epoch - 1; r.Topics = nil })
	describe := func(label string, groups ...string) {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Groups, req.IncludeAuthorizedOperations = groups, true
		s.last(label, req)
	}
	describe("describe", group)
	describe("describe-unknown", "diff-nobody")
	describe("describe-empty-name", "")
	classic := kmsg.NewPtrDescribeGroupsRequest()
	classic.Groups = []string{group}
	s.last("describe-as-classic", classic)
	s.ask("commit-of-member", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1, member: id, generation: epoch}))
	s.ask("commit-of-old-epoch", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1, member: id, generation: epoch - 1}))
	s.ask("commit-of-nobody", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1, member: "who", generation: epoch}))
	s.ask("commit-from-outside", 9, offsetCommitRequest(group, tp, commit{offset: 1, leaderEpoch: -1}))
	beat("leave", func(r hb) { r.MemberEpoch = -1 })
	beat("leave-again", func(r hb) { r.MemberEpoch = -1 })
	describe("describe-left", group)
	drop := kmsg.NewPtrDeleteGroupsRequest()
	drop.Groups = []string{group}
	s.last("delete", drop)
}
