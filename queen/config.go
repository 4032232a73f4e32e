package queen

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"queenmq/store"
)

// Config is how an Engine is opened. Zero values mean the defaults named.
type Config struct {
	DB  *store.DB
	Log *slog.Logger
	// Registry takes the engine's metrics; nil: they are counted and not shown.
	Registry prometheus.Registerer

	// Broker is how this process presents itself to clients and peers.
	Broker BrokerConfig

	Flushers            int           // goroutines that flush, each with a connection of its own; default 8
	BundlePartitionsMax int           // partitions in one call; default 16
	BundleBytesMax      int           // bytes in one call; default 1 MiB
	SegmentBytesMax     int           // bytes in one segment, or one batch; default 1 MiB
	PendingBytesMax     int           // bytes accepted and not yet stored; default 128 MiB; then callers wait
	WriteTimeout        time.Duration // from acceptance to an outcome; default 10 s
	CallTimeout         time.Duration // of one database call; default 8 s
	RetryMin, RetryMax  time.Duration // between attempts; defaults 5 ms, 500 ms

	// DedupCacheBytesMax bounds the memory of ids; default 512 MiB. DedupCacheOff
	// switches it off: every verdict stays the same, only dearer.
	DedupCacheBytesMax int64
	DedupCacheOff      bool
	// ProbeAloneOffsets: a flush that must look through more offsets than this
	// shares its call with no other partition; default 50,000.
	ProbeAloneOffsets int64

	DecompressedBytesMax int   // of one record batch; default 64 MiB
	UnpackMax            int   // record batches decompressed at once to be checked; default the number of processors, at least 2; then callers wait
	TailBytesMax         int64 // of the newest records; default 48 MiB
	// SpillDir is where files are kept of what leaves the tail, without a name and gone
	// with the process; empty: nowhere. SpillBytesMax bounds them; default 1 GiB.
	SpillDir      string
	SpillBytesMax int64
	ReadBytesMax  int // of one reply, and of its messages where it is decoded; default 64 MiB
	// AnswerBytesMax bounds what is read for answers that are not written yet, over all
	// clients; default 256 MiB. Answers get smaller as it fills.
	AnswerBytesMax int

	WaitersMax           int           // readers waiting, counted once per partition; default 1,000,000; then reads are refused
	CatalogPartitionsMax int           // cached; default 200,000
	CatalogEvery         time.Duration // poll of the catalog version; default 500 ms
	PollMin, PollMax     time.Duration // poll of other brokers' writes; defaults 3 ms, 100 ms
	// WatchFor is how long a partition is polled after its last waiter, and how long memory
	// may be read beside other brokers without having asked where the log begins; default 10 s.
	WatchFor       time.Duration
	RetentionEvery time.Duration // pause between rounds of retention; default 5 s
	CompactEvery   time.Duration // pause between rounds of compaction; default 5 s
	CompactKeysMax int           // keys compared in one pass, 60 bytes each; default 1,000,000; more take more passes
}

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	dur := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Flushers, 8)
	def(&c.BundlePartitionsMax, 16)
	def(&c.BundleBytesMax, 1<<20)
	def(&c.SegmentBytesMax, 1<<20)
	def(&c.PendingBytesMax, 128<<20)
	def(&c.DecompressedBytesMax, DecompressedBytesMax)
	def(&c.UnpackMax, max(2, runtime.GOMAXPROCS(0)))
	def(&c.ReadBytesMax, 64<<20)
	def(&c.AnswerBytesMax, 256<<20)
	def(&c.WaitersMax, 1_000_000)
	def(&c.CatalogPartitionsMax, 200_000)
	def(&c.CompactKeysMax, 1_000_000)
	dur(&c.WriteTimeout, 10*time.Second)
	dur(&c.CallTimeout, 8*time.Second)
	dur(&c.RetryMin, 5*time.Millisecond)
	dur(&c.RetryMax, 500*time.Millisecond)
	dur(&c.CatalogEvery, 500*time.Millisecond)
	dur(&c.PollMin, 3*time.Millisecond)
	dur(&c.PollMax, 100*time.Millisecond)
	dur(&c.WatchFor, 10*time.Second)
	dur(&c.RetentionEvery, 5*time.Second)
	dur(&c.CompactEvery, 5*time.Second)
	if c.DedupCacheBytesMax == 0 {
		c.DedupCacheBytesMax = 512 << 20
	}
	if c.ProbeAloneOffsets == 0 {
		c.ProbeAloneOffsets = 50_000
	}
	if c.TailBytesMax == 0 {
		c.TailBytesMax = 48 << 20
	}
	if c.SpillBytesMax == 0 {
		c.SpillBytesMax = 1 << 30
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.DB == nil:
		return errors.New("queen: Config.DB is missing")
	case c.Flushers < 1 || c.Flushers > 64:
		return fmt.Errorf("queen: Config.Flushers is %d, must be 1 to 64", c.Flushers)
	case c.BundlePartitionsMax < 1 || c.BundlePartitionsMax > 1024:
		return fmt.Errorf("queen: Config.BundlePartitionsMax is %d, must be 1 to 1024", c.BundlePartitionsMax)
	case c.UnpackMax < 1 || c.UnpackMax > 1024:
		return fmt.Errorf("queen: Config.UnpackMax is %d, must be 1 to 1024", c.UnpackMax)
	case c.SegmentBytesMax < 1<<10 || c.SegmentBytesMax > 64<<20:
		return fmt.Errorf("queen: Config.SegmentBytesMax is %d, must be 1 KiB to 64 MiB", c.SegmentBytesMax)
	}
	return nil
}
