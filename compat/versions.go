package compat

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var versionCases = []Case{
	{"versions/newer-than-the-broker-gets-v0-and-35", newerThanBroker},
	{"versions/bad-client-software-name-is-42", badSoftwareName},
	{"versions/everything-advertised-works", everythingAdvertised},
	{"versions/produce-and-join-are-advertised-from-0", advertisedMinima},
	{"versions/unknown-request-closes-only-its-connection", unknownRequest},
}

// newerThanBroker: a client that opens with too new an ApiVersions must learn
// what it may use, in a shape any client can read, on a socket that stays open.
func newerThanBroker(_ context.Context, t *T) {
	hello := func() *kmsg.ApiVersionsRequest {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "probe", "1.0"
		return req
	}
	top, _ := t.offers(kmsg.ApiVersions)
	w := t.dial()
	if top.max >= 4 {
		r := ask[*kmsg.ApiVersionsResponse](w, hello(), 4)
		t.wantCode("ApiVersions v4", r.ErrorCode, 0)
	}

	w = t.dial()
	req := hello()
	corr := w.send(req, 99)
	v0 := kmsg.NewPtrApiVersionsResponse()
	body := w.next(corr)
	t.must(v0.ReadFrom(body), "decode the answer to v99 as v0")
	if n := len(v0.AppendTo(nil)); n != len(body) {
		t.Fatalf("answer to v99 has %d bytes, its v0 reading %d", len(body), n)
	}
	t.wantCode("ApiVersions v99", v0.ErrorCode, kerr.UnsupportedVersion.Code)
	own := slices.IndexFunc(v0.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		return k.ApiKey == kmsg.ApiVersions.Int16()
	})
	switch {
	case own < 0:
		t.Errorf("the answer to v99 does not list ApiVersions itself")
	case v0.ApiKeys[own].MinVersion != top.min || v0.ApiKeys[own].MaxVersion != top.max:
		t.Errorf("the answer to v99 lists ApiVersions as %d–%d, a proper one as %d–%d",
			v0.ApiKeys[own].MinVersion, v0.ApiKeys[own].MaxVersion, top.min, top.max)
	}
	for _, v := range []int16{3, 0} {
		r := ask[*kmsg.ApiVersionsResponse](w, hello(), v)
		t.wantCode(fmt.Sprintf("ApiVersions v%d on the same socket", v), r.ErrorCode, 0)
	}
}

func badSoftwareName(_ context.Context, t *T) {
	v := t.max(kmsg.ApiVersions, newest)
	for _, name := range []string{"", "-probe", "probe-", "pro be", "próbe", strings.Repeat("x", 20) + "\x00"} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, "1.0"
		r := ask[*kmsg.ApiVersionsResponse](t.dial(), req, v)
		t.wantCode(fmt.Sprintf("software name %q", name), r.ErrorCode, kerr.InvalidRequest.Code)
	}
}

// advertisedMinima: older librdkafka turns compression off unless Produce 0 is
// in range, and others fail without JoinGroup 0, though nobody sends Produce 0–2.
func advertisedMinima(_ context.Context, t *T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.JoinGroup} {
		if r, ok := t.offers(key); !ok || r.min != 0 {
			t.Errorf("%s is advertised from %d (%t), want 0", key.Name(), r.min, ok)
		}
	}
}

// everythingAdvertised sends a minimal request for every key at every version
// offered. Each reply must decode at that version to the last byte and hold
// neither "unsupported" nor "unknown server error", wherever codes are found.
func everythingAdvertised(ctx context.Context, t *T) {
	tp := t.topic(1)
	t.offers(kmsg.ApiVersions)
	calls := 0
	for _, key := range slices.Sorted(maps.Keys(t.offered)) {
		offered := t.offered[key]
		sample := kmsg.RequestForKey(key)
		if sample == nil {
			t.Notef("key %d is unknown to kmsg", key)
			continue
		}
		from := offered.min
		if key == kmsg.Produce.Int16() {
			from = max(from, 3) // 0–2 are advertised for old librdkafka and refused
		}
		for v := from; v <= min(offered.max, sample.MaxVersion()); v++ {
			if ctx.Err() != nil {
				return
			}
			t.tryVersion(key, v, tp)
			calls++
		}
	}
	t.Notef("%d requests over %d keys", calls, len(t.offered))
}

// tryVersion uses a connection of its own, so that one failure is one failure.
func (t *T) tryVersion(key, version int16, tp topic) {
	what := fmt.Sprintf("%s v%d", kmsg.NameForKey(key), version)
	conn, err := t.connect(t.brokers...)
	t.must(err, "dial")
	defer conn.Close()
	t.must(conn.SetDeadline(time.Now().Add(20*time.Second)), "deadline")
	w := t.speak(conn)
	req := t.minimal(key, version, tp)
	corr := w.send(req, version)
	r, err := w.read()
	if err != nil || r.corr != corr {
		t.Errorf("%s: no answer: corr %d, %v", what, r.corr, err)
		return
	}
	resp, err := decode(r.body, req)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, code := range errorCodes(reflect.ValueOf(resp)) {
		if key == topologyUpdate && code == kerr.UnsupportedVersion.Code {
			continue // Apache Kafka's own answer where no plugin takes topologies
		}
		if code == kerr.UnsupportedVersion.Code || code == kerr.UnknownServerError.Code {
			t.Errorf("%s: answered %s", what, codeName(code))
		}
	}
}

// topologyUpdate is StreamsGroupTopologyDescriptionUpdate.
const topologyUpdate = 93

// errorCodes finds every field named ErrorCode in a response.
func errorCodes(v reflect.Value) []int16 {
	var codes []int16
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			codes = errorCodes(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			codes = append(codes, errorCodes(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" && v.Field(i).Kind() == reflect.Int16 {
				codes = append(codes, int16(v.Field(i).Int()))
			} else if v.Type().Field(i).IsExported() {
				codes = append(codes, errorCodes(v.Field(i))...)
			}
		}
	}
	return codes
}

// minimal makes a small valid request. What is not listed is sent as kmsg's
// defaults make it: empty lists, which every request allows.
func (t *T) minimal(key, version int16, tp topic) kmsg.Request {
	group := t.name("compat-versions")
	switch req := kmsg.RequestForKey(key).(type) {
	case *kmsg.ProduceRequest:
		return produceRequest(tp, -1, part{0, values("v").encode()})
	case *kmsg.FetchRequest:
		return fetchRequest(tp, fetchSpec{maxBytes: 1 << 20}, 0)
	case *kmsg.ListOffsetsRequest:
		return listOffsetsRequest(tp.name, -1, 0)
	case *kmsg.MetadataRequest:
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(tp.name)
		req.Topics = append(req.Topics, rt)
		return req
	case *kmsg.OffsetCommitRequest:
		return offsetCommitRequest(group, tp, commit{})
	case *kmsg.OffsetFetchRequest:
		return offsetFetchRequest(group, version, tp)
	case *kmsg.FindCoordinatorRequest:
		req.CoordinatorKey = group
		req.CoordinatorKeys = []string{group}
		return req
	case *kmsg.JoinGroupRequest:
		return joinRequest(group, "", 6*time.Second)
	case *kmsg.SyncGroupRequest:
		req.Group, req.MemberID = group, "nobody"
		return req
	case *kmsg.HeartbeatRequest:
		req.Group, req.MemberID = group, "nobody"
		return req
	case *kmsg.LeaveGroupRequest:
		req.Group, req.MemberID = group, "nobody"
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = "nobody"
		req.Members = append(req.Members, m)
		return req
	case *kmsg.ApiVersionsRequest:
		req.ClientSoftwareName, req.ClientSoftwareVersion = "probe", "1.0"
		return req
	case *kmsg.CreateTopicsRequest:
		return createTopicsRequest(true, newTopic(t.name("compat-never"), 1))
	case *kmsg.DeleteTopicsRequest:
		return deleteTopicsRequest(t.name("compat-missing"))
	case *kmsg.OffsetForLeaderEpochRequest:
		return leaderEpochRequest(tp.name, 0, 0)
	case *kmsg.InitProducerIDRequest:
		req.ProducerID, req.ProducerEpoch = -1, -1
		return req
	case *kmsg.SASLHandshakeRequest:
		req.Mechanism = "PLAIN"
		return req
	case *kmsg.DescribeConfigsRequest:
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, tp.name
		req.Resources = append(req.Resources, r)
		return req
	case *kmsg.DescribeACLsRequest:
		req.ResourceType = kmsg.ACLResourceTypeAny
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		req.ResourcePatternType = kmsg.ACLResourcePatternTypeAny
		return req
	case *kmsg.DescribeGroupsRequest:
		req.Groups = []string{group}
		return req
	case *kmsg.DescribeTopicPartitionsRequest:
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = tp.name
		req.Topics = append(req.Topics, rt)
		return req
	case *kmsg.AddPartitionsToTxnRequest:
		// From version 4 a list of transactions, which is not answered when empty.
		req.TransactionalID = group
		tx := kmsg.NewAddPartitionsToTxnRequestTransaction()
		tx.TransactionalID = group
		req.Transactions = append(req.Transactions, tx)
		return req
	case *kmsg.AddOffsetsToTxnRequest:
		req.TransactionalID, req.Group = group, group
		return req
	case *kmsg.EndTxnRequest:
		req.TransactionalID = group
		return req
	case *kmsg.TxnOffsetCommitRequest:
		req.TransactionalID, req.Group = group, group
		return req
	default:
		return req
	}
}

// unknownRequest: no reply can be encoded for a key nobody knows, so the
// connection ends, and nothing else does.
func unknownRequest(_ context.Context, t *T) {
	other := t.dial()
	for _, head := range [][]byte{
		{0x7f, 0xff, 0, 0}, // key 32767
		{0xff, 0xff, 0, 0}, // key -1
		{0, 3, 0x7f, 0xff}, // Metadata v32767
		{0, 4, 0, 0},       // LeaderAndIsr: for brokers among themselves
	} {
		w := t.dial()
		frame := append([]byte{0, 0, 0, 14}, head...)
		frame = append(frame, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0)
		w.write(frame)
		if !w.ended(20 * time.Second) {
			t.Errorf("after key/version % x the connection lives on", head)
		}
	}
	ask[*kmsg.MetadataResponse](other, kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
}
