package httpapi

import (
	"encoding/json"
	"time"

	"queenmq/queen"
)

// appendLost appends what is said of a required operation that did not apply.
func appendLost(b []byte, lost *queen.KVResult) []byte {
	b = append(b, `,"kvReason":`...)
	b = appendString(b, lost.Reason)
	b = append(b, `,"version":`...)
	b = appendInt(b, lost.Version)
	if lost.Value != nil {
		b = append(b, `,"value":`...)
		b = append(b, lost.Value...)
	}
	return b
}

// appendKV appends the members of an operation's outcome.
func appendKV(b []byte, o *kvOp, r *queen.KVResult) []byte {
	b = append(b, `"op":`...)
	b = appendString(b, o.asked)
	b = append(b, `,"ns":`...)
	b = appendString(b, o.NS)
	switch o.Op {
	case queen.KVGetMany, queen.KVGetPrefix:
		b = append(b, `,"rows":[`...)
		for i := range r.Rows {
			b = appendComma(b, i)
			b = append(b, `{"key":`...)
			b = appendString(b, r.Rows[i].Key)
			b = append(appendKVRow(b, &r.Rows[i]), '}')
		}
		b = append(b, ']')
		if o.Op == queen.KVGetMany {
			missing, _ := json.Marshal(append([]string{}, r.Missing...))
			b = append(b, `,"missing":`...)
			b = append(b, missing...)
		}
		b = append(b, `,"truncated":`...)
		b = appendBool(b, r.Truncated)
		if r.NextAfter != "" {
			b = append(b, `,"nextAfter":`...)
			b = appendString(b, r.NextAfter)
		}
		return b
	}
	b = append(b, `,"key":`...)
	b = appendString(b, o.Key)
	if o.Op == queen.KVGet {
		b = append(b, `,"found":`...)
		b = appendBool(b, r.Applied)
	} else {
		b = append(b, `,"applied":`...)
		b = appendBool(b, r.Applied)
		if o.Op == queen.KVPutIfAbsent {
			b = append(b, `,"won":`...)
			b = appendBool(b, r.Applied)
		}
		if !r.Applied {
			b = append(b, `,"reason":`...)
			b = appendString(b, r.Reason)
		}
	}
	if r.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	return appendKVRow(b, &r.KVRow)
}

// appendKVRow appends what is there; nothing where nothing is.
func appendKVRow(b []byte, r *queen.KVRow) []byte {
	if r.Version == 0 {
		return b
	}
	if r.Value != nil {
		b = append(b, `,"value":`...)
		b = append(b, r.Value...)
	}
	b = append(b, `,"version":`...)
	b = appendInt(b, r.Version)
	b = append(b, `,"expiresAt":`...)
	b = appendMoment(b, r.ExpiresAt)
	b = append(b, `,"updatedAt":`...)
	return appendMoment(b, r.UpdatedAt)
}

// appendMoment appends a time, or null for none.
func appendMoment(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	return appendTime(b, t)
}
