package httpapi

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is one row of the table.
type route struct {
	method string
	// path is matched segment by segment, before unescaping: {x} takes one
	// segment whole, so that %2F in a queue's name is part of the name. Nothing is
	// cleaned or redirected.
	path string
	body bodyKind
	// query says who looks at the parameters behind the path.
	query queryKind
	// tail: the last variable takes all segments that are left, slashes and all.
	tail bool
	// safe: reads only. HEAD is served too, and pages of other sites may ask.
	safe   bool
	handle func(*Server, *exchange) (answer, error)
}

type bodyKind int

const (
	noBody       bodyKind = iota
	smallBody             // Config.BodyBytesMax
	largeBody             // Config.PushBytesMax
	pushedBody            // as large, in memory that is used again; see scratch.go
	optionalBody          // a small one, or none
)

type queryKind int

const (
	noQuery  queryKind = iota // none is known: each is refused by name
	ownQuery                  // the handler reads them
	anyQuery                  // not looked at: probes and scrapers add their own
)

// routes is THE table: everything this door serves, each described in
// openapi/*.json too.
var routes = []route{
	{method: "POST", path: "/api/v1/push", body: pushedBody, handle: (*Server).push},
	{method: "GET", path: "/api/v1/pop/queue/{queue}", query: ownQuery, handle: (*Server).pop},
	{method: "GET", path: "/api/v1/pop/queue/{queue}/partition/{partition}", query: ownQuery, handle: (*Server).pop},
	{method: "GET", path: "/api/v1/pop", query: ownQuery, handle: (*Server).pop},
	{method: "POST", path: "/api/v1/lease/{lease}/extend", body: optionalBody, handle: (*Server).extendLease},
	{method: "POST", path: "/api/v1/ack", body: smallBody, handle: (*Server).ack},
	{method: "POST", path: "/api/v1/ack/batch", body: largeBody, handle: (*Server).ackBatch},
	{method: "POST", path: "/api/v1/fetch", body: smallBody, handle: (*Server).fetch},
	{method: "POST", path: "/api/v1/transaction", body: largeBody, handle: (*Server).transaction},
	{method: "POST", path: "/api/v1/timers", body: largeBody, handle: (*Server).timers},
	{method: "GET", path: "/api/v1/timers/{queue}", query: ownQuery, safe: true, handle: (*Server).listTimers},
	{method: "GET", path: "/api/v1/timers/{queue}/{timerKey}", tail: true, safe: true, handle: (*Server).getTimer},
	{method: "DELETE", path: "/api/v1/timers/{queue}/{timerKey}", tail: true, query: ownQuery, handle: (*Server).deleteTimer},
	{method: "POST", path: "/api/v1/partitions/changed", body: smallBody, handle: (*Server).changed},
	{method: "POST", path: "/api/v1/kv", body: largeBody, handle: (*Server).kv},
	{method: "GET", path: "/api/v1/kv/{ns}/{key}", tail: true, safe: true, handle: (*Server).getKV},
	{method: "PUT", path: "/api/v1/kv/{ns}/{key}", tail: true, body: smallBody, handle: (*Server).putKV},
	{method: "POST", path: "/api/v1/kv/{ns}/{key}", tail: true, body: smallBody, handle: (*Server).postKV},
	{method: "DELETE", path: "/api/v1/kv/{ns}/{key}", tail: true, query: ownQuery, handle: (*Server).deleteKV},
	{method: "POST", path: "/api/v1/configure", body: smallBody, handle: (*Server).configure},
	{method: "GET", path: "/api/v1/resources/queues", query: ownQuery, safe: true, handle: (*Server).listQueues},
	{method: "GET", path: "/api/v1/resources/queues/{queue}", safe: true, handle: (*Server).getQueue},
	{method: "DELETE", path: "/api/v1/resources/queues/{queue}", handle: (*Server).deleteQueue},
	{method: "GET", path: "/api/v1/resources/queues/{queue}/partitions", query: ownQuery, safe: true, handle: (*Server).listPartitions},
	{method: "GET", path: "/api/v1/resources/queues/{queue}/depth", query: ownQuery, safe: true, handle: (*Server).depth},
	{method: "GET", path: "/api/v1/resources/partitions", query: ownQuery, safe: true, handle: (*Server).allPartitions},
	{method: "GET", path: "/api/v1/resources/overview", safe: true, handle: (*Server).overview},
	{method: "GET", path: "/api/v1/resources/namespaces", query: ownQuery, safe: true, handle: (*Server).namespaces},
	{method: "GET", path: "/api/v1/resources/tasks", query: ownQuery, safe: true, handle: (*Server).tasks},
	{method: "GET", path: "/api/v1/status", safe: true, handle: (*Server).overview},
	{method: "GET", path: "/api/v1/status/queues", query: ownQuery, safe: true, handle: (*Server).queueTotals},
	{method: "GET", path: "/api/v1/status/queues/{queue}", query: ownQuery, safe: true, handle: (*Server).queueStatus},
	{method: "POST", path: "/api/v1/stats/refresh", body: optionalBody, handle: (*Server).refresh},
	{method: "GET", path: "/api/v1/messages", query: ownQuery, safe: true, handle: (*Server).browse},
	{method: "GET", path: "/api/v1/messages/{partition}/{message}", tail: true, safe: true, handle: (*Server).getMessage},
	{method: "DELETE", path: "/api/v1/messages/{partition}/{message}", tail: true, handle: (*Server).deleteMessage},
	{method: "POST", path: "/api/v1/messages/{partition}/{message}/retry", body: optionalBody, handle: (*Server).retryMessage},
	{method: "GET", path: "/api/v1/dlq", query: ownQuery, safe: true, handle: (*Server).listDLQ},
	{method: "DELETE", path: "/api/v1/dlq", query: ownQuery, handle: (*Server).purgeDLQ},
	{method: "POST", path: "/api/v1/dlq/replay", body: smallBody, handle: (*Server).replayDLQ},
	{method: "GET", path: "/api/v1/consumer-groups", query: ownQuery, safe: true, handle: (*Server).listGroups},
	// Before {group}: a group of that name is listed, and cannot be asked for alone.
	{method: "GET", path: "/api/v1/consumer-groups/lagging", query: ownQuery, safe: true, handle: (*Server).lagging},
	{method: "GET", path: "/api/v1/consumer-groups/{group}", query: ownQuery, safe: true, handle: (*Server).describeGroup},
	{method: "DELETE", path: "/api/v1/consumer-groups/{group}", query: ownQuery, handle: (*Server).deleteGroup},
	{method: "DELETE", path: "/api/v1/consumer-groups/{group}/queues/{queue}", query: ownQuery, handle: (*Server).deleteGroup},
	{method: "POST", path: "/api/v1/consumer-groups/{group}/subscription", body: smallBody, handle: (*Server).setSubscription},
	{method: "POST", path: "/api/v1/consumer-groups/{group}/queues/{queue}/seek", body: smallBody, handle: (*Server).seekGroup},
	{method: "GET", path: "/api/v1/openapi.json", safe: true, handle: (*Server).openapi},
	{method: "GET", path: "/health", query: anyQuery, safe: true, handle: (*Server).health},
	{method: "GET", path: "/livez", query: anyQuery, safe: true, handle: (*Server).livez},
	{method: "GET", path: "/readyz", query: anyQuery, safe: true, handle: (*Server).readyz},
	{method: "GET", path: "/status", query: anyQuery, safe: true, handle: (*Server).status},
	{method: "GET", path: "/metrics", query: anyQuery, safe: true, handle: (*Server).prometheus},
	{method: "GET", path: "/metrics/prometheus", query: anyQuery, safe: true, handle: (*Server).prometheus},
}

// paths is the table with its paths cut into segments, once.
var paths = func() [][]string {
	cut := make([][]string, len(routes))
	for i, r := range routes {
		cut[i] = strings.Split(r.path, "/")
	}
	return cut
}()

// names are the variables of a path, unescaped.
type names struct{ queue, partition, group, lease, message, ns, key string }

// match finds the row of a request. Where the path is known and the method is
// not, the problem names the methods that are.
func match(method, escapedPath string) (*route, names, *problem) {
	var allowed []string
	segments := strings.Split(escapedPath, "/")
	for i := range routes {
		r := &routes[i]
		n, ok, err := match1(paths[i], segments, r.tail)
		switch {
		case !ok:
			continue
		case err != nil:
			return nil, names{}, badRequest("bad_path", "the path is not well escaped")
		case r.method == method || r.safe && method == http.MethodHead:
			return r, n, nil
		}
		allowed = append(allowed, r.method)
		if r.safe {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if allowed == nil {
		return nil, names{}, &problem{status: http.StatusNotFound, word: "no_such_route", text: "no such route: GET /api/v1/openapi.json describes those there are"}
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return nil, names{}, &problem{
		status: http.StatusMethodNotAllowed, word: "method_not_allowed",
		text: "this path is served with " + allow, allow: allow,
	}
}

// eachParam calls set with every parameter behind the path; one that is given
// twice is refused, and the error of set is put under the parameter's name.
func eachParam(query string, set func(name, v string) error) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return badRequest("bad_query", "the query is not well escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return under(show([]byte(name)), refuse("", "is given twice"))
		}
		if err := set(name, values[name][0]); err != nil {
			return under(show([]byte(name)), err)
		}
	}
	return nil
}

// noSuchParam refuses a parameter.
func noSuchParam() error { return refuse("unknown_parameter", notKnown) }

// refuseQuery names a parameter that was sent where none is known.
func refuseQuery(query string) error {
	return eachParam(query, func(string, string) error { return noSuchParam() })
}

func match1(pattern, segments []string, tail bool) (n names, ok bool, err error) {
	if tail && len(segments) > len(pattern) {
		last := len(pattern) - 1
		segments = append(segments[:last:last], strings.Join(segments[last:], "/"))
	}
	if len(pattern) != len(segments) {
		return names{}, false, nil
	}
	for i, p := range pattern {
		if p == segments[i] {
			continue
		}
		if segments[i] == "" || !strings.HasPrefix(p, "{") {
			return names{}, false, nil
		}
		v, e := url.PathUnescape(segments[i])
		if e != nil {
			err = e
		}
		switch p {
		case "{queue}":
			n.queue = v
		case "{group}":
			n.group = groupOf(v)
		case "{partition}":
			n.partition = v
		case "{message}":
			n.message = v
		case "{lease}":
			n.lease = v
		case "{ns}":
			n.ns = v
		default:
			n.key = v
		}
	}
	return n, true, err
}

// notKnown is said of a member or parameter that its place does not have.
const notKnown = "is not known here: GET /api/v1/openapi.json describes those that are"
