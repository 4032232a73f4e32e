package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Config is everything the door can be told. Zero means the default named in
// the comment; what happens at a bound is written next to it.
type Config struct {
	// Engine answers the requests. Required.
	Engine Engine
	// Logger is where the door writes; default: nowhere.
	Logger *slog.Logger

	// AutoCreate lets a Metadata request that asks for it create missing topics.
	AutoCreate bool
	// DefaultPartitions is the partition count of topics created without one; default 1.
	DefaultPartitions int
	// PartitionsMax is the widest queue shown to Kafka clients; a wider one
	// answers INVALID_TOPIC_EXCEPTION; default 10,000.
	PartitionsMax int

	// ProduceBytesMax bounds a Produce frame; a larger one closes the connection; default 100 MiB.
	ProduceBytesMax int
	// FrameBytesMax bounds every other frame; most requests have a smaller bound
	// of their own in the API table; default 8 MiB.
	FrameBytesMax int
	// ElementsMax bounds the partitions named by one Produce request; one with
	// more closes the connection; default 100,000.
	ElementsMax int
	// FetchPartitionsMax bounds the topics and partitions named by one Fetch request,
	// and so those of one consumer; one with more closes the connection; default 200,000.
	FetchPartitionsMax int
	// InFlightBytesMax bounds the frames being read and served, over all
	// connections, in parts for large and small ones (budget.go), but for one frame that
	// is larger than its part. A reader waits InFlightWait for room, then its
	// connection is closed; default 128 MiB.
	InFlightBytesMax int64
	// InFlightWait is how long a reader waits for room, and a request for that of its
	// reply; default 30 s.
	InFlightWait time.Duration
	// ReplyBytesMax bounds the replies being made and read, over all connections, but
	// for their records and for short ones. At the bound requests wait, and replies
	// that are read slowly are cut off with their connection; default 128 MiB.
	ReplyBytesMax int64
	// PipelineMax bounds the requests read ahead of their replies on one
	// connection; the reader waits; default 64.
	PipelineMax int
	// FetchBytesMax bounds the records of one Fetch reply, whatever the client
	// allows; a first batch is still returned whole; default 32 MiB.
	FetchBytesMax int
	// FetchWaitMax bounds how long a Fetch may wait; default 5 min.
	FetchWaitMax time.Duration
	// ProduceTimeout bounds a Produce whose client names no sensible timeout; default 30 s.
	ProduceTimeout time.Duration
	// SessionsMax bounds the fetch sessions kept; at the bound the least
	// recently used one that is idle is evicted, or none is given; default 1,000.
	SessionsMax int
	// SessionPartitionsMax bounds the partitions over all fetch sessions; default 250,000.
	SessionPartitionsMax int

	// Groups bounds consumer groups.
	Groups GroupConfig
	// PeerDial connects to another broker behind the same advertised address;
	// default: TCP.
	PeerDial func(ctx context.Context, addr string) (net.Conn, error)

	// ConnectionsMax bounds open connections; more are closed at once; default 10,000.
	ConnectionsMax int
	// ConnectionsPerIPMax bounds those from one address; default 5,000.
	ConnectionsPerIPMax int
	// FrameTimeout is how long a frame may take once its first byte came, plus a
	// second for each FrameRateMin bytes; default 10 s.
	FrameTimeout time.Duration
	// FrameRateMin is the slowest acceptable rate in bytes a second, for frames
	// read and replies written; default 256 KiB.
	FrameRateMin int
	// IdleTimeout closes a connection that asks nothing; default 10 min.
	IdleTimeout time.Duration
	// WriteTimeout is how long writing a reply may take, plus a second for each
	// FrameRateMin bytes; default 30 s.
	WriteTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	wait := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	c.Groups = c.Groups.withDefaults()
	if c.PeerDial == nil {
		c.PeerDial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	def(&c.DefaultPartitions, 1)
	def(&c.PartitionsMax, 10_000)
	def(&c.ProduceBytesMax, 100<<20)
	def(&c.FrameBytesMax, 8<<20)
	def(&c.ElementsMax, 100_000)
	def(&c.FetchPartitionsMax, 200_000)
	def(&c.PipelineMax, 64)
	def(&c.FetchBytesMax, 32<<20)
	def(&c.SessionsMax, 1_000)
	def(&c.SessionPartitionsMax, 250_000)
	def(&c.ConnectionsMax, 10_000)
	def(&c.ConnectionsPerIPMax, 5_000)
	def(&c.FrameRateMin, 256<<10)
	if c.InFlightBytesMax == 0 {
		c.InFlightBytesMax = 128 << 20
	}
	if c.ReplyBytesMax == 0 {
		c.ReplyBytesMax = 128 << 20
	}
	wait(&c.InFlightWait, 30*time.Second)
	wait(&c.FetchWaitMax, 5*time.Minute)
	wait(&c.ProduceTimeout, 30*time.Second)
	wait(&c.FrameTimeout, 10*time.Second)
	wait(&c.IdleTimeout, 10*time.Minute)
	wait(&c.WriteTimeout, 30*time.Second)
	return c
}

func (c Config) validate() error {
	if c.Engine == nil {
		return errors.New("kafkawire: Config.Engine is required")
	}
	atLeast := func(field string, v, low int64) error {
		if v < low {
			return fmt.Errorf("kafkawire: Config.%s is %d, must be at least %d", field, v, low)
		}
		return nil
	}
	return errors.Join(
		c.Groups.validate(),
		atLeast("DefaultPartitions", int64(c.DefaultPartitions), 1),
		atLeast("PartitionsMax", int64(c.PartitionsMax), 1),
		atLeast("ProduceBytesMax", int64(c.ProduceBytesMax), 1<<10),
		atLeast("FrameBytesMax", int64(c.FrameBytesMax), 1<<10),
		atLeast("ElementsMax", int64(c.ElementsMax), 1),
		atLeast("FetchPartitionsMax", int64(c.FetchPartitionsMax), 1),
		atLeast("InFlightBytesMax", c.InFlightBytesMax, 1<<10),
		atLeast("ReplyBytesMax", c.ReplyBytesMax, 1<<10),
		atLeast("PipelineMax", int64(c.PipelineMax), 1),
		atLeast("FetchBytesMax", int64(c.FetchBytesMax), 1),
		atLeast("ConnectionsMax", int64(c.ConnectionsMax), 1),
		atLeast("ConnectionsPerIPMax", int64(c.ConnectionsPerIPMax), 1),
		atLeast("FrameRateMin", int64(c.FrameRateMin), 1),
	)
}
