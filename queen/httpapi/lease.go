package httpapi

import (
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// extendLease serves POST /api/v1/lease/{lease}/extend {"leaseSeconds"?}: the lease
// runs on that long from now, or as long as it was asked for at first, in all
// partitions where it is live. Whether it was is success, always with 200: a lease
// that is over is an outcome, as it is for an ack.
func (s *Server) extendLease(x *exchange) (answer, error) {
	var by time.Duration
	if len(x.body) > 0 {
		r, err := x.jsonBody()
		if err != nil {
			return answer{}, err
		}
		seen := false
		err = r.object(func(name []byte) error {
			if string(name) != "leaseSeconds" {
				return unknownName(r)
			}
			if seen {
				return repeated()
			}
			seen = true
			n, err := r.integer(1, int64(s.cfg.LeaseMax.Seconds()))
			by = time.Duration(n) * time.Second
			return err
		})
		if err == nil {
			err = r.end()
		}
		if err != nil {
			return answer{}, err
		}
	}
	var got queen.Extended
	if lease, err := uuid.Parse(x.names.lease); err == nil {
		ctx, cancel := x.context()
		defer cancel()
		if got, err = s.engine.Extend(ctx, lease, by); err != nil {
			return answer{}, err
		}
	}
	b := []byte(`{"leaseId":`)
	b = appendString(b, x.names.lease)
	b = append(b, `,"success":`...)
	b = appendBool(b, got.Partitions > 0)
	b = append(b, `,"renewed":`...)
	b = appendInt(b, int64(got.Partitions))
	for _, name := range [...]string{"newExpiresAt", "expiresAt", "lease_expires_at"} { // one thing by three names that clients read
		b = append(b, `,"`...)
		b = append(b, name...)
		b = append(b, `":`...)
		if got.Partitions > 0 {
			b = appendTime(b, got.Until)
		} else {
			b = append(b, "null"...)
		}
	}
	if got.Partitions == 0 {
		b = append(b, `,"error":`...)
		b = appendString(b, queen.ErrLeaseLost.Error()+": it has ended or was never given")
		b = append(b, `,"code":"lease_lost"`...)
	}
	return ok(append(b, '}')), nil
}
