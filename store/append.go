package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed query/append.sql
var appendSQL string

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
	Header   []byte // its last 32 bytes per batch describe the batches
	Data     []byte // record batches, one after another, each as it is stored
	Parts    []Part
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

// Append stores segments of several partitions in one autocommit call. The
// segments must be in ascending order of Partition, none twice. With wait
// false, partitions whose row is locked are answered SegmentBusy.
//
// An error speaks of the whole call. After ErrOutcomeUnknown the call may be
// repeated as it is, however often: what an attempt stored is found by its id base.
func (db *DB) Append(ctx context.Context, segs []Segment, wait bool) ([]SegmentResult, error) {
	conn, err := db.write.Acquire(ctx)
	if err != nil {
		return nil, db.acquireError("append", err)
	}
	defer conn.Release()
	epoch := incarnationOf(conn.Conn()).Epoch
	rows, err := queryWithData(ctx, conn.Conn(), "append", appendSQL, appendArgs(segs, epoch, wait, thePlaceOfData{}), dataOf(segs))
	if err != nil {
		return nil, db.writeError("append", conn.Conn(), err)
	}
	res, err := readSegmentResults(rows, len(segs))
	if err != nil {
		prepareAnew(ctx, conn.Conn(), "append", err)
	}
	if err := db.writeError("append", conn.Conn(), err); err != nil {
		return nil, err
	}
	if len(res) != len(segs) {
		return nil, fmt.Errorf("append: %d answers to %d segments", len(res), len(segs))
	}
	for i := range res {
		res[i].Epoch = epoch
		res[i].splitDups(int32(len(segs[i].Hashes)))
	}
	return res, nil
}

// dataOf is the data of all segments, one after another.
func dataOf(segs []Segment) [][]byte {
	out := make([][]byte, len(segs))
	for i := range segs {
		out[i] = segs[i].Data
	}
	return out
}

// appendArgs turns segments into the parallel arrays of append_1, with data, their
// data, in its place.
func appendArgs(segs []Segment, epoch int32, wait bool, data any) []any {
	n := len(segs)
	var nparts, nhash, nuid, nspan, nsuspect, nttl, nheld int
	for i := range segs {
		nparts += len(segs[i].Parts)
		nhash += len(segs[i].Hashes)
		nuid += len(segs[i].UIDs)
		nspan += len(segs[i].Suspects)
		for _, sp := range segs[i].Suspects {
			nsuspect += len(sp.IDs)
		}
		nheld += len(segs[i].Withheld)
		if len(segs[i].TTLs) > 0 {
			nttl = 1
		}
	}
	nttl *= nhash // all segments of a call or none
	var (
		partition = make([]int64, 0, n)
		known     = make([]int64, 0, n)
		idHi      = make([]int64, 0, n)
		idLo      = make([]int64, 0, n)
		window    = make([]int32, 0, n)
		source    = make([]string, 0, n)
		verified  = make([]int64, 0, n)
		header    = make([][]byte, 0, n)
		parts     = make([]int32, 0, n)
		hashed    = make([]int32, 0, n)
		withheld  = make([]int32, 0, n)
		repeats   = make([]bool, 0, n)

		hashes  = make(uuidArray, 0, nhash)
		bytes   = make([]int32, 0, nparts)
		size    = make([]int32, 0, nparts)
		batches = make([]int32, 0, nparts)
		span    = make([]int32, 0, nparts)
		records = make([]int32, 0, nparts)
		maxTS   = make([]int64, 0, nparts)
		pid     = make([]int64, 0, nparts)
		pepoch  = make([]int32, 0, nparts)
		seq     = make([]int32, 0, nparts)
		seqs    = make([]int32, 0, nparts)
		answer  = make([]int64, 0, nparts)
		ttls    = make([]int64, 0, nttl)
		held    = make(uuidArray, 0, nheld)

		uidSeg   = make([]int32, 0, nuid)
		uidIndex = make([]int32, 0, nuid)
		uidHi    = make([]int64, 0, nuid)
		uidLo    = make([]int64, 0, nuid)

		spanSeg  = make([]int32, 0, nspan)
		spanFrom = make([]int64, 0, nspan)
		spanTo   = make([]int64, 0, nspan)
		spanHits = make([]int32, 0, nspan)
		spanIDs  = make([]int32, 0, nsuspect)
	)
	for i := range segs {
		s := &segs[i]
		partition = append(partition, s.Partition)
		here := s.Epoch == epoch
		if here {
			known = append(known, s.Known)
			verified = append(verified, s.Verified)
		} else {
			known = append(known, 0)
			verified = append(verified, -1)
		}
		idHi = append(idHi, s.IDHi)
		idLo = append(idLo, s.IDLo)
		window = append(window, s.Window)
		source = append(source, s.Source)
		header = append(header, s.Header)
		parts = append(parts, int32(len(s.Parts)))
		hashed = append(hashed, int32(len(s.Hashes)))
		hashes = append(hashes, s.Hashes...)
		withheld = append(withheld, int32(len(s.Withheld)))
		held = append(held, s.Withheld...)
		repeats = append(repeats, s.mayRepeat())
		if nttl > 0 {
			ttls = append(ttls, s.TTLs...)
			ttls = append(ttls, make([]int64, len(s.Hashes)-len(s.TTLs))...)
		}
		for _, p := range s.Parts {
			bytes = append(bytes, p.Bytes)
			size = append(size, p.served())
			batches = append(batches, p.Batches)
			span = append(span, p.Span)
			records = append(records, p.Records)
			maxTS = append(maxTS, p.MaxTimestamp)
			pid = append(pid, p.Producer)
			pepoch = append(pepoch, p.ProducerEpoch)
			seq = append(seq, p.BaseSequence)
			if p.Sequences == 0 {
				p.Sequences = p.Span
			}
			seqs = append(seqs, p.Sequences)
			if !p.Answered {
				p.Answer = -1
			}
			answer = append(answer, p.Answer)
		}
		for _, u := range s.UIDs {
			uidSeg = append(uidSeg, int32(i+1))
			uidIndex = append(uidIndex, u.Index+1)
			uidHi = append(uidHi, u.Hi)
			uidLo = append(uidLo, u.Lo)
		}
		if !here {
			continue
		}
		for _, sp := range s.Suspects {
			spanSeg = append(spanSeg, int32(i+1))
			spanFrom = append(spanFrom, sp.From)
			spanTo = append(spanTo, sp.To)
			for _, i := range sp.IDs {
				spanIDs = append(spanIDs, i+1)
			}
			spanHits = append(spanHits, int32(len(spanIDs)))
		}
	}
	return []any{
		epoch, wait, partition, known, idHi, idLo, window, source, verified, header, data, parts, hashed, withheld,
		repeats, hashes, ttls, held, bytes, size, batches, span, records, maxTS, pid, pepoch, seq, seqs, answer,
		uidSeg, uidIndex, uidHi, uidLo, spanSeg, spanFrom, spanTo, spanHits, spanIDs,
	}
}

// readSegmentResults reads the rows of append.sql, all of whose columns come in
// binary form: pgx would plan how to read each of them for each call.
func readSegmentResults(rows pgx.Rows, n int) ([]SegmentResult, error) {
	defer rows.Close()
	out := make([]SegmentResult, 0, n)
	for rows.Next() {
		row := binaryRow{values: rows.RawValues()}
		r := SegmentResult{
			Status: SegmentStatus(row.integer(0)),
			Base:   row.integer(-1), End: row.integer(-1), Next: row.integer(-1), LogStart: row.integer(-1),
			WindowSeconds: int32(row.integer(0)), CreatedAt: row.time(),
		}
		verdicts := row.integers(pgtype.Int2OID, 2)
		r.Offsets = row.integers(pgtype.Int8OID, 8)
		index := row.integers(pgtype.Int4OID, 4)
		offset, hi, lo := row.integers(pgtype.Int8OID, 8), row.integers(pgtype.Int8OID, 8), row.integers(pgtype.Int8OID, 8)
		r.Compacted = row.integer(0) != 0
		if row.err == nil && (len(offset) != len(index) || len(hi) != len(index) || len(lo) != len(index)) {
			row.err = fmt.Errorf("%d duplicates at %d offsets", len(index), len(offset))
		}
		if row.err != nil {
			return nil, row.err
		}
		r.Verdicts = make([]PartVerdict, len(verdicts))
		for i, v := range verdicts {
			r.Verdicts[i] = PartVerdict(v)
		}
		if len(index) > 0 {
			r.Dups = make([]Dup, len(index))
		}
		for i := range index {
			r.Dups[i] = Dup{Index: int32(index[i]) - 1, Offset: offset[i], IDHi: hi[i], IDLo: lo[i]}
		}
		out = append(out, r)
	}
	return out, rows.Err()
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

func orMinus1(p *int64) int64 {
	if p == nil {
		return -1
	}
	return *p
}
