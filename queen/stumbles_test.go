package queen

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"queenmq/store/storetest"
)

// idempotentBatch is a batch of n records of a producer.
func idempotentBatch(t *testing.T, producer int64, epoch int16, sequence int32, n int) []byte {
	t.Helper()
	b := kafkaBatch(t, n)
	binary.BigEndian.PutUint64(b[batchAtProducerID:], uint64(producer))
	binary.BigEndian.PutUint16(b[batchAtProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[batchAtBaseSequence:], uint32(sequence))
	return sealed(b)
}

// TestABatchDoesNotOvertakeAFirstOneThatFailed sends the second batch of a producer
// before it knows that the first one failed, as clients do with several in flight.
// Stored, it would be taken for the producer's first: the real one would be out of
// order for good.
func TestABatchDoesNotOvertakeAFirstOneThatFailed(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{ // what fails without its table
		"when it is stored":              "producers",
		"when its partition is found":    "queues",
		"when its partition is asked of": "log_partitions",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.New(t)
			createTopic(t, openEngine(t, db), "t", 1)
			e := openEngine(t, db, func(c *Config) { c.WriteTimeout = time.Millisecond }) // it has not looked for the topic yet
			rename := func(from, to string) {
				if _, err := storetest.Pool(t, db).Exec(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to); err != nil {
					t.Fatal(err)
				}
			}
			send := func(sequence int32) (Appended, error) {
				b := idempotentBatch(t, 7, 0, sequence, 2)
				return e.Append(t.Context(), []AppendItem{{Partition: at("t", 0), Batch: b}})[0].Result(t.Context())
			}
			rename(broken, "gone")
			if _, err := send(math.MaxInt32); !willRepeat(err) {
				t.Fatalf("without a table: %v, want an error after which clients repeat", err)
			}
			rename("gone", broken)
			if res, err := send(1); !errors.Is(err, ErrOutOfOrderSequence) {
				t.Errorf("what follows the failed batch: %+v, %v, want out of order", res, err)
			}
			for i, sequence := range []int32{math.MaxInt32, 1, 3} {
				if res, err := send(sequence); err != nil || res.BaseOffset != int64(2*i) {
					t.Errorf("sequence %d, in order: %+v, %v, want offset %d", sequence, res, err, 2*i)
				}
			}
		})
	}
}

func TestStumbles(t *testing.T) {
	t.Parallel()
	var s stumbles
	now := time.Unix(1000, 0)
	here := stumbler{ref: QueueRef{Name: "t"}, number: 1}
	batch := func(epoch int16, sequence int32) *batchInfo {
		return &batchInfo{ProducerID: 7, ProducerEpoch: epoch, BaseSequence: sequence}
	}
	f := func(what string, at stumbler, b *batchInfo, now time.Time, want bool) {
		t.Helper()
		if got := s.follows(at, b, now); got != want {
			t.Errorf("%s: follows %v, want %v", what, got, want)
		}
	}
	f("nothing failed", here, batch(1, 5), now, false)
	s.failed(here, batch(1, 5), ErrTooLarge, now)
	f("the other was refused for good", here, batch(1, 8), now, false)
	s.failed(here, batch(1, 5), ErrUnavailable, now)
	f("the failed one itself", here, batch(1, 5), now, false)
	f("one before it", here, batch(1, 4), now, false)
	f("one after it", here, batch(1, 8), now, true)
	f("one so far from it that it may be before it", here, batch(1, 5+1<<30), now, false)
	f("another epoch", here, batch(2, 8), now, false)
	f("another producer", here, &batchInfo{ProducerID: 8, ProducerEpoch: 1, BaseSequence: 8}, now, false)
	f("another partition", stumbler{ref: QueueRef{Name: "t"}}, batch(1, 8), now, false)
	f("no producer", here, &batchInfo{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, now, false)
	s.failed(here, batch(1, 8), ErrTimedOut, now)
	f("only the first counts", here, batch(1, 8), now, true)
	s.failed(here, batch(1, 2), ErrTimedOut, now)
	f("which may fail last", here, batch(1, 5), now, true)
	f("its client has given up", here, batch(1, 5), now.Add(stumbleKept), false)
	s.failed(here, batch(2, 0), ErrOverloaded, now)
	f("a new epoch failed", here, batch(2, 1), now, true)
	s.failed(here, batch(1, 0), ErrOverloaded, now)
	f("and counts more than the old one", here, batch(2, 1), now, true)
	s.stored(here, batch(2, 0))
	f("it is stored", here, batch(2, 1), now, false)
}

func TestStumblesAreBounded(t *testing.T) {
	t.Parallel()
	var s stumbles
	now := time.Unix(1000, 0)
	fail := func(producer int64, now time.Time) bool {
		at := stumbler{ref: QueueRef{Name: "t"}}
		s.failed(at, &batchInfo{ProducerID: producer}, ErrUnavailable, now)
		return s.follows(at, &batchInfo{ProducerID: producer, BaseSequence: 1}, now)
	}
	for producer := range int64(stumblesMax) {
		if !fail(producer, now) {
			t.Fatalf("producer %d is not noted", producer)
		}
	}
	if fail(stumblesMax, now) || len(s.m) != stumblesMax {
		t.Errorf("%d are noted, want no more than %d", len(s.m), stumblesMax)
	}
	if !fail(stumblesMax, now.Add(stumbleKept)) || len(s.m) != 1 {
		t.Errorf("%d are noted after all others had their time", len(s.m))
	}
}
