package httpapi

import (
	"math"
	"net/http"
	"slices"

	"queenmq/queen"
)

// kvOpMembers are the members each operation takes, beside op and ns.
var kvOpMembers = map[string][]string{
	"get":         {"key"},
	"getMany":     {"keys"},
	"getPrefix":   {"prefix", "after", "limit", "keysOnly"},
	"put":         {"key", "value", "ttlSeconds", "forever", "expect", "required"},
	"putIfAbsent": {"key", "value", "ttlSeconds", "forever", "expect", "required"},
	"once":        {"key", "value", "ttlSeconds", "forever"},
	"delete":      {"key", "expect", "required"},
	"check":       {"key", "expect", "required"},
	"incr":        {"key", "delta", "min", "max", "ttlSeconds", "forever", "required"},
}

// kvMembersAll are all of them.
var kvMembersAll = []string{
	"op", "ns", "key", "keys", "prefix", "after", "limit", "keysOnly", "value", "ttlSeconds", "forever", "expect",
	"required", "delta", "min", "max",
}

// kvOps reads an array of operations. alone says that they are a call of their
// own, in which a once that is lost is an outcome; in a transaction it is required.
func (r *reader) kvOps(ops *[]kvOp, alone bool) error {
	return r.array(func(i int) error {
		if i == queen.KVOpsMax {
			return &problem{status: http.StatusRequestEntityTooLarge, word: "too_many_items", text: "more than " + string(appendInt(nil, int64(i))) + " operations on keys; send less at once"}
		}
		var o kvOp
		if err := r.kvOp(&o, kvMembersAll, true); err != nil {
			return err
		}
		if o.asked == "once" && !alone {
			o.Required = true
		}
		*ops = append(*ops, o)
		return nil
	})
}

// kvOp reads an operation, of which only some members are known here. named says
// that namespace and key are among them.
func (r *reader) kvOp(o *kvOp, known []string, named bool) error {
	var seen []string
	err := r.object(func(name []byte) error {
		n := string(name)
		switch {
		case slices.Contains(seen, n):
			return repeated()
		case !slices.Contains(known, n):
			return unknownName(r)
		}
		seen = append(seen, n)
		return r.kvMember(o, n)
	})
	if err != nil {
		return err
	}
	if o.asked == "" {
		return refuse("", "op is missing")
	}
	members := kvOpMembers[o.asked]
	for _, n := range seen {
		if n != "op" && n != "ns" && !slices.Contains(members, n) {
			return under(n, refuse("", "is not for %s", o.asked))
		}
	}
	for _, n := range []string{"ns", "key", "keys", "prefix", "value"} {
		if (n == "ns" || slices.Contains(members, n)) && (named || n == "value") && o.asked != "once" && !slices.Contains(seen, n) {
			return refuse("", "%s is missing", n)
		}
	}
	switch {
	case o.asked == "once" && o.Value == nil:
		o.Value = []byte("true")
	case o.asked == "incr" && o.Delta == "":
		o.Delta = "1"
	}
	return nil
}

func (r *reader) kvMember(o *kvOp, name string) (err error) {
	text := func(into *string) {
		var v []byte
		v, err = r.str()
		*into = string(v)
	}
	number := func(into *string) {
		if c := r.next(); c != '-' && c-'0' > 9 {
			err = r.mistyped("a number")
			return
		}
		var v []byte
		v, err = r.raw()
		*into = string(v)
	}
	switch name {
	case "op":
		text(&o.asked)
		if err == nil && kvOpMembers[o.asked] == nil {
			err = refuse("", "must be one of get, getMany, getPrefix, put, putIfAbsent, once, delete, check, incr")
		}
		if o.Op = queen.KVKind(o.asked); o.asked == "once" {
			o.Op = queen.KVPutIfAbsent
		}
	case "ns":
		text(&o.NS)
	case "key":
		text(&o.Key)
	case "keys":
		err = r.array(func(i int) error {
			if i == queen.KVOpsMax {
				return refuse("", "more than %d keys; ask for less at once", i)
			}
			v, err := r.str()
			o.Keys = append(o.Keys, string(v))
			return err
		})
	case "prefix":
		text(&o.Prefix)
	case "after":
		text(&o.After)
	case "limit":
		var n int64
		n, err = r.integer(1, math.MaxInt32)
		o.Limit = int(n)
	case "keysOnly":
		o.KeysOnly, err = r.boolean()
	case "value":
		o.Value, err = r.raw()
	case "ttlSeconds":
		o.TTLSeconds, err = r.integer(1, queen.KVTTLMax)
	case "forever":
		if o.Forever, err = r.boolean(); err == nil && !o.Forever {
			err = refuse("", "can only be true; say ttlSeconds otherwise")
		}
	case "expect":
		var n int64
		n, err = r.integer(0, math.MaxInt64)
		o.Expect = &n
	case "required":
		o.Required, err = r.boolean()
	case "delta":
		number(&o.Delta)
	case "min":
		number(&o.Min)
	case "max":
		number(&o.Max)
	}
	return err
}
