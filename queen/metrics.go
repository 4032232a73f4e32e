package queen

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"queenmq/dedup"
)

// metrics are the engine's counters and histograms, named once.
type metrics struct {
	stored        prometheus.Counter
	storedBytes   *prometheus.CounterVec
	verdicts      map[dedupLayer][2]prometheus.Counter // new, duplicate
	probeOffsets  [dedup.Off + 1]prometheus.Observer
	probeSeconds  [dedup.Off + 1]prometheus.Observer
	flushFailures prometheus.Counter
	flushSeconds  prometheus.Histogram
	flushSegments prometheus.Histogram
	transactions  prometheus.Counter
	rollbacks     *prometheus.CounterVec
	timersFired   prometheus.Counter
	tailReads     prometheus.Counter
	spillReads    prometheus.Counter
	storeReads    prometheus.Counter
	compactions   prometheus.Counter
	compacted     prometheus.Counter
}

// dedupLayer is what finds that an id was there already: its request, its flush, the ledger.
type dedupLayer string

const (
	layerRequest dedupLayer = "request"
	layerFlush   dedupLayer = "flush"
	layerLedger  dedupLayer = "ledger"
)

// duplicates counts ids that a layer found to be duplicates.
func (m *metrics) duplicates(by dedupLayer, n int) { m.verdicts[by][1].Add(float64(n)) }

// watchVerdicts makes the metrics of what deduplication says, and of what that takes.
func (m *metrics) watchVerdicts() []prometheus.Collector {
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "queen_dedup_verdicts_total", Help: "Pushed ids by the layer that judged them: what their request or flush does not find to be duplicates is the ledger's to judge.",
	}, []string{"layer", "verdict"})
	m.verdicts = map[dedupLayer][2]prometheus.Counter{
		layerLedger: {verdicts.WithLabelValues(string(layerLedger), "new"), verdicts.WithLabelValues(string(layerLedger), "duplicate")},
	}
	for _, l := range []dedupLayer{layerRequest, layerFlush} {
		m.verdicts[l] = [2]prometheus.Counter{1: verdicts.WithLabelValues(string(l), "duplicate")}
	}
	offsets := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "queen_dedup_probe_offsets", Help: "Offsets in which the ledger was to look for a segment's ids, by what the memory of ids could say.",
		Buckets: append([]float64{0}, prometheus.ExponentialBuckets(16, 8, 8)...),
	}, []string{"mode"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "queen_dedup_probe_seconds", Help: "Time of append calls that looked for ids, by the least that the memory of ids could say of a segment of theirs.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	}, []string{"mode"})
	for mode := range dedup.Off + 1 {
		m.probeOffsets[mode], m.probeSeconds[mode] = offsets.WithLabelValues(mode.String()), seconds.WithLabelValues(mode.String())
	}
	return []prometheus.Collector{verdicts, offsets, seconds}
}

// probed counts a call that was answered after so long.
func (m *metrics) probed(bundle []*flight, took time.Duration) {
	worst, some := dedup.Vouched, false
	for _, f := range bundle {
		if f.asked {
			m.probeOffsets[f.mode].Observe(float64(f.span))
			worst, some = max(worst, f.mode), true
		}
	}
	if some {
		m.probeSeconds[worst].Observe(took.Seconds())
	}
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		stored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_stored_messages_total", Help: "Messages stored by this broker.",
		}),
		storedBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_stored_bytes_total", Help: "Bytes of record batches stored by this broker, as they are served and as they lie in rows.",
		}, []string{"form"}),
		flushFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_flush_failures_total", Help: "Append calls that failed and were repeated or given up.",
		}),
		flushSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "queen_flush_seconds", Help: "Time of one append call.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		flushSegments: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "queen_flush_segments", Help: "Partitions in one append call.", Buckets: []float64{1, 2, 4, 8, 16},
		}),
		transactions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_transactions_total", Help: "Transactions that took effect.",
		}),
		rollbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_transactions_rolled_back_total", Help: "Transactions that did nothing, by reason.",
		}, []string{"reason"}),
		timersFired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_timers_fired_total", Help: "Timers that became messages at this broker.",
		}),
		spillReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_spill_reads_total", Help: "Partition reads answered from files of what left memory.",
		}),
		tailReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_tail_reads_total", Help: "Partition reads answered from memory.",
		}),
		storeReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_store_reads_total", Help: "Partition reads answered from the database.",
		}),
		compactions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_compactions_total", Help: "Passes over a partition that took out what was superseded.",
		}),
		compacted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_compacted_messages_total", Help: "Messages that compaction took out.",
		}),
	}
	verdicts := m.watchVerdicts()
	if r != nil {
		r.MustRegister(verdicts...)
		r.MustRegister(m.stored, m.storedBytes, m.flushFailures, m.flushSeconds, m.flushSegments,
			m.tailReads, m.spillReads, m.storeReads, m.compactions, m.compacted, m.transactions, m.rollbacks, m.timersFired)
	}
	return m
}

// cacheMetrics reads the cache's numbers when they are asked for.
type cacheMetrics struct {
	cache   *dedup.Cache
	gauges  []cacheMetric
	answers *prometheus.Desc
}

type cacheMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(dedup.Stats) int64
}

func (m *metrics) watchCache(r prometheus.Registerer, c *dedup.Cache) {
	if r == nil {
		return
	}
	cm := &cacheMetrics{cache: c, answers: prometheus.NewDesc("queen_dedup_cache_answers_total",
		"Questions to the memory of ids, by what it could say.", []string{"mode"}, nil)}
	add := func(name, help string, kind prometheus.ValueType, of func(dedup.Stats) int64) {
		cm.gauges = append(cm.gauges, cacheMetric{prometheus.NewDesc("queen_dedup_cache_"+name, help, nil, nil), kind, of})
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add("bytes", "Memory taken, scratch included.", gauge, func(s dedup.Stats) int64 { return s.Bytes })
	add("bytes_max", "Memory allowed (QUEEN_DEDUP_CACHE_MB).", gauge, func(s dedup.Stats) int64 { return s.BytesMax })
	add("hashes", "Ids kept.", gauge, func(s dedup.Stats) int64 { return s.Hashes })
	add("partitions", "Partitions with an entry.", gauge, func(s dedup.Stats) int64 { return s.Entries })
	add("suppressed_partitions", "Partitions held back for want of room.", gauge, func(s dedup.Stats) int64 { return s.Suppressed })
	add("hydrations_total", "Windows read back whole.", counter, func(s dedup.Stats) int64 { return s.Hydrations })
	add("catch_ups_total", "Readings of what other brokers wrote.", counter, func(s dedup.Stats) int64 { return s.CatchUps })
	add("evictions_total", "Entries dropped to make room.", counter, func(s dedup.Stats) int64 { return s.Evictions })
	r.MustRegister(cm)
}

// Describe implements prometheus.Collector.
func (c *cacheMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.answers
	for _, g := range c.gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (c *cacheMetrics) Collect(ch chan<- prometheus.Metric) {
	s := c.cache.Stats()
	for mode, n := range s.Answers {
		ch <- prometheus.MustNewConstMetric(c.answers, prometheus.CounterValue, float64(n), mode.String())
	}
	for _, g := range c.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, g.kind, float64(g.of(s)))
	}
}
