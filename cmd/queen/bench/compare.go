package bench

import (
	"context"
	"errors"
	"fmt"
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

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
