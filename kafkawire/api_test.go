package kafkawire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// golden compares got with a file of testdata, or rewrites it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed; if that is meant, run the test with -update and read the diff. got:\n%s", path, got)
	}
}

func TestMatrixOfRequests(t *testing.T) {
	t.Parallel()
	golden(t, "matrix.md", []byte(Matrix()))
}

// W01: an ApiVersions of the future is answered in version 0 with error 35 and
// the table, and the connection stays open.
func TestFutureApiVersionsIsAnsweredInVersion0(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	probe := at(kmsg.NewPtrApiVersionsRequest(), 4)
	probe.ClientSoftwareName, probe.ClientSoftwareVersion = "probe", "1.0"
	if got := ask[*kmsg.ApiVersionsResponse](c, probe); got.ErrorCode != 0 || len(got.ApiKeys) != len(d.apis) {
		t.Errorf("v4: error %d, %d keys", got.ErrorCode, len(got.ApiKeys))
	}

	c = d.dial()
	for _, version := range []int16{6, 99, 32767} {
		frame := binary.BigEndian.AppendUint32(nil, 20)
		frame = binary.BigEndian.AppendUint16(frame, 18)
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = binary.BigEndian.AppendUint32(frame, 77)
		frame = append(frame, "not a header"...) // 12 bytes of an unknown form
		if _, err := c.conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		got := c.receive(at(kmsg.NewPtrApiVersionsRequest(), 0), 77).(*kmsg.ApiVersionsResponse)
		if got.ErrorCode != codeUnsupportedVersion {
			t.Errorf("v%d: error %d, want 35", version, got.ErrorCode)
		}
		own := false
		for _, k := range got.ApiKeys {
			own = own || k.ApiKey == 18 && k.MinVersion == 0 && k.MaxVersion == 5
		}
		if !own {
			t.Errorf("v%d: the reply does not tell the range of ApiVersions: %v", version, got.ApiKeys)
		}
	}
	for _, version := range []int16{3, 0} {
		probe.Version = version
		if got := ask[*kmsg.ApiVersionsResponse](c, probe); got.ErrorCode != 0 {
			t.Errorf("v%d afterwards: error %d", version, got.ErrorCode)
		}
	}
}

func TestApiVersionsChecksWhatItIsTold(t *testing.T) {
	t.Parallel()
	c := open(t).dial()
	f := func(name, version string, cluster *string, node int32, want int16) {
		t.Helper()
		req := at(kmsg.NewPtrApiVersionsRequest(), 5)
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = name, version, cluster, node
		if got := ask[*kmsg.ApiVersionsResponse](c, req); got.ErrorCode != want {
			t.Errorf("%q %q %v %d: error %d, want %d", name, version, cluster, node, got.ErrorCode, want)
		}
	}
	ours, other := newFake().cluster.ID, "BBBBBBBBBBBBBBBBBBBBBB"
	f("kgo", "1.22.3", nil, -1, 0)
	f("kgo", "1.22.3", &ours, 1, 0)
	f("kgo", "1.22.3", &other, 1, codeRebootstrapRequired)
	f("kgo", "1.22.3", &ours, 2, codeRebootstrapRequired)
	f("kgo", "1.22.3", &ours, -1, codeInvalidRequest)
	f("", "1.0", nil, -1, codeInvalidRequest)
	f("a b", "1.0", nil, -1, codeInvalidRequest)
	f("-a", "1.0", nil, -1, codeInvalidRequest)
	f("a", "1.0-", nil, -1, codeInvalidRequest)
}

func TestBothTrapsOfAdvertisedVersions(t *testing.T) {
	t.Parallel()
	got := ask[*kmsg.ApiVersionsResponse](open(t).dial(), at(kmsg.NewPtrApiVersionsRequest(), 0))
	for _, k := range got.ApiKeys {
		if (k.ApiKey == 0 || k.ApiKey == 11) && k.MinVersion != 0 {
			t.Errorf("key %d is advertised from %d: old clients switch compression off, or fail to join", k.ApiKey, k.MinVersion)
		}
	}
}

// W05: whatever is advertised is answered, in every version, decodably, and not
// with an error that says otherwise. Produce 0–2 close the connection.
func TestEverythingAdvertisedIsAnswered(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	advertised := ask[*kmsg.ApiVersionsResponse](d.dial(), at(kmsg.NewPtrApiVersionsRequest(), 0))
	for _, k := range advertised.ApiKeys {
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			t.Run(fmt.Sprintf("%s/%d", kmsg.NameForKey(k.ApiKey), v), func(t *testing.T) {
				c := d.dial()
				c.t = t
				req := kmsg.RequestForKey(k.ApiKey)
				req.SetVersion(v)
				fill(d, req)
				corr := c.send(req)
				if k.ApiKey == 0 && v < 3 {
					c.closed()
					return
				}
				resp := c.receive(req, corr)
				if text := fmt.Sprintf("%+v", resp); strings.Contains(text, "ErrorCode:35") || strings.Contains(text, "ErrorCode:-1 ") {
					t.Errorf("answered with an error that should not be: %s", text)
				}
			})
		}
	}
}

// fill makes a minimal sensible request.
func fill(d *door, req kmsg.Request) {
	id := d.fake.queues["t"].TopicID
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		*r = *produceRequest(r.Version, -1, "t", batch(nil, record{value: "x"}))
		if r.Version >= 13 {
			r.Topics[0].Topic, r.Topics[0].TopicID = "", id
		}
	case *kmsg.FetchRequest:
		*r = *fetchRequest(r.Version, "t", 0, 0)
		if r.Version >= 13 {
			r.Topics[0].Topic, r.Topics[0].TopicID = "", id
		}
	case *kmsg.ListOffsetsRequest:
		r.ReplicaID = -1
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1, CurrentLeaderEpoch: -1}}}}
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1"
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g"}
	case *kmsg.CreateTopicsRequest:
		r.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: fmt.Sprint("new", r.Version), NumPartitions: 1, ReplicationFactor: 1}}
	case *kmsg.DeleteTopicsRequest:
		r.TopicNames = []string{"missing"}
	case *kmsg.OffsetForLeaderEpochRequest:
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1, LeaderEpoch: 7}}}}
	case *kmsg.DescribeClusterRequest:
		r.EndpointType = 1
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group, r.MemberID, r.RebalanceTimeoutMillis = "g", "m", 60_000
		r.SubscribedTopicNames, r.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = []string{"g"}
	}
}

func TestRequestsNotServedCloseTheConnection(t *testing.T) {
	t.Parallel()
	d := open(t)
	f := func(key, version int16, why string) {
		t.Helper()
		c := d.dial()
		frame := binary.BigEndian.AppendUint32(nil, 14)
		frame = binary.BigEndian.AppendUint16(frame, uint16(key))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = append(frame, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0)
		go func() { _, _ = c.conn.Write(frame) }()
		c.closed()
		_ = why
	}
	f(4, 0, "LeaderAndIsr is controller traffic")
	f(24, 0, "transactions are not served")
	f(76, 0, "share groups are not served")
	f(71, 0, "telemetry is not served")
	f(9999, 0, "no such key")
	f(-1, 0, "no such key")
	f(3, 14, "Metadata of the future")
	f(3, -1, "a negative version")
	f(18, -1, "a negative version")
	f(1, 3, "Fetch that would need conversion")
	if log := d.wholeLog(); !strings.Contains(log, "request key 9999 is not served") || !strings.Contains(log, "Metadata version 14 is not served, only 0–13") {
		t.Errorf("the log does not say why: %s", log)
	}
}
