package bench

import (
	"math"
	"slices"
)

// Ratio is A over B: of throughput the higher is better, of p50 and p99 the lower.
type Ratio struct {
	Throughput       float64   `json:"throughput"`
	ThroughputSpread Spread    `json:"throughputSpread"`
	ThroughputPairs  []float64 `json:"throughputPairs"`
	P50              *float64  `json:"p50,omitempty"`
	P50Spread        *Spread   `json:"p50Spread,omitempty"`
	P50Pairs         []float64 `json:"p50Pairs,omitempty"`
	P99              *float64  `json:"p99,omitempty"`
	P99Spread        *Spread   `json:"p99Spread,omitempty"`
	P99Pairs         []float64 `json:"p99Pairs,omitempty"`
}

// Spread says how far the pairs lie apart: all of them, the middle half, and between
// which of them their true median is with 95 % confidence, where six or more say so.
type Spread struct {
	Low95     float64 `json:"low95,omitempty"`
	High95    float64 `json:"high95,omitempty"`
	Min       float64 `json:"min"`
	Quartile1 float64 `json:"quartile1"`
	Quartile3 float64 `json:"quartile3"`
	Max       float64 `json:"max"`
}

// ratioOf compares pair by pair: rounds of one pair ran next to each other.
func ratioOf(a, b []Round, latency bool) *Ratio {
	n := min(len(a), len(b))
	if n == 0 {
		return nil
	}
	var r Ratio
	for i := range n {
		r.ThroughputPairs = append(r.ThroughputPairs, a[i].BytesPerSecond/b[i].BytesPerSecond)
		if la, lb := a[i].LatencyMS, b[i].LatencyMS; latency && la != nil && lb != nil {
			r.P50Pairs = append(r.P50Pairs, la.P50/lb.P50)
			r.P99Pairs = append(r.P99Pairs, la.P99/lb.P99)
		}
	}
	r.Throughput, r.ThroughputSpread = median(r.ThroughputPairs), spreadOf(r.ThroughputPairs)
	if latency && len(r.P99Pairs) == n {
		p50, spread50 := median(r.P50Pairs), spreadOf(r.P50Pairs)
		p99, spread99 := median(r.P99Pairs), spreadOf(r.P99Pairs)
		r.P50, r.P50Spread, r.P99, r.P99Spread = &p50, &spread50, &p99, &spread99
	}
	return &r
}

func spreadOf(v []float64) Spread {
	low, high := medianInterval(v)
	return Spread{Low95: low, High95: high, Min: quantile(v, 0), Quartile1: quantile(v, 0.25), Quartile3: quantile(v, 0.75), Max: quantile(v, 1)}
}

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile interpolates between neighbours, as spreadsheets do.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	at := q * float64(len(s)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}

// medianInterval is the narrowest interval between values, as many left out below as above,
// that has the true median with at least 95 % confidence, however they are spread: each
// value is below it as probably as a coin falls. Of ten it goes from the second lowest to the
// second highest. Five or fewer have none; it is 0, 0 then.
func medianInterval(v []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	outside, of := 0.0, math.Pow(0.5, float64(n)) // of: exactly k of n are below it
	k := 0
	for ; k < n/2 && 2*(outside+of) <= 0.05; k++ {
		outside += of
		of *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return 0, 0
	}
	return s[k-1], s[n-k]
}

// medianRound takes the median of each number by itself.
func medianRound(rounds []Round) Round {
	of := func(get func(Round) float64) float64 {
		v := make([]float64, len(rounds))
		for i, r := range rounds {
			v[i] = get(r)
		}
		return median(v)
	}
	m := Round{
		Seconds:          of(func(r Round) float64 { return r.Seconds }),
		Records:          int64(of(func(r Round) float64 { return float64(r.Records) })),
		Bytes:            int64(of(func(r Round) float64 { return float64(r.Bytes) })),
		RecordsPerSecond: of(func(r Round) float64 { return r.RecordsPerSecond }),
		BytesPerSecond:   of(func(r Round) float64 { return r.BytesPerSecond }),
		ClientCores:      of(func(r Round) float64 { return r.ClientCores }),
	}
	m.LatencyMS = medianLatency(rounds, func(r Round) *Latency { return r.LatencyMS })
	m.SentLateMS = medianLatency(rounds, func(r Round) *Latency { return r.SentLateMS })
	return m
}

// medianLatency is nil where a round has none.
func medianLatency(rounds []Round, get func(Round) *Latency) *Latency {
	var p50, p99, p999, most []float64
	for _, r := range rounds {
		l := get(r)
		if l == nil {
			return nil
		}
		p50, p99, p999, most = append(p50, l.P50), append(p99, l.P99), append(p999, l.P999), append(most, l.Max)
	}
	if len(rounds) == 0 {
		return nil
	}
	return &Latency{P50: median(p50), P99: median(p99), P999: median(p999), Max: median(most)}
}
