package kafkawire

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// offsetCommit answers OffsetCommit (8) v0–10; v10 names topics by id. Positions
// are stored per partition, each with its own code: many of them in several calls,
// and where one fails, or another broker has taken the group over meanwhile, the
// rest is told so. A group nobody is in accepts commits without a generation, which
// makes it one; the retention of v2–4 and the timestamps of v1 are ignored, as in
// Kafka. Whether the log has a position is not looked at, nor is its sign: kafkajs
// commits −2 to start over. It is read back as it was sent; where it leaves native
// consumers, the engine says.
func (c *conn) offsetCommit(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	under, refuse := c.guard(req.Group)
	if refuse == codeNone {
		refuse = c.srv.groups.commit(req.Group, under, req.MemberID, text(req.InstanceID), req.Generation, req.Version,
			func(image *topicImage) []topicPartition { return refsOfCommit(req, image) })
	}
	var cursors []queen.Cursor
	stored := map[queen.PartitionRef]int{} // index in cursors; a partition named twice: the last counts
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, refuse
			if refuse == codeNone {
				rp.ErrorCode = c.checkCommit(req.Version, t.Topic, p)
			}
			if rp.ErrorCode == codeNone {
				cursor := queen.Cursor{
					Partition: partitionRef(t.Topic, t.TopicID, p.Partition),
					Offset:    p.Offset, Epoch: p.LeaderEpoch, Metadata: text(p.Metadata),
				}
				if i, ok := stored[cursor.Partition]; ok {
					cursors[i] = cursor
				} else {
					stored[cursor.Partition] = len(cursors)
					cursors = append(cursors, cursor)
				}
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(cursors) == 0 {
		return resp, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.srv.cfg.ProduceTimeout, queen.ErrTimedOut)
	defer cancel()
	answers, err := c.srv.engine.CommitOffsets(ctx, req.Group, under, cursors)
	_ = c.note(r, err)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			at, ok := stored[partitionRef(t.Topic, t.TopicID, p.Partition)]
			switch {
			case !ok || p.ErrorCode != codeNone:
			case err != nil:
				p.ErrorCode = coordinatorCode(err)
			default:
				p.ErrorCode = coordinatorCode(c.note(r, answers[at].Err))
			}
		}
	}
	return resp, nil
}

// refsOfCommit lists the partitions of a commit; a topic that is not in the image
// has no id.
func refsOfCommit(req *kmsg.OffsetCommitRequest, image *topicImage) []topicPartition {
	var ps []topicPartition
	for _, t := range req.Topics {
		id := uuid.UUID(t.TopicID)
		if req.Version < 10 {
			id = image.byName[t.Topic].id
		}
		for _, p := range t.Partitions {
			ps = append(ps, topicPartition{id, p.Partition})
		}
	}
	return ps
}

// checkCommit says what is wrong with one position by itself.
func (c *conn) checkCommit(version int16, topic string, p kmsg.OffsetCommitRequestTopicPartition) int16 {
	switch {
	case version < 10 && !legalTopic(topic), p.Partition < 0:
		return codeUnknownTopicOrPartition
	case len(text(p.Metadata)) > c.srv.cfg.Groups.OffsetMetadataBytesMax:
		return codeOffsetMetadataTooLarge
	}
	return codeNone
}

// offsetFetch answers OffsetFetch (9) v1–10, from v8 for several groups; v10
// names topics by id. A position that was never stored, also of a group or
// topic that does not exist, is offset −1 without an error. An error never
// looks like that: a client would start over at its reset policy. There are no
// transactions, so what require_stable (v7) waits for is always so. A group that is
// named again is INVALID_REQUEST there, where Kafka answers each time: all positions
// of a large group, once for every ten bytes of a request, would have no bound.
func (c *conn) offsetFetch(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	ctx, cancel := context.WithTimeoutCause(ctx, c.srv.cfg.ProduceTimeout, queen.ErrTimedOut)
	defer cancel()
	groups := req.Groups
	if req.Version < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{groupOf(req)}
	}
	seen := make(map[string]bool, len(groups))
	for _, g := range groups {
		rg := kmsg.NewOffsetFetchResponseGroup()
		rg.Group = g.Group
		if seen[g.Group] {
			rg.ErrorCode = codeInvalidRequest
		} else {
			c.fetchGroup(ctx, r, g, &rg)
		}
		seen[g.Group] = true
		resp.Groups = append(resp.Groups, rg)
	}
	if req.Version < 8 {
		lower(resp, resp.Groups[0])
		resp.Groups = nil
	}
	return resp, nil
}

// groupOf is the one group of a request before v8, in the words of v8.
func groupOf(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	return g
}

// lower is groupOf's way back. Before v2 there was no code for the whole group.
func lower(resp *kmsg.OffsetFetchResponse, g kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	for _, gt := range g.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = gt.Topic
		for _, gp := range gt.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = gp.Partition, gp.Offset, gp.LeaderEpoch
			p.Metadata, p.ErrorCode = gp.Metadata, gp.ErrorCode
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
}

// fetchGroup answers for one group.
func (c *conn) fetchGroup(ctx context.Context, r *request, g kmsg.OffsetFetchRequestGroup, rg *kmsg.OffsetFetchResponseGroup) {
	under, code := c.guard(g.Group)
	if code == codeNone && r.version >= 9 {
		code = c.srv.groups.fetch(g.Group, under, g.MemberID, g.MemberEpoch)
	}
	var cursors []queen.Cursor
	if code == codeNone && (g.Topics == nil || len(g.Topics) > 0) {
		var err error
		cursors, err = c.srv.engine.FetchOffsets(ctx, g.Group, refsOf(r.version, g.Topics))
		code = fetchCode(c.note(r, err))
	}
	rg.ErrorCode = code
	switch {
	case g.Topics != nil:
		c.answerAsked(r, g.Topics, cursors, rg)
	case code == codeNone:
		answerAll(cursors, rg)
	}
}

// refsOf lists the partitions asked for that can exist; nil asks for all.
func refsOf(version int16, topics []kmsg.OffsetFetchRequestGroupTopic) []queen.PartitionRef {
	if topics == nil {
		return nil
	}
	refs := []queen.PartitionRef{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if fetchable(version, t, p) {
				refs = append(refs, partitionRef(t.Topic, t.TopicID, p))
			}
		}
	}
	return refs
}

func fetchable(version int16, t kmsg.OffsetFetchRequestGroupTopic, partition int32) bool {
	return (version >= 10 || legalTopic(t.Topic)) && partition >= 0
}

// answerAsked answers every partition asked for, from cursors in the order of refsOf.
func (c *conn) answerAsked(r *request, topics []kmsg.OffsetFetchRequestGroupTopic, cursors []queen.Cursor, rg *kmsg.OffsetFetchResponseGroup) {
	for _, t := range topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, number := range t.Partitions {
			rp := noPosition(number)
			switch {
			case rg.ErrorCode != codeNone:
				rp.ErrorCode = rg.ErrorCode
			case fetchable(r.version, t, number):
				position(&rp, cursors[0], c.note(r, cursors[0].Err))
				cursors = cursors[1:]
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		rg.Topics = append(rg.Topics, rt)
	}
	if rg.ErrorCode != codeNone && r.version >= 2 {
		rg.Topics = nil
	}
}

// answerAll lists the positions of a group, by topic.
func answerAll(cursors []queen.Cursor, rg *kmsg.OffsetFetchResponseGroup) {
	at := map[string]int{}
	for _, cursor := range cursors {
		name := cursor.Partition.Queue.Name
		if !legalTopic(name) {
			continue
		}
		i, ok := at[name]
		if !ok {
			i = len(rg.Topics)
			at[name] = i
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic, rt.TopicID = name, cursor.Partition.Queue.TopicID
			rg.Topics = append(rg.Topics, rt)
		}
		rp := noPosition(cursor.Partition.Number)
		position(&rp, cursor, cursor.Err)
		rg.Topics[i].Partitions = append(rg.Topics[i].Partitions, rp)
	}
}

// noPosition is the answer where nothing was stored.
func noPosition(number int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = number, -1, -1, new(string)
	return p
}

// position fills in what is stored, or why it is not known.
func position(p *kmsg.OffsetFetchResponseGroupTopicPartition, cursor queen.Cursor, err error) {
	switch code := fetchCode(err); {
	case code == codeUnknownTopicOrPartition: // nothing can be stored there
	case code != codeNone:
		p.ErrorCode = code
	default: // −1, −1 and no text where nothing is stored
		p.Offset, p.LeaderEpoch, p.Metadata = cursor.Offset, cursor.Epoch, &cursor.Metadata
	}
}

// fetchCode is coordinatorCode for OffsetFetch, where Java's clients repeat
// only after COORDINATOR_LOAD_IN_PROGRESS and NOT_COORDINATOR.
func fetchCode(err error) int16 {
	switch code := coordinatorCode(err); code {
	case codeCoordinatorNotAvailable, codeRequestTimedOut:
		return codeCoordinatorLoading
	default:
		return code
	}
}
