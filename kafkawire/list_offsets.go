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

// listOffsets answers ListOffsets (2) v1–11. v0, with its array of segment
// offsets, is not served. Both isolation levels see the same end while there are
// no transactions. A time finds the first record at or after it.
func (c *conn) listOffsets(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	if req.Version >= 10 {
		var cancel context.CancelFunc
		ctx, cancel = within(ctx, req.TimeoutMillis)
		defer cancel()
	}
	var queries []queen.OffsetQuery
	var at [][2]int // where each query's answer goes
	for i, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for j, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.Partition, -1, -1, -1
			when, code := timeAsked(p.Timestamp, req.Version)
			switch {
			case !legalTopic(t.Topic):
				rp.ErrorCode = codeUnknownTopicOrPartition
			case code != codeNone:
				rp.ErrorCode = code
			default:
				queries = append(queries, queen.OffsetQuery{
					Partition: partitionRef(t.Topic, [16]byte{}, p.Partition),
					Timestamp: when, CurrentEpoch: p.CurrentLeaderEpoch,
				})
				at = append(at, [2]int{i, j})
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
		rp := &resp.Topics[where[0]].Partitions[where[1]]
		var a queen.OffsetAnswer
		if a.Err = err; err == nil {
			a = answers[k]
		}
		if a.Err != nil {
			rp.ErrorCode = codeOf(c.note(r, a.Err))
			continue
		}
		switch req.Topics[where[0]].Partitions[where[1]].Timestamp {
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
