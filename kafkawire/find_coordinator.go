package kafkawire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// The kinds of coordinators.
const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
)

// findCoordinator answers FindCoordinator (10) v0–6, from v4 for several keys.
// A group's is the broker that has its slot; while none has, or this one cannot
// tell, clients are to ask again. Transactions are not
// served: their coordinator is refused with a code that clients take as final.
func (c *conn) findCoordinator(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	if req.CoordinatorType == coordinatorOfGroup {
		c.srv.showOffsets(ctx)
	}
	for _, key := range keys {
		a := kmsg.NewFindCoordinatorResponseCoordinator()
		a.Key, a.NodeID, a.Port = key, -1, -1
		switch req.CoordinatorType {
		case coordinatorOfGroup:
			coordinatorIn(c.srv.engine.Coordinator(key), &a)
		case coordinatorOfTransaction:
			a.ErrorCode, a.ErrorMessage = codeOf(queen.ErrTransactional), message(queen.ErrTransactional)
		default:
			a.ErrorCode = codeInvalidRequest
		}
		resp.Coordinators = append(resp.Coordinators, a)
	}
	if req.Version < 4 {
		a := resp.Coordinators[0]
		resp.NodeID, resp.Host, resp.Port = a.NodeID, a.Host, a.Port
		resp.ErrorCode, resp.ErrorMessage = a.ErrorCode, a.ErrorMessage
	}
	return resp, nil
}

// coordinatorIn fills in the broker that coordinates the group, if one is known.
func coordinatorIn(at queen.Coordination, a *kmsg.FindCoordinatorResponseCoordinator) {
	if !at.Known {
		a.ErrorCode = codeCoordinatorNotAvailable
		return
	}
	a.NodeID, a.Host, a.Port = at.Broker.ID, at.Broker.Host, at.Broker.Port
}
