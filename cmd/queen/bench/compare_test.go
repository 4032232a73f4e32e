package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// rounds makes rounds of the given speeds, each with a p99 in milliseconds, and a
// p50 of a tenth of it.
func rounds(speedAndP99 ...float64) []Round {
	var all []Round
	for i := 0; i < len(speedAndP99); i += 2 {
		all = append(all, Round{BytesPerSecond: speedAndP99[i], LatencyMS: &Latency{P50: speedAndP99[i+1] / 10, P99: speedAndP99[i+1]}})
	}
	return all
}

func TestRatioIsTheMedianOfPairs(t *testing.T) {
	t.Parallel()
	// The machine halves its speed in the middle: the pairs do not notice, the
	// medians of each side by itself would say 150/200.
	a := rounds(100, 10, 150, 12, 50, 40)
	b := rounds(200, 5, 200, 4, 100, 20)
	for i, p50 := range []float64{4, 1, 1} {
		b[i].LatencyMS.P50 = p50
	}
	r := ratioOf(a, b, true)
	if r.Throughput != 0.5 || !slices.Equal(r.ThroughputPairs, []float64{0.5, 0.75, 0.5}) {
		t.Errorf("throughput %v of %v, want 0.5 of [0.5 0.75 0.5]", r.Throughput, r.ThroughputPairs)
	}
	if want := (Spread{Min: 0.5, Quartile1: 0.5, Quartile3: 0.625, Max: 0.75}); r.ThroughputSpread != want {
		t.Errorf("spread %+v, want %+v", r.ThroughputSpread, want)
	}
	if r.P99 == nil || *r.P99 != 2 || !slices.Equal(r.P99Pairs, []float64{2, 3, 2}) {
		t.Errorf("p99 %v of %v, want 2 of [2 3 2]", r.P99, r.P99Pairs)
	}
	// 1/4, 1.2/1 and 4/1.
	if r.P50 == nil || *r.P50 != 1.2 || !slices.Equal(r.P50Pairs, []float64{0.25, 1.2, 4}) || r.P50Spread.Max != 4 {
		t.Errorf("p50 %v of %v, want 1.2 of [0.25 1.2 4]", r.P50, r.P50Pairs)
	}
	if r := ratioOf(a, b, false); r.P50 != nil || r.P99 != nil || r.P99Pairs != nil {
		t.Errorf("p99 %v compared though answers mean different things", r.P99Pairs)
	}
	if r := ratioOf(a, nil, true); r != nil {
		t.Errorf("a ratio without pairs: %+v", r)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	f := func(q, want float64, v ...float64) {
		t.Helper()
		if got := quantile(v, q); got != want {
			t.Errorf("quantile(%v, %v) = %v, want %v", v, q, got, want)
		}
	}
	f(0.5, 2, 3, 1, 2)
	f(0.5, 2.5, 4, 1, 2, 3)
	f(0.25, 1.75, 4, 1, 2, 3)
	f(0, 1, 4, 1, 2, 3)
	f(1, 4, 4, 1, 2, 3)
	f(0.5, 7, 7)
	f(0.5, 0)
}

// TestMedianInterval has the places of the sign test's tables for 95 %.
func TestMedianInterval(t *testing.T) {
	t.Parallel()
	for n, places := range map[int][2]int{6: {1, 6}, 8: {1, 8}, 9: {2, 8}, 10: {2, 9}, 11: {2, 10}, 12: {3, 10}, 20: {6, 15}, 25: {8, 18}, 100: {40, 61}} {
		var v []float64
		for i := n; i > 0; i-- {
			v = append(v, float64(i))
		}
		low, high := medianInterval(v)
		if int(low) != places[0] || int(high) != places[1] {
			t.Errorf("of %d: from the value at place %v to that at %v, want %d and %d", n, low, high, places[0], places[1])
		}
	}
	if low, high := medianInterval([]float64{1, 2, 3, 4, 5}); low != 0 || high != 0 {
		t.Errorf("of 5: %v to %v, want none", low, high)
	}
}

// fakeSide answers 100 records of 10 bytes per round at once.
type fakeSide struct {
	name   string
	calls  *[]string
	fail   error // of the second round
	cancel context.CancelFunc
	rounds int
}

func (f *fakeSide) call(what string)              { *f.calls = append(*f.calls, f.name+" "+what) }
func (f *fakeSide) Name() string                  { return f.name }
func (f *fakeSide) Clients() int                  { return 1 }
func (f *fakeSide) Prepare(context.Context) error { f.call("prepare"); return nil }
func (f *fakeSide) Verify(context.Context) (Verified, error) {
	f.call("verify")
	return Verified{Acknowledged: 100, Read: 100}, nil
}

func (f *fakeSide) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		f.call("close without time to do it")
		return ctx.Err()
	}
	f.call("close")
	return nil
}

func (f *fakeSide) Round(_ context.Context, _ Times, m *Meter) error {
	f.call("round")
	if f.rounds++; f.rounds == 2 {
		if f.cancel != nil {
			f.cancel()
		}
		if f.fail != nil {
			return f.fail
		}
	}
	now := time.Now()
	m.Measure(now, now.Add(time.Second))
	m.Shard(0).Answered(now, now, 100, 1000)
	return nil
}

func TestSidesTakeTurns(t *testing.T) {
	t.Parallel()
	var calls []string
	settled := 0
	plan := Plan{Rounds: 3, Duration: time.Second, Verify: true, Settle: func(context.Context) error { settled++; return nil }}
	out, err := Run(t.Context(), plan, &fakeSide{name: "a", calls: &calls}, &fakeSide{name: "b", calls: &calls})
	if err != nil {
		t.Fatal(err)
	}
	want := "a prepare,b prepare,a round,b round,b round,a round,a round,b round,a verify,b verify,b close,a close"
	if got := strings.Join(calls, ","); got != want {
		t.Errorf("calls %s\nwant  %s", got, want)
	}
	if settled != 6 {
		t.Errorf("settled %d times, want before each of 6 rounds", settled)
	}
	if len(out.A.Rounds) != 3 || len(out.B.Rounds) != 3 || out.A.Rounds[0].Bytes != 1000 {
		t.Errorf("rounds %+v and %+v, want 3 of 1000 bytes each", out.A.Rounds, out.B.Rounds)
	}
}

func TestRoundsOfManyTurns(t *testing.T) {
	t.Parallel()
	var calls []string
	plan := Plan{Rounds: 2, Duration: 5 * time.Second, Turn: 2 * time.Second}
	out, err := Run(t.Context(), plan, &fakeSide{name: "a", calls: &calls}, &fakeSide{name: "b", calls: &calls})
	if err != nil {
		t.Fatal(err)
	}
	// Three turns of 2, 2 and 1 seconds; who was second goes first, also from round to round.
	want := "a prepare,b prepare," +
		"a round,b round,b round,a round,a round,b round," +
		"b round,a round,a round,b round,b round,a round," +
		"b close,a close"
	if got := strings.Join(calls, ","); got != want {
		t.Errorf("calls %s\nwant  %s", got, want)
	}
	if len(out.A.Rounds) != 2 || len(out.B.Rounds) != 2 || out.A.Rounds[0].Bytes != 3000 || out.B.Rounds[1].Bytes != 3000 {
		t.Errorf("rounds %+v and %+v, want 2 of 3000 bytes each", out.A.Rounds, out.B.Rounds)
	}
	if got := plan.turns(); !slices.Equal(got, []time.Duration{2 * time.Second, 2 * time.Second, time.Second}) {
		t.Errorf("turns %v, want 2 s, 2 s and what is left", got)
	}
	for _, turn := range []time.Duration{0, 5 * time.Second, time.Minute} {
		if got := (&Plan{Duration: 5 * time.Second, Turn: turn}).turns(); !slices.Equal(got, []time.Duration{5 * time.Second}) {
			t.Errorf("turns of at most %s: %v, want one of the whole round", turn, got)
		}
	}
}

func TestRoundsToWarmUpAreRunAndNotReported(t *testing.T) {
	t.Parallel()
	var calls []string
	out, err := Run(t.Context(), Plan{Rounds: 2, Discard: 1, Duration: time.Second}, &fakeSide{name: "a", calls: &calls}, &fakeSide{name: "b", calls: &calls})
	if err != nil {
		t.Fatal(err)
	}
	want := "a prepare,b prepare,b round,a round,a round,b round,b round,a round,b close,a close"
	if got := strings.Join(calls, ","); got != want {
		t.Errorf("calls %s\nwant  %s", got, want)
	}
	if len(out.A.Rounds) != 2 || len(out.B.Rounds) != 2 || len(out.Ratio.ThroughputPairs) != 2 {
		t.Errorf("%d and %d rounds, want the 2 of each that count", len(out.A.Rounds), len(out.B.Rounds))
	}
}

func TestBothSidesAreClosedWhateverHappens(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("broken")
	f := func(name string, want error, a, b fakeSide) {
		t.Helper()
		var calls []string
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a.name, a.calls, b.name, b.calls = "a", &calls, "b", &calls
		if a.cancel != nil {
			a.cancel = cancel
		}
		_, err := Run(ctx, Plan{Rounds: 5, Duration: time.Second}, &a, &b)
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
		if n := len(calls); n < 2 || calls[n-2] != "b close" || calls[n-1] != "a close" {
			t.Errorf("%s: calls end %v, want both closed", name, calls)
		}
		if strings.Count(strings.Join(calls, ","), "round") > 5 {
			t.Errorf("%s: rounds went on: %v", name, calls)
		}
	}
	f("a round fails", errBroken, fakeSide{}, fakeSide{fail: errBroken})
	f("interrupted", context.Canceled, fakeSide{cancel: func() {}}, fakeSide{})
}

func TestReadingBackCountsEveryKindOfDamage(t *testing.T) {
	t.Parallel()
	s := newSeen([]uint64{3, 70}) // client 0 sent 3 values, client 1 sent 70
	var v Verified
	for n := range uint64(69) {
		s.count(&v, idOf(1, n), nil)
	}
	s.count(&v, idOf(0, 0), nil)
	s.count(&v, idOf(0, 0), nil)        // once more
	s.count(&v, idOf(0, 1), errDamaged) // and so 1 and 2 are missing
	s.count(&v, idOf(0, 3), nil)        // never sent
	s.count(&v, idOf(2, 0), nil)        // by nobody
	s.finish(&v)
	if want := (Verified{Acknowledged: 73, Read: 74, Missing: 3, Repeated: 1, Damaged: 3}); v != want {
		t.Errorf("verified %+v, want %+v", v, want)
	}
	if v.err() == nil {
		t.Error("damage is no error")
	}
	if err := (Verified{Acknowledged: 5, Read: 5}).err(); err != nil {
		t.Errorf("nothing wrong, and yet: %v", err)
	}
}
