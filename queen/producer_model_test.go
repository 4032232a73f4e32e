package queen

import (
	"fmt"
	"math"
)

// producerBatchesMax is how many batches of a producer a partition remembers:
// as many as a client may have in flight (KIP-98).
const producerBatchesMax = 5

// producerState is what one partition knows about one producer id. The zero
// value knows nothing. It is the rule itself, pure: the SQL that decides, append_1,
// is tested against it.
type producerState struct {
	Known   bool
	Epoch   int16
	Batches []producedBatch // the newest last, at most producerBatchesMax, all of Epoch
}

// producedBatch is one remembered batch.
type producedBatch struct {
	First, Last int32 // sequence numbers; Last is below First where they wrapped
	BaseOffset  int64
}

// lastSequence is the sequence number of the last of span offsets from first
// on. After 2147483647 comes 0.
func lastSequence(first, span int32) int32 {
	return sequenceAfter(first, int64(span)-1)
}

func sequenceAfter(sequence int32, n int64) int32 {
	return int32((int64(sequence) + n) & math.MaxInt32) // numbers are never negative: modulo 2^31
}

// judge says what becomes of a batch of this epoch whose records have the
// sequence numbers first … last. It follows where an earlier one came, was not
// stored, and is to come again. In this order:
//
//	producer unknown, and it follows   ErrOutOfOrderSequence
//	producer unknown                   accepted, whatever its sequence (its state may have expired)
//	epoch below the known one          ErrProducerFenced
//	epoch above the known one          accepted from sequence 0, else ErrOutOfOrderSequence
//	exactly a remembered batch         duplicate: baseOffset is the original's
//	follows the newest one             accepted
//	before everything remembered       ErrDuplicateSequence, see below
//	anything else                      ErrOutOfOrderSequence
//
// A client takes ErrDuplicateSequence as "stored", so it must be true. It is
// only said when all five places are taken: then the batch cannot be one the
// client still has in flight, unless it was stored. With fewer, the state may
// be young and the batch may never have arrived: that is a gap.
func (s *producerState) judge(epoch int16, first, last int32, follows bool) (baseOffset int64, duplicate bool, err error) {
	switch {
	case !s.Known && follows:
		return 0, false, fmt.Errorf("sequence %d before the first one: %w", first, ErrOutOfOrderSequence)
	case !s.Known:
		return 0, false, nil
	case epoch < s.Epoch:
		return 0, false, fmt.Errorf("epoch %d, a producer of epoch %d has written: %w", epoch, s.Epoch, ErrProducerFenced)
	case epoch > s.Epoch:
		if first != 0 {
			return 0, false, fmt.Errorf("new epoch %d starts at sequence %d, not 0: %w", epoch, first, ErrOutOfOrderSequence)
		}
		return 0, false, nil
	}
	for _, b := range s.Batches {
		if b.First == first && b.Last == last {
			return b.BaseOffset, true, nil
		}
	}
	if len(s.Batches) == 0 {
		return 0, false, nil
	}
	newest := s.Batches[len(s.Batches)-1].Last
	if first == sequenceAfter(newest, 1) {
		return 0, false, nil
	}
	if oldest := s.Batches[0].First; len(s.Batches) == producerBatchesMax && sequenceBefore(last, oldest) {
		return 0, false, fmt.Errorf("sequence %d–%d, the oldest batch remembered starts at %d: %w", first, last, oldest, ErrDuplicateSequence)
	}
	return 0, false, fmt.Errorf("sequence %d after %d: %w", first, newest, ErrOutOfOrderSequence)
}

// accept remembers a batch that judge let pass and that was stored at baseOffset.
func (s *producerState) accept(epoch int16, first, last int32, baseOffset int64) {
	if !s.Known || epoch != s.Epoch {
		*s = producerState{Known: true, Epoch: epoch}
	}
	if len(s.Batches) == producerBatchesMax {
		s.Batches = append(s.Batches[:0], s.Batches[1:]...)
	}
	s.Batches = append(s.Batches, producedBatch{First: first, Last: last, BaseOffset: baseOffset})
}

// sequenceBefore orders two sequence numbers on their circle of 2^31: a lies
// less than half of it behind b.
func sequenceBefore(a, b int32) bool {
	distance := sequenceAfter(b, -int64(a))
	return distance != 0 && distance < 1<<30
}
