package bench

import (
	"context"
	"time"
)

// schedule says when each record of a round is due, whatever became of those
// before it: what makes the load open. The clients take turns.
type schedule struct {
	start    time.Time
	interval time.Duration // between two records of all clients together
	clients  int
}

// at is when a client's nth record of the round is due.
func (s schedule) at(client int, n uint64) time.Time {
	return s.start.Add(s.interval * time.Duration(n*uint64(s.clients)+uint64(client)))
}

// pace calls send for each record of a client that is due before the end, in
// order and leaving none out. A send that takes long makes those after it late;
// they go out as fast as send takes them, and keep the time they were due.
func (s schedule) pace(ctx context.Context, client int, end time.Time, sleep func(time.Duration), send func(due time.Time) bool) {
	for n := uint64(0); ; n++ {
		due := s.at(client, n)
		if !due.Before(end) {
			return
		}
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			if ctx.Err() != nil {
				return
			}
			sleep(min(wait, sleepMax))
		}
		if !send(due) {
			return
		}
	}
}

// sleepMax bounds how long a pace takes to notice that it was told to stop.
const sleepMax = 100 * time.Millisecond
