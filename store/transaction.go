package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed query/transaction.sql
var transactionSQL string

// Transaction is work that is done together, or not at all.
type Transaction struct {
	// Segments to append: those of partitions that are there ascending by
	// Partition, none twice; then those of partitions to be made.
	Segments []Segment
	// New says where the segments with a zero Partition go.
	New    []NewPartition
	KV     []KVOp
	Timers []TimerOp
	// Acks in ascending (partition, group), neither pair twice.
	Acks []CursorAck
}

// NewPartition is a partition that is made for a segment, and its queue where
// there is none.
type NewPartition struct {
	Segment int    `json:"segment"` // from 0
	Queue   string `json:"queue"`
	Name    string `json:"name"`
}

// TransactionStatus says what became of a Transaction.
type TransactionStatus string

// The statuses of a transaction: all but the first have written nothing. See
// schema/functions/transaction_1.sql.
const (
	TransactionCommitted TransactionStatus = "committed"
	TransactionDuplicate TransactionStatus = "duplicate" // Dups names the ids that are stored already
	TransactionAck       TransactionStatus = "ack"       // Acks[At] was refused with Err
	TransactionKV        TransactionStatus = "kv"        // KV.Lost did not apply
	TransactionWindow    TransactionStatus = "window"    // Segments[At] assumed another window
	TransactionGone      TransactionStatus = "gone"      // the queue of Segments[At] is deleted
	TransactionStale     TransactionStatus = "stale"     // a partition to be made is there, or its queue is fixed
)

// Transacted is what became of a Transaction.
type Transacted struct {
	Status TransactionStatus
	At     int
	Err    error
	Dups   []SegmentDup
	// Segments says where each lies, in order, with Committed. IDHi and IDLo are
	// its id base: of a call that was repeated after being made anew, that of the
	// attempt which committed.
	Segments []StoredSegment
	KV       KVAnswer
	Timers   []TimerResult
	Acks     []Acked
}

// SegmentDup is an id of a segment that is stored already.
type SegmentDup struct {
	Segment int // from 0
	Dup
}

// StoredSegment is a segment in the log.
type StoredSegment struct {
	SegmentResult
	Partition  int64
	IDHi, IDLo int64
}

// Transact does a transaction in one autocommit call. The call's id makes a
// repeat after ErrOutcomeUnknown, with repeat set, answer what the first attempt did.
func (db *DB) Transact(ctx context.Context, call uuid.UUID, repeat bool, tx *Transaction) (Transacted, error) {
	conn, err := db.write.Acquire(ctx)
	if err != nil {
		return Transacted{}, db.acquireError("transaction", err)
	}
	defer conn.Release()
	epoch := incarnationOf(conn.Conn()).Epoch
	args, err := transactionArgs(call, repeat, tx, epoch)
	if err != nil {
		return Transacted{}, fmt.Errorf("transaction: %w", err)
	}
	rows, err := conn.Query(ctx, transactionSQL, args...)
	var answers [][]byte
	if err == nil {
		answers, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
	}
	answer, err := only(answers, db.writeError("transaction", conn.Conn(), err))
	if err != nil {
		return Transacted{}, err
	}
	got, err := readTransacted(answer, tx, epoch)
	if err != nil {
		return Transacted{}, fmt.Errorf("transaction: %w", err)
	}
	return got, nil
}

// ackJSON is a CursorAck as transaction_1 reads it.
type ackJSON struct {
	Group     string     `json:"group"`
	Partition int64      `json:"partition"`
	Lease     *uuid.UUID `json:"lease"`
	Offsets   []int64    `json:"offsets"`
	Outcomes  []Outcome  `json:"outcomes"`
	Reasons   []*string  `json:"reasons"`
}

func transactionArgs(call uuid.UUID, repeat bool, tx *Transaction, epoch int32) ([]any, error) {
	acks := make([]ackJSON, len(tx.Acks))
	for i, a := range tx.Acks {
		acks[i] = ackJSON{Group: a.Group, Partition: a.Partition, Offsets: a.Offsets, Outcomes: a.Outcomes}
		if a.Lease != uuid.Nil {
			acks[i].Lease = &a.Lease
		}
		acks[i].Reasons = make([]*string, len(a.Offsets))
		for k := range a.Reasons {
			if a.Reasons[k] != "" {
				acks[i].Reasons[k] = &a.Reasons[k]
			}
		}
	}
	news := make([]NewPartition, len(tx.New))
	partitions := make([]*int64, len(tx.Segments))
	for i := range tx.Segments {
		partitions[i] = &tx.Segments[i].Partition
	}
	for i, n := range tx.New {
		partitions[n.Segment] = nil
		n.Segment++
		news[i] = n
	}
	var kv, timers any // nil is NULL
	if len(tx.KV) > 0 {
		kv = tx.KV
	}
	if len(tx.Timers) > 0 {
		timers = tx.Timers
	}
	texts := make([][]byte, 4)
	for i, v := range []any{kv, timers, acks, news} {
		if v == nil {
			continue
		}
		var err error
		if texts[i], err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	segments := appendArgs(tx.Segments, epoch, true, join(dataOf(tx.Segments)).b)
	args := []any{call, repeat, texts[0], texts[1], texts[2], AckedMax, texts[3], segments[0], partitions}
	return append(args, segments[3:]...), nil
}

// transactedJSON is the answer of transaction_1.
type transactedJSON struct {
	Status  TransactionStatus
	At      []int
	Ack     int
	Verdict int16
	Dups    []struct {
		Segment        int
		Index          int32
		Offset, Hi, Lo int64
	}
	Segments []struct {
		Partition, Base, End, Next, Start, Created, Hi, Lo int64
	}
	KV     *KVAnswer
	Timers []TimerResult
	Acks   []struct {
		NextOffset int64  `json:"next_offset"`
		LeaseLive  bool   `json:"lease_live"`
		WaitMs     *int64 `json:"wait_ms"`
		Dead       []int64
	}
}

func readTransacted(text []byte, tx *Transaction, epoch int32) (Transacted, error) {
	var a transactedJSON
	if err := json.Unmarshal(text, &a); err != nil {
		return Transacted{}, err
	}
	out := Transacted{Status: a.Status, Timers: a.Timers}
	if a.KV != nil {
		out.KV = *a.KV
	}
	switch a.Status {
	case TransactionWindow, TransactionGone:
		out.At = a.At[0] - 1
	case TransactionAck:
		out.At, out.Err = a.Ack, ackError(a.Verdict, tx.Acks[a.Ack].Group)
	}
	for _, d := range a.Dups {
		out.Dups = append(out.Dups, SegmentDup{d.Segment - 1, Dup{Index: d.Index - 1, Offset: d.Offset, IDHi: d.Hi, IDLo: d.Lo}})
	}
	for i, s := range a.Segments {
		r := SegmentResult{
			Status: SegmentStored, Epoch: epoch, Base: s.Base, End: s.End, Next: s.Next, LogStart: s.Start,
			WindowSeconds: tx.Segments[i].Window, CreatedAt: time.UnixMicro(s.Created),
		}
		at := s.Base
		for _, p := range tx.Segments[i].Parts {
			r.Verdicts, r.Offsets = append(r.Verdicts, PartStored), append(r.Offsets, at)
			at += int64(p.Span)
		}
		out.Segments = append(out.Segments, StoredSegment{SegmentResult: r, Partition: s.Partition, IDHi: s.Hi, IDLo: s.Lo})
	}
	for _, k := range a.Acks {
		acked := Acked{Next: k.NextOffset, Live: k.LeaseLive, Dead: k.Dead}
		if k.WaitMs != nil {
			acked.Wait = time.Duration(*k.WaitMs) * time.Millisecond
		}
		out.Acks = append(out.Acks, acked)
	}
	return out, nil
}
