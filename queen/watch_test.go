package queen

import (
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
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
	f(c.PollMax, true, true, 50*ms, 10_000*ms)
	f(10_000*ms, false, false, 1*ms, c.PollMax)
}

// A poll that takes long is put off while this broker is alone, until another comes.
func TestAPollIsDueWhenAnotherBrokerComes(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	var sole store.Registrations
	f := func(what string, want bool) {
		t.Helper()
		if came := e.othersCame(t.Context(), &sole); came != want {
			t.Errorf("%s: due %v, want %v", what, came, want)
		}
	}
	f("the first time", true)
	f("nobody came", false)
	hear := func() { // of it, as with each heartbeat
		t.Helper()
		if err := e.brokers.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other := openEngine(t, storetest.OpenConfig(t, db.Config()))
	f("another came", true)
	hear()
	f("it is here", false)
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	hear()
	f("it went", true)
	f("it is gone", false)
}
