package kafkawire

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// topicConfig is one row of the table of topic configs. What becomes of a value
// is said by which of set, only and reported is there; with none of them the
// config tunes Kafka's own files: it is accepted because Connect and Streams set
// it, checked, stored, reported back, and has no effect.
type topicConfig struct {
	name string
	kind kmsg.ConfigType
	def  string
	// broker is the broker config whose default this is; empty where there is none
	// that has a value.
	broker string
	doc    string

	// least and most bound a number.
	least, most float64
	// among lists the values of a text, or of a list's elements; nil: any. With
	// some a list has at least one.
	among []string
	some  bool

	// set puts a checked value into a patch, get reads it back: it is enforced. (A
	// few without them are enforced from QueueOptions.Configs, by name.)
	set func(p *queen.OptionsPatch, v string)
	get func(o *queen.QueueOptions) string
	// only is the one value that is true here; others are refused.
	only string
	// reported is told whatever was set: the value is accepted and not stored.
	reported string
}

const long = math.MaxInt64

// topicConfigs lists the topic configs of Kafka 4.x, and ours, by name; others are refused.
var topicConfigs = []topicConfig{
	{
		name: "cleanup.policy", kind: kmsg.ConfigTypeList, def: "delete", broker: "log.cleanup.policy", among: []string{"compact", "delete"}, some: true,
		doc: "What becomes of old records: delete lets those past retention go, compact those whose key has a newer one.",
		set: func(p *queen.OptionsPatch, v string) {
			expire, compact := strings.Contains(v, "delete"), strings.Contains(v, "compact")
			p.CleanupDelete, p.CleanupCompact = &expire, &compact
		},
		get: func(o *queen.QueueOptions) string {
			if v, ok := o.Configs["cleanup.policy"]; ok {
				return v // as it was written: a list has an order
			}
			switch {
			case !o.CleanupCompact:
				return "delete"
			case !o.CleanupDelete:
				return "compact"
			}
			return "compact,delete"
		},
	},
	{name: "compression.gzip.level", kind: kmsg.ConfigTypeInt, def: "-1", broker: "compression.gzip.level", least: -1, most: 9, doc: levelDoc},
	{name: "compression.lz4.level", kind: kmsg.ConfigTypeInt, def: "9", broker: "compression.lz4.level", least: 1, most: 17, doc: levelDoc},
	{
		name: "compression.type", kind: kmsg.ConfigTypeString, def: "producer", broker: "compression.type",
		among: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
		doc:   "The codec batches are stored in; producer: as their producer compressed them.",
		set:   func(p *queen.OptionsPatch, v string) { p.Compression = &v },
		get:   func(o *queen.QueueOptions) string { return o.Compression },
	},
	{name: "compression.zstd.level", kind: kmsg.ConfigTypeInt, def: "3", broker: "compression.zstd.level", least: -131072, most: 22, doc: levelDoc},
	{
		name: "delete.retention.ms", kind: kmsg.ConfigTypeLong, def: "86400000", broker: "log.cleaner.delete.retention.ms", most: long,
		doc: "How long a tombstone stays after what it deletes was compacted away.",
		set: func(p *queen.OptionsPatch, v string) { p.TombstoneRetentionMs = number[int64](v) },
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.TombstoneRetentionMs, 10) },
	},
	{name: "errors.deadletterqueue.group.enable", kind: kmsg.ConfigTypeBoolean, def: "false", only: "false", doc: "There are no share groups."},
	{name: "file.delete.delay.ms", kind: kmsg.ConfigTypeLong, def: "60000", broker: "log.segment.delete.delay.ms", most: long, doc: idleDoc},
	{name: "flush.messages", kind: kmsg.ConfigTypeLong, def: "9223372036854775807", broker: "log.flush.interval.messages", least: 1, most: long, doc: idleDoc},
	{name: "flush.ms", kind: kmsg.ConfigTypeLong, def: "9223372036854775807", most: long, doc: idleDoc},
	{name: "follower.replication.throttled.replicas", kind: kmsg.ConfigTypeList, doc: idleDoc},
	{name: "index.interval.bytes", kind: kmsg.ConfigTypeInt, def: "4096", broker: "log.index.interval.bytes", most: math.MaxInt32, doc: idleDoc},
	{name: "leader.replication.throttled.replicas", kind: kmsg.ConfigTypeList, doc: idleDoc},
	{name: "local.retention.bytes", kind: kmsg.ConfigTypeLong, def: "-2", broker: "log.local.retention.bytes", least: -2, most: long, doc: idleDoc},
	{name: "local.retention.ms", kind: kmsg.ConfigTypeLong, def: "-2", broker: "log.local.retention.ms", least: -2, most: long, doc: idleDoc},
	{
		name: "max.compaction.lag.ms", kind: kmsg.ConfigTypeLong, def: "9223372036854775807", broker: "log.cleaner.max.compaction.lag.ms", least: 1, most: long,
		doc: "How long a record may wait to be compacted, whatever the ratio of dirty bytes.",
		set: func(p *queen.OptionsPatch, v string) { p.CompactionLagMaxMs = number[int64](v) },
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.CompactionLagMaxMs, 10) },
	},
	{
		name: "max.decompressed.message.bytes", kind: kmsg.ConfigTypeInt, def: strconv.Itoa(queen.DecompressedBytesMax), broker: "max.decompressed.message.bytes",
		least: 1, most: queen.DecompressedBytesMax,
		doc: "The most that the records of a batch may take after decompression.",
	},
	{
		name: "max.message.bytes", kind: kmsg.ConfigTypeInt, def: "1048588", broker: "message.max.bytes", most: math.MaxInt32,
		doc: "The largest record batch, as its producer compressed it.",
		set: func(p *queen.OptionsPatch, v string) { p.MaxMessageBytes = number[int](v) },
		get: func(o *queen.QueueOptions) string { return strconv.Itoa(o.MaxMessageBytes) },
	},
	{
		name: "message.timestamp.after.max.ms", kind: kmsg.ConfigTypeLong, def: "3600000", broker: "log.message.timestamp.after.max.ms", most: long,
		doc: "How far a record's timestamp may lie ahead of the broker's clock.",
		set: func(p *queen.OptionsPatch, v string) { p.TimestampAfterMaxMs = number[int64](v) },
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.TimestampAfterMaxMs, 10) },
	},
	{
		name: "message.timestamp.before.max.ms", kind: kmsg.ConfigTypeLong, def: "9223372036854775807", broker: "log.message.timestamp.before.max.ms", most: long,
		doc: "How far a record's timestamp may lie behind the broker's clock.",
		set: func(p *queen.OptionsPatch, v string) { p.TimestampBeforeMaxMs = number[int64](v) },
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.TimestampBeforeMaxMs, 10) },
	},
	{
		name: "message.timestamp.type", kind: kmsg.ConfigTypeString, def: createTime, broker: "log.message.timestamp.type", among: []string{createTime, logAppendTime},
		doc: "Whether a record's timestamp is its producer's or the broker's.",
		set: func(p *queen.OptionsPatch, v string) { stamped := v == logAppendTime; p.LogAppendTime = &stamped },
		get: func(o *queen.QueueOptions) string {
			if o.LogAppendTime {
				return logAppendTime
			}
			return createTime
		},
	},
	{
		name: "min.cleanable.dirty.ratio", kind: kmsg.ConfigTypeDouble, def: "0.5", broker: "log.cleaner.min.cleanable.ratio", most: 1,
		doc: "The share of a log's bytes not compacted yet above which it is compacted.",
		set: func(p *queen.OptionsPatch, v string) {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				panic("BUG: a number was not checked: " + err.Error())
			}
			p.DirtyRatioMin = &f
		},
		get: func(o *queen.QueueOptions) string {
			if v, ok := o.Configs["min.cleanable.dirty.ratio"]; ok {
				return v // as it was written
			}
			return strconv.FormatFloat(o.DirtyRatioMin, 'f', -1, 64)
		},
	},
	{
		name: "min.compaction.lag.ms", kind: kmsg.ConfigTypeLong, def: "0", broker: "log.cleaner.min.compaction.lag.ms", most: long,
		doc: "How long a record is left alone by compaction.",
		set: func(p *queen.OptionsPatch, v string) { p.CompactionLagMinMs = number[int64](v) },
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.CompactionLagMinMs, 10) },
	},
	{
		name: "min.insync.replicas", kind: kmsg.ConfigTypeInt, def: "1", broker: "min.insync.replicas", least: 1, most: math.MaxInt32, reported: "1",
		doc: "PostgreSQL replicates: any number is accepted and reported as 1, as any replication factor is.",
	},
	{name: "preallocate", kind: kmsg.ConfigTypeBoolean, def: "false", broker: "log.preallocate", doc: idleDoc},
	{
		name: "queen.dedup.max.ids", kind: kmsg.ConfigTypeLong, def: "-1", least: -1, most: long,
		doc: "How many offsets back an id is known; -1: as far as the window reaches.",
		set: func(p *queen.OptionsPatch, v string) {
			p.DedupMaxIDs = number[int64](v)
			*p.DedupMaxIDs = max(0, *p.DedupMaxIDs)
		},
		get: func(o *queen.QueueOptions) string {
			if o.DedupMaxIDs == 0 {
				return "-1"
			}
			return strconv.FormatInt(o.DedupMaxIDs, 10)
		},
	},
	{
		name: "queen.dedup.source", kind: kmsg.ConfigTypeString, def: queen.DedupSourceNone,
		doc: "Where the id of a record comes from: none, key or header:NAME. A record whose id is stored within the window is dropped.",
		set: func(p *queen.OptionsPatch, v string) { p.DedupSource = &v },
		get: func(o *queen.QueueOptions) string { return o.DedupSource },
	},
	{
		name: "queen.dedup.window.seconds", kind: kmsg.ConfigTypeInt, def: "0", most: math.MaxInt32,
		doc: "How long an id is known; 0 switches deduplication off.",
		set: func(p *queen.OptionsPatch, v string) { p.DedupWindowSeconds = number[int](v) },
		get: func(o *queen.QueueOptions) string { return strconv.Itoa(o.DedupWindowSeconds) },
	},
	{name: "remote.copy.lag.bytes", kind: kmsg.ConfigTypeLong, def: "-1", broker: "log.remote.copy.lag.bytes", least: -1, most: long, doc: idleDoc},
	{name: "remote.copy.lag.ms", kind: kmsg.ConfigTypeLong, def: "0", broker: "log.remote.copy.lag.ms", least: -1, most: long, doc: idleDoc},
	{name: "remote.log.copy.disable", kind: kmsg.ConfigTypeBoolean, def: "false", doc: idleDoc},
	{name: "remote.log.delete.on.disable", kind: kmsg.ConfigTypeBoolean, def: "false", doc: idleDoc},
	{name: "remote.storage.enable", kind: kmsg.ConfigTypeBoolean, def: "false", only: "false", doc: "There is no tiered storage."},
	{
		name: "retention.bytes", kind: kmsg.ConfigTypeLong, def: "-1", broker: "log.retention.bytes", least: math.MinInt64, most: long,
		doc: "The oldest records of a partition go while those after them have that many bytes; -1: none go.",
		set: func(p *queen.OptionsPatch, v string) {
			p.RetentionBytes = number[int64](v)
			*p.RetentionBytes = max(-1, *p.RetentionBytes)
		},
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.RetentionBytes, 10) },
	},
	{
		name: "retention.ms", kind: kmsg.ConfigTypeLong, def: "604800000", least: -1, most: long,
		doc: "Records older than this go; -1: none go.",
		set: func(p *queen.OptionsPatch, v string) { p.RetentionMs = number[int64](v) },
		get: func(o *queen.QueueOptions) string { return strconv.FormatInt(o.RetentionMs, 10) },
	},
	{name: "segment.bytes", kind: kmsg.ConfigTypeInt, def: "1073741824", broker: "log.segment.bytes", least: 14, most: math.MaxInt32, doc: idleDoc},
	{name: "segment.index.bytes", kind: kmsg.ConfigTypeInt, def: "10485760", broker: "log.index.size.max.bytes", least: 4, most: math.MaxInt32, doc: idleDoc},
	{name: "segment.jitter.ms", kind: kmsg.ConfigTypeLong, def: "0", most: long, doc: idleDoc},
	{name: "segment.ms", kind: kmsg.ConfigTypeLong, def: "604800000", least: 1, most: long, doc: idleDoc},
	{name: "unclean.leader.election.enable", kind: kmsg.ConfigTypeBoolean, def: "false", broker: "unclean.leader.election.enable", doc: idleDoc},
}

const (
	levelDoc      = "How hard a batch is compressed where compression.type asks for that codec."
	idleDoc       = "It tunes Kafka's own files: accepted and reported back, without effect."
	createTime    = "CreateTime"
	logAppendTime = "LogAppendTime"
)

// topicConfigOf finds a row by its name.
func topicConfigOf(name string) *topicConfig {
	for i := range topicConfigs {
		if topicConfigs[i].name == name {
			return &topicConfigs[i]
		}
	}
	return nil
}

// number reads a number that check has passed.
func number[T int | int64](v string) *T {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic("BUG: a number was not checked: " + err.Error())
	}
	t := T(n)
	return &t
}

// check returns a value as it is stored, or says why it is refused.
func (c *topicConfig) check(v string) (string, error) {
	v = strings.TrimSpace(v)
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: invalid value %s for configuration %s: %s", queen.ErrInvalidConfig, v, c.name, why)
	}
	switch c.kind {
	case kmsg.ConfigTypeInt, kmsg.ConfigTypeLong:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return bad("not a whole number")
		}
		if f := float64(n); f < c.least || f > c.most {
			return bad(fmt.Sprintf("must be between %.0f and %.0f", c.least, c.most))
		}
		v = strconv.FormatInt(n, 10)
	case kmsg.ConfigTypeDouble:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f >= c.least && f <= c.most) {
			return bad(fmt.Sprintf("must be a number between %v and %v", c.least, c.most))
		}
	case kmsg.ConfigTypeBoolean:
		if v = strings.ToLower(v); v != "true" && v != "false" {
			return bad("must be true or false")
		}
	default:
		if !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return bad("must be UTF-8 without control characters")
		}
		if c.some && len(c.elements(v)) == 0 {
			return bad("must have a value")
		}
		for _, part := range c.elements(v) {
			if c.among != nil && !slices.Contains(c.among, part) {
				return bad("must be one of " + strings.Join(c.among, ", "))
			}
		}
	}
	if c.only != "" && v != c.only {
		return bad("only " + c.only + " is served")
	}
	return v, nil
}

// elements are the parts of a list, or the one value of a text.
func (c *topicConfig) elements(v string) []string {
	if c.kind != kmsg.ConfigTypeList {
		return []string{v}
	}
	if v == "" {
		return nil
	}
	parts := strings.Split(v, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// put adds a checked value to a patch; nil goes back to the default of a topic.
func (c *topicConfig) put(p *queen.OptionsPatch, v *string) {
	if p.Configs == nil {
		p.Configs = make(map[string]*string)
	}
	value := c.def
	if v != nil {
		value = *v
	}
	if c.set != nil {
		c.set(p, value)
	}
	if c.reported == "" || v == nil {
		p.Configs[c.name] = v
	}
	if c.name == "queen.dedup.window.seconds" && v == nil {
		p.WindowFrom = queen.WindowKafka
	}
}

// value is what a queue has, and where it is from.
func (c *topicConfig) value(o *queen.QueueOptions) (string, kmsg.ConfigSource) {
	stored, named := o.Configs[c.name]
	switch {
	case c.get != nil:
		v := c.get(o)
		if named || v != c.def {
			return v, kmsg.ConfigSourceDynamicTopicConfig
		}
		return v, kmsg.ConfigSourceDefaultConfig
	case named:
		return stored, kmsg.ConfigSourceDynamicTopicConfig
	}
	return c.def, kmsg.ConfigSourceDefaultConfig
}

// topicOptions translates the configs of a new topic.
func topicOptions(given []kmsg.CreateTopicsRequestTopicConfig) (queen.QueueOptions, error) {
	p := queen.OptionsPatch{Merge: true}
	for _, g := range given {
		c := topicConfigOf(g.Name)
		if c == nil {
			return queen.QueueOptions{}, unknownTopicConfig(g.Name)
		}
		if g.Value == nil {
			return queen.QueueOptions{}, fmt.Errorf("%w: null value not supported for topic config %s", queen.ErrInvalidConfig, g.Name)
		}
		v, err := c.check(*g.Value)
		if err != nil {
			return queen.QueueOptions{}, err
		}
		c.put(&p, &v)
	}
	o := queen.TopicOptions()
	return p.Apply(o, o), nil
}

func unknownTopicConfig(name string) error {
	return fmt.Errorf("%w: unknown topic config name: %s", queen.ErrInvalidConfig, name)
}

// createdConfigs reports the configs of a topic to who made it.
func createdConfigs(o *queen.QueueOptions) []kmsg.CreateTopicsResponseTopicConfig {
	out := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(topicConfigs))
	for i := range topicConfigs {
		rc := kmsg.NewCreateTopicsResponseTopicConfig()
		v, source := topicConfigs[i].value(o)
		rc.Name, rc.Value, rc.Source = topicConfigs[i].name, &v, int8(source)
		out = append(out, rc)
	}
	return out
}
