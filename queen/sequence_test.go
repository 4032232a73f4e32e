package queen

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"queenmq/store"
	"queenmq/store/storetest"
)

// TestSequenceRuleInSQLIsTheRuleInGo drives append with random parts of one
// producer, several to a call, and compares every verdict with the pure rule.
func TestSequenceRuleInSQLIsTheRuleInGo(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	_, part, err := db.EnsurePartition(t.Context(), "q", "p")
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for producer := range int64(40) {
		var model producerState
		var next int64
		if m, err := db.Marks(t.Context(), []int64{part.ID}); err == nil {
			next = m[0].NextOffset
		}
		at := int32(0)
		if producer%4 == 0 {
			at = math.MaxInt32 - rnd.Int32N(40) // near the wrap
		}
		epoch := int16(0)
		for range 12 {
			base := NewIDBase(time.Now())
			seg := store.Segment{
				Partition: part.ID, Epoch: db.Incarnation().Epoch, Known: next, Window: 3600, Verified: -1,
				IDHi: base.Hi, IDLo: base.Lo, Header: []byte{0},
			}
			for range 1 + rnd.IntN(4) {
				span := 1 + rnd.Int32N(3)
				seq, ep := at, epoch
				switch rnd.IntN(8) {
				case 0: // a resend, or something older
					if n := len(model.Batches); n > 0 {
						b := model.Batches[rnd.IntN(n)]
						seq, span = b.First, 1+int32((int64(b.Last)-int64(b.First))&math.MaxInt32)
					}
				case 1:
					seq = sequenceAfter(at, int64(rnd.IntN(30)-20))
				case 2:
					ep += int16(rnd.IntN(3) - 1)
				case 3:
					ep, seq = ep+1, 0
				}
				if ep < 0 {
					ep = 0
				}
				seg.Parts = append(seg.Parts, store.Part{
					Bytes: 1, Batches: 1, Span: span, Records: span,
					Producer: producer, ProducerEpoch: int32(ep), BaseSequence: seq, Follows: rnd.IntN(4) == 0,
				})
				seg.Data = append(seg.Data, 'x')
				seg.Header = append(seg.Header, make([]byte, batchMarkLen)...)
			}
			res, err := db.Append(t.Context(), []store.Segment{seg}, true)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range seg.Parts {
				last := lastSequence(p.BaseSequence, p.Span)
				offset, resend, err := model.judge(int16(p.ProducerEpoch), p.BaseSequence, last, p.Follows)
				want, wantOffset := store.PartStored, next
				switch {
				case resend:
					want, wantOffset = store.PartResend, offset
				case errors.Is(err, ErrProducerFenced):
					want, wantOffset = store.PartFenced, -1
				case errors.Is(err, ErrDuplicateSequence):
					want, wantOffset = store.PartForgotten, -1
				case errors.Is(err, ErrOutOfOrderSequence):
					want, wantOffset = store.PartOutOfOrder, -1
				default:
					model.accept(int16(p.ProducerEpoch), p.BaseSequence, last, next)
					next += int64(p.Span)
					at, epoch = sequenceAfter(last, 1), int16(p.ProducerEpoch)
				}
				if got := res[0].Verdicts[i]; got != want || res[0].Offsets[i] != wantOffset {
					t.Fatalf("producer %d, part %d %+v, state %+v: SQL says %d at %d, the rule %d at %d",
						producer, i, p, model, got, res[0].Offsets[i], want, wantOffset)
				}
			}
		}
	}
}
