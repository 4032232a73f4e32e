package kafkawire

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// pipes is a listener whose connections are made by dial, without a network, so
// that tests can run on synctest's clock.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// door is a server under test with its engine.
type door struct {
	*Server
	t     testing.TB
	fake  *fake
	pipes *pipes
	logs  *logLines
}

// open starts a door; it is shut down when the test ends.
func open(t testing.TB, change ...func(*Config)) *door {
	t.Helper()
	d := &door{t: t, fake: newFake(), pipes: newPipes(), logs: &logLines{}}
	cfg := Config{Engine: d.fake, AutoCreate: true, Logger: slog.New(slog.NewTextHandler(d.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.Server = s
	served := make(chan error, 1)
	go func() { served <- s.Serve(d.pipes) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // do not wait for anybody
		_ = s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return d
}

// logLines collects what the door writes to its log.
type logLines struct {
	mu sync.Mutex
	b  []byte
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// wholeLog ends the door and gives all that it wrote to its log. A connection
// says why it was closed after it was.
func (d *door) wholeLog() string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		d.t.Fatalf("the door did not end: %v", err)
	}
	return d.logs.String()
}

// client is one connection of a Kafka client.
type client struct {
	t    testing.TB
	conn net.Conn
	corr int32
	fmt  *kmsg.RequestFormatter
}

func (d *door) dial() *client {
	c := &client{t: d.t, conn: d.pipes.dial(), fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))}
	d.t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

// send writes a request and returns its correlation id.
func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	c.corr++
	if _, err := c.conn.Write(c.fmt.AppendRequest(nil, req, c.corr)); err != nil {
		c.t.Fatalf("write %T: %v", req, err)
	}
	return c.corr
}

// frame reads one reply.
func (c *client) frame() (corr int32, rest []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:], nil
}

// receive reads the reply to req, which must be the next one.
func (c *client) receive(req kmsg.Request, corr int32) kmsg.Response {
	c.t.Helper()
	got, body, err := c.frame()
	if err != nil {
		c.t.Fatalf("read reply to %T: %v", req, err)
	}
	if got != corr {
		c.t.Fatalf("reply has correlation id %d, want %d", got, corr)
	}
	resp, err := decodeReply(req, body)
	if err != nil {
		c.t.Fatalf("decode reply to %T v%d: %v", req, req.GetVersion(), err)
	}
	return resp
}

func decodeReply(req kmsg.Request, body []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		if len(body) == 0 || body[0] != 0 {
			return nil, errors.New("no tags in a flexible reply header")
		}
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// ask sends a request and waits for its reply.
func ask[R kmsg.Response](c *client, req kmsg.Request) R {
	c.t.Helper()
	return c.receive(req, c.send(req)).(R)
}

// closed waits until the server closed the connection.
func (c *client) closed() {
	c.t.Helper()
	if _, _, err := c.frame(); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatalf("connection answered or failed otherwise: %v; want it closed", err)
	}
}

// at sets a request's version.
func at[R kmsg.Request](req R, version int16) R {
	req.SetVersion(version)
	return req
}

// record is a record for batch.
type record struct {
	key, value string
	timestamp  int64
}

// batch builds a record batch of magic 2.
func batch(change func(*kmsg.RecordBatch), records ...record) []byte {
	rb := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(records)), LastOffsetDelta: int32(len(records) - 1),
	}
	for i, r := range records {
		if i == 0 {
			rb.FirstTimestamp = r.timestamp
		}
		rb.MaxTimestamp = max(rb.MaxTimestamp, r.timestamp)
		kr := kmsg.Record{
			OffsetDelta: int32(i), TimestampDelta64: r.timestamp - rb.FirstTimestamp,
			Key: []byte(r.key), Value: []byte(r.value),
		}
		body := kr.AppendTo(nil)[1:] // its length is 0 and takes one byte
		rb.Records = append(binary.AppendVarint(rb.Records, int64(len(body))), body...)
	}
	if change != nil {
		change(&rb)
	}
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// produceRequest asks to append one batch to partition 0 of a topic, by name.
func produceRequest(version, acks int16, topic string, records []byte) *kmsg.ProduceRequest {
	req := at(kmsg.NewPtrProduceRequest(), version)
	req.Acks, req.TimeoutMillis = acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produced is the only partition of a reply to produceRequest.
func produced(r *kmsg.ProduceResponse) kmsg.ProduceResponseTopicPartition {
	return r.Topics[0].Partitions[0]
}

// fetchRequest asks for partition 0 of a topic, by name.
func fetchRequest(version int16, topic string, offset int64, wait time.Duration) *kmsg.FetchRequest {
	req := at(kmsg.NewPtrFetchRequest(), version)
	req.MinBytes, req.MaxBytes, req.MaxWaitMillis = 1, 1<<20, int32(wait.Milliseconds())
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func fetched(r *kmsg.FetchResponse) kmsg.FetchResponseTopicPartition {
	return r.Topics[0].Partitions[0]
}

// end is a partition's log end, read behind the door's back.
func (d *door) end(topic string, number int32) int64 {
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	l, err := d.fake.log(queen.PartitionRef{Queue: queen.QueueRef{Name: topic}, Number: number})
	if err != nil {
		d.t.Fatal(err)
	}
	return l.end
}
