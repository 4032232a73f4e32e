package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"queenmq/queen"
)

// kvOp is an operation of a body.
type kvOp struct {
	queen.KVOp
	asked string // its word; once is a putIfAbsent
}

// kv serves POST /api/v1/kv {"operations":[…]}, or the array alone: operations on
// keys that take effect together, in order. One that did not apply is an outcome
// of its element; where it was required nothing applied, which is also a 200.
func (s *Server) kv(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	var ops []kvOp
	read := func() error {
		ops = []kvOp{}
		return r.kvOps(&ops, true)
	}
	if r.next() == '[' {
		err = read()
	} else {
		err = r.object(func(name []byte) error {
			switch {
			case string(name) != "operations":
				return unknownName(r)
			case ops != nil:
				return repeated()
			}
			return read()
		})
	}
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return answer{}, err
	}
	if ops == nil {
		return answer{}, badRequest("invalid_request", `body: "operations" is missing`)
	}
	got := queen.KVAnswer{Lost: -1}
	if len(ops) > 0 {
		ctx, cancel := x.context()
		defer cancel()
		if got, err = s.engine.KV(ctx, engineOps(ops)); err != nil {
			return answer{}, err
		}
	}
	var b []byte
	if got.Lost < 0 {
		b = append(b, `{"success":true`...)
	} else {
		lost := &got.Results[got.Lost]
		b = append(b, `{"success":false,"reason":"kv_precondition","failedIndex":`...)
		b = appendInt(b, int64(got.Lost))
		b = appendLost(b, lost)
		b = append(b, `,"error":`...)
		b = appendString(b, "kv_precondition: the required condition on "+lost.Key+" does not hold ("+lost.Reason+")")
	}
	b = append(b, `,"results":[`...)
	for i := range got.Results {
		b = appendComma(b, i)
		b = append(b, `{"index":`...)
		b = appendInt(b, int64(i))
		b = append(b, ',')
		b = append(appendKV(b, &ops[i], &got.Results[i]), '}')
	}
	return ok(append(b, "]}"...)), nil
}

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

func engineOps(ops []kvOp) []queen.KVOp {
	out := make([]queen.KVOp, len(ops))
	for i := range ops {
		out[i] = ops[i].KVOp
	}
	return out
}

// getKV serves GET /api/v1/kv/{ns}/{key}: 200 also where nothing is there. The
// key is the rest of the path, slashes and all.
func (s *Server) getKV(x *exchange) (answer, error) {
	return s.oneKV(x, &kvOp{KVOp: queen.KVOp{Op: queen.KVGet}, asked: "get"})
}

// putKV serves PUT /api/v1/kv/{ns}/{key} {"value", "ttlSeconds" | "forever", "expect"?}.
func (s *Server) putKV(x *exchange) (answer, error) {
	o := &kvOp{KVOp: queen.KVOp{Op: queen.KVPut}, asked: "put"}
	if err := x.kvMembers(o, "value", "ttlSeconds", "forever", "expect"); err != nil {
		return answer{}, err
	}
	return s.oneKV(x, o)
}

// deleteKV serves DELETE /api/v1/kv/{ns}/{key}?expect=.
func (s *Server) deleteKV(x *exchange) (answer, error) {
	o := &kvOp{KVOp: queen.KVOp{Op: queen.KVDelete}, asked: "delete"}
	values, err := url.ParseQuery(x.req.URL.RawQuery)
	if err != nil {
		return answer{}, badRequest("bad_query", "the query is not well escaped")
	}
	for name, v := range values {
		switch {
		case name != "expect":
			return answer{}, under(show([]byte(name)), refuse("unknown_parameter", notKnown))
		case len(v) > 1:
			return answer{}, under(name, repeated())
		}
		r := &reader{src: []byte(v[0]), depthMax: 1}
		n, err := r.integer(0, math.MaxInt64)
		if err == nil {
			err = r.end()
		}
		if err != nil {
			return answer{}, under(name, refuse("", "must be a whole number from 0"))
		}
		o.Expect = &n
	}
	return s.oneKV(x, o)
}

// postKV serves POST /api/v1/kv/{ns}/{key} {"op", …}: one operation on the key.
func (s *Server) postKV(x *exchange) (answer, error) {
	o := &kvOp{}
	if err := x.kvMembers(o, "op", "value", "ttlSeconds", "forever", "expect", "delta", "min", "max"); err != nil {
		return answer{}, err
	}
	if o.Op == queen.KVGetMany || o.Op == queen.KVGetPrefix {
		return answer{}, under("op", refuse("", "%s is not about one key: POST it to /api/v1/kv", o.Op))
	}
	return s.oneKV(x, o)
}

func (x *exchange) kvMembers(o *kvOp, known ...string) error {
	r, err := x.jsonBody()
	if err != nil {
		return err
	}
	if err := r.kvOp(o, known, false); err != nil {
		return err
	}
	return r.end()
}

func (s *Server) oneKV(x *exchange, o *kvOp) (answer, error) {
	o.NS, o.Key = x.names.ns, x.names.key
	ctx, cancel := x.context()
	defer cancel()
	got, err := s.engine.KV(ctx, []queen.KVOp{o.KVOp})
	if err != nil {
		return answer{}, err
	}
	return ok(append(appendKV([]byte{'{'}, o, &got.Results[0]), '}')), nil
}

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
