package compat

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var configCases = []Case{
	{"configs/describe-tells-value-source-and-synonyms", describeTopicConfigs},
	{"configs/describe-a-broker", describeBrokerConfigs},
	{"configs/describe-refusals", describeConfigRefusals},
	{"configs/alter-incrementally", alterIncrementally},
	{"configs/alter-refusals", alterRefusals},
	{"configs/alter-replaces-all", alterReplaces},
	{"configs/create-with-configs", createWithConfigs},
	{"configs/max-message-bytes-holds", maxMessageBytes},
	{"configs/timestamps-are-held-against-the-clock", timestampLimits},
	{"configs/log-append-time", appendTimeTopic},
	{"configs/cleanup-policy", cleanupPolicy},
	{"configs/compression-type", compressionType},
}

func describeRequest(kind kmsg.ConfigResourceType, name string, keys []string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, res)
	return req
}

func (w *wire) describe(version int16, kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	r := ask[*kmsg.DescribeConfigsResponse](w, describeRequest(kind, name, keys), version)
	if len(r.Resources) != 1 {
		w.t.Fatalf("DescribeConfigs v%d of one resource answered %d", version, len(r.Resources))
	}
	return r.Resources[0]
}

// configs lists a topic's configs as "value source".
func (w *wire) configs(topic string) map[string]string {
	res := w.describe(w.t.max(kmsg.DescribeConfigs, newest), kmsg.ConfigResourceTypeTopic, topic)
	w.t.wantCode("describe "+topic, res.ErrorCode, 0)
	out := make(map[string]string)
	for _, c := range res.Configs {
		if c.Value != nil {
			out[c.Name] = fmt.Sprint(*c.Value, " ", int(c.Source))
		}
	}
	return out
}

// awaitConfigs waits until a topic's configs are these: name, then value and source.
func (w *wire) awaitConfigs(topic string, want ...string) {
	w.t.until(fmt.Sprintf("%s has %q", topic, want), func() bool {
		got := w.configs(topic)
		for i := 0; i < len(want); i += 2 {
			if got[want[i]] != want[i+1] {
				return false
			}
		}
		return true
	})
}

func describeTopicConfigs(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	offered, _ := t.offers(kmsg.DescribeConfigs)
	for v := max(offered.min, 1); v <= t.max(kmsg.DescribeConfigs, newest); v++ {
		res := w.describe(v, kmsg.ConfigResourceTypeTopic, tp.name)
		t.wantCode(fmt.Sprintf("describe v%d", v), res.ErrorCode, 0)
		if len(res.Configs) < 30 {
			t.Errorf("v%d: %d configs, want all that a topic has", v, len(res.Configs))
		}
		for _, c := range res.Configs {
			if c.Value == nil || c.ReadOnly || c.IsSensitive {
				t.Errorf("v%d: %s is null, read-only or sensitive", v, c.Name)
			}
			if v >= 3 && (c.ConfigType == 0 || c.Documentation == nil || *c.Documentation == "") {
				t.Errorf("v%d: %s has type %d and documentation %v", v, c.Name, c.ConfigType, c.Documentation)
			}
			if c.Name != "max.message.bytes" {
				continue
			}
			if *c.Value != "1048588" || c.Source != kmsg.ConfigSourceDefaultConfig || len(c.ConfigSynonyms) != 1 ||
				c.ConfigSynonyms[0].Name != "message.max.bytes" || *c.ConfigSynonyms[0].Value != "1048588" ||
				c.ConfigSynonyms[0].Source != kmsg.ConfigSourceDefaultConfig {
				t.Errorf("v%d: max.message.bytes=%s from %d, synonyms %+v", v, *c.Value, c.Source, c.ConfigSynonyms)
			}
		}
	}
	v := t.max(kmsg.DescribeConfigs, newest)
	if res := w.describe(v, kmsg.ConfigResourceTypeTopic, tp.name, "retention.ms", "no.such.config"); len(res.Configs) != 1 || res.Configs[0].Name != "retention.ms" {
		t.Errorf("two names, one of them unknown: %+v", res.Configs)
	}
	req := describeRequest(kmsg.ConfigResourceTypeTopic, tp.name, nil)
	req.IncludeSynonyms, req.IncludeDocumentation = false, false
	for _, c := range ask[*kmsg.DescribeConfigsResponse](w, req, v).Resources[0].Configs {
		if len(c.ConfigSynonyms) > 0 || c.Documentation != nil && *c.Documentation != "" {
			t.Errorf("%s comes with synonyms or documentation nobody asked for", c.Name)
		}
	}
}

// describeBrokerConfigs is what tools ask before they do anything. Case A08.
func describeBrokerConfigs(ctx context.Context, t *T) {
	md, err := t.adm().BrokerMetadata(ctx)
	t.must(err, "metadata")
	b := md.Brokers[0]
	w := t.dialTo(fmt.Sprintf("%s:%d", b.Host, b.Port))
	id := fmt.Sprint(b.NodeID)
	offered, _ := t.offers(kmsg.DescribeConfigs)
	for v := max(offered.min, 1); v <= t.max(kmsg.DescribeConfigs, newest); v++ {
		res := w.describe(v, kmsg.ConfigResourceTypeBroker, id)
		t.wantCode("describe the broker", res.ErrorCode, 0)
		got := make(map[string]string)
		for _, c := range res.Configs {
			got[c.Name] = ""
			if c.Value != nil {
				got[c.Name] = *c.Value
			}
		}
		for _, key := range []string{"broker.id", "num.partitions", "default.replication.factor", "auto.create.topics.enable", "message.max.bytes", "min.insync.replicas", "log.cleanup.policy", "offsets.retention.minutes"} {
			if got[key] == "" {
				t.Errorf("v%d: %s has no value", v, key)
			}
		}
		if _, ok := got["log.retention.ms"]; !ok {
			t.Errorf("v%d: log.retention.ms is missing", v)
		}
		res = w.describe(v, kmsg.ConfigResourceTypeBroker, id, "num.partitions", "nope")
		if len(res.Configs) != 1 || res.Configs[0].Name != "num.partitions" {
			t.Errorf("v%d: two names, one of them unknown: %+v", v, res.Configs)
		}
		t.wantCode("defaults of the cluster", w.describe(v, kmsg.ConfigResourceTypeBroker, "").ErrorCode, 0)
	}
}

func describeConfigRefusals(_ context.Context, t *T) {
	w := t.dial()
	v := t.max(kmsg.DescribeConfigs, newest)
	invalid := kerr.InvalidRequest.Code
	for _, c := range []struct {
		what string
		kind kmsg.ConfigResourceType
		name string
		want int16
	}{
		{"a broker nobody is", kmsg.ConfigResourceTypeBroker, "9999", invalid},
		{"a broker that is no number", kmsg.ConfigResourceTypeBroker, "abc", invalid},
		{"a topic nobody has", kmsg.ConfigResourceTypeTopic, t.name("compat-missing"), kerr.UnknownTopicOrPartition.Code},
		{"a topic without a name", kmsg.ConfigResourceTypeTopic, "", kerr.InvalidTopicException.Code},
		{"a name no topic may have", kmsg.ConfigResourceTypeTopic, "a b", kerr.InvalidTopicException.Code},
		{"a kind of resource there is not", 3, "x", invalid},
	} {
		res := w.describe(v, c.kind, c.name)
		t.wantCode(c.what, res.ErrorCode, c.want)
		if len(res.Configs) != 0 {
			t.Errorf("%s: %d configs", c.what, len(res.Configs))
		}
	}
}

// change is one operation on one config; an empty value is null.
type change struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value string
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

func alteration(kind kmsg.ConfigResourceType, name string, changes ...change) kmsg.IncrementalAlterConfigsRequestResource {
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for _, c := range changes {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op = c.name, c.op
		if c.value != "" {
			rc.Value = &c.value
		}
		res.Configs = append(res.Configs, rc)
	}
	return res
}

func (w *wire) alter(version int16, validate bool, res ...kmsg.IncrementalAlterConfigsRequestResource) map[string]int16 {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources, req.ValidateOnly = res, validate
	codes := make(map[string]int16)
	for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](w, req, version).Resources {
		codes[r.ResourceName] = r.ErrorCode
	}
	return codes
}

func (w *wire) alterTopic(topic string, changes ...change) int16 {
	return w.alter(w.t.max(kmsg.IncrementalAlterConfigs, newest), false, alteration(kmsg.ConfigResourceTypeTopic, topic, changes...))[topic]
}

func alterIncrementally(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.control()
	offered, _ := t.offers(kmsg.IncrementalAlterConfigs)
	for v := offered.min; v <= t.max(kmsg.IncrementalAlterConfigs, newest); v++ {
		one := alteration(kmsg.ConfigResourceTypeTopic, tp.name, change{"retention.ms", opSet, fmt.Sprint(1_000_000 + int(v))})
		t.wantCode("validate", w.alter(v, true, one)[tp.name], 0)
		t.wantCode("alter", w.alter(v, false, one)[tp.name], 0)
		w.awaitConfigs(tp.name, "retention.ms", fmt.Sprintf("%d 1", 1_000_000+int(v)))
	}
	t.wantCode("set", w.alterTopic(tp.name, change{"segment.ms", opSet, "5000"}, change{"flush.messages", opSet, "7"}, change{"retention.bytes", opSet, "9000"}), 0)
	w.awaitConfigs(tp.name, "segment.ms", "5000 1", "flush.messages", "7 1", "retention.bytes", "9000 1")
	// A value equal to the default was set all the same.
	t.wantCode("set to the default", w.alterTopic(tp.name, change{"retention.ms", opSet, "604800000"}, change{"flush.messages", opDelete, ""}), 0)
	w.awaitConfigs(tp.name, "retention.ms", "604800000 1", "flush.messages", "9223372036854775807 5", "segment.ms", "5000 1")
	t.wantCode("delete", w.alterTopic(tp.name, change{"retention.ms", opDelete, ""}, change{"segment.ms", opDelete, ""}, change{"max.message.bytes", opDelete, ""}), 0)
	w.awaitConfigs(tp.name, "retention.ms", "604800000 5", "segment.ms", "604800000 5", "max.message.bytes", "1048588 5", "retention.bytes", "9000 1")
	t.wantCode("a list", w.alterTopic(tp.name, change{"leader.replication.throttled.replicas", opSet, "0:1,1:1"}), 0)
	t.wantCode("append", w.alterTopic(tp.name, change{"leader.replication.throttled.replicas", opAppend, "2:1"}), 0)
	w.awaitConfigs(tp.name, "leader.replication.throttled.replicas", "0:1,1:1,2:1 1")
	t.wantCode("subtract", w.alterTopic(tp.name, change{"leader.replication.throttled.replicas", opSubtract, "1:1"}), 0)
	w.awaitConfigs(tp.name, "leader.replication.throttled.replicas", "0:1,2:1 1")
}

func alterRefusals(ctx context.Context, t *T) {
	tp, other := t.topic(1), t.topic(1)
	w := t.control()
	v := t.max(kmsg.IncrementalAlterConfigs, newest)
	config, invalid := kerr.InvalidConfig.Code, kerr.InvalidRequest.Code
	for _, c := range []struct {
		what    string
		changes []change
		want    int16
	}{
		{"a config nobody knows", []change{{"no.such.config", opSet, "1"}}, config},
		{"a value of the wrong kind", []change{{"retention.ms", opSet, "soon"}}, config},
		{"a value out of range", []change{{"retention.ms", opSet, "-2"}}, config},
		{"a good one beside a bad one", []change{{"flush.ms", opSet, "1234"}, {"segment.ms", opSet, "0"}}, config},
		{"a policy there is not", []change{{"cleanup.policy", opSet, "nonsense"}}, config},
		{"appending to what is no list", []change{{"retention.ms", opAppend, "1"}}, config},
		{"one key twice", []change{{"retention.ms", opSet, "1"}, {"retention.ms", opSet, "2"}}, invalid},
		{"a null to set", []change{{"retention.ms", opSet, ""}}, invalid},
	} {
		for _, validate := range []bool{true, false} {
			codes := w.alter(v, validate, alteration(kmsg.ConfigResourceTypeTopic, tp.name, c.changes...))
			t.wantCode(c.what, codes[tp.name], c.want)
		}
	}
	missing := t.name("compat-missing")
	good := change{"flush.ms", opSet, "4321"}
	codes := w.alter(v, false, alteration(kmsg.ConfigResourceTypeTopic, missing, good), alteration(kmsg.ConfigResourceTypeTopic, other.name, good))
	t.wantCode("a topic nobody has", codes[missing], kerr.UnknownTopicOrPartition.Code)
	t.wantCode("a good one beside it", codes[other.name], 0)
	twice := alteration(kmsg.ConfigResourceTypeTopic, tp.name, good)
	t.wantCode("one topic twice", w.alter(v, false, twice, twice)[tp.name], invalid)
	w.awaitConfigs(other.name, "flush.ms", "4321 1")
	if got := w.configs(tp.name)["flush.ms"]; got != "9223372036854775807 5" {
		t.Errorf("refused, and yet flush.ms is %s", got)
	}
}

func alterReplaces(_ context.Context, t *T) {
	if _, ok := t.offers(kmsg.AlterConfigs); !ok {
		t.Skipf("AlterConfigs")
	}
	tp := t.topic(1)
	w := t.control()
	v := t.max(kmsg.AlterConfigs, newest)
	replace := func(validate bool, kv ...string) int16 {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.ValidateOnly = validate
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, tp.name
		for i := 0; i < len(kv); i += 2 {
			rc := kmsg.NewAlterConfigsRequestResourceConfig()
			rc.Name, rc.Value = kv[i], &kv[i+1]
			res.Configs = append(res.Configs, rc)
		}
		req.Resources = append(req.Resources, res)
		return ask[*kmsg.AlterConfigsResponse](w, req, v).Resources[0].ErrorCode
	}
	t.wantCode("set two", replace(false, "retention.ms", "5000000", "segment.ms", "7000"), 0)
	w.awaitConfigs(tp.name, "retention.ms", "5000000 1", "segment.ms", "7000 1")
	t.wantCode("validate", replace(true, "segment.ms", "8000"), 0)
	t.wantCode("a config nobody knows", replace(false, "segment.ms", "8000", "no.such.config", "1"), kerr.InvalidConfig.Code)
	w.awaitConfigs(tp.name, "retention.ms", "5000000 1", "segment.ms", "7000 1")
	t.wantCode("set another", replace(false, "flush.ms", "9000"), 0)
	w.awaitConfigs(tp.name, "retention.ms", "604800000 5", "segment.ms", "604800000 5", "flush.ms", "9000 1")
}

func createWithConfigs(_ context.Context, t *T) {
	name := t.name("compat")
	rt := newTopic(name, 1)
	for k, v := range map[string]string{"retention.ms": "600000", "segment.bytes": "1048576", "cleanup.policy": "delete"} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		rt.Configs = append(rt.Configs, c)
	}
	w := t.control()
	r := ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(false, rt), t.max(kmsg.CreateTopics, newest))
	t.cleanup(func() { t.deleteTopic(name) })
	t.wantCode("create", r.Topics[0].ErrorCode, 0)
	got := make(map[string]string)
	for _, c := range r.Topics[0].Configs {
		got[c.Name] = fmt.Sprint(*c.Value, " ", c.Source)
	}
	for k, want := range map[string]string{"retention.ms": "600000 1", "segment.bytes": "1048576 1", "cleanup.policy": "delete 1", "flush.ms": "9223372036854775807 5"} {
		if got[k] != want {
			t.Errorf("the answer says %s is %q, want %q", k, got[k], want)
		}
	}
	t.await(name, 1)
	w.awaitConfigs(name, "retention.ms", "600000 1", "segment.bytes", "1048576 1", "cleanup.policy", "delete 1", "flush.ms", "9223372036854775807 5")
}

func maxMessageBytes(_ context.Context, t *T) {
	tp := t.createTopic(t.name("compat"), 1, map[string]*string{"max.message.bytes": kmsg.StringPtr("2000")})
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	large := values(strings.Repeat("x", 3000)).encode()
	t.wantCode("3000 bytes", w.produce(tp, v, -1, part{0, large})[0].ErrorCode, kerr.MessageTooLarge.Code)
	t.wantCode("raise it", t.control().alterTopic(tp.name, change{"max.message.bytes", opSet, "4000"}), 0)
	t.until("3000 bytes are taken", func() bool {
		return w.produce(tp, v, -1, part{0, large})[0].ErrorCode == 0
	})
}

func timestampLimits(_ context.Context, t *T) {
	tp := t.createTopic(t.name("compat"), 1, map[string]*string{
		"message.timestamp.before.max.ms": kmsg.StringPtr("60000"), "message.timestamp.after.max.ms": kmsg.StringPtr("60000"),
	})
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	now := time.Now().UnixMilli()
	for what, c := range map[string]struct {
		at   int64
		want int16
	}{
		"now":                  {now, 0},
		"half a minute ahead":  {now + 30_000, 0},
		"half a minute behind": {now - 30_000, 0},
		"two minutes ahead":    {now + 120_000, kerr.InvalidTimestamp.Code},
		"two minutes behind":   {now - 120_000, kerr.InvalidTimestamp.Code},
	} {
		t.wantCode(what, w.produce(tp, v, -1, part{0, values("x").at(c.at).encode()})[0].ErrorCode, c.want)
	}
	t.wantStored(tp, 0, 3)
	// One of three: the whole batch is refused, and told which record it was.
	b := values("a", "b", "c").at(now)
	b.records[1].TimestampDelta64 = 120_000
	got := w.produce(tp, v, -1, part{0, b.encode()})[0]
	t.wantCode("one of three", got.ErrorCode, kerr.InvalidTimestamp.Code)
	if v >= 8 && (len(got.ErrorRecords) != 1 || got.ErrorRecords[0].RelativeOffset != 1 || got.ErrorRecords[0].ErrorMessage == nil) {
		t.Errorf("the records to blame are %+v, want the second", got.ErrorRecords)
	}
	t.wantStored(tp, 0, 3)
}

// compressionType: what a topic says of it holds for what is stored, whatever
// producers send; a batch in that codec is stored as it came.
func compressionType(_ context.Context, t *T) {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	text := strings.Repeat("so much the same ", 3000)
	for want, name := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		tp := t.createTopic(t.name("compat"), 1, map[string]*string{"compression.type": &name})
		w := t.dialTo(t.leader(tp.name, 0))
		for i, codec := range codecs {
			b := values(text, "b")
			b.codec = &codec
			sent := b.encode()
			t.wantCode("produce", w.produce(tp, t.max(kmsg.Produce, newest), -1, part{0, sent})[0].ErrorCode, 0)
			stored := w.fetch(tp, t.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 1 << 20, offset: int64(2 * i)}, 0).RecordBatches
			var rb kmsg.RecordBatch
			t.must(rb.ReadFrom(stored), "read the batch")
			if int(rb.Attributes&7) != want || rb.NumRecords != 2 {
				t.Errorf("%s: what came in codec %d is stored in %d, %d records", name, i, rb.Attributes&7, rb.NumRecords)
			}
			if sum := crc32.Checksum(stored[batchAttributesAt:], castagnoli); uint32(rb.CRC) != sum {
				t.Errorf("%s: CRC %08x, the bytes have %08x", name, uint32(rb.CRC), sum)
			}
			if i == want && !slices.Equal(stored[batchAttributesAt:], sent[batchAttributesAt:]) {
				t.Errorf("%s: a batch in that codec is not stored as sent", name)
			}
		}
		records := t.readAll(t.ctx, tp)
		for i, r := range records {
			if i%2 == 0 && string(r.Value) != text || i%2 == 1 && string(r.Value) != "b" {
				t.Errorf("%s: record %d has a value of %d bytes", name, i, len(r.Value))
			}
		}
		if len(records) != 2*len(codecs) {
			t.Errorf("%s: %d records, want %d", name, len(records), 2*len(codecs))
		}
	}
}

// appendTimeTopic: the broker's clock is stamped into the batch, whose CRC is
// made anew; the records themselves stay as they were sent.
func appendTimeTopic(_ context.Context, t *T) {
	tp := t.createTopic(t.name("compat"), 1, map[string]*string{"message.timestamp.type": kmsg.StringPtr("LogAppendTime")})
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	stamps := make([]int64, 0, len(codecs))
	for _, codec := range codecs {
		b := values("a", "b").at(1_000)
		b.codec = &codec
		got := w.produce(tp, v, -1, part{0, b.encode()})[0]
		t.wantCode("produce", got.ErrorCode, 0)
		if age := time.Since(time.UnixMilli(got.LogAppendTime)).Abs(); age > time.Minute {
			t.Errorf("log append time %d is %s away", got.LogAppendTime, age)
		}
		stamps = append(stamps, got.LogAppendTime)
	}
	f := w.fetch(tp, t.max(kmsg.Fetch, newest), fetchSpec{maxBytes: 1 << 20}, 0)
	rest := f.RecordBatches
	for i := range codecs {
		var rb kmsg.RecordBatch
		if err := rb.ReadFrom(rest); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		if rb.Attributes&8 == 0 || rb.MaxTimestamp != stamps[i] {
			t.Errorf("batch %d: attributes %#x, max timestamp %d, want the stamp %d", i, rb.Attributes, rb.MaxTimestamp, stamps[i])
		}
		size := int(rb.Length) + 12
		if sum := crc32.Checksum(rest[batchAttributesAt:size], castagnoli); uint32(rb.CRC) != sum {
			t.Errorf("batch %d: CRC %08x, the bytes have %08x", i, uint32(rb.CRC), sum)
		}
		rest = rest[size:]
	}
	// A plain consumer sees the stamp on every record, and a search by time finds it.
	cl := t.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.name: {0: kgo.NewOffset().AtStart()}}))
	for n := 0; n < 2*len(codecs); {
		fs := cl.PollFetches(t.ctx)
		t.must(fs.Err(), "consume")
		fs.EachRecord(func(r *kgo.Record) {
			if r.Timestamp.UnixMilli() != stamps[n/2] {
				t.Errorf("offset %d has timestamp %d, want %d", r.Offset, r.Timestamp.UnixMilli(), stamps[n/2])
			}
			n++
		})
	}
}

// cleanupPolicy: a policy that is accepted is honoured, or it is refused; never
// accepted and treated as another. Case A17.
func cleanupPolicy(_ context.Context, t *T) {
	w := t.control()
	v := t.max(kmsg.CreateTopics, newest)
	for policy, may := range map[string][]int16{
		"delete":         {0},
		"compact":        {0, kerr.InvalidConfig.Code, kerr.PolicyViolation.Code},
		"compact,delete": {0, kerr.InvalidConfig.Code, kerr.PolicyViolation.Code},
		"nonsense":       {kerr.InvalidConfig.Code},
	} {
		rt := newTopic(t.name("compat"), 1)
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "cleanup.policy", &policy
		rt.Configs = append(rt.Configs, c)
		code := ask[*kmsg.CreateTopicsResponse](w, createTopicsRequest(false, rt), v).Topics[0].ErrorCode
		t.wantCode(policy, code, may...)
		if code != 0 {
			continue
		}
		t.cleanup(func() { t.deleteTopic(rt.Topic) })
		t.await(rt.Topic, 1)
		w.awaitConfigs(rt.Topic, "cleanup.policy", policy+" 1")
	}
}
