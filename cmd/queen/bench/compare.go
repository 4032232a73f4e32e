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
	// under way has been answered. A meter may go through several of them.
	Round(ctx context.Context, t Times, m *Meter) error
	// Verify reads back what was acknowledged, every record.
	Verify(ctx context.Context) (Verified, error)
	// Close removes what Prepare and the rounds made.
	Close(ctx context.Context) error
}

// Times are those of a turn, mostly a whole round: load is put on for both, the first is not counted.
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
	// Turn is how long a side has the machine at most before the other one has it: a
	// pair of rounds is then made of many short turns, and what the disk or the machine does
	// for some seconds meets both. 0: a round is one turn.
	Turn   time.Duration
	Verify bool
	// CompareLatency is set where one answer means the same on both sides.
	CompareLatency bool
	// Settle is run before every turn, so that no side pays for what the other left.
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
		pair, err := plan.pair(ctx, i, sides)
		if err != nil {
			return out, err
		}
		if i < 0 {
			continue
		}
		for at, r := range pair {
			reports[at].Rounds = append(reports[at].Rounds, r)
		}
		out.sum(plan.CompareLatency)
		plan.paired(i, &out)
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

// turns are how long the turns of a round are.
func (p *Plan) turns() []time.Duration {
	if p.Turn <= 0 || p.Turn >= p.Duration {
		return []time.Duration{p.Duration}
	}
	var all []time.Duration
	for left := p.Duration; left > 0; left -= p.Turn {
		all = append(all, min(left, p.Turn))
	}
	return all
}

// pair makes a round of each side, turn by turn; rounds below 0 are for warming up.
func (p *Plan) pair(ctx context.Context, i int, sides []Side) ([]Round, error) {
	meters, cpu, busy := make([]*Meter, len(sides)), make([]time.Duration, len(sides)), make([]time.Duration, len(sides))
	for at, s := range sides {
		meters[at] = NewMeter(s.Clients())
	}
	rounds := make([]Round, len(sides))
	for k, turn := range p.turns() {
		for _, at := range order(i+k, len(sides)) {
			doing := fmt.Sprintf("round %d of %d, %s", i+1, p.Rounds, sides[at].Name())
			used, began := cpuTime(), time.Now()
			if err := p.turn(ctx, doing, sides[at], turn, meters[at]); err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", sides[at].Name(), i+1, err)
			}
			cpu[at] += cpuTime() - used
			busy[at] += time.Since(began)
		}
	}
	for at := range sides {
		rounds[at] = meters[at].Read(time.Now())
		rounds[at].ClientCores = cpu[at].Seconds() / busy[at].Seconds()
		if rounds[at].Records == 0 && i >= 0 { // else that is what warming up is for
			return nil, fmt.Errorf("%s, round %d: %w", sides[at].Name(), i+1, errNothingAnswered)
		}
	}
	return rounds, nil
}

// turn has one side put its load on.
func (p *Plan) turn(ctx context.Context, doing string, s Side, long time.Duration, m *Meter) error {
	if p.Settle != nil {
		if err := p.Settle(ctx); err != nil {
			return err
		}
	}
	p.began(doing, m)
	defer p.ended()
	return errors.Join(s.Round(ctx, Times{WarmUp: min(warmUpMax, long/4), Duration: long}, m), ctx.Err())
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

func (p *Plan) paired(i int, out *Outcome) {
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
