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
// (KIP-1242). From v3 it tells of features.
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
	if req.Version >= 3 && !c.introduced(req) && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
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
	tellFeatures(resp)
	return resp, nil
}

// features are those that work, each at one level that cannot be altered, by
// name. Clients read from them what a broker of this cluster will accept.
var features = []struct {
	name  string
	level int16
}{
	{"group.version", 1}, // KIP-848
}

// tellFeatures fills in the features (KIP-584). A supported range that starts at
// 0 is told from v4, as older Java clients reject it (KAFKA-17011). They do not
// change, so their epoch is 0 for ever.
func tellFeatures(resp *kmsg.ApiVersionsResponse) {
	resp.FinalizedFeaturesEpoch = 0
	for _, f := range features {
		if resp.Version >= 4 {
			s := kmsg.NewApiVersionsResponseSupportedFeature()
			s.Name, s.MinVersion, s.MaxVersion = f.name, 0, f.level
			resp.SupportedFeatures = append(resp.SupportedFeatures, s)
		}
		l := kmsg.NewApiVersionsResponseFinalizedFeature()
		l.Name, l.MinVersionLevel, l.MaxVersionLevel = f.name, f.level, f.level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, l)
	}
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
