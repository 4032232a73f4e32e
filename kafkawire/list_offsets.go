package kafkawire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// The special times of ListOffsets, and the version each came with. There are no
// tiers here: the earliest local offset is the earliest one, the latest tiered
// and the earliest to be uploaded do not exist.
const (
	timeLatest          = -1
	timeEarliest        = -2
	timeMaxTimestamp    = -3 // v7 (KIP-734)
	timeEarliestLocal   = -4 // v8 (KIP-405)
	timeLatestTiered    = -5 // v9 (KIP-1005)
	timeEarliestPending = -6 // v11 (KIP-1023)
)

// answerPlace is where the answer to a query goes, and the time it asked for.
type answerPlace struct {
	topic, partition int
	time             int64
}

// listOffsets answers ListOffsets (2) v1–11. v0, with its array of segment
// offsets, is not served. Both isolation levels see the same end while there are
// no transactions. A time finds the first record at or after it. A
// partition asked for twice is answered once, with an error.
func (c *conn) listOffsets(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	if req.Version >= 10 {
		var cancel context.CancelFunc
		ctx, cancel = within(ctx, req.TimeoutMillis)
		defer cancel()
	}
	type place struct {
		topic     string
		partition int32
	}
	asked := make(map[place]int)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			asked[place{t.Topic, p.Partition}]++
		}
	}
	var queries []queen.OffsetQuery
	var at []answerPlace
	for i, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			times := asked[place{t.Topic, p.Partition}]
			if times == 0 {
				continue // one answer for all
			}
			asked[place{t.Topic, p.Partition}] = 0
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.Partition, -1, -1, -1
			when, code := timeAsked(p.Timestamp, req.Version)
			switch {
			case times > 1:
				rp.ErrorCode = codeInvalidRequest
			case !legalTopic(t.Topic):
				rp.ErrorCode = codeUnknownTopicOrPartition
			case code != codeNone:
				rp.ErrorCode = code
			default:
				queries = append(queries, queen.OffsetQuery{
					Partition: partitionRef(t.Topic, [16]byte{}, p.Partition),
					Timestamp: when, CurrentEpoch: p.CurrentLeaderEpoch,
				})
				at = append(at, answerPlace{i, len(rt.Partitions), p.Timestamp})
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if len(queries) == 0 {
		return resp, nil
	}
	answers, err := c.srv.engine.Offsets(ctx, queries)
	for k, where := range at {
		rp := &resp.Topics[where.topic].Partitions[where.partition]
		var a queen.OffsetAnswer
		if a.Err = err; err == nil {
			a = answers[k]
		}
		if a.Err != nil {
			rp.ErrorCode = codeOf(c.note(r, a.Err))
			continue
		}
		switch where.time {
		case timeLatestTiered, timeEarliestPending: // the answer was asked for its errors only
		default:
			rp.Offset, rp.Timestamp, rp.LeaderEpoch = a.Offset, a.Timestamp, a.Epoch
		}
	}
	return resp, nil
}

// timeAsked translates a time, or refuses one that is newer than the version.
func timeAsked(t int64, version int16) (int64, int16) {
	switch {
	case t >= 0, t == timeLatest, t == timeEarliest:
		return t, codeNone
	case t == timeMaxTimestamp && version >= 7:
		return queen.AtMaxTimestamp, codeNone
	case t == timeEarliestLocal && version >= 8:
		return queen.AtStart, codeNone
	case t == timeLatestTiered && version >= 9, t == timeEarliestPending && version >= 11:
		return queen.AtStart, codeNone
	}
	return 0, codeUnsupportedVersion
}
