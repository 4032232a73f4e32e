package kafkawire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// describe asks for one resource's configs.
func describe(c *client, version int16, kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	c.t.Helper()
	req := at(kmsg.NewPtrDescribeConfigsRequest(), version)
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, res)
	return ask[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
}

// described lists a topic's configs as "value source".
func described(c *client, topic string, keys ...string) map[string]string {
	c.t.Helper()
	rr := describe(c, 4, kmsg.ConfigResourceTypeTopic, topic, keys...)
	if rr.ErrorCode != 0 {
		c.t.Fatalf("describe %s: %d %s", topic, rr.ErrorCode, *rr.ErrorMessage)
	}
	out := make(map[string]string)
	for _, rc := range rr.Configs {
		out[rc.Name] = fmt.Sprint(*rc.Value, " ", int(rc.Source))
	}
	return out
}

func wantConfigs(t *testing.T, got map[string]string, want ...string) {
	t.Helper()
	for i := 0; i < len(want); i += 2 {
		if got[want[i]] != want[i+1] {
			t.Errorf("%s is %q, want %q", want[i], got[want[i]], want[i+1])
		}
	}
}

func op(name string, o kmsg.IncrementalAlterConfigOp, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op = name, o
	if o != kmsg.IncrementalAlterConfigOpDelete {
		c.Value = &value
	}
	return c
}

const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

func alteration(kind kmsg.ConfigResourceType, name string, ops ...kmsg.IncrementalAlterConfigsRequestResourceConfig) kmsg.IncrementalAlterConfigsRequestResource {
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.Configs = kind, name, ops
	return res
}

func alter(c *client, validate bool, res ...kmsg.IncrementalAlterConfigsRequestResource) []kmsg.IncrementalAlterConfigsResponseResource {
	c.t.Helper()
	req := at(kmsg.NewPtrIncrementalAlterConfigsRequest(), 1)
	req.Resources, req.ValidateOnly = res, validate
	return ask[*kmsg.IncrementalAlterConfigsResponse](c, req).Resources
}

func alterTopic(c *client, want int16, name string, ops ...kmsg.IncrementalAlterConfigsRequestResourceConfig) {
	c.t.Helper()
	for _, validate := range []bool{true, false} {
		if rr := alter(c, validate, alteration(kmsg.ConfigResourceTypeTopic, name, ops...))[0]; rr.ErrorCode != want || (rr.ErrorMessage == nil) != (want == 0) {
			c.t.Errorf("%+v (validate only: %v): %d %v, want %d", ops, validate, rr.ErrorCode, rr.ErrorMessage, want)
		}
	}
}

func TestDescribeConfigsTellsEveryConfigOfATopic(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	for version := int16(0); version <= 4; version++ {
		rr := describe(c, version, kmsg.ConfigResourceTypeTopic, "t")
		if rr.ErrorCode != 0 || len(rr.Configs) != len(topicConfigs) {
			t.Fatalf("version %d: code %d, %d configs, want %d", version, rr.ErrorCode, len(rr.Configs), len(topicConfigs))
		}
		for i, rc := range rr.Configs {
			row := topicConfigs[i]
			if rc.Name != row.name || rc.ReadOnly || rc.IsSensitive || *rc.Value != row.def {
				t.Errorf("version %d: %+v, want %s=%s", version, rc, row.name, row.def)
			}
			if version == 0 && !rc.IsDefault || version >= 1 && rc.Source != 5 || version >= 3 && (rc.ConfigType != row.kind || *rc.Documentation == "") {
				t.Errorf("version %d: %+v", version, rc)
			}
		}
	}
	if !slices.IsSortedFunc(topicConfigs, func(a, b topicConfig) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the table is not in order")
	}
	for keys, n := range map[string]int{"retention.ms": 1, "retention.ms,nope": 1, "nope": 0, "Retention.Ms": 0} {
		if rr := describe(c, 4, kmsg.ConfigResourceTypeTopic, "t", strings.Split(keys, ",")...); rr.ErrorCode != 0 || len(rr.Configs) != n {
			t.Errorf("%s: code %d, %d configs, want %d", keys, rr.ErrorCode, len(rr.Configs), n)
		}
	}
	for name, code := range map[string]int16{"absent": 3, "": 17, "two words": 17} {
		if rr := describe(c, 4, kmsg.ConfigResourceTypeTopic, name); rr.ErrorCode != code || rr.ErrorMessage == nil || len(rr.Configs) != 0 {
			t.Errorf("topic %q: %+v, want code %d", name, rr, code)
		}
	}
	for _, kind := range []kmsg.ConfigResourceType{0, 3, 8, 16, 32} {
		if rr := describe(c, 4, kind, "1"); rr.ErrorCode != 42 || rr.ErrorMessage == nil {
			t.Errorf("resource type %d: %+v, want code 42", kind, rr)
		}
	}
}

func TestDescribeConfigsSaysWhereAValueIsFrom(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	alterTopic(c, 0, "t", op("retention.ms", opSet, "604800000"), op("segment.bytes", opSet, "1048576"))
	f := func(key string, want ...string) {
		t.Helper()
		rr := describe(c, 4, kmsg.ConfigResourceTypeTopic, "t", key)
		var got []string
		for _, s := range rr.Configs[0].ConfigSynonyms {
			got = append(got, fmt.Sprint(s.Name, "=", *s.Value, " ", int(s.Source)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: synonyms %q, want %q", key, got, want)
		}
	}
	f("retention.ms", "retention.ms=604800000 1") // set, to what it was
	f("segment.bytes", "segment.bytes=1048576 1", "log.segment.bytes=1073741824 5")
	f("max.message.bytes", "message.max.bytes=1048588 5")
	f("remote.storage.enable")
	f("queen.dedup.source")
	req := at(kmsg.NewPtrDescribeConfigsRequest(), 4)
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	req.Resources = append(req.Resources, res)
	for _, rc := range ask[*kmsg.DescribeConfigsResponse](c, req).Resources[0].Configs {
		if len(rc.ConfigSynonyms) != 0 || rc.Documentation != nil {
			t.Fatalf("not asked for: %+v", rc)
		}
	}
}

// TestDescribeConfigsOfABroker is what tools ask before they do anything.
func TestDescribeConfigsOfABroker(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.DefaultPartitions = 3 })
	d.fake.setBrokers(queen.Broker{ID: 1, Host: "a", Port: 1}, queen.Broker{ID: 2, Host: "b", Port: 2})
	c := d.dial()
	got := make(map[string]string)
	for _, rc := range describe(c, 1, kmsg.ConfigResourceTypeBroker, "1").Configs {
		got[rc.Name] = fmt.Sprint(*rc.Value, " ", int(rc.Source), " ", rc.ReadOnly)
	}
	wantConfigs(t, got, "num.partitions", "3 4 true", "default.replication.factor", "1 5 true", "auto.create.topics.enable", "true 4 true",
		"log.retention.ms", "604800000 5 true", "broker.id", "1 4 true", "message.max.bytes", "1048588 5 true",
		"min.insync.replicas", "1 5 true", "offset.metadata.max.bytes", "4096 4 true", "log.cleanup.policy", "delete 5 true")
	if rr := describe(c, 4, kmsg.ConfigResourceTypeBroker, "2", "num.partitions", "default.replication.factor", "auto.create.topics.enable", "log.retention.ms", "nope"); rr.ErrorCode != 0 || len(rr.Configs) != 4 {
		t.Errorf("another live broker: code %d, %d configs, want 4", rr.ErrorCode, len(rr.Configs))
	}
	if rr := describe(c, 4, kmsg.ConfigResourceTypeBroker, ""); rr.ErrorCode != 0 || len(rr.Configs) != 0 {
		t.Errorf("defaults of the cluster: %+v", rr)
	}
	for _, name := range []string{"99", "abc", "1.0", "-1"} {
		if rr := describe(c, 4, kmsg.ConfigResourceTypeBroker, name); rr.ErrorCode != 42 || rr.ErrorMessage == nil || len(rr.Configs) != 0 {
			t.Errorf("broker %q: %+v, want code 42", name, rr)
		}
	}
}

func TestIncrementalAlterConfigs(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	alterTopic(c, 0, "t", op("retention.ms", opSet, "1000"), op("retention.bytes", opSet, " 5000 "), op("flush.ms", opSet, "7"),
		op("max.message.bytes", opSet, "2000"), op("message.timestamp.type", opSet, "LogAppendTime"),
		op("queen.dedup.source", opSet, "header:id"), op("queen.dedup.window.seconds", opSet, "60"), op("queen.dedup.max.ids", opSet, "9"))
	o := d.fake.queues["t"].Options
	if o.RetentionMs != 1000 || o.RetentionBytes != 5000 || o.MaxMessageBytes != 2000 || !o.LogAppendTime ||
		o.DedupSource != "header:id" || o.DedupWindowSeconds != 60 || o.WindowFrom != queen.WindowConfigured || o.DedupMaxIDs != 9 {
		t.Fatalf("options: %+v", o)
	}
	wantConfigs(t, described(c, "t"), "retention.ms", "1000 1", "retention.bytes", "5000 1", "flush.ms", "7 1", "max.message.bytes", "2000 1",
		"message.timestamp.type", "LogAppendTime 1", "queen.dedup.source", "header:id 1", "queen.dedup.max.ids", "9 1", "segment.ms", "604800000 5")
	// Nothing else is touched by a change, and a deletion goes back to the default of a topic.
	alterTopic(c, 0, "t", op("retention.ms", opDelete, ""), op("flush.ms", opDelete, ""), op("never.heard.of.it", opDelete, ""),
		op("queen.dedup.source", opDelete, ""), op("queen.dedup.window.seconds", opDelete, ""))
	o = d.fake.queues["t"].Options
	if o.RetentionMs != queen.TopicRetentionMs || o.RetentionBytes != 5000 || o.DedupSource != "none" || o.DedupWindowSeconds != 0 || o.WindowFrom != queen.WindowKafka {
		t.Fatalf("options: %+v", o)
	}
	wantConfigs(t, described(c, "t"), "retention.ms", "604800000 5", "flush.ms", "9223372036854775807 5", "retention.bytes", "5000 1")
	// Lists take and lose elements.
	alterTopic(c, 0, "t", op("cleanup.policy", opAppend, "delete"))
	wantConfigs(t, described(c, "t"), "cleanup.policy", "delete 1")
	alterTopic(c, 40, "t", op("cleanup.policy", opSubtract, "delete"))
	set := op("cleanup.policy", opAppend, "compact") // the room says what a change makes of it
	if alter(c, false, alteration(kmsg.ConfigResourceTypeTopic, "t", set))[0].ErrorCode != 0 {
		t.Error("a policy is not added")
	}
	wantConfigs(t, described(c, "t"), "cleanup.policy", "delete,compact 1")
	if o := d.fake.queues["t"].Options; !o.CleanupDelete || !o.CleanupCompact {
		t.Errorf("both policies were asked for: %+v", o)
	}
	alterTopic(c, 40, "t", op("queen.dedup.source", opSet, "key"), op("queen.dedup.window.seconds", opSet, "60"))
	alterTopic(c, 0, "t", op("cleanup.policy", opSet, "compact"), op("delete.retention.ms", opSet, "7"), op("min.compaction.lag.ms", opSet, "8"),
		op("max.compaction.lag.ms", opSet, "9"), op("min.cleanable.dirty.ratio", opSet, "0.25"), op("compression.type", opSet, "uncompressed"))
	if o := d.fake.queues["t"].Options; o.CleanupDelete || !o.CleanupCompact || o.TombstoneRetentionMs != 7 || o.CompactionLagMinMs != 8 ||
		o.CompactionLagMaxMs != 9 || o.DirtyRatioMin != 0.25 || o.Compression != "uncompressed" {
		t.Errorf("options: %+v", o)
	}
	alterTopic(c, 0, "t", op("leader.replication.throttled.replicas", opSet, "0:1,1:1"))
	if alter(c, false, alteration(kmsg.ConfigResourceTypeTopic, "t", op("leader.replication.throttled.replicas", opSubtract, "0:1,3:1")))[0].ErrorCode != 0 {
		t.Error("an element is not taken away")
	}
	wantConfigs(t, described(c, "t"), "leader.replication.throttled.replicas", "1:1 1")
	// Any number of replicas is fine, and one is told.
	alterTopic(c, 0, "t", op("min.insync.replicas", opSet, "2"))
	wantConfigs(t, described(c, "t"), "min.insync.replicas", "1 5")
}

func TestIncrementalAlterConfigsRefusals(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	before := described(d.dial(), "t")
	c := d.dial()
	for name, f := range map[string]struct {
		code int16
		ops  []kmsg.IncrementalAlterConfigsRequestResourceConfig
	}{
		"unknown":          {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("no.such", opSet, "1")}},
		"one of two":       {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", opSet, "5"), op("segment.ms", opSet, "0")}},
		"no policy":        {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", opSet, "")}},
		"compact and ids":  {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", opSet, "compact"), op("queen.dedup.source", opSet, "key"), op("queen.dedup.window.seconds", opSet, "60")}},
		"no list":          {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", opAppend, "1")}},
		"source alone":     {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("queen.dedup.source", opSet, "key")}},
		"too large":        {40, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("max.message.bytes", opSet, "2147483647")}},
		"twice":            {42, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", opSet, "5"), op("retention.ms", opDelete, "")}},
		"null":             {42, []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms"}}},
		"unknown operator": {42, []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", 9, "5")}},
	} {
		t.Run(name, func(t *testing.T) { alterTopic(c, f.code, "t", f.ops...) })
	}
	alterTopic(c, 3, "absent", op("retention.ms", opSet, "5"))
	alterTopic(c, 17, "two words", op("retention.ms", opSet, "5"))
	alterTopic(c, 42, "", op("retention.ms", opSet, "5"))
	set := op("num.partitions", opSet, "5")
	for i, rr := range alter(c, false, alteration(4, "1", set), alteration(4, "", set), alteration(8, "1", set), alteration(32, "g", set)) {
		if rr.ErrorCode != 42 {
			t.Errorf("resource %d: %+v, want code 42", i, rr)
		}
	}
	d.fake.topic("other", 1)
	set = op("retention.ms", opSet, "5")
	rs := alter(c, false, alteration(2, "t", set), alteration(2, "other", set), alteration(2, "t", set))
	if rs[0].ErrorCode != 42 || rs[1].ErrorCode != 0 || rs[2].ErrorCode != 42 {
		t.Errorf("a topic named twice beside another: %d, %d, %d, want 42, 0, 42", rs[0].ErrorCode, rs[1].ErrorCode, rs[2].ErrorCode)
	}
	if after := described(c, "t"); !maps.Equal(before, after) {
		t.Errorf("refused, and yet %v became %v", before, after)
	}
}

func TestAlterConfigsReplacesAllButDeduplication(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	c := d.dial()
	alterTopic(c, 0, "t", op("retention.ms", opSet, "1000"), op("flush.ms", opSet, "7"), op("queen.dedup.window.seconds", opSet, "60"))
	replace := func(want int16, validate bool, configs ...string) {
		t.Helper()
		req := at(kmsg.NewPtrAlterConfigsRequest(), 2)
		req.ValidateOnly = validate
		res := kmsg.NewAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		for i := 0; i < len(configs); i += 2 {
			rc := kmsg.NewAlterConfigsRequestResourceConfig()
			rc.Name = configs[i]
			if configs[i+1] != "null" {
				rc.Value = &configs[i+1]
			}
			res.Configs = append(res.Configs, rc)
		}
		req.Resources = append(req.Resources, res)
		if rr := ask[*kmsg.AlterConfigsResponse](c, req).Resources[0]; rr.ErrorCode != want || (rr.ErrorMessage == nil) != (want == 0) {
			t.Errorf("%q: %+v, want code %d", configs, rr, want)
		}
	}
	replace(0, true, "segment.ms", "5000")
	wantConfigs(t, described(c, "t"), "retention.ms", "1000 1", "flush.ms", "7 1", "segment.ms", "604800000 5")
	replace(40, false, "segment.ms", "5000", "no.such", "1")
	replace(42, false, "segment.ms", "null")
	replace(42, false, "segment.ms", "1", "segment.ms", "2")
	wantConfigs(t, described(c, "t"), "retention.ms", "1000 1", "flush.ms", "7 1", "segment.ms", "604800000 5")
	replace(0, false, "segment.ms", "5000")
	wantConfigs(t, described(c, "t"), "retention.ms", "604800000 5", "flush.ms", "9223372036854775807 5", "segment.ms", "5000 1",
		"queen.dedup.window.seconds", "60 1")
	replace(0, false, "queen.dedup.window.seconds", "5")
	wantConfigs(t, described(c, "t"), "segment.ms", "604800000 5", "queen.dedup.window.seconds", "5 1")
}

// Naming a resource again must not make a short request ask for its configs each time.
func TestDescribeConfigsDescribesAResourceOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("a", 1)
		c := d.dial()
		req := at(kmsg.NewPtrDescribeConfigsRequest(), 4)
		for _, name := range []string{"a", "missing", "a", "a", "missing"} {
			res := kmsg.NewDescribeConfigsRequestResource()
			res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, name
			req.Resources = append(req.Resources, res)
		}
		r := ask[*kmsg.DescribeConfigsResponse](c, req)
		if len(r.Resources) != 2 || r.Resources[0].ResourceName != "a" || len(r.Resources[0].Configs) == 0 || r.Resources[1].ErrorCode != codeUnknownTopicOrPartition {
			t.Fatalf("%d resources: %+v", len(r.Resources), r.Resources)
		}
	})
}
