package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in microseconds, from one to this.
const latencyMax = 2 * time.Minute

// Meter counts what is answered inside the measured parts of a round. Each client
// has a shard of its own.
type Meter struct {
	mu       sync.Mutex
	from, to time.Time
	before   time.Duration // of the parts that are over
	shards   []*Shard
}

// Shard is one client's part of a meter.
type Shard struct {
	mu       sync.Mutex // the progress line looks in while a client counts
	from, to time.Time
	records  int64
	bytes    int64
	latency  *hdrhistogram.Histogram
	late     *hdrhistogram.Histogram // nil until something was Sent
}

// NewMeter makes a meter for one round of up to clients clients.
func NewMeter(clients int) *Meter {
	m := &Meter{shards: make([]*Shard, clients)}
	for i := range m.shards {
		m.shards[i] = &Shard{latency: newHistogram()}
	}
	return m
}

// Measure says when counting begins and ends; before it nothing counts. Said again, it
// begins another part of the round, and what was counted stays.
func (m *Meter) Measure(from, to time.Time) {
	m.mu.Lock()
	m.before += m.to.Sub(m.from)
	m.from, m.to = from, to
	m.mu.Unlock()
	for _, s := range m.shards {
		s.mu.Lock()
		s.from, s.to = from, to
		s.mu.Unlock()
	}
}

// Begin has a round that starts then counted behind its warm-up, and returns its end.
func (m *Meter) Begin(start time.Time, t Times) (to time.Time) {
	from := start.Add(t.WarmUp)
	to = from.Add(t.Duration)
	m.Measure(from, to)
	return to
}

// Shard is the part of one client.
func (m *Meter) Shard(client int) *Shard { return m.shards[client] }

// Answered counts records that were asked for at one time and answered at another.
func (s *Shard) Answered(asked, answered time.Time, records, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answered.Before(s.from) || !answered.Before(s.to) {
		return
	}
	s.records += int64(records)
	s.bytes += int64(bytes)
	if !asked.IsZero() {
		record(s.latency, answered.Sub(asked))
	}
}

// Arrived counts a record by the time it was due, in the measured time or not,
// whenever it came: a late one that did not count would not be missed.
func (s *Shard) Arrived(due, at time.Time, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if due.Before(s.from) || !due.Before(s.to) {
		return
	}
	s.records++
	s.bytes += int64(bytes)
	record(s.latency, at.Sub(due))
}

// Sent notes how late the load itself sent a record that was due.
func (s *Shard) Sent(due, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if due.Before(s.from) || !due.Before(s.to) {
		return
	}
	if s.late == nil {
		s.late = newHistogram()
	}
	record(s.late, at.Sub(due))
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, latencyMax.Microseconds(), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d, time.Microsecond), latencyMax).Microseconds()) // within its bounds
}

// Latency is the distribution of a round, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// Round is what one side did in one round.
type Round struct {
	Seconds          float64  `json:"seconds"`
	Records          int64    `json:"records"`
	Bytes            int64    `json:"bytes"`
	RecordsPerSecond float64  `json:"recordsPerSecond"`
	BytesPerSecond   float64  `json:"bytesPerSecond"`
	LatencyMS        *Latency `json:"latencyMs,omitempty"`
	// SentLateMS is how late an open load sent what was due; it is part of LatencyMS.
	SentLateMS *Latency `json:"sentLateMs,omitempty"`
	// ClientCores is how much of the machine the load itself used.
	ClientCores float64 `json:"clientCores"`
}

// Done is how much of this part's measured time is over, from 0 to 1.
func (m *Meter) Done(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.from.Before(m.to) {
		return 0
	}
	return min(max(now.Sub(m.from).Seconds()/m.to.Sub(m.from).Seconds(), 0), 1)
}

// Read sums up what was counted up to now.
func (m *Meter) Read(now time.Time) Round {
	m.mu.Lock()
	from, to, before := m.from, m.to, m.before
	m.mu.Unlock()
	var r Round
	all, late := newHistogram(), newHistogram()
	for _, s := range m.shards {
		s.mu.Lock()
		r.Records += s.records
		r.Bytes += s.bytes
		all.Merge(s.latency)
		if s.late != nil {
			late.Merge(s.late)
		}
		s.mu.Unlock()
	}
	if now.Before(to) {
		to = now
	}
	if r.Seconds = (before + max(to.Sub(from), 0)).Seconds(); r.Seconds > 0 {
		r.RecordsPerSecond = float64(r.Records) / r.Seconds
		r.BytesPerSecond = float64(r.Bytes) / r.Seconds
	}
	r.LatencyMS, r.SentLateMS = latencyOf(all), latencyOf(late)
	return r
}

// latencyOf is nil where nothing was recorded.
func latencyOf(h *hdrhistogram.Histogram) *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	ms := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return &Latency{P50: ms(50), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1000}
}
