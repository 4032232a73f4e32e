package kafkawire

import (
	"errors"
	"fmt"
	"time"
)

// GroupConfig bounds consumer groups. Zero means the default named in the comment.
type GroupConfig struct {
	// GroupsMax bounds the groups that have members; a join to another one is
	// answered COORDINATOR_NOT_AVAILABLE, which clients repeat; default 10,000.
	GroupsMax int
	// MembersMax bounds the members of a group (Kafka: group.max.size); one more
	// is answered GROUP_MAX_SIZE_REACHED; default 1,000.
	MembersMax int
	// PendingMax bounds the member ids a group has given out that nobody has used
	// yet (KIP-394); one more is answered COORDINATOR_NOT_AVAILABLE; default 5,000.
	PendingMax int
	// GroupBytesMax bounds the metadata, assignments and unused ids of one group; a
	// join or a leader's assignments above it are answered GROUP_MAX_SIZE_REACHED;
	// default 8 MiB.
	GroupBytesMax int
	// BytesMax bounds them over all groups; a join or assignments above it are answered
	// COORDINATOR_NOT_AVAILABLE; default 128 MiB.
	BytesMax int
	// InitialDelay is how long the first members of a group wait for others
	// (Kafka: group.initial.rebalance.delay.ms, 3 s there); default 0.
	InitialDelay time.Duration
	// NewcomerWait is how long somebody new may wait for a join phase to end;
	// its client is gone or will ask again; default 5 min.
	NewcomerWait time.Duration
	// SessionMin and SessionMax are the session timeouts accepted; another is
	// answered INVALID_SESSION_TIMEOUT; default 6 s and 30 min.
	SessionMin, SessionMax time.Duration
	// ConsumerHeartbeat is how often members of the consumer protocol (KIP-848) are
	// told to send heartbeats (Kafka: group.consumer.heartbeat.interval.ms); default 5 s.
	ConsumerHeartbeat time.Duration
	// ConsumerSession is how long such a member lives without one (Kafka:
	// group.consumer.session.timeout.ms); default 45 s.
	ConsumerSession time.Duration
	// RegexesMax bounds the different regular expressions a consumer group
	// subscribes to; one more is answered INVALID_REQUEST; default 20.
	RegexesMax int
	// EmptyKeep is how long a group is known after its last member went,
	// if it is one of few, a tenth of GroupsMax; default 10 min.
	EmptyKeep time.Duration
	// OffsetMetadataBytesMax bounds the text stored with an offset; a longer one
	// is answered OFFSET_METADATA_TOO_LARGE; default 4,096.
	OffsetMetadataBytesMax int
	// OffsetsRetention is how long positions that Kafka clients committed are kept
	// once nobody is in the group (Kafka: offsets.retention.minutes); default 7 days.
	OffsetsRetention time.Duration
}

func (c GroupConfig) withDefaults() GroupConfig {
	number := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	wait := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	number(&c.GroupsMax, 10_000)
	number(&c.MembersMax, 1_000)
	number(&c.PendingMax, 5_000)
	number(&c.GroupBytesMax, 8<<20)
	number(&c.BytesMax, 128<<20)
	wait(&c.NewcomerWait, 5*time.Minute)
	wait(&c.SessionMin, 6*time.Second)
	wait(&c.SessionMax, 30*time.Minute)
	wait(&c.ConsumerHeartbeat, 5*time.Second)
	wait(&c.ConsumerSession, 45*time.Second)
	number(&c.RegexesMax, 20)
	wait(&c.EmptyKeep, 10*time.Minute)
	number(&c.OffsetMetadataBytesMax, 4096)
	wait(&c.OffsetsRetention, 7*24*time.Hour)
	return c
}

func (c GroupConfig) validate() error {
	var errs []error
	for _, f := range []struct {
		name   string
		v, low int64
	}{
		{"GroupsMax", int64(c.GroupsMax), 1},
		{"MembersMax", int64(c.MembersMax), 1},
		{"PendingMax", int64(c.PendingMax), 1},
		{"GroupBytesMax", int64(c.GroupBytesMax), 1 << 10},
		{"BytesMax", int64(c.BytesMax), 1 << 10},
		{"InitialDelay", int64(c.InitialDelay), 0},
		{"NewcomerWait", int64(c.NewcomerWait), int64(time.Second)},
		{"SessionMin", int64(c.SessionMin), int64(time.Millisecond)},
		{"SessionMax", int64(c.SessionMax), int64(c.SessionMin)},
		{"ConsumerHeartbeat", int64(c.ConsumerHeartbeat), int64(time.Millisecond)},
		{"ConsumerSession", int64(c.ConsumerSession), int64(c.ConsumerHeartbeat) + 1},
		{"RegexesMax", int64(c.RegexesMax), 1},
		{"EmptyKeep", int64(c.EmptyKeep), 1},
		{"OffsetMetadataBytesMax", int64(c.OffsetMetadataBytesMax), 1},
		{"OffsetsRetention", int64(c.OffsetsRetention), int64(time.Second)},
	} {
		if f.v < f.low {
			errs = append(errs, fmt.Errorf("kafkawire: Config.Groups.%s is %d, must be at least %d", f.name, f.v, f.low))
		}
	}
	return errors.Join(errs...)
}

// consumerLimits is what a single group of the consumer protocol has to know.
func (c GroupConfig) consumerLimits() consumerLimits {
	return consumerLimits{
		membersMax: c.MembersMax, bytesMax: c.GroupBytesMax, regexesMax: c.RegexesMax,
		session: c.ConsumerSession, emptyKeep: c.EmptyKeep,
	}
}

// limits is what a single classic group has to know.
func (c GroupConfig) limits() groupLimits {
	return groupLimits{
		membersMax: c.MembersMax, pendingMax: c.PendingMax, bytesMax: c.GroupBytesMax,
		initialDelay: c.InitialDelay, newcomerWait: c.NewcomerWait, emptyKeep: c.EmptyKeep,
	}
}
