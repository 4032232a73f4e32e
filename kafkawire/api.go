package kafkawire

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one row of the table of requests: all this door knows about a request
// before its handler does.
type api struct {
	key  int16
	name string
	// advertised is the lowest version ApiVersions tells; clients read more into
	// two of them than is served (see the notes in table).
	advertised int16
	// min and max are the versions served. Others close the connection, as in
	// Kafka: no reply to them can be encoded.
	min, max int16
	// bytesMax bounds the frame. Requests that carry neither records nor members'
	// metadata have a small one.
	bytesMax int
	// expands is how many bytes decoding may allocate for each byte of the frame,
	// whatever its counts claim (FuzzRequest holds this); the budget is charged with it.
	expands int64

	// walk steps over a body before it is decoded, and refuses counts that nothing
	// stands behind, or that are too high: afterwards they may be believed.
	walk func(body []byte, version int16, cfg *Config) error

	// lasting requests are served even when their client has hung up by the time
	// it is their turn: a client that leaves its group often does not wait for the
	// answer. Their ctx ends with the server only.
	lasting bool

	// groups says that the request is about groups: another broker behind the same
	// advertised address may have to answer it, see relay.go.
	groups bool

	// room says when room for its reply is taken.
	room replyRoomWhen
	// replies is what replies to it had lately, those to requests for all there is in
	// the second place.
	replies *[2]lately

	// handle answers a request that waits for the reply before it. It runs in the
	// connection's write loop; ctx ends when the client hangs up or the server stops.
	handle func(c *conn, ctx context.Context, r *request) (kmsg.Response, error)
	// start, set in its place, begins a request that may overlap others of its
	// kind and returns the wait for its reply. It runs in the read loop.
	start func(c *conn, ctx context.Context, r *request) answer
}

// The bounds of frames that carry no records. Decoding such a frame can cost
// expandsMax times its size (an array's claimed length is believed up to one
// element for each one to eight bytes left).
const (
	tinyFrame   = 64 << 10
	smallFrame  = 1 << 20
	mediumFrame = 2 << 20 // some hundred thousand partitions
	expandsMax  = 64
)

// table is THE table. ApiVersions and the matrix of README are printed from it.
func table(cfg Config) []api {
	tiny, small := min(tinyFrame, cfg.FrameBytesMax), min(smallFrame, cfg.FrameBytesMax)
	medium, large := min(mediumFrame, cfg.FrameBytesMax), cfg.FrameBytesMax
	rows := []api{
		// Produce is advertised from 0: librdkafka before 2.11 switches gzip, snappy
		// and lz4 off where it does not see version 0 (KAFKA-18659). 0–2 are refused.
		{key: 0, advertised: 0, min: 3, max: 13, bytesMax: cfg.ProduceBytesMax, walk: walkProduce, expands: 1, start: (*conn).produce},
		{key: 1, advertised: 4, min: 4, max: 18, bytesMax: large, walk: walkFetch, expands: expandsMax, room: roomByHandler, handle: (*conn).fetch},
		{key: 2, advertised: 1, min: 1, max: 11, bytesMax: medium, expands: expandsMax, handle: (*conn).listOffsets},
		{key: 3, advertised: 0, min: 0, max: 13, bytesMax: medium, expands: expandsMax, handle: (*conn).metadata},
		{key: 8, groups: true, advertised: 0, min: 0, max: 10, bytesMax: large, expands: expandsMax, lasting: true, handle: (*conn).offsetCommit},
		{key: 9, groups: true, advertised: 1, min: 1, max: 10, bytesMax: large, expands: expandsMax, handle: (*conn).offsetFetch},
		{key: 10, advertised: 0, min: 0, max: 6, bytesMax: tiny, expands: expandsMax, handle: (*conn).findCoordinator},
		{key: 11, groups: true, advertised: 0, min: 0, max: 9, bytesMax: small, expands: expandsMax, room: roomAfter, handle: (*conn).joinGroup},
		{key: 12, groups: true, advertised: 0, min: 0, max: 4, bytesMax: tiny, expands: expandsMax, handle: (*conn).heartbeat},
		{key: 13, groups: true, advertised: 0, min: 0, max: 5, bytesMax: small, expands: expandsMax, lasting: true, handle: (*conn).leaveGroup},
		{key: 14, groups: true, advertised: 0, min: 0, max: 5, bytesMax: large, expands: expandsMax, room: roomAfter, handle: (*conn).syncGroup},
		{key: 15, groups: true, advertised: 0, min: 0, max: 6, bytesMax: tiny, expands: expandsMax, handle: (*conn).describeGroups},
		{key: 16, groups: true, advertised: 0, min: 0, max: 5, bytesMax: tiny, expands: expandsMax, handle: (*conn).listGroups},
		{key: 18, advertised: 0, min: 0, max: 5, bytesMax: tiny, expands: expandsMax, handle: (*conn).apiVersions},
		{key: 19, advertised: 0, min: 0, max: 7, bytesMax: small, expands: expandsMax, handle: (*conn).createTopics},
		{key: 20, advertised: 0, min: 0, max: 6, bytesMax: small, expands: expandsMax, handle: (*conn).deleteTopics},
		{key: 21, advertised: 0, min: 0, max: 2, bytesMax: medium, expands: expandsMax, handle: (*conn).deleteRecords},
		{key: 22, advertised: 0, min: 0, max: 5, bytesMax: tiny, expands: expandsMax, handle: (*conn).initProducer},
		{key: 23, advertised: 2, min: 2, max: 4, bytesMax: medium, expands: expandsMax, handle: (*conn).leaderEpoch},
		{key: 32, advertised: 0, min: 0, max: 4, bytesMax: small, expands: expandsMax, handle: (*conn).describeConfigs},
		{key: 33, advertised: 0, min: 0, max: 2, bytesMax: small, expands: expandsMax, handle: (*conn).alterConfigs},
		{key: 35, advertised: 1, min: 1, max: 5, bytesMax: medium, expands: expandsMax, handle: (*conn).describeLogDirs},
		{key: 37, advertised: 0, min: 0, max: 3, bytesMax: small, expands: expandsMax, handle: (*conn).createPartitions},
		{key: 42, groups: true, advertised: 0, min: 0, max: 2, bytesMax: small, expands: expandsMax, handle: (*conn).deleteGroups},
		{key: 43, advertised: 0, min: 0, max: 2, bytesMax: medium, expands: expandsMax, handle: (*conn).electLeaders},
		{key: 44, advertised: 0, min: 0, max: 1, bytesMax: small, expands: expandsMax, handle: (*conn).incrementalAlterConfigs},
		{key: 45, advertised: 0, min: 0, max: 1, bytesMax: medium, expands: expandsMax, handle: (*conn).alterReassignments},
		{key: 46, advertised: 0, min: 0, max: 0, bytesMax: medium, expands: expandsMax, handle: (*conn).listReassignments},
		{key: 47, groups: true, advertised: 0, min: 0, max: 0, bytesMax: medium, expands: expandsMax, handle: (*conn).offsetDelete},
		{key: 60, advertised: 0, min: 0, max: 2, bytesMax: tiny, expands: expandsMax, handle: (*conn).describeCluster},
		{key: 61, advertised: 0, min: 0, max: 0, bytesMax: medium, expands: expandsMax, handle: (*conn).describeProducers},
		{key: 68, groups: true, advertised: 0, min: 0, max: 1, bytesMax: small, expands: expandsMax, lasting: true, handle: (*conn).consumerGroupHeartbeat},
		{key: 69, groups: true, advertised: 0, min: 0, max: 1, bytesMax: tiny, expands: expandsMax, handle: (*conn).consumerGroupDescribe},
		{key: 75, advertised: 0, min: 0, max: 0, bytesMax: medium, expands: expandsMax, handle: (*conn).describeTopicPartitions},
	}
	for i := range rows {
		rows[i].name, rows[i].replies = kmsg.NameForKey(rows[i].key), new([2]lately)
	}
	return rows
}

// lookup finds the row of a frame by its prefix, and judges version and size.
func (s *Server) lookup(p prefix) (*api, error) {
	a := s.apis[p.key]
	switch {
	case a == nil:
		return nil, badFramef("request key %d is not served", p.key)
	case int(p.size) > a.bytesMax:
		return nil, badFramef("%s frame of %d bytes is above its limit of %d; the client must ask for less at once", a.name, p.size, a.bytesMax)
	case a.key == int16(kmsg.ApiVersions) && p.version > a.max:
		return a, nil // answered with what is served (KIP-511)
	case p.version < a.min || p.version > a.max:
		return nil, badFramef("%s version %d is not served, only %s", a.name, p.version, a.versions())
	}
	return a, nil
}

// lately is where the sizes of replies to such a request are noted.
func (a *api) lately(body kmsg.Request) *lately {
	all := false
	switch req := body.(type) {
	case *kmsg.MetadataRequest:
		all = listsAll(req)
	case *kmsg.OffsetFetchRequest:
		all = req.Version < 8 && req.Topics == nil || slices.ContainsFunc(req.Groups, func(g kmsg.OffsetFetchRequestGroup) bool { return g.Topics == nil })
	}
	if all {
		return &a.replies[1]
	}
	return &a.replies[0]
}

func (a *api) versions() string {
	return strconv.Itoa(int(a.min)) + "–" + strconv.Itoa(int(a.max))
}

// decode turns the bytes after the prefix into a request that aliases them.
func (a *api) decode(p prefix, frame []byte, cfg *Config) (*request, error) {
	r := &request{api: a, version: p.version, correlationID: p.correlationID, body: kmsg.RequestForKey(a.key)}
	r.body.SetVersion(p.version)
	if p.version > a.max {
		return r, nil // ApiVersions of the future: not even its header is known
	}
	clientID, body, err := parseHeader(frame, r.body.IsFlexible())
	if err != nil {
		return nil, err
	}
	if clientID != nil {
		r.clientID = *clientID
	}
	if a.walk != nil {
		if err := a.walk(body, p.version, cfg); err != nil {
			return nil, err
		}
	}
	if err := r.body.ReadFrom(body); err != nil {
		return nil, badFramef("%s version %d cannot be decoded: %v", a.name, p.version, err)
	}
	return r, nil
}
