package queen

import (
	"fmt"
	"math"
	"time"
)

// RecordError is what is wrong with one record of a batch.
type RecordError struct {
	Index   int // within the batch
	Message string
}

// RecordErrors refuses a batch for some of its records (KIP-467). It is
// ErrInvalidTimestamp if one of them has such a time, else ErrInvalidRecord.
type RecordErrors struct {
	is      error
	text    string
	Records []RecordError // at most recordErrorsMax, the first ones
}

// recordErrorsMax bounds what one batch is told about its records.
const recordErrorsMax = 1000

// Error implements error.
func (e *RecordErrors) Error() string { return e.is.Error() + ": " + e.text }

// Unwrap names the kind of the error.
func (e *RecordErrors) Unwrap() error { return e.is }

// recordRules is what a queue asks of every record of a Kafka batch.
type recordRules struct {
	keys              bool // each must have one: the queue is compacted
	oldest, newest    int64
	beforeMs, afterMs int64
}

// recordRulesOf reads the rules from a queue's options; now is the broker's clock.
func recordRulesOf(o *QueueOptions, now time.Time) recordRules {
	ms := now.UnixMilli()
	r := recordRules{keys: o.CleanupCompact, oldest: math.MinInt64, newest: math.MaxInt64, beforeMs: o.TimestampBeforeMaxMs, afterMs: o.TimestampAfterMaxMs}
	if o.LogAppendTime {
		return r // its own times are not kept
	}
	if o.TimestampBeforeMaxMs < ms {
		r.oldest = ms - o.TimestampBeforeMaxMs
	}
	if o.TimestampAfterMaxMs < math.MaxInt64-ms {
		r.newest = ms + o.TimestampAfterMaxMs
	}
	return r
}

// check holds a checked batch against the rules: by what is known of it, and only
// if that breaks one, record by record.
func (l recordRules) check(b []byte, info batchInfo, decompressedMax int) error {
	late := info.MaxTimestamp != noTimestamp && info.MaxTimestamp > l.newest
	if !late && info.MinTimestamp >= l.oldest && !(l.keys && info.Keyless) {
		return nil
	}
	e := &RecordErrors{is: ErrInvalidRecord}
	keyless, untimely := 0, 0
	err := eachRecord(b, decompressedMax, func(r record) error {
		text := ""
		switch {
		case l.keys && r.Key == nil:
			text = "a compacted topic takes no record without a key"
			keyless++
		case r.Timestamp != noTimestamp && r.Timestamp > l.newest:
			text = fmt.Sprintf("timestamp %d lies more than %d ms ahead of the broker's clock", r.Timestamp, l.afterMs)
			untimely++
		case r.Timestamp != noTimestamp && r.Timestamp < l.oldest:
			text = fmt.Sprintf("timestamp %d lies more than %d ms behind the broker's clock", r.Timestamp, l.beforeMs)
			untimely++
		}
		if text != "" && len(e.Records) < recordErrorsMax {
			e.Records = append(e.Records, RecordError{Index: int(r.OffsetDelta), Message: text})
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.text = fmt.Sprintf("%d of %d records have no key, which a compacted topic needs", keyless, info.Records)
	if untimely > 0 {
		e.is = ErrInvalidTimestamp
		e.text = fmt.Sprintf("%d of %d records have a timestamp too far from the broker's clock (message.timestamp.before.max.ms, message.timestamp.after.max.ms)", untimely, info.Records)
	}
	return e
}
