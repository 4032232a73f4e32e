package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// rest waits on a bubble's clock.
func rest(d time.Duration) { <-time.After(d) }

// stalled runs two seconds of 100 records a second, of which the 51st holds up
// the load for a second, and answers what was due when, what was measured, and
// what a load that counts from sending would have measured.
func stalled(t *testing.T, m *Meter) (dues []time.Time, start time.Time) {
	t.Helper()
	start = time.Now()
	end := start.Add(2 * time.Second)
	m.Measure(start, end)
	s := schedule{start: start, interval: 10 * time.Millisecond, clients: 1}
	s.pace(t.Context(), 0, end, rest, func(due time.Time) bool {
		m.Shard(0).Sent(due, time.Now())
		if len(dues) == 50 {
			rest(time.Second)
		}
		m.Shard(0).Arrived(due, time.Now(), 7)
		dues = append(dues, due)
		return true
	})
	return dues, start
}

func TestAStallIsInTheLatencyOfEveryRecordItDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(1)
		dues, start := stalled(t, m)
		if len(dues) != 200 {
			t.Fatalf("%d records went out, want all 200 that were due", len(dues))
		}
		for i, due := range dues {
			if want := start.Add(time.Duration(i) * 10 * time.Millisecond); !due.Equal(want) {
				t.Fatalf("record %d was due at %s, want %s", i, due.Sub(start), want.Sub(start))
			}
		}
		// Records 50 to 149 were due during the stall, and each waited for its
		// end: the median of all 200 is nothing, three quarters through it is
		// half a second, and 99 of 100 waited for nearly all of it.
		r := m.Read(start.Add(2 * time.Second))
		if r.Records != 200 || r.Bytes != 1400 || r.RecordsPerSecond != 100 {
			t.Errorf("round %+v, want 200 records of 7 bytes in 2 s", r)
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if got < want*0.99 || got > want*1.01 {
				t.Errorf("%s is %v ms, want about %v", what, got, want)
			}
		}
		near("p99", r.LatencyMS.P99, 980)
		near("max", r.LatencyMS.Max, 1000)
		near("the latest sent", r.SentLateMS.Max, 990)
		if got := float64(m.Shard(0).latency.ValueAtQuantile(75)) / 1000; got < 490 || got > 510 {
			t.Errorf("three quarters waited up to %v ms, want about 500", got)
		}
	})
}

func TestARecordCountsByWhenItWasDue(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	m := NewMeter(1)
	m.Measure(at(0), at(1000))
	m.Shard(0).Arrived(at(-1), at(500), 1)   // due while warming up
	m.Shard(0).Arrived(at(0), at(1), 1)      // counts
	m.Shard(0).Arrived(at(999), at(9999), 1) // counts, though it came after the end
	m.Shard(0).Arrived(at(1000), at(1001), 1)
	r := m.Read(at(10_000))
	if r.Records != 2 || r.LatencyMS.Max < 8990 || r.LatencyMS.Max > 9010 {
		t.Errorf("round %+v, latency %+v; want the two that were due in time, the later after 9 s", r, r.LatencyMS)
	}
}

func TestClientsTakeTurnsInOneSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := schedule{start: start, interval: time.Millisecond, clients: 3}
		seen := make(map[time.Duration]int)
		for client := range s.clients {
			s.pace(t.Context(), client, start.Add(30*time.Millisecond), rest, func(due time.Time) bool {
				seen[due.Sub(start)]++
				return true
			})
		}
		for i := range 30 {
			if n := seen[time.Duration(i)*time.Millisecond]; n != 1 {
				t.Errorf("%d records were due at %d ms, want one", n, i)
			}
		}
		if len(seen) != 30 {
			t.Errorf("%d different times, want 30", len(seen))
		}
	})
}

func TestAPaceStopsWhenToldTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := schedule{start: start, interval: time.Hour, clients: 1}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sent := 0
		s.pace(ctx, 0, start.Add(24*time.Hour), rest, func(time.Time) bool { sent++; return true })
		if sent != 1 || time.Since(start) > 2*time.Second {
			t.Errorf("%d sent and stopped after %s, want the first alone and a stop at once", sent, time.Since(start))
		}
		s.interval = time.Millisecond
		sent = 0
		s.pace(t.Context(), 0, start.Add(24*time.Hour), rest, func(time.Time) bool { sent++; return sent < 5 })
		if sent != 5 {
			t.Errorf("%d sent, want no more once a send says no", sent)
		}
	})
}
