package kafkawire

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// Asking for a group's coordinator makes the topic that Kafka would have made.
func TestOffsetsTopicIsShown(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	find := at(kmsg.NewPtrFindCoordinatorRequest(), 6)
	find.CoordinatorKeys = []string{"g"}
	topics := func() (names []string, internal []bool) {
		t.Helper()
		req := at(kmsg.NewPtrMetadataRequest(), 13)
		for _, topic := range ask[*kmsg.MetadataResponse](c, req).Topics {
			names, internal = append(names, *topic.Topic), append(internal, topic.IsInternal)
		}
		return names, internal
	}
	find.CoordinatorType = coordinatorOfTransaction
	ask[*kmsg.FindCoordinatorResponse](c, find)
	if names, _ := topics(); len(names) != 1 {
		t.Fatalf("topics %q before anybody looked for a group", names)
	}
	find.CoordinatorType = coordinatorOfGroup
	for range 2 {
		c.want("FindCoordinator", ask[*kmsg.FindCoordinatorResponse](c, find).Coordinators[0].ErrorCode, codeNone)
		names, internal := topics()
		if len(names) != 2 || names[0] != offsetsTopic || !internal[0] || internal[1] {
			t.Fatalf("topics %q, internal %v", names, internal)
		}
	}
	produce := produceRequest(9, -1, offsetsTopic, batch(nil, record{value: "x"}))
	c.want("Produce by name", produced(ask[*kmsg.ProduceResponse](c, produce)).ErrorCode, codeInvalidTopic)
	produce = produceRequest(13, -1, "", batch(nil, record{value: "x"}))
	produce.Topics[0].TopicID = d.fake.queues[offsetsTopic].TopicID
	c.want("Produce by id", produced(ask[*kmsg.ProduceResponse](c, produce)).ErrorCode, codeInvalidTopic)
	if d.end(offsetsTopic, 0) != 0 {
		t.Error("something was stored")
	}
}

// A coordinator is named with or without a database, and a failure is not
// repeated at once.
func TestOffsetsTopicIsLeftForLater(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	find := at(kmsg.NewPtrFindCoordinatorRequest(), 6)
	find.CoordinatorKeys = []string{"g"}
	d.fake.setFail(queen.ErrUnavailable)
	c.want("FindCoordinator", ask[*kmsg.FindCoordinatorResponse](c, find).Coordinators[0].ErrorCode, codeNone)
	d.fake.setFail(nil)
	c.want("FindCoordinator", ask[*kmsg.FindCoordinatorResponse](c, find).Coordinators[0].ErrorCode, codeNone)
	if d.fake.created != 0 {
		t.Fatal("made right after a failure")
	}
	d.offsetsShown.again.Store(time.Now().Unix())
	c.want("FindCoordinator", ask[*kmsg.FindCoordinatorResponse](c, find).Coordinators[0].ErrorCode, codeNone)
	if d.fake.created != 1 {
		t.Fatal("not made ten seconds later")
	}
}
