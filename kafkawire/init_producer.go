package kafkawire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// initProducer answers InitProducerId (22) v0–5, for idempotent producers: a new
// id at every call. A transactional id is refused with 53, the one code that
// ends the attempt in every client; an empty one is malformed, and so is an id
// to go on with (v3) without its epoch.
func (c *conn) initProducer(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	switch {
	case req.TransactionalID == nil:
	case *req.TransactionalID == "":
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	default:
		resp.ErrorCode = codeTransactionalIDAuth
		return resp, nil
	}
	p, err := c.srv.engine.NewProducer(ctx)
	if err != nil {
		// "Loading" is what every client repeats here without looking further.
		_ = c.note(r, err)
		resp.ErrorCode = codeCoordinatorLoading
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = p.ID, p.Epoch
	return resp, nil
}
