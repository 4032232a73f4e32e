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

var (
	//go:embed query/timers_apply.sql
	timersApplySQL string
	//go:embed query/timers_due.sql
	timersDueSQL string
	//go:embed query/timers_fire.sql
	timersFireSQL string
	//go:embed query/timer_delay.sql
	timerDelaySQL string
	//go:embed query/timer_find.sql
	timerFindSQL string
	//go:embed query/timer_list.sql
	timerListSQL string
)

// TimerOp schedules or cancels a timer; see schema/functions/timers_apply_1.sql.
type TimerOp struct {
	Op        string  `json:"op"` // schedule, cancel
	Queue     string  `json:"queue"`
	Key       string  `json:"key"`
	Partition *string `json:"partition,omitempty"` // nil: as for a push that names none
	ID        []byte  `json:"txn,omitempty"`       // the message's transactionId
	Payload   []byte  `json:"payload"`
	IDHi      int64   `json:"hi"` // the message's id, which names this scheduling
	IDLo      int64   `json:"lo"`
	DelayMs   int64   `json:"delay"` // from now by the database's clock; negative: at once
}

// TimerResult is what became of a TimerOp.
type TimerResult struct {
	Status  string `json:"status"`  // scheduled, rescheduled, cancelled, absent
	Deliver *int64 `json:"deliver"` // µs since 1970, of what was scheduled or cancelled
}

// Timers schedules and cancels timers in one autocommit call. The call's id makes
// a repeat after ErrOutcomeUnknown answer what the first attempt did.
func (db *DB) Timers(ctx context.Context, call uuid.UUID, ops []TimerOp) ([]TimerResult, error) {
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("timers: %w", err)
	}
	answer, err := only(writeRows(ctx, db, db.write, "timers", pgx.RowTo[[]byte], timersApplySQL, call, text))
	if err != nil {
		return nil, err
	}
	var out []TimerResult
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("timers: %w", err)
	}
	return out, nil
}

// DueTimer is a timer that is next to fire.
type DueTimer struct {
	Queue, Key string
	Partition  *string
	ID         []byte
	Payload    []byte // with Wait 0 or less
	IDHi, IDLo int64
	Attempts   int
	Wait       time.Duration // until it is due; 0 or less: now
}

// DueTimers lists the timers that are next to fire, rowsMax at most. Those that
// have been due for longer than since are left out, unless since is 0.
func (db *DB) DueTimers(ctx context.Context, since time.Duration, rowsMax int) ([]DueTimer, error) {
	var bound *int64
	if since > 0 {
		ms := since.Milliseconds()
		bound = &ms
	}
	scan := func(row pgx.CollectableRow) (t DueTimer, err error) {
		var wait int64
		err = row.Scan(&t.Queue, &t.Key, &t.Partition, &t.ID, &t.Payload, &t.IDHi, &t.IDLo, &t.Attempts, &wait)
		t.Wait = time.Duration(wait) * time.Millisecond
		return t, err
	}
	return readRows(ctx, db, db.read, "look for due timers", scan, timersDueSQL, bound, rowsMax)
}

// FiringTimer is a timer and the segment of one message it becomes. The segment's
// id base is the timer's message id.
type FiringTimer struct {
	Queue, Key string
	Segment    Segment
}

// FireTimers turns due timers into messages in one autocommit call, ascending by
// partition; it returns what Append would of each. Fired says which were fired
// at all: the others are gone, rescheduled, or in somebody else's hands. A repeat
// after ErrOutcomeUnknown fires what the first attempt did not.
func (db *DB) FireTimers(ctx context.Context, timers []FiringTimer) (res []SegmentResult, fired []bool, err error) {
	conn, err := db.write.Acquire(ctx)
	if err != nil {
		return nil, nil, db.acquireError("fire timers", err)
	}
	defer conn.Release()
	epoch := incarnationOf(conn.Conn()).Epoch
	rows, err := conn.Query(ctx, timersFireSQL, fireArgs(timers, epoch)...)
	if err == nil {
		res, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r SegmentResult, err error) {
			var status *int16
			var base, end, next, start *int64
			var window *int32
			var created *time.Time
			if err = row.Scan(&status, &base, &end, &next, &start, &window, &created); err != nil {
				return r, err
			}
			fired = append(fired, status != nil)
			r.Base, r.End, r.Next, r.LogStart, r.Epoch = orMinus1(base), orMinus1(end), orMinus1(next), orMinus1(start), epoch
			if status != nil {
				r.Status = SegmentStatus(*status)
			}
			if created != nil {
				r.CreatedAt = *created
			}
			if window != nil {
				r.WindowSeconds = *window
			}
			r.Verdicts, r.Offsets = []PartVerdict{PartStored}, []int64{r.Base}
			return r, nil
		})
	}
	if err := db.writeError("fire timers", conn.Conn(), err); err != nil {
		return nil, nil, err
	}
	return res, fired, nil
}

func fireArgs(timers []FiringTimer, epoch int32) []any {
	n := len(timers)
	queue, key := make([]string, n), make([]string, n)
	hi, lo, partition, known, verified := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	window, header, data := make([]int32, n), make([][]byte, n), make([][]byte, n)
	hash, bytes, size, maxTS := make(uuidArray, n), make([]int32, n), make([]int32, n), make([]int64, n)
	uidHi, uidLo := make([]*int64, n), make([]*int64, n)
	spanSeg, spanFrom, spanTo, asOf := []int32{}, []int64{}, []int64{}, int64(0)
	for i := range timers {
		s := &timers[i].Segment
		queue[i], key[i], hi[i], lo[i] = timers[i].Queue, timers[i].Key, s.IDHi, s.IDLo
		partition[i], window[i], header[i], data[i], verified[i] = s.Partition, s.Window, s.Header, s.Data, -1
		hash[i], maxTS[i] = s.Hashes[0], s.Parts[0].MaxTimestamp
		bytes[i], size[i] = s.Parts[0].Bytes, s.Parts[0].served()
		if len(s.UIDs) > 0 {
			uidHi[i], uidLo[i] = &s.UIDs[0].Hi, &s.UIDs[0].Lo
		}
		if s.Epoch != epoch {
			continue // what was known, was known of another incarnation
		}
		known[i], verified[i], asOf = s.Known, s.Verified, max(asOf, s.AsOf)
		for _, sp := range s.Suspects {
			spanSeg, spanFrom, spanTo = append(spanSeg, int32(i+1)), append(spanFrom, sp.From), append(spanTo, sp.To)
		}
	}
	return []any{
		queue, key, hi, lo, epoch, partition, known, window, verified, header, data, hash, bytes, size, maxTS,
		uidHi, uidLo, spanSeg, spanFrom, spanTo, asOf,
	}
}

// DelayTimer puts off a timer whose message cannot be stored, by so long from now,
// and notes why; nothing where it was rescheduled meanwhile.
func (db *DB) DelayTimer(ctx context.Context, t DueTimer, by time.Duration, why string) error {
	_, err := writeRows(ctx, db, db.write, "delay timer", pgx.RowTo[bool], timerDelaySQL, t.Queue, t.Key, t.IDHi, t.IDLo, by.Milliseconds(), why)
	return err
}

// TimerRow is a timer that has not fired.
type TimerRow struct {
	Key        string
	Partition  *string
	ID         []byte
	Payload    []byte // of Timer only
	IDHi, IDLo int64
	DeliverAt  time.Time
	Attempts   int
	LastError  *string
}

func scanTimerRow(row pgx.CollectableRow) (t TimerRow, err error) {
	err = row.Scan(&t.Key, &t.Partition, &t.ID, &t.Payload, &t.IDHi, &t.IDLo, &t.DeliverAt, &t.Attempts, &t.LastError)
	return t, err
}

// Timer reads one timer; ErrNotFound where there is none.
func (db *DB) Timer(ctx context.Context, queue, key string) (TimerRow, error) {
	return only(readRows(ctx, db, db.read, "read timer", scanTimerRow, timerFindSQL, queue, key))
}

// ListTimers lists a queue's timers by key, those after a key, rowsMax at most.
func (db *DB) ListTimers(ctx context.Context, queue, after string, rowsMax int) ([]TimerRow, error) {
	return readRows(ctx, db, db.read, "list timers", scanTimerRow, timerListSQL, queue, after, rowsMax)
}
