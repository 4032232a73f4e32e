package queen

import (
	"time"

	"queenmq/dedup"

	"github.com/google/uuid"
)

// entry is what one Append item or one Push has for one partition.
type entry struct {
	// Kafka: one batch as sent.
	batch    []byte
	held     int // of the budget
	info     batchInfo
	source   string     // of ids, as the queue was set when they were read
	ids      *recordIDs // nil: all are minted
	dropped  []bool     // by offset delta: stored already; nil: none yet
	repeated []bool     // by offset delta: an earlier record of the batch has the id; nil: none
	first    int64      // offset of the original of the first record, where that is one
	pending  *Pending
	ref      QueueRef // how the partition was named, for a queue that is gone
	number   int32
	retried  bool

	// Native: messages of one push, in order.
	items []*pushItem
	apart bool // no two of them have one hash
}

// pushItem is one native message on its way.
type pushItem struct {
	msg     *Message
	out     *Pushed
	push    *push
	leader  *pushItem  // folded into this one (layer 2)
	hash    dedup.Hash // zero: minted
	hi, lo  int64      // the halves of an id …
	uid     bool       // … that looks like a minted one
	settled bool
	size    int // nativeSize of msg
}

// openSegment collects entries for one flush.
type openSegment struct {
	entries  []*entry
	bytes    int
	deadline time.Time
	turn     chan struct{} // no segment: somebody waits for the partition, see turns.go
}

// settle gives a message its outcome, which its Push may then return.
func (it *pushItem) settle(s PushStatus, id uuid.UUID, offset int64, err error) {
	if it.settled {
		panic("BUG: a message settled twice")
	}
	it.settled = true
	it.out.Status, it.out.MessageID, it.out.Offset, it.out.Err = s, id, offset, err
	if it.msg.ID == nil && s != Failed {
		it.out.TransactionID = []byte(id.String())
	}
	it.push.finish()
}

// newPushItem is a message, of that nativeSize, that was checked and leads.
func newPushItem(m *Message, size int, out *Pushed, pu *push) pushItem {
	it := pushItem{msg: m, size: size, out: out, push: pu}
	if m.ID != nil {
		it.hash = dedup.Of(m.ID)
		it.hi, it.lo, it.uid = ParseID(m.ID)
	}
	return it
}

// size is the bytes an entry counts for in a segment.
func (e *entry) size() int {
	n := len(e.batch)
	for _, it := range e.items {
		n += it.size
	}
	return n
}

// drop marks a record as a duplicate.
func (e *entry) drop(delta int) {
	if e.dropped == nil {
		e.dropped = make([]bool, e.info.Span)
	}
	e.dropped[delta] = true
}

// out reports that the record at a delta is not to be stored.
func (e *entry) out(delta int) bool {
	return e.dropped != nil && e.dropped[delta] || e.repeated != nil && e.repeated[delta]
}

// left counts the records to be stored.
func (e *entry) left() int {
	n := int(e.info.Span)
	if e.dropped == nil && e.repeated == nil {
		return n
	}
	for delta := range n {
		if e.out(delta) {
			n--
		}
	}
	return n
}

// varintsGrow bounds how much more a message takes within a batch than alone, the
// batch's header apart: its place is a longer number.
const varintsGrow = 4

// sizeOnce is about what a segment's bytes are together, and not less: the memory is
// kept for readers, so what it does not use is lost as long. Messages are counted with a
// batch header each, and share one where they follow one another.
func (s *openSegment) sizeOnce() int {
	messages, runs, bytes := 0, 1, s.bytes
	for _, e := range s.entries {
		if e.batch != nil {
			runs++
		}
		messages += len(e.items)
		if s.bytes == 0 { // made by hand, for a transaction or a timer
			bytes += e.size()
		}
	}
	return bytes - max(0, messages-runs)*(batchHeaderLen-varintsGrow)
}

// stumbler is whose batch a Kafka entry is.
func (e *entry) stumbler() stumbler { return stumbler{ref: e.ref, number: e.number} }

// done reports that a Kafka entry has its answer.
func (e *entry) done() bool {
	select {
	case <-e.pending.done:
		return true
	default:
		return false
	}
}
