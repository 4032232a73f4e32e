package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// The bounds of timers.
const (
	TimerOpsMax          = 256 // operations of a call
	TimerKeyBytesMax     = 1024
	TimerPayloadBytesMax = 1 << 20
	TimerHorizon         = 90 * 24 * time.Hour // a timer is due within it
	TimerPageDefault     = 100
	TimerPageMax         = 1000
)

// TimerOp schedules a message for later, or cancels one.
type TimerOp struct {
	Cancel bool
	Queue  string
	Key    string // names the timer in its queue; 1–1,024 bytes, as keys are
	// Of the message to be; a schedule replaces what the key had before.
	Partition string        // empty: as for a push that names none
	ID        []byte        // transactionId; nil: the text of the message id
	Payload   []byte        // its value
	Delay     time.Duration // from now by the database's clock; negative: at once
}

// TimerStatus is what became of a TimerOp.
type TimerStatus string

// The outcomes of a TimerOp.
const (
	TimerScheduled   TimerStatus = "scheduled"
	TimerRescheduled TimerStatus = "rescheduled" // another was pending under the key
	TimerCancelled   TimerStatus = "cancelled"
	TimerAbsent      TimerStatus = "absent" // nothing to cancel: never there, or its message is stored
)

// TimerResult is what became of a TimerOp.
type TimerResult struct {
	Status TimerStatus
	// ID and MessageID are those the message will have, with a schedule.
	ID        []byte
	MessageID uuid.UUID
	// DeliverAt is when it is due: not before it, and about then. Zero with TimerAbsent.
	DeliverAt time.Time
}

// PendingTimer is a timer that has not fired.
type PendingTimer struct {
	Key       string
	Partition string // empty: none was named
	ID        []byte
	MessageID uuid.UUID
	DeliverAt time.Time
	Attempts  int    // to store its message, that failed
	LastError string // of the last of them
	Payload   []byte // of Timer only
}

// Timers schedules and cancels timers in one call, all or nothing.
func (e *Engine) Timers(ctx context.Context, ops []TimerOp) ([]TimerResult, error) {
	call, err := timerCall(ops)
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	id := uuid.Must(uuid.NewV7())
	var got []store.TimerResult
	err = e.repeated(ctx, "timers", func(ctx context.Context, _ bool) (err error) {
		got, err = e.db.Timers(ctx, id, call)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.timersSet(ops)
	return timerAnswer(ops, call, got), nil
}

// Timer reads a pending timer; found is false where there is none (any more).
func (e *Engine) Timer(ctx context.Context, queue, key string) (t PendingTimer, found bool, err error) {
	if err := cmp.Or(ValidateName("queue", queue), validateKey("timer key", key)); err != nil {
		return t, false, err
	}
	r, err := e.db.Timer(ctx, queue, key)
	if errors.Is(err, store.ErrNotFound) {
		return t, false, nil
	}
	if err != nil {
		return t, false, storeError("read timer", err)
	}
	return pendingTimer(&r), true, nil
}

// ListTimers lists a queue's pending timers by key, those after a key; more says
// that there are others. A limit of 0 is TimerPageDefault, at most TimerPageMax counts.
func (e *Engine) ListTimers(ctx context.Context, queue, after string, limit int) (page []PendingTimer, more bool, err error) {
	if err := ValidateName("queue", queue); err != nil {
		return nil, false, err
	}
	if after != "" {
		if err := validateKey("after", after); err != nil {
			return nil, false, err
		}
	}
	if limit <= 0 {
		limit = TimerPageDefault
	}
	limit = min(limit, TimerPageMax)
	rows, err := e.db.ListTimers(ctx, queue, after, limit+1)
	if err != nil {
		return nil, false, storeError("list timers", err)
	}
	for i := range rows[:min(limit, len(rows))] {
		page = append(page, pendingTimer(&rows[i]))
	}
	return page, len(rows) > limit, nil
}

func pendingTimer(r *store.TimerRow) PendingTimer {
	t := PendingTimer{
		Key: r.Key, ID: r.ID, MessageID: IDBase{Hi: r.IDHi, Lo: r.IDLo}.ID(0), DeliverAt: r.DeliverAt, Attempts: r.Attempts, Payload: r.Payload,
	}
	if r.Partition != nil {
		t.Partition = *r.Partition
	}
	if r.LastError != nil {
		t.LastError = *r.LastError
	}
	return t
}

// timerCall checks operations and turns them into those of the ledger.
func timerCall(ops []TimerOp) ([]store.TimerOp, error) {
	if len(ops) > TimerOpsMax {
		return nil, fmt.Errorf("%w: %d timers, %d are allowed in a call", ErrInvalidRequest, len(ops), TimerOpsMax)
	}
	now := time.Now()
	call := make([]store.TimerOp, len(ops))
	for i := range ops {
		o := &ops[i]
		if err := o.validate(); err != nil {
			return nil, err
		}
		c := store.TimerOp{Op: "cancel", Queue: o.Queue, Key: o.Key}
		if !o.Cancel {
			base := NewIDBase(now)
			c.Op, c.IDHi, c.IDLo, c.ID, c.Payload, c.DelayMs = "schedule", base.Hi, base.Lo, o.ID, o.Payload, o.Delay.Milliseconds()
			if c.ID == nil {
				c.ID = []byte(base.ID(0).String())
			}
			if o.Partition != "" {
				c.Partition = &o.Partition
			}
		}
		call[i] = c
	}
	return call, nil
}

func (o *TimerOp) validate() error {
	if err := validateKey("timer key", o.Key); err != nil {
		return err
	}
	if o.Cancel {
		return ValidateName("queue", o.Queue)
	}
	if err := validateMessage(&Message{Queue: o.Queue, Partition: o.Partition, ID: o.ID}); err != nil {
		return err
	}
	switch {
	case len(o.Payload) > TimerPayloadBytesMax:
		return fmt.Errorf("%w: the payload of timer %q has %d bytes, %d are allowed", ErrTooLarge, o.Key, len(o.Payload), TimerPayloadBytesMax)
	case o.Delay > TimerHorizon || o.Delay < -TimerHorizon:
		return fmt.Errorf("%w: timer %q: a delay is at most %d days", ErrInvalidRequest, o.Key, TimerHorizon/(24*time.Hour))
	}
	return nil
}

func timerAnswer(ops []TimerOp, call []store.TimerOp, got []store.TimerResult) []TimerResult {
	out := make([]TimerResult, len(got))
	for i, r := range got {
		out[i] = TimerResult{Status: TimerStatus(r.Status), DeliverAt: micros(r.Deliver), ID: ops[i].ID}
		if !ops[i].Cancel {
			out[i].ID, out[i].MessageID = call[i].ID, IDBase{Hi: call[i].IDHi, Lo: call[i].IDLo}.ID(0)
		}
	}
	return out
}
