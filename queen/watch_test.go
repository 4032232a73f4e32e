package queen

import (
	"testing"
	"time"
)

// The poll for other brokers' writes takes a bounded share of the database's time,
// however many partitions are watched.
func TestThePollForOtherBrokersWritesHasAShare(t *testing.T) {
	t.Parallel()
	c := Config{}.withDefaults()
	f := func(last time.Duration, found, alone bool, took, want time.Duration) {
		t.Helper()
		if got := c.pollPause(last, found, alone, took); got != want {
			t.Errorf("after %v, found %v, alone %v, a poll of %v: paused %v, want %v", last, found, alone, took, got, want)
		}
	}
	const ms = time.Millisecond
	f(c.PollMax, true, false, 0, c.PollMin)
	f(c.PollMin, false, false, 0, 2*c.PollMin)
	f(80*ms, false, false, 0, c.PollMax)
	f(c.PollMin, true, true, 0, c.PollMax)
	// Many partitions: a poll takes long.
	f(c.PollMax, true, false, 50*ms, 500*ms)
	f(500*ms, false, false, 50*ms, 500*ms)
	f(c.PollMax, true, true, 50*ms, 2500*ms)
	f(2500*ms, false, false, 1*ms, c.PollMax)
}
