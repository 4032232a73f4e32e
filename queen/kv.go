package queen

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// The bounds of keys and values. What exceeds one is refused, and stores nothing;
// a larger KVPageMax is cut to it.
const (
	KVOpsMax        = 256 // operations of a call, each key of a getMany counted
	KVKeyBytesMax   = 1024
	KVValueBytesMax = 256 << 10 // JSON text
	KVPageDefault   = 100
	KVPageMax       = 1000
	KVTTLMax        = math.MaxInt32 // seconds
	KVDigitsMax     = 38            // of the numbers of incr, point and sign counted
	kvReplyBytesMax = 8 << 20       // values of one answer; the rest is truncated
)

// KVOp is one operation on a key: Op, NS, Key, and what its kind takes.
type KVOp struct {
	Op  KVKind
	NS  string
	Key string

	Keys          []string // getMany
	Prefix, After string   // getPrefix: keys that begin with Prefix, those after After
	Limit         int      // getPrefix: rows at most; 0 is KVPageDefault
	KeysOnly      bool     // getPrefix

	Value []byte // put, putIfAbsent: JSON text
	// Expect is the version the key must have, 0 for a key that must not be there;
	// nil is no condition. It is for put, delete and check, which needs it.
	Expect *int64
	// TTLSeconds or Forever is how long the value lives, for put, putIfAbsent and
	// incr (where it counts for a key that is not there). Exactly one is set.
	TTLSeconds int64
	Forever    bool
	// Delta, Min and Max are of incr: decimal numbers without an exponent. Min
	// and Max may be empty.
	Delta, Min, Max string
	// Required: unless it applies, nothing of the call or transaction does.
	Required bool
}

// KVKind is what a KVOp does.
type KVKind string

// The kinds of operations. A put without Expect replaces whatever is there;
// putIfAbsent is a put that expects version 0; check writes nothing.
const (
	KVGet         KVKind = "get"
	KVGetMany     KVKind = "getMany"
	KVGetPrefix   KVKind = "getPrefix"
	KVPut         KVKind = "put"
	KVPutIfAbsent KVKind = "putIfAbsent"
	KVDelete      KVKind = "delete"
	KVIncr        KVKind = "incr"
	KVCheck       KVKind = "check"
)

// KVResult is what became of a KVOp, and what is there now.
type KVResult struct {
	// Applied: the write happened, the condition of a check holds, the key of a get is there.
	Applied bool
	// Reason is why not: exists, absent, version, limit (incr would have left its
	// bounds), type (incr met what is no number), or rolled_back: it would have
	// applied, but another that was required did not.
	Reason string
	KVRow
	// Truncated: rows, or the value of a get, are missing because the answer is full.
	Truncated bool
	Rows      []KVRow  // getMany, getPrefix
	Missing   []string // getMany: keys that are not there
	NextAfter string   // getPrefix, with Truncated: the After of the next page
}

// KVRow is a key and its value.
type KVRow struct {
	Key       string
	Value     []byte    // JSON text; nil where nothing is there, or it was not asked for
	Version   int64     // 0: nothing is there; never the same twice
	ExpiresAt time.Time // zero: never
	UpdatedAt time.Time
}

// KVAnswer is what became of a call. It took effect as a whole, unless Lost
// names an operation that was required and did not apply; else Lost is −1.
type KVAnswer struct {
	Results []KVResult
	Lost    int
}

// KV applies operations on keys in one call, all or nothing, in order. What has
// expired by the database's clock is not there. A call that only reads sees one moment.
func (e *Engine) KV(ctx context.Context, ops []KVOp) (KVAnswer, error) {
	write, err := validateKV(ops)
	if err != nil {
		return KVAnswer{}, err
	}
	if !write {
		return e.kvRead(ctx, ops)
	}
	call, places, err := kvCall(ops)
	if err != nil {
		return KVAnswer{}, err
	}
	id := uuid.Must(uuid.NewV7())
	var a store.KVAnswer
	err = e.repeated(ctx, "keys and values", func(ctx context.Context, again bool) (err error) {
		a, err = e.db.KV(ctx, id, again, call)
		return err
	})
	if err != nil {
		return KVAnswer{}, err
	}
	return kvAnswer(ops, places, a), nil
}

// validateKV checks operations, and says whether one is more than a read.
func validateKV(ops []KVOp) (write bool, err error) {
	n := 0
	for i := range ops {
		o := &ops[i]
		n += max(1, len(o.Keys))
		if err := o.validate(); err != nil {
			return false, atOp(ops, i, err)
		}
		write = write || !o.reads()
	}
	if n > KVOpsMax {
		return false, fmt.Errorf("%w: %d operations on keys, %d are allowed in a call", ErrInvalidRequest, n, KVOpsMax)
	}
	return write, nil
}

// atOp says which of several operations an error is about.
func atOp(ops []KVOp, i int, err error) error {
	if len(ops) == 1 {
		return err
	}
	for _, is := range []error{ErrInvalidName, ErrTooLarge, ErrInvalidRequest} {
		if what, found := strings.CutPrefix(err.Error(), is.Error()+": "); found {
			return fmt.Errorf("%w: operations[%d]: %s", is, i, what)
		}
	}
	return err
}

func (o *KVOp) reads() bool { return o.Op == KVGet || o.Op == KVGetMany || o.Op == KVGetPrefix }

func (o *KVOp) validate() error {
	if err := ValidateName("namespace", o.NS); err != nil {
		return err
	}
	switch o.Op {
	case KVGetMany:
		if len(o.Keys) == 0 {
			return fmt.Errorf("%w: getMany needs keys", ErrInvalidRequest)
		}
		for _, k := range o.Keys {
			if err := validateKey("key", k); err != nil {
				return err
			}
		}
		return nil
	case KVGetPrefix:
		if o.After != "" {
			if err := validateKey("after", o.After); err != nil {
				return err
			}
		}
		return validateKey("prefix", o.Prefix)
	}
	if err := validateKey("key", o.Key); err != nil {
		return err
	}
	switch o.Op {
	case KVPut, KVPutIfAbsent, KVIncr:
		if (o.TTLSeconds != 0) == o.Forever || o.TTLSeconds < 0 || o.TTLSeconds > KVTTLMax {
			return fmt.Errorf("%w: say how long the value lives: ttlSeconds from 1 to %d, or forever", ErrInvalidRequest, KVTTLMax)
		}
		if len(o.Value) > KVValueBytesMax {
			return fmt.Errorf("%w: the value of %q has %d bytes, %d are allowed", ErrTooLarge, o.Key, len(o.Value), KVValueBytesMax)
		}
	}
	switch {
	case (o.Op == KVPut || o.Op == KVPutIfAbsent) && o.Value == nil:
		return fmt.Errorf("%w: %s needs a value", ErrInvalidRequest, o.Op)
	case o.Op == KVCheck && o.Expect == nil:
		return fmt.Errorf("%w: check needs expect: the version of the key, or 0 for none", ErrInvalidRequest)
	case o.Expect != nil && *o.Expect < 0:
		return fmt.Errorf("%w: expect is a version, or 0 for a key that is not there", ErrInvalidRequest)
	case o.Expect != nil && (o.Op == KVIncr || o.Op == KVGet):
		return fmt.Errorf("%w: %s takes no expect", ErrInvalidRequest, o.Op)
	case o.Op == KVPutIfAbsent && o.Expect != nil && *o.Expect != 0:
		return fmt.Errorf("%w: putIfAbsent expects version 0; use put to expect another", ErrInvalidRequest)
	case o.Op == KVGet && o.Required:
		return fmt.Errorf("%w: a get cannot be required; use check", ErrInvalidRequest)
	}
	switch o.Op {
	case KVGet, KVPut, KVPutIfAbsent, KVDelete, KVCheck:
		return nil
	case KVIncr:
		for name, n := range map[string]string{"delta": o.Delta, "min": o.Min, "max": o.Max} {
			if (n != "" || name == "delta") && !decimal(n) {
				return fmt.Errorf("%w: %s must be a number of at most %d characters, without an exponent", ErrInvalidRequest, name, KVDigitsMax)
			}
		}
		return nil
	}
	return fmt.Errorf("%w: there is no operation %q on keys", ErrInvalidRequest, o.Op)
}

// validateKey checks a key, or a part of one.
func validateKey(what, key string) error {
	if why := textFault(key, KVKeyBytesMax); why != "" {
		return fmt.Errorf("%w: the %s %s", ErrInvalidName, what, why)
	}
	return nil
}

// decimal tells whether n is a number as JSON writes it, without an exponent.
func decimal(n string) bool {
	if n == "" || len(n) > KVDigitsMax {
		return false
	}
	whole, fraction, point := strings.Cut(strings.TrimPrefix(n, "-"), ".")
	digits := func(s string) bool {
		return s != "" && strings.Trim(s, "0123456789") == ""
	}
	return digits(whole) && (whole == "0" || whole[0] != '0') && (!point || digits(fraction))
}

// kvCall turns operations into those of the ledger; places says which belong to
// each: the first, and the one after the last.
func kvCall(ops []KVOp) (call []store.KVOp, places [][2]int, err error) {
	var none int64
	for i := range ops {
		o := &ops[i]
		from := len(call)
		switch o.Op {
		case KVGetPrefix:
			return nil, nil, atOp(ops, i, fmt.Errorf("%w: getPrefix is for calls that only read: what it costs is not bounded by who asks", ErrInvalidRequest))
		case KVGetMany:
			for _, k := range o.Keys {
				call = append(call, store.KVOp{Op: "get", NS: o.NS, Key: k})
			}
		default:
			c := store.KVOp{
				Op: string(o.Op), NS: o.NS, Key: o.Key, Value: string(o.Value), Expect: o.Expect, TTL: o.TTLSeconds,
				Delta: o.Delta, Low: o.Min, High: o.Max, Required: o.Required,
			}
			if o.Op == KVPutIfAbsent {
				c.Op, c.Expect = "put", &none
			}
			call = append(call, c)
		}
		places = append(places, [2]int{from, len(call)})
	}
	return call, places, nil
}

// kvAnswer turns what the ledger answered into answers to ops.
func kvAnswer(ops []KVOp, places [][2]int, a store.KVAnswer) KVAnswer {
	out := KVAnswer{Results: make([]KVResult, len(ops)), Lost: -1}
	left := kvReplyBytesMax
	for i := range ops {
		o, r := &ops[i], &out.Results[i]
		for k, s := range a.Results[places[i][0]:places[i][1]] {
			if a.Lost != nil && *a.Lost == places[i][0]+k {
				out.Lost = i
			}
			row := KVRow{Key: o.Key, Version: s.Version, ExpiresAt: micros(s.Expires), UpdatedAt: micros(s.Updated)}
			switch {
			case s.Value != nil:
				row.Value = []byte(*s.Value)
			case s.Applied && o.Value != nil:
				row.Value = o.Value
			}
			if o.Op != KVGetMany {
				r.Applied, r.Reason, r.KVRow = s.Applied, s.Reason, row
				if left -= len(row.Value); left < 0 {
					r.Value, r.Truncated = nil, row.Value != nil
				}
				continue
			}
			row.Key = o.Keys[k]
			r.add(row, s.Applied, &left)
		}
	}
	if out.Lost >= 0 {
		for i := range out.Results {
			if r := &out.Results[i]; r.Applied && !ops[i].reads() {
				*r = KVResult{Reason: "rolled_back", KVRow: KVRow{Key: ops[i].Key}}
			}
		}
	}
	return out
}

// add puts a row of a getMany where it belongs.
func (r *KVResult) add(row KVRow, there bool, left *int) {
	switch {
	case !there:
		r.Missing = append(r.Missing, row.Key)
	case *left < len(row.Value):
		*left, r.Truncated = 0, true
	default:
		*left -= len(row.Value)
		r.Rows = append(r.Rows, row)
	}
}

func micros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us)
}
