package kafkawire

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// offsetsTopic is where Apache Kafka keeps the positions of groups. Ours are
// elsewhere: the topic is there because clients take its place in the list of
// topics, marked as internal, as a fact about every cluster that has groups. It
// is made with the first group, has one partition, and nothing is in it.
const offsetsTopic = "__consumer_offsets"

// internalTopic says whether clients are told that a topic is internal, and kept
// from producing to it. The names are Kafka's.
func internalTopic(name string) bool {
	return name == offsetsTopic || name == "__transaction_state" || name == "__share_group_state"
}

// offsetsShown is what this broker knows of offsetsTopic.
type offsetsShown struct {
	id    atomic.Pointer[uuid.UUID] // once met: who produces by id has the id from a broker
	again atomic.Int64              // in Unix seconds: after a failure, not before
}

func (o *offsetsShown) is(id uuid.UUID) bool {
	known := o.id.Load()
	return known != nil && *known == id
}

// Nothing depends on offsetsTopic: making it may take this long, and is tried
// again so much later, by the next who asks for a coordinator.
const (
	showOffsetsMax   = time.Second
	showOffsetsAgain = 10 * time.Second
)

// showOffsets makes offsetsTopic if it is not there.
func (s *Server) showOffsets(ctx context.Context) {
	if now := time.Now(); now.Unix() < s.offsetsShown.again.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, showOffsetsMax)
	defer cancel()
	if err := s.meetOffsets(ctx); err != nil {
		s.offsetsShown.again.Store(time.Now().Add(showOffsetsAgain).Unix())
		s.log.Debug("the topic of offsets is not shown yet", "topic", offsetsTopic, "err", err)
	}
}

func (s *Server) meetOffsets(ctx context.Context) error {
	found, err := s.engine.Queues(ctx, []queen.QueueRef{{Name: offsetsTopic}})
	if err != nil {
		return err
	}
	q, err := found[0].Queue, found[0].Err
	if errors.Is(err, queen.ErrUnknownQueue) {
		q, err = s.engine.CreateQueue(ctx, queen.NewQueue{Name: offsetsTopic, Partitions: 1, Options: queen.TopicOptions()})
		if errors.Is(err, queen.ErrQueueExists) { // another broker was faster
			return nil
		}
	}
	if err != nil {
		return err
	}
	s.offsetsShown.id.Store(&q.TopicID)
	return nil
}
