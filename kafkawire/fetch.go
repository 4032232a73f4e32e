package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// fetch answers Fetch (1) v4–18: by topic name up to v12, by topic id after, with
// sessions from v7 (fetch_session.go). The batches of the answer are the room's
// own bytes, spliced in without a copy. A request with a partition in error is
// answered at once. A zstd batch is not given to a client below v10, which could
// not read it. Requests of followers are answered like those of consumers;
// preferred replicas and the tags of KIP-951 are not sent.
func (c *conn) fetch(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	plan, code := c.srv.sessions.begin(req, time.Now(), stop)
	if code != codeNone {
		resp.ErrorCode = code
		return resp, nil
	}
	defer plan.end()
	// The wait may be long: what it holds is charged by what it is, no longer by
	// what decoding might have cost.
	req.Topics, req.ForgottenTopics = nil, nil
	c.park(r, fetchBytes+partitionBytes*int64(len(plan.asked)))
	answers, err := c.readPartitions(reading, r, req, plan.asked)
	if errors.Is(err, errSessionClosed) && ctx.Err() == nil {
		resp.ErrorCode = codeFetchSessionIDNotFound
		return resp, nil
	}
	if err != nil {
		return nil, err
	}
	sessionID, include := plan.finish(answers, time.Now())
	resp.SessionID = sessionID
	reply := &fetchReply{FetchResponse: resp, answers: answers}
	if err := c.replyRoom(r, reply.making(include)); err != nil {
		reply.release()
		return nil, err
	}
	return reply.fill(plan.asked, include), nil
}

// walkFetch steps over a Fetch body without allocating. One consumer may be given
// very many partitions, some 30 bytes each.
func walkFetch(b []byte, version int16, cfg *Config) error {
	since := func(first int16, bytes int) int {
		if version < first {
			return 0
		}
		return bytes
	}
	w := walker{b: b, flexible: version >= 12}
	w.skip(4 - since(15, 4) + 4 + 4 + 4 + 1 + since(7, 4+4)) // replica, wait, bytes, isolation, session
	left := cfg.FetchPartitionsMax
	each := func(bytes int, tagged bool) {
		for topics := w.count(); topics > 0 && w.err == nil; topics-- {
			if version >= 13 {
				w.skip(16)
			} else {
				w.text()
			}
			partitions := max(0, w.count())
			if left -= 1 + partitions; left < 0 && w.err == nil {
				w.err = badFramef("Fetch names more than %d topics and partitions; more consumers must share them", cfg.FetchPartitionsMax)
			}
			for ; partitions > 0 && w.err == nil; partitions-- {
				w.skip(bytes)
				if tagged {
					w.tags()
				}
			}
			w.tags()
		}
	}
	each(4+since(9, 4)+8+since(12, 4)+since(5, 8)+4, true)
	if version >= 7 {
		each(4, false) // forgotten ones
	}
	if version >= 11 {
		w.text() // rack
	}
	w.tags()
	return w.err
}

// What a waiting Fetch holds in memory, itself and for each partition.
const (
	fetchBytes     = 512
	partitionBytes = 256
)

// askedPartition is what a client wants from one partition.
type askedPartition struct {
	partitionKey
	offset           int64
	maxBytes         int32
	currentEpoch     int32
	lastFetchedEpoch int32
}

// partitionKey names a partition as the request does: by topic name or by topic id.
type partitionKey struct {
	topic  string
	id     [16]byte
	number int32
}

func asked(t *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) askedPartition {
	return askedPartition{
		partitionKey: partitionKey{topic: t.Topic, id: t.TopicID, number: p.Partition},
		offset:       p.FetchOffset, maxBytes: p.PartitionMaxBytes,
		currentEpoch: p.CurrentLeaderEpoch, lastFetchedEpoch: p.LastFetchedEpoch,
	}
}

// partitionAnswer is the answer to one askedPartition.
type partitionAnswer struct {
	queen.ReadAnswer
	code int16
}

func refusedPartition(code int16) partitionAnswer {
	return partitionAnswer{code: code, ReadAnswer: queen.ReadAnswer{LogStart: -1, HighWatermark: -1, LastStable: -1}}
}

// readPartitions asks the room for all partitions in one go. An error means that
// the client is gone.
func (c *conn) readPartitions(ctx context.Context, r *request, req *kmsg.FetchRequest, parts []askedPartition) ([]partitionAnswer, error) {
	answers := make([]partitionAnswer, len(parts))
	items := make([]queen.ReadItem, 0, len(parts))
	at := make([]int, 0, len(parts))
	wait := min(max(0, time.Duration(req.MaxWaitMillis)*time.Millisecond), c.srv.cfg.FetchWaitMax)
	for i, p := range parts {
		if code := refuseFetch(req.Version, p); code != codeNone {
			answers[i], wait = refusedPartition(code), 0
			continue
		}
		at = append(at, i)
		items = append(items, queen.ReadItem{
			Partition: partitionRef(p.topic, p.id, p.number), Offset: p.offset, MaxBytes: int(max(0, p.maxBytes)),
			CurrentEpoch: p.currentEpoch, LastFetchedEpoch: p.lastFetchedEpoch,
		})
	}
	if len(items) == 0 {
		return answers, nil
	}
	bytesMax := min(int(max(0, req.MaxBytes)), c.srv.cfg.FetchBytesMax)
	got, err := c.srv.engine.Read(ctx, queen.ReadRequest{
		Items: items, MaxWait: wait,
		MinBytes: min(int(max(0, req.MinBytes)), bytesMax), MaxBytes: bytesMax,
	})
	if err != nil && ctx.Err() != nil {
		if err = context.Cause(ctx); !errors.Is(err, queen.ErrClosing) {
			return nil, fmt.Errorf("fetch given up: %w", err)
		}
	}
	for k, i := range at {
		if err != nil {
			answers[i] = refusedPartition(codeOf(c.note(r, err)))
			continue
		}
		answers[i] = partitionAnswer{ReadAnswer: got[k], code: codeOf(c.note(r, got[k].Err))}
		if req.Version < 10 && holdsZstd(got[k].Batches) {
			answers[i].code, answers[i].Batches = codeUnsupportedCompression, nil
		}
	}
	return answers, nil
}

// refuseFetch is what the door itself knows to be wrong with a partition.
func refuseFetch(version int16, p askedPartition) int16 {
	switch {
	case version >= 13 && p.id == [16]byte{}:
		return codeUnknownTopicID
	case version < 13 && !legalTopic(p.topic):
		return codeUnknownTopicOrPartition
	}
	return codeNone
}

func holdsZstd(batches [][]byte) bool {
	for _, b := range batches {
		if compression(b) == zstd {
			return true
		}
	}
	return false
}
