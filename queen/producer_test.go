package queen

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// send judges a batch and remembers it where it passes, at the given offset.
func (s *producerState) send(epoch int16, first, span int32, at int64) (int64, bool, error) {
	last := lastSequence(first, span)
	original, duplicate, err := s.judge(epoch, first, last, false)
	if err != nil || duplicate {
		return original, duplicate, err
	}
	s.accept(epoch, first, last, at)
	return at, false, nil
}

type sent struct {
	epoch       int16
	first, span int32
	offset      int64 // where it is stored if it is accepted
	want        int64 // the base offset it is answered, or …
	wantErr     error
}

func replay(t *testing.T, history []sent) {
	t.Helper()
	var s producerState
	for i, h := range history {
		got, duplicate, err := s.send(h.epoch, h.first, h.span, h.offset)
		if !errors.Is(err, h.wantErr) || err == nil && (got != h.want || duplicate != (h.want != h.offset)) {
			t.Fatalf("step %d, %+v: offset %d, duplicate %v, %v", i, h, got, duplicate, err)
		}
		if len(s.Batches) > producerBatchesMax {
			t.Fatalf("step %d: %d batches are remembered", i, len(s.Batches))
		}
	}
}

func TestProducerSequences(t *testing.T) {
	t.Parallel()
	ok := func(epoch int16, first, span int32, offset int64) sent {
		return sent{epoch, first, span, offset, offset, nil}
	}
	again := func(epoch int16, first, span int32, original int64) sent {
		return sent{epoch, first, span, -7, original, nil}
	}
	no := func(epoch int16, first, span int32, err error) sent {
		return sent{epoch, first, span, -7, 0, err}
	}
	six := []sent{ok(0, 0, 10, 100), ok(0, 10, 1, 200), ok(0, 11, 9, 300), ok(0, 20, 5, 400), ok(0, 25, 5, 500), ok(0, 30, 5, 600)}
	with := func(before []sent, more ...sent) []sent { return append(before[:len(before):len(before)], more...) }
	for name, history := range map[string][]sent{
		"a duplicate of each of the last five": with(six,
			again(0, 30, 5, 600), again(0, 25, 5, 500), again(0, 20, 5, 400), again(0, 11, 9, 300), again(0, 10, 1, 200), ok(0, 35, 1, 700)),
		"an older duplicate":                       with(six, no(0, 0, 10, ErrDuplicateSequence)),
		"an older one, framed otherwise":           with(six, no(0, 3, 2, ErrDuplicateSequence)),
		"a remembered range, framed otherwise":     with(six, no(0, 20, 4, ErrOutOfOrderSequence), no(0, 21, 4, ErrOutOfOrderSequence), no(0, 20, 10, ErrOutOfOrderSequence)),
		"reaching into what is remembered":         with(six, no(0, 8, 3, ErrOutOfOrderSequence)),
		"a gap":                                    with(six, no(0, 36, 1, ErrOutOfOrderSequence), ok(0, 35, 1, 700), ok(0, 36, 1, 701)),
		"overlap with what comes next":             with(six, no(0, 34, 2, ErrOutOfOrderSequence)),
		"any first sequence of an unknown one":     {ok(4, 1000, 3, 10), ok(4, 1003, 1, 13)},
		"before a young state: not known to exist": {ok(0, 10, 10, 50), no(0, 5, 5, ErrOutOfOrderSequence), no(0, 0, 1, ErrOutOfOrderSequence)},
		"a stale epoch":                            {ok(3, 0, 1, 1), no(2, 1, 1, ErrProducerFenced), no(2, 0, 1, ErrProducerFenced), ok(3, 1, 1, 2)},
		"a new epoch starts at 0":                  {ok(3, 0, 1, 1), no(4, 1, 1, ErrOutOfOrderSequence), ok(4, 0, 1, 2), no(3, 1, 1, ErrProducerFenced), again(4, 0, 1, 2)},
		"a new epoch forgets the old batches":      {ok(3, 0, 1, 1), ok(3, 1, 1, 2), ok(4, 0, 1, 3), no(4, 2, 1, ErrOutOfOrderSequence), ok(4, 1, 1, 4)},
		"a refused new epoch changes nothing":      {ok(3, 0, 1, 1), no(4, 5, 1, ErrOutOfOrderSequence), ok(3, 1, 1, 2)},
		"wrap between batches":                     {ok(0, math.MaxInt32-1, 2, 10), ok(0, 0, 3, 12), ok(0, 3, 1, 15), again(0, math.MaxInt32-1, 2, 10)},
		"wrap inside a batch":                      {ok(0, math.MaxInt32-1, 4, 10), ok(0, 2, 1, 14), again(0, math.MaxInt32-1, 4, 10), no(0, 1, 1, ErrOutOfOrderSequence)},
		"an older duplicate beyond the wrap": {
			ok(0, math.MaxInt32-3, 2, 1), ok(0, math.MaxInt32-1, 2, 3), ok(0, 0, 1, 5), ok(0, 1, 1, 6), ok(0, 2, 1, 7), ok(0, 3, 1, 8),
			no(0, math.MaxInt32-3, 2, ErrDuplicateSequence), again(0, math.MaxInt32-1, 2, 3), no(0, math.MaxInt32-2, 2, ErrOutOfOrderSequence),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replay(t, history)
		})
	}
}

func TestLastSequenceWraps(t *testing.T) {
	t.Parallel()
	f := func(first, span, want int32) {
		if got := lastSequence(first, span); got != want {
			t.Errorf("%d records from %d end at %d, want %d", span, first, got, want)
		}
	}
	f(0, 1, 0)
	f(7, 3, 9)
	f(math.MaxInt32, 1, math.MaxInt32)
	f(math.MaxInt32, 2, 0)
	f(math.MaxInt32-1, math.MaxInt32, math.MaxInt32-3)
}

// A client with five batches in flight over a network that loses answers and
// repeats requests, but keeps the order of first sends: every record is stored once, in order.
func TestProducerThatRepeatsStoresEverythingOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s producerState
		type batch struct {
			first, span int32
			stored      int64
		}
		next := rapid.SampledFrom([]int32{0, math.MaxInt32 - 7}).Draw(t, "start")
		var end int64
		var flight []batch // sent and unanswered
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch {
			case len(flight) < producerBatchesMax && rapid.Bool().Draw(t, "send"):
				b := batch{first: next, span: rapid.Int32Range(1, 4).Draw(t, "span"), stored: end}
				offset, duplicate, err := s.send(0, b.first, b.span, end)
				if err != nil || duplicate || offset != end {
					t.Fatalf("first send of %+v: %d, %v, %v", b, offset, duplicate, err)
				}
				end += int64(b.span)
				next = sequenceAfter(b.first, int64(b.span))
				flight = append(flight, b)
			case len(flight) > 0 && rapid.Bool().Draw(t, "repeat"):
				b := flight[rapid.IntRange(0, len(flight)-1).Draw(t, "which")]
				offset, duplicate, err := s.send(0, b.first, b.span, -1)
				if err != nil || !duplicate || offset != b.stored {
					t.Fatalf("repeat of %+v: %d, %v, %v", b, offset, duplicate, err)
				}
			case len(flight) > 0:
				flight = flight[1:] // answered
			}
		}
	})
}
