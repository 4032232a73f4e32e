package queen

import (
	"errors"
	"testing"
	"time"

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
	var was company
	f := func(what string, want bool) {
		t.Helper()
		if came := e.othersCame(t.Context(), &was); came != want {
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
	f("it has not been heard of", false) // the pause is still that of who is alone
	hear()
	f("it is heard of", true)
	f("it is here", false)
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	hear()
	f("it went", true)
	f("it is gone", false)
}

// What another broker deleted is not given from memory for longer than a poll, and
// where polls fail, for longer than WatchFor. Meanwhile memory spares the database.
func TestMemoryLearnsWhatAnotherBrokerDeleted(t *testing.T) {
	t.Parallel()
	f := func(name string, wantReads float64, change func(*Config)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.New(t)
			e := openEngine(t, db, change, func(c *Config) { c.RetentionEvery = time.Hour }) // nor by its own rounds
			createTopic(t, e, "t", 1)
			for range 4 {
				appendBatch(t, e, at("t", 0), kafkaBatch(t, 1))
			}
			read := func() error { // one that never waits
				t.Helper()
				answers, err := e.Read(t.Context(), ReadRequest{
					Items:    []ReadItem{{Partition: at("t", 0), Offset: 1, MaxBytes: 1, CurrentEpoch: -1, LastFetchedEpoch: -1}},
					MaxBytes: 1,
				})
				if err != nil {
					t.Fatal(err)
				}
				if answers[0].Err == nil && len(answers[0].Batches) != 1 {
					t.Fatalf("%d batches, want one", len(answers[0].Batches))
				}
				return answers[0].Err
			}
			if err := read(); err != nil || e.storeReads(t) != 0 {
				t.Fatalf("%v; the database was asked %v times by who is alone", err, e.storeReads(t))
			}
			other := openEngine(t, storetest.OpenConfig(t, db.Config()))
			if err := e.brokers.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if err := read(); err != nil {
					t.Fatal(err)
				}
			}
			if n := e.storeReads(t); wantReads > 0 && n != wantReads {
				t.Errorf("20 reads asked the database %v times, want %v", n, wantReads)
			}
			if got := other.Truncate(t.Context(), []Truncation{{Partition: at("t", 0), Before: 3}})[0]; got.Err != nil {
				t.Fatal(got.Err)
			}
			deadline := time.Now().Add(time.Minute)
			for err := read(); !errors.Is(err, ErrOffsetOutOfRange); err = read() {
				if err != nil || time.Now().After(deadline) {
					t.Fatalf("a deleted record is read: %v", err)
				}
			}
		})
	}
	f("by the poll", 1, func(c *Config) { c.WatchFor = time.Hour })
	f("without a poll", 0, func(c *Config) { c.PollMax, c.WatchFor = time.Hour, 2*time.Second })
}
