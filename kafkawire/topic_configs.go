package kafkawire

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// topicConfig is one row of the table of topic configs. Exactly one of set, only
// and idle says what becomes of a value: it is enforced, it must be the one
// thing we do anyway, or it tunes Kafka's own files, is accepted because Connect
// and Streams set it, reported back, and has no effect.
type topicConfig struct {
	name string
	def  string
	set  func(o *queen.QueueOptions, v string, produceBytesMax int) error
	only bool
	idle bool
}

// topicConfigTable lists the topic configs of Kafka 4.x, and ours; other names are refused.
var topicConfigTable = []topicConfig{
	{name: "cleanup.policy", def: "delete", only: true},
	{name: "compression.gzip.level", def: "-1", idle: true},
	{name: "compression.lz4.level", def: "9", idle: true},
	{name: "compression.type", def: "producer", only: true},
	{name: "compression.zstd.level", def: "3", idle: true},
	{name: "delete.retention.ms", def: "86400000", idle: true},
	{name: "file.delete.delay.ms", def: "60000", idle: true},
	{name: "flush.messages", def: "9223372036854775807", idle: true},
	{name: "flush.ms", def: "9223372036854775807", idle: true},
	{name: "follower.replication.throttled.replicas", def: "", idle: true},
	{name: "index.interval.bytes", def: "4096", idle: true},
	{name: "leader.replication.throttled.replicas", def: "", idle: true},
	{name: "local.retention.bytes", def: "-2", idle: true},
	{name: "local.retention.ms", def: "-2", idle: true},
	{name: "max.compaction.lag.ms", def: "9223372036854775807", idle: true},
	{name: "max.message.bytes", def: "1048588", set: setMaxMessageBytes},
	{name: "message.timestamp.after.max.ms", def: "9223372036854775807", only: true},
	{name: "message.timestamp.before.max.ms", def: "9223372036854775807", only: true},
	{name: "message.timestamp.type", def: "CreateTime", only: true},
	{name: "min.cleanable.dirty.ratio", def: "0.5", idle: true},
	{name: "min.compaction.lag.ms", def: "0", idle: true},
	{name: "min.insync.replicas", def: "1", idle: true},
	{name: "preallocate", def: "false", idle: true},
	{name: "queen.dedup.window.seconds", def: "0", set: setDedupWindow},
	{name: "remote.log.copy.disable", def: "false", idle: true},
	{name: "remote.log.delete.on.disable", def: "false", idle: true},
	{name: "remote.storage.enable", def: "false", only: true},
	{name: "retention.bytes", def: "-1", only: true},
	{name: "retention.ms", def: "604800000", set: setRetention},
	{name: "segment.bytes", def: "1073741824", idle: true},
	{name: "segment.index.bytes", def: "10485760", idle: true},
	{name: "segment.jitter.ms", def: "0", idle: true},
	{name: "segment.ms", def: "604800000", idle: true},
	{name: "unclean.leader.election.enable", def: "false", idle: true},
}

func setRetention(o *queen.QueueOptions, v string, _ int) error {
	ms, err := strconv.ParseInt(v, 10, 64)
	if err != nil || ms < -1 {
		return fmt.Errorf("%w: retention.ms is %q, must be a number of milliseconds, or -1", queen.ErrInvalidConfig, v)
	}
	o.RetentionMs = ms
	return nil
}

// setDedupWindow sets the window of native pushes to a topic, as /configure does.
func setDedupWindow(o *queen.QueueOptions, v string, _ int) error {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return fmt.Errorf("%w: queen.dedup.window.seconds is %q, must be a number of seconds", queen.ErrInvalidConfig, v)
	}
	o.DedupWindowSeconds, o.WindowFrom = int(n), queen.WindowConfigured
	return nil
}

func setMaxMessageBytes(o *queen.QueueOptions, v string, produceBytesMax int) error {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 || n > min(int64(produceBytesMax), math.MaxInt32) {
		return fmt.Errorf("%w: max.message.bytes is %q, must be between 0 and the %d of a Produce request", queen.ErrInvalidConfig, v, produceBytesMax)
	}
	o.MaxMessageBytes = int(n)
	return nil
}

// Where a config's value comes from, as CreateTopics reports it.
const (
	sourceTopic   int8 = 1
	sourceDefault int8 = 5
)

// topicOptions translates the configs of a new topic and gives those it will have.
func topicOptions(given []kmsg.CreateTopicsRequestTopicConfig, produceBytesMax int) (queen.QueueOptions, []kmsg.CreateTopicsResponseTopicConfig, error) {
	o := queen.TopicOptions()
	values := make(map[string]string)
	for _, g := range given {
		i := slices.IndexFunc(topicConfigTable, func(row topicConfig) bool { return row.name == g.Name })
		if i < 0 {
			return o, nil, fmt.Errorf("%w: unknown topic config %q", queen.ErrInvalidConfig, g.Name)
		}
		row := topicConfigTable[i]
		if g.Value == nil {
			return o, nil, fmt.Errorf("%w: topic config %s is null", queen.ErrInvalidConfig, row.name)
		}
		switch v := *g.Value; {
		case row.set != nil:
			if err := row.set(&o, v, produceBytesMax); err != nil {
				return o, nil, err
			}
		case row.only && v != row.def:
			return o, nil, fmt.Errorf("%w: topic config %s is %q, only %q is served", queen.ErrInvalidConfig, row.name, v, row.def)
		}
		values[row.name] = *g.Value
	}
	report := make([]kmsg.CreateTopicsResponseTopicConfig, 0, len(topicConfigTable))
	for _, row := range topicConfigTable {
		rc := kmsg.NewCreateTopicsResponseTopicConfig()
		v, ok := values[row.name]
		rc.Name, rc.Source = row.name, sourceTopic
		if !ok {
			v, rc.Source = row.def, sourceDefault
		}
		rc.Value = &v
		report = append(report, rc)
	}
	return o, report, nil
}
