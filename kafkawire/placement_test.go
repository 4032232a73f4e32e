package kafkawire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func TestElectLeadersFindsNothingToDo(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 2)
	c := d.dial()
	for version := int16(0); version <= 2; version++ {
		req := at(kmsg.NewPtrElectLeadersRequest(), version)
		for _, topic := range []string{"t", "absent", "two words"} {
			rt := kmsg.NewElectLeadersRequestTopic()
			rt.Topic, rt.Partitions = topic, []int32{1, 2}
			req.Topics = append(req.Topics, rt)
		}
		resp := ask[*kmsg.ElectLeadersResponse](c, req)
		if resp.ErrorCode != 0 || len(resp.Topics) != 3 {
			t.Fatalf("version %d: %+v", version, resp)
		}
		for i, want := range [][2]int16{{84, 3}, {3, 3}, {3, 3}} {
			for j, p := range resp.Topics[i].Partitions {
				if p.ErrorCode != want[j] || p.ErrorMessage == nil {
					t.Errorf("version %d: %s/%d: %+v, want %d", version, resp.Topics[i].Topic, p.Partition, p, want[j])
				}
			}
		}
		req.Topics = nil
		if resp := ask[*kmsg.ElectLeadersResponse](c, req); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
			t.Errorf("version %d, all partitions: %+v, want none that needs one", version, resp)
		}
		if req.ElectionType = 5; version >= 1 {
			if resp := ask[*kmsg.ElectLeadersResponse](c, req); resp.ErrorCode != 42 {
				t.Errorf("version %d, an election of another kind: %d, want 42", version, resp.ErrorCode)
			}
		}
	}
}

func TestReassignmentIsOnlyToWhoLeads(t *testing.T) {
	t.Parallel()
	d := open(t)
	q := d.fake.topic("t", 1)
	d.fake.setBrokers(queen.Broker{ID: 1, Host: "h", Port: 1}, queen.Broker{ID: 2, Host: "h", Port: 2})
	c := d.dial()
	now := leader(q.TopicID, 0, d.fake.Cluster().Brokers)
	f := func(want int16, topic string, partition int32, replicas []int32) {
		t.Helper()
		for version := int16(0); version <= 1; version++ {
			req := at(kmsg.NewPtrAlterPartitionAssignmentsRequest(), version)
			rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			rt.Topic = topic
			rt.Partitions = []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}
			req.Topics = append(req.Topics, rt)
			resp := ask[*kmsg.AlterPartitionAssignmentsResponse](c, req)
			if p := resp.Topics[0].Partitions[0]; resp.ErrorCode != 0 || p.ErrorCode != want || (p.ErrorMessage == nil) != (want == 0) {
				t.Errorf("%s/%d to %v: %+v, want %d", topic, partition, replicas, p, want)
			}
		}
	}
	f(0, "t", 0, []int32{now})
	f(39, "t", 0, []int32{3 - now})
	f(39, "t", 0, []int32{1, 2})
	f(39, "t", 0, []int32{now, now})
	f(39, "t", 0, []int32{9})
	f(39, "t", 0, []int32{})
	f(85, "t", 0, nil)
	f(3, "t", 1, []int32{now})
	f(3, "absent", 0, []int32{now})
	if resp := ask[*kmsg.ListPartitionReassignmentsResponse](c, kmsg.NewPtrListPartitionReassignmentsRequest()); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("%+v, want none under way", resp)
	}
}
