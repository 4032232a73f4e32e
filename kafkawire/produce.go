package kafkawire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// produce answers Produce (0) v3–13. The batches go to the room as they came;
// what they are worth is judged there. Every partition asked is answered. acks=0
// writes no reply, and an error then closes the connection, so that the client
// looks again. acks=1 and acks=-1 are the same here: both wait for the commit.
// The tags of KIP-951 (current leader) are not sent: any broker serves any partition.
func (c *conn) produce(ctx context.Context, r *request) answer {
	req := r.body.(*kmsg.ProduceRequest)
	p := &producing{c: c, req: r, acks: req.Acks}
	p.resp = req.ResponseKind().(*kmsg.ProduceResponse)

	var refuse error
	switch {
	case req.Acks != -1 && req.Acks != 0 && req.Acks != 1:
		refuse = errInvalidAcks
	case req.TransactionID != nil:
		refuse = queen.ErrTransactional
	}
	var items []queen.AppendItem
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, part := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition, rp.BaseOffset, rp.LogStartOffset, rp.LogAppendTime = part.Partition, -1, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
			err := refuse
			switch {
			case err != nil:
			case internalTopic(t.Topic) || c.srv.offsetsShown.is(t.TopicID):
				err = fmt.Errorf("%w: the topic is internal", queen.ErrInvalidName)
			default:
				err = checkRecords(req.Version, t.Topic, part.Records)
			}
			p.refused = append(p.refused, err)
			if err == nil {
				items = append(items, queen.AppendItem{
					Partition: partitionRef(t.Topic, t.TopicID, part.Partition),
					Batch:     part.Records,
				})
			}
		}
		p.resp.Topics = append(p.resp.Topics, rt)
	}

	timeout := c.srv.cfg.ProduceTimeout
	if req.TimeoutMillis > 0 {
		timeout = max(time.Second, time.Duration(req.TimeoutMillis)*time.Millisecond)
	}
	p.ctx, r.over = context.WithTimeoutCause(ctx, timeout, queen.ErrTimedOut)
	if len(items) > 0 {
		p.pendings = c.srv.engine.Append(p.ctx, items)
		r.reading = p.pendings
	}
	return p.wait
}

// producing is a Produce under way.
type producing struct {
	c    *conn
	req  *request
	acks int16
	ctx  context.Context // of the wait; it ends with the request, see request.over

	resp     *kmsg.ProduceResponse
	refused  []error          // one per partition; nil where an append was started
	pendings []*queen.Pending // one per nil of refused
}

// wait fills the response in, in the order of the request.
func (p *producing) wait() (kmsg.Response, error) {
	var first error
	refused, pendings := p.refused, p.pendings
	for i := range p.resp.Topics {
		t := &p.resp.Topics[i]
		for j := range t.Partitions {
			part := &t.Partitions[j]
			err := refused[0]
			refused = refused[1:]
			if err == nil {
				var done queen.Appended
				if done, err = pendings[0].Result(p.ctx); err == nil {
					part.BaseOffset, part.LogStartOffset = done.BaseOffset, done.LogStart
					if !done.LogAppendTime.IsZero() {
						part.LogAppendTime = done.LogAppendTime.UnixMilli()
					}
				}
				pendings = pendings[1:]
			}
			if err != nil {
				part.ErrorCode, part.ErrorMessage = produceCode(p.c.note(p.req, err)), message(err)
				part.ErrorRecords = recordErrors(err)
				if first == nil {
					first = fmt.Errorf("produce to %s/%d with acks=0: %w", t.Topic, part.Partition, err)
				}
			}
		}
	}
	if p.acks == 0 {
		return nil, first
	}
	return p.resp, nil
}

// produceCode is codeOf without UNKNOWN_SERVER_ERROR, which producers take as
// "not written": wherever we do not know, that would be a lie.
func produceCode(err error) int16 {
	if code := codeOf(err); code != codeUnknownServerError {
		return code
	}
	return codeRequestTimedOut
}

// recordErrors tells which records a batch was refused for, if the room names any (KIP-467).
func recordErrors(err error) (out []kmsg.ProduceResponseTopicPartitionErrorRecord) {
	var e *queen.RecordErrors
	if !errors.As(err, &e) {
		return nil
	}
	for _, r := range e.Records {
		out = append(out, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: int32(r.Index), ErrorMessage: &r.Message})
	}
	return out
}

// checkRecords is what the door knows about a batch: whether it may come in this
// version of the request. Its contents are the room's business.
func checkRecords(version int16, topic string, records []byte) error {
	switch {
	case version < 13 && !legalTopic(topic):
		return fmt.Errorf("%w: %q is no legal topic name", queen.ErrInvalidName, topic)
	case len(records) == 0:
		return fmt.Errorf("%w: no record batch", queen.ErrInvalidRecord)
	case version < 7 && compression(records) == zstd:
		return fmt.Errorf("%w: zstd needs Produce version 7", queen.ErrUnsupportedCompression)
	}
	return nil
}

// zstd is the compression type that old clients cannot read (KIP-110).
const zstd = 4

// compression is the compression type of a record batch: the low bits of its
// attributes, which follow base offset, length, leader epoch, magic and CRC.
func compression(batch []byte) int {
	const attributes = 8 + 4 + 4 + 1 + 4
	if len(batch) < attributes+2 {
		return 0
	}
	return int(binary.BigEndian.Uint16(batch[attributes:]) & 7)
}

func partitionRef(topic string, id [16]byte, number int32) queen.PartitionRef {
	return queen.PartitionRef{Queue: queueRef(topic, id), Number: number}
}

// queueRef names a queue as the request did: by name, or by id in the versions
// that have no names.
func queueRef(topic string, id [16]byte) queen.QueueRef {
	if topic != "" {
		return queen.QueueRef{Name: topic}
	}
	return queen.QueueRef{TopicID: uuid.UUID(id)}
}

// walkProduce steps over a Produce body without allocating. The frame may be
// large and decoding believes counts up to the bytes left, so they are checked
// first: afterwards every element counted is one that is there.
func walkProduce(b []byte, version int16, cfg *Config) error {
	w := walker{b: b, flexible: version >= 9}
	w.text() // transactional id
	w.skip(2 + 4)
	elements := 0
	for topics := w.count(); topics > 0 && w.err == nil; topics-- {
		if version >= 13 {
			w.skip(16)
		} else {
			w.text()
		}
		partitions := w.count()
		if elements += 1 + max(0, partitions); elements > cfg.ElementsMax {
			return badFramef("Produce names more than %d partitions; the client must send less at once", cfg.ElementsMax)
		}
		for ; partitions > 0 && w.err == nil; partitions-- {
			w.skip(4)
			w.bytes()
			w.tags()
		}
		w.tags()
	}
	w.tags()
	return w.err
}
