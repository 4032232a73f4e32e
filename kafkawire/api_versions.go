package kafkawire

import (
	"context"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// apiVersions answers ApiVersions (18) v0–5 from the table. A version of the
// future is answered in v0 with error 35 and the whole table, so that the client
// can come down (KIP-511). v5 clients may say which broker they mean to reach
// (KIP-1242). No features are advertised, since none is served.
func (c *conn) apiVersions(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ApiVersionsRequest)
	if req.Version > r.api.max {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = 0
		resp.ErrorCode = codeUnsupportedVersion
		resp.ApiKeys = c.srv.advertised()
		return resp, nil
	}
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	resp.FinalizedFeaturesEpoch = -1
	if req.Version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	if (req.ClusterID == nil) != (req.NodeID < 0) {
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	if c.elsewhere(req) {
		resp.ErrorCode = codeRebootstrapRequired
		return resp, nil
	}
	resp.ApiKeys = c.srv.advertised()
	return resp, nil
}

// softwareName is the form of a client's name and version (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// elsewhere says whether the client meant another cluster or broker. Brokers may
// share one advertised address, behind which any of them is the right one.
func (c *conn) elsewhere(req *kmsg.ApiVersionsRequest) bool {
	if req.ClusterID == nil {
		return false
	}
	cl := c.srv.engine.Cluster()
	if *req.ClusterID != cl.ID {
		return true
	}
	self := func(b queen.Broker) bool { return b.ID == cl.Self }
	at := slices.IndexFunc(cl.Brokers, self)
	return at < 0 || !slices.ContainsFunc(cl.Brokers, func(b queen.Broker) bool {
		return b.ID == req.NodeID && b.Host == cl.Brokers[at].Host && b.Port == cl.Brokers[at].Port
	})
}

// advertised is the table as ApiVersions tells it, by key.
func (s *Server) advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.apis))
	for _, a := range s.apis {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.advertised, a.max
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) })
	return keys
}
