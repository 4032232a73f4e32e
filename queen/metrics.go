package queen

import "github.com/prometheus/client_golang/prometheus"

// metrics are the engine's counters and histograms, named once.
type metrics struct {
	stored        prometheus.Counter
	duplicates    prometheus.Counter
	folded        prometheus.Counter
	flushFailures prometheus.Counter
	flushSeconds  prometheus.Histogram
	flushSegments prometheus.Histogram
	tailReads     prometheus.Counter
	storeReads    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		stored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_stored_messages_total", Help: "Messages stored by this broker.",
		}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_dedup_duplicates_total", Help: "Pushed ids found stored already, by the database's verdict.",
		}),
		folded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_dedup_folded_total", Help: "Pushed ids that repeated another of the same request or flush.",
		}),
		flushFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_flush_failures_total", Help: "Append calls that failed and were repeated or given up.",
		}),
		flushSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "queen_flush_seconds", Help: "Time of one append call.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		flushSegments: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "queen_flush_segments", Help: "Partitions in one append call.", Buckets: []float64{1, 2, 4, 8, 16},
		}),
		tailReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_tail_reads_total", Help: "Partition reads answered from memory.",
		}),
		storeReads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_store_reads_total", Help: "Partition reads answered from the database.",
		}),
	}
	if r != nil {
		r.MustRegister(m.stored, m.duplicates, m.folded, m.flushFailures, m.flushSeconds, m.flushSegments,
			m.tailReads, m.storeReads)
	}
	return m
}
