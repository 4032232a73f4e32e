package bench

import (
	"testing"
	"time"
)

func TestOnlyTheMeasuredTimeCounts(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	m := NewMeter(2)
	m.Shard(0).Answered(at(-500), at(-400), 1, 10) // before anything is known
	m.Measure(at(0), at(2000))
	m.Shard(0).Answered(at(-100), at(-1), 1, 10) // warming up
	m.Shard(0).Answered(at(-100), at(0), 2, 20)
	m.Shard(1).Answered(at(1980), at(1999), 3, 30)
	m.Shard(1).Answered(at(1999), at(2000), 1, 10) // late
	r := m.Read(at(5000))
	if r.Records != 5 || r.Bytes != 50 || r.Seconds != 2 || r.BytesPerSecond != 25 || r.RecordsPerSecond != 2.5 {
		t.Errorf("round %+v, want 5 records and 50 bytes in 2 s", r)
	}
	if l := r.LatencyMS; l == nil || l.Max < 99.9 || l.Max > 100.1 || l.P50 < 18.9 || l.P50 > 19.1 {
		t.Errorf("latency %+v, want p50 19 and max 100", l)
	}
	if r := m.Read(at(1000)); r.Seconds != 1 {
		t.Errorf("half way %v s are over, want 1", r.Seconds)
	}
	if r := m.Read(at(-10)); r.Seconds != 0 || r.BytesPerSecond != 0 {
		t.Errorf("while warming up: %+v, want no time and no speed", r)
	}
}

func TestPartsOfARoundAddUp(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	m := NewMeter(1)
	m.Measure(at(0), at(1000))
	m.Shard(0).Answered(at(500), at(600), 4, 40)
	m.Measure(at(5000), at(6000))
	m.Shard(0).Answered(at(3000), at(3100), 1, 10) // between the parts
	m.Shard(0).Answered(at(5500), at(5600), 2, 20)
	if r := m.Read(at(5500)); r.Records != 6 || r.Seconds != 1.5 || r.RecordsPerSecond != 4 {
		t.Errorf("in the middle of the second part: %+v, want 6 records in 1.5 s", r)
	}
	if r := m.Read(at(4000)); r.Seconds != 1 {
		t.Errorf("before the second part: %v s, want that of the first", r.Seconds)
	}
	if r := m.Read(at(9000)); r.Seconds != 2 || r.BytesPerSecond != 30 {
		t.Errorf("after both: %+v, want 60 bytes in 2 s", r)
	}
}

func TestProgressShowsHowMuchIsOver(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	m := NewMeter(1)
	f := func(ms int, want string) {
		t.Helper()
		if got := bar(m.Done(begin.Add(time.Duration(ms) * time.Millisecond))); got != want {
			t.Errorf("after %d ms: %q, want %q", ms, got, want)
		}
	}
	f(0, "  [                    ]") // not begun
	m.Measure(begin, begin.Add(2*time.Second))
	f(-500, "  [                    ]")
	f(500, "  [=====               ]")
	f(2000, "  [====================]")
	f(9000, "  [====================]")
	m.Shard(0).Answered(begin, begin.Add(time.Millisecond), 10, 1e6)
	want := "  1.0 MB/s  10 records/s  p50 1.0 ms  p99 1.0 ms"
	if got := numbers(m.Read(begin.Add(time.Second))); got != want {
		t.Errorf("numbers %q, want %q", got, want)
	}
}
