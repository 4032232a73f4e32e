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
// Every broker names the same coordinator for every group. Transactions are not
// served: their coordinator is refused with a code that clients take as final.
func (c *conn) findCoordinator(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	keys := req.CoordinatorKeys
	if req.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	cluster := c.srv.engine.Cluster()
	for _, key := range keys {
		a := kmsg.NewFindCoordinatorResponseCoordinator()
		a.Key, a.NodeID, a.Port = key, -1, -1
		switch req.CoordinatorType {
		case coordinatorOfGroup:
			coordinatorIn(cluster, &a)
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

// coordinatorIn fills in the broker that coordinates the groups, if one lives.
func coordinatorIn(cluster queen.Cluster, a *kmsg.FindCoordinatorResponseCoordinator) {
	for _, b := range cluster.Brokers {
		if b.Coordinator {
			a.NodeID, a.Host, a.Port = b.ID, b.Host, b.Port
			return
		}
	}
	a.ErrorCode = codeCoordinatorNotAvailable
}
