package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// sentE2E is a side that has sent 5 records in an earlier round and 3 in this
// one, due every 10 ms, and that tails count the arrival of.
func sentE2E(t *testing.T) (*E2E, *Meter) {
	t.Helper()
	begin := time.Unix(1000, 0)
	m := NewMeter(1)
	m.Measure(begin, begin.Add(time.Second))
	e := &E2E{
		Kafka: &Kafka{Payload: payload(t, Random, 100), Connections: 1, producers: []*producer{{next: 8}}},
		tails: []*tail{{}}, came: make(chan struct{}, 1),
		due: schedule{start: begin, interval: 10 * time.Millisecond, clients: 1}, first: []uint64{5}, meter: m,
	}
	return e, m
}

func TestArrivalCountsFromWhenTheRecordWasDue(t *testing.T) {
	t.Parallel()
	e, m := sentE2E(t)
	v := make([]byte, 100)
	now := time.Unix(1000, 0).Add(50 * time.Millisecond)
	for _, n := range []uint64{5, 7} { // due at 0 and 20 ms
		e.Payload.Fill(v, idOf(0, n))
		if err := e.arrived(0, v, now); err != nil {
			t.Fatal(err)
		}
	}
	l := m.Read(now).LatencyMS
	if l == nil || l.P50 < 29.9 || l.P50 > 30.1 || l.Max < 49.9 || l.Max > 50.1 {
		t.Errorf("latency %+v, want 30 and 50 ms", l)
	}
}

func TestForeignAndDamagedRecordsAreNoArrivals(t *testing.T) {
	t.Parallel()
	e, m := sentE2E(t)
	v := make([]byte, 100)
	f := func(want error, client int, n uint64, damage byte) {
		t.Helper()
		e.Payload.Fill(v, idOf(client, n))
		v[50] ^= damage
		if err := e.arrived(0, v, time.Unix(1000, 0)); !errors.Is(err, want) {
			t.Errorf("client %d, number %d: %v, want %v", client, n, err, want)
		}
	}
	f(errDamaged, 0, 6, 1)
	f(errForeign, 0, 4, 0) // of the round before, where it had come already
	f(errForeign, 1, 6, 0)
	if r := m.Read(time.Unix(1001, 0)); r.Records != 0 {
		t.Errorf("%d counted, want none", r.Records)
	}
}

func TestARoundEndsWhenEveryRecordCame(t *testing.T) {
	t.Parallel()
	e, _ := sentE2E(t)
	e.tails[0].arrived.Store(8)
	if err := e.allCame(t.Context()); err != nil {
		t.Errorf("all 8 came, and yet: %v", err)
	}
	f := func(came int64, failed error, want string) {
		t.Helper()
		e.tails[0].arrived.Store(came)
		if failed != nil {
			e.tails[0].failed.Store(&failed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // no more will come
		if err := e.allCame(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d of 8 came: %v, want %q", came, err, want)
		}
	}
	f(7, nil, "7 of 8")
	f(9, nil, "some came twice")
	f(8, errDamaged, errDamaged.Error())
}
