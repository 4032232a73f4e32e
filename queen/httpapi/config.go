package httpapi

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config holds everything that can be set, bounds above all. A zero field means
// its default.
type Config struct {
	Logger   *slog.Logger         // default: slog.Default()
	Registry *prometheus.Registry // where metrics are registered and exposed from; default: a new one
	Version  string               // shown by /status and /health

	PushBytesMax     int64         // body of push and ack/batch, else 413; default 64 MiB
	BodyBytesMax     int64         // body of any other request, else 413; default 1 MiB
	InFlightBytesMax int64         // bodies of all requests together; more waits, then 503; default 128 MiB
	InFlightWait     time.Duration // how long a body waits for its share of it; default 2 s
	PushItemsMax     int           // items of a push, acks of a batch, else 413; default 100,000
	JSONDepthMax     int           // nesting of a body, else 400; default 1,000

	PopBatchDefault   int           // messages of a pop that does not say; default 200
	PopBatchMax       int           // more is 400; default 10,000
	PopBytesMax       int           // values of one pop, softly; default 8 MiB
	WaitDefault       time.Duration // of a waiting pop that does not say; default 30 s
	WaitMax           time.Duration // more is 400; default 10 min
	LeaseMax          time.Duration // more is 400; default 12 h
	FetchEntriesMax   int           // entries of a fetch, else 400; default 1,024
	FetchEntryDefault int           // bytes of an entry that does not say; default 1 MiB
	FetchBytesMax     int           // bytes of one fetch, softly; a larger wish is cut to it; default 8 MiB

	ConnectionsMax    int           // more wait to be accepted; default 10,000
	HeaderBytesMax    int           // request line and headers, else 431; default 64 KiB
	ReadHeaderTimeout time.Duration // default 10 s
	BodyTimeout       time.Duration // for a whole body, else 408; default 60 s
	AnswerTimeout     time.Duration // for writing an answer; default 60 s
	IdleTimeout       time.Duration // between requests of a connection; default 2 min
	RequestTimeout    time.Duration // of an engine call, beyond the wait asked for; default 30 s
	ReadyTimeout      time.Duration // of the database's answer to /readyz and /health; default 2 s
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	orDefault(&c.PushBytesMax, 64<<20)
	orDefault(&c.BodyBytesMax, 1<<20)
	orDefault(&c.InFlightBytesMax, 128<<20)
	orDefault(&c.InFlightWait, 2*time.Second)
	orDefault(&c.PushItemsMax, 100_000)
	orDefault(&c.JSONDepthMax, 1000)
	orDefault(&c.PopBatchDefault, 200)
	orDefault(&c.PopBatchMax, 10_000)
	orDefault(&c.PopBytesMax, 8<<20)
	orDefault(&c.WaitDefault, 30*time.Second)
	orDefault(&c.WaitMax, 10*time.Minute)
	orDefault(&c.LeaseMax, 12*time.Hour)
	orDefault(&c.FetchEntriesMax, 1024)
	orDefault(&c.FetchEntryDefault, 1<<20)
	orDefault(&c.FetchBytesMax, 8<<20)
	orDefault(&c.ConnectionsMax, 10_000)
	orDefault(&c.HeaderBytesMax, 64<<10)
	orDefault(&c.ReadHeaderTimeout, 10*time.Second)
	orDefault(&c.BodyTimeout, time.Minute)
	orDefault(&c.AnswerTimeout, time.Minute)
	orDefault(&c.IdleTimeout, 2*time.Minute)
	orDefault(&c.RequestTimeout, 30*time.Second)
	orDefault(&c.ReadyTimeout, 2*time.Second)
	return c
}
