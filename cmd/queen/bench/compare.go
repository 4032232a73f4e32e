package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"
)

// Side is one of two things compared.
type Side interface {
	// Name is how the report calls it.
	Name() string
	// Clients is how many shards of a meter it needs.
	Clients() int
	// Prepare makes what must be there before the first round.
	Prepare(ctx context.Context) error
	// Round puts load on until the time is over, and returns when everything
	// under way has been answered.
	Round(ctx context.Context, t Times, m *Meter) error
	// Verify reads back what was acknowledged, every record.
	Verify(ctx context.Context) (Verified, error)
	// Close removes what Prepare and the rounds made.
	Close(ctx context.Context) error
}

// Times are those of a round: load is put on for both, the first is not counted.
type Times struct{ WarmUp, Duration time.Duration }

// Verified is what reading back found. Anything but equal counts and nothing
// damaged or repeated is a failure.
type Verified struct {
	Acknowledged int64 `json:"acknowledged"`
	Read         int64 `json:"read"`
	Missing      int64 `json:"missing"`
	Repeated     int64 `json:"repeated"`
	Damaged      int64 `json:"damaged"`
}

func (v Verified) err() error {
	if v.Missing == 0 && v.Repeated == 0 && v.Damaged == 0 && v.Read == v.Acknowledged {
		return nil
	}
	return fmt.Errorf("read back %d of %d acknowledged records: %d missing, %d repeated, %d damaged",
		v.Read, v.Acknowledged, v.Missing, v.Repeated, v.Damaged)
}

// Plan says how often and how long.
type Plan struct {
	Rounds   int
	Discard  int // rounds of each side before the first that counts, for one that must warm up
	Duration time.Duration
	Verify   bool
	// CompareLatency is set where one answer means the same on both sides.
	CompareLatency bool
	// Settle is run before every round, so that no side pays for what the other left.
	Settle func(context.Context) error
	// Watch sees each round begin and end; nil fields are left out.
	Watch Watch
}

// The bounds of a load: it stops by itself.
const (
	RoundsMax   = 100
	DurationMax = 10 * time.Minute
	warmUpMax   = time.Second
)

// Watch is told what happens during a run.
type Watch struct {
	Began func(doing string, m *Meter)
	Ended func()
	Pair  func(i int, a Round, b *Round, ratio float64)
}

// SideReport is everything one side did.
type SideReport struct {
	Name     string    `json:"name"`
	Rounds   []Round   `json:"rounds"`
	Median   Round     `json:"median"`
	Verified *Verified `json:"verified,omitempty"`
}

// Outcome is both sides of a run and how they compare.
type Outcome struct {
	A     SideReport  `json:"a"`
	B     *SideReport `json:"b,omitempty"`
	Ratio *Ratio      `json:"ratio,omitempty"`
}

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

// Spread says how far the pairs lie apart: all of them, and the middle half.
type Spread struct {
	Min       float64 `json:"min"`
	Quartile1 float64 `json:"quartile1"`
	Quartile3 float64 `json:"quartile3"`
	Max       float64 `json:"max"`
}

// Run prepares the sides, lets them take turns and closes them again, also when
// ctx ends; b may be nil. What was measured until an error is returned with it.
func Run(ctx context.Context, plan Plan, a, b Side) (out Outcome, err error) {
	sides := []Side{a}
	out.A.Name = a.Name()
	reports := []*SideReport{&out.A}
	if b != nil {
		sides = append(sides, b)
		out.B = &SideReport{}
		reports = append(reports, out.B)
	}
	defer func() {
		// Clean up when told to stop, too; a second signal ends the process.
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		for _, s := range slices.Backward(sides) {
			err = errors.Join(err, s.Close(after))
		}
	}()
	for i, s := range sides {
		plan.began("preparing "+s.Name(), nil)
		err := s.Prepare(ctx)
		plan.ended()
		if err != nil {
			return out, fmt.Errorf("%s: %w", s.Name(), err)
		}
		reports[i].Name = s.Name() // it may know more about itself now
	}
	for i := -plan.Discard; i < plan.Rounds; i++ {
		for _, at := range order(i, len(sides)) {
			r, err := plan.round(ctx, fmt.Sprintf("round %d of %d, %s", i+1, plan.Rounds, sides[at].Name()), sides[at])
			if i < 0 && errors.Is(err, errNothingAnswered) {
				err = nil // that is what warming up is for
			}
			if err != nil {
				return out, fmt.Errorf("%s, round %d: %w", sides[at].Name(), i+1, err)
			}
			if i >= 0 {
				reports[at].Rounds = append(reports[at].Rounds, r)
			}
		}
		if i < 0 {
			continue
		}
		out.sum(plan.CompareLatency)
		plan.pair(i, &out)
	}
	if !plan.Verify {
		return out, nil
	}
	for i, s := range sides {
		plan.began("verifying "+s.Name(), nil)
		v, err := s.Verify(ctx)
		plan.ended()
		if err == nil {
			reports[i].Verified = &v
			err = v.err()
		}
		if err != nil {
			return out, fmt.Errorf("verify %s: %w", s.Name(), err)
		}
	}
	return out, nil
}

var errNothingAnswered = errors.New("nothing was answered in the measured time: raise --duration, or look whether the other end works")

// order lets the side that went second go first next time.
func order(round, sides int) []int {
	switch {
	case sides == 1:
		return []int{0}
	case round%2 == 0:
		return []int{0, 1}
	default:
		return []int{1, 0}
	}
}

func (p *Plan) round(ctx context.Context, doing string, s Side) (Round, error) {
	if p.Settle != nil {
		if err := p.Settle(ctx); err != nil {
			return Round{}, err
		}
	}
	m := NewMeter(s.Clients())
	p.began(doing, m)
	defer p.ended()
	cpu, began := cpuTime(), time.Now()
	err := s.Round(ctx, Times{WarmUp: min(warmUpMax, p.Duration/4), Duration: p.Duration}, m)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Round{}, err
	}
	cores := (cpuTime() - cpu).Seconds() / time.Since(began).Seconds()
	r := m.Read(time.Now())
	if r.Records == 0 {
		return r, errNothingAnswered
	}
	r.ClientCores = cores
	return r, nil
}

func (p *Plan) began(doing string, m *Meter) {
	if p.Watch.Began != nil {
		p.Watch.Began(doing, m)
	}
}

func (p *Plan) ended() {
	if p.Watch.Ended != nil {
		p.Watch.Ended()
	}
}

func (p *Plan) pair(i int, out *Outcome) {
	if p.Watch.Pair == nil {
		return
	}
	if out.B == nil {
		p.Watch.Pair(i, out.A.Rounds[i], nil, 0)
		return
	}
	p.Watch.Pair(i, out.A.Rounds[i], &out.B.Rounds[i], out.Ratio.ThroughputPairs[i])
}

// sum brings medians and ratios up to date with the rounds that are complete.
func (o *Outcome) sum(latency bool) {
	o.A.Median = medianRound(o.A.Rounds)
	if o.B == nil {
		return
	}
	o.B.Median = medianRound(o.B.Rounds)
	o.Ratio = ratioOf(o.A.Rounds, o.B.Rounds, latency)
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
	return Spread{Min: quantile(v, 0), Quartile1: quantile(v, 0.25), Quartile3: quantile(v, 0.75), Max: quantile(v, 1)}
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

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
