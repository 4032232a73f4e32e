package httpapi

import (
	"math"
	"net/url"

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
