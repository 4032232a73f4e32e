package store

import (
	"slices"
	"time"
)

// Segment is what one partition is asked to store in a call of Append.
type Segment struct {
	Partition int64
	// Epoch is the incarnation in which Known, Verified and Suspects were learned.
	// On a connection to another one they mean nothing: the call then looks through everything.
	Epoch int32
	// Known is the partition's next offset as known when IDHi, IDLo were minted:
	// an earlier attempt of the same call can only lie at or above it.
	Known      int64
	IDHi, IDLo int64 // the id base, halves of a UUIDv7
	Window     int32 // the deduplication window assumed, seconds
	// Source is the source of record ids assumed; empty where no record was read
	// for its id.
	Source string
	// Verified says that none of Hashes, Withheld and UIDs occurs at or below this
	// offset but where Suspects say that it may; −1 says nothing.
	Verified int64
	// AsOf is since when Verified holds, in microseconds since 1970: what left the window
	// by then is not known any more. Where the database's clock is before it, having been
	// put back, the call looks through everything.
	AsOf   int64
	Header []byte // its last 32 bytes per batch describe the batches
	Data   []byte // record batches, one after another, each as it is stored
	Parts  []Part
	// Hashes is empty, or has one element per offset; the zero hash stands for
	// a minted id.
	Hashes [][16]byte
	// TTLs is empty, or has one element per hash: how long its id is known, in
	// milliseconds, where less than the window; 0 for the window.
	TTLs     []int64
	UIDs     []UID
	Suspects []Suspect
	// Withheld are ids of messages that are not sent because they seem to be
	// stored: the segment is written only if every one of them is.
	Withheld [][16]byte
}

// Part is a piece of a Segment with a verdict of its own: one Kafka batch, or
// one HTTP batch.
type Part struct {
	Bytes, Batches int32
	Size           int32 // bytes as served; 0 means Bytes
	Span           int32 // offsets consumed
	Records        int32
	MaxTimestamp   int64
	Producer       int64 // −1: none
	ProducerEpoch  int32
	BaseSequence   int32
	// Sequences is how many sequence numbers the part consumes; 0 means Span.
	Sequences int32
	// Answered is set for a part that stores nothing because all its records are
	// duplicates: Answer is the offset to give, now and to a resend.
	Answered bool
	Answer   int64
	// Follows is set for a part that is out of order where nothing is known of its
	// producer: an earlier batch came, and is to come again.
	Follows bool
}

// served is how many bytes the part has for who reads it.
func (p *Part) served() int32 {
	if p.Size == 0 {
		return p.Bytes
	}
	return p.Size
}

// UID is an explicit id that looks like a minted one.
type UID struct {
	Index  int32 // offset within the segment, from 0
	Hi, Lo int64
}

// Suspect is a range of offsets, both ends included, and the ids that may occur in
// it: their places in Hashes, those in Withheld counted on, from 0.
type Suspect struct {
	From, To int64
	IDs      []int32
}

// SegmentStatus says what Append did with a Segment.
type SegmentStatus int16

// The statuses of a segment; see schema/functions/append_1.sql.
const (
	SegmentStored        SegmentStatus = 0
	SegmentAlready       SegmentStatus = 1 // by an earlier attempt of this call
	SegmentDuplicates    SegmentStatus = 2 // nothing written; Dups names them
	SegmentWindowChanged SegmentStatus = 3 // nothing written: window or source are not those assumed; WindowSeconds is the stored one
	SegmentGone          SegmentStatus = 4 // the queue was deleted
	SegmentBusy          SegmentStatus = 5 // the row is locked (only with Wait false)
	SegmentEmpty         SegmentStatus = 6 // every part was left out
)

// PartVerdict says what became of a Part of a segment that was not refused as a whole.
type PartVerdict int16

// The verdicts of a part; see schema/functions/append_1.sql.
const (
	PartStored     PartVerdict = 0
	PartResend     PartVerdict = 1 // stored before; its offset is the original's
	PartOutOfOrder PartVerdict = 2
	PartFenced     PartVerdict = 3
	PartForgotten  PartVerdict = 4 // a resend older than the remembered batches
)

// Dup is one id of a segment that is stored already.
type Dup struct {
	Index      int32 // offset within the segment, or place among the withheld, from 0
	Offset     int64 // of the original
	IDHi, IDLo int64 // its message id; both 0 when it can no longer be read
}

// SegmentResult is the answer to one Segment.
type SegmentResult struct {
	Status        SegmentStatus
	Epoch         int32 // the incarnation that answered; of the segment, where Stored
	Base, End     int64 // of the stored segment
	Next          int64 // the partition's next offset after the call
	LogStart      int64
	WindowSeconds int32
	CreatedAt     time.Time
	Verdicts      []PartVerdict // one per part, with Stored, Already and Empty
	Offsets       []int64       // one per part, −1 where refused
	Dups          []Dup
	Withheld      []Dup // of the withheld ids; all of them with Stored, none with Already
	// Compacted, with Dups: originals may be gone although their ids are told.
	Compacted bool
}

// splitDups parts the ids found into those of a segment with so many hashes and
// those withheld from it, which follow.
func (r *SegmentResult) splitDups(hashed int32) {
	i := slices.IndexFunc(r.Dups, func(d Dup) bool { return d.Index >= hashed })
	if i < 0 {
		return
	}
	r.Dups, r.Withheld = r.Dups[:i:i], r.Dups[i:]
	for i := range r.Withheld {
		r.Withheld[i].Index -= hashed
	}
}
