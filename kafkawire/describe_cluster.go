package kafkawire

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Whose addresses DescribeCluster is asked for.
const (
	endpointBrokers     int8 = 1
	endpointControllers int8 = 2
)

// describeCluster answers DescribeCluster (60) v0–2. There are no controllers to
// talk to, and a broker that is not live is not listed, so none is fenced.
func (c *conn) describeCluster(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	cl := c.srv.engine.Cluster()
	resp.ClusterID, resp.ControllerID, resp.EndpointType = cl.ID, -1, endpointBrokers
	resp.ClusterAuthorizedOperations = operationsNotAsked
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		text := "this is a broker's address"
		resp.ErrorCode, resp.ErrorMessage = codeUnsupportedEndpointType, &text
		if req.EndpointType == endpointControllers {
			resp.ErrorCode = codeMismatchedEndpointType
		}
		return resp, nil
	}
	resp.ControllerID = controller(cl)
	resp.ClusterAuthorizedOperations = operations(req.IncludeClusterAuthorizedOperations, clusterOperations)
	for _, b := range brokers(cl) {
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID, rb.Host, rb.Port = b.ID, b.Host, b.Port
		resp.Brokers = append(resp.Brokers, rb)
	}
	return resp, nil
}
