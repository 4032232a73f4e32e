package compat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// What a message costs as something grows: partitions, connections, the log. It
// is told in processor time of the broker and of its database, which a busy
// machine moves less than rates and times. `make scale` runs it at size (SCALE
// names the parts) and prints tables; in every run it is small and asserts nothing
// but that all of it works.

// costSizes are how far things grow, and how long each is measured.
type costSizes struct {
	sized       bool
	partitions  []int
	connections []int
	logMB       []int
	span        time.Duration // of a load
	idle        time.Duration
	clients     int
}

// costSizesOf is what SCALE says of a part, or small; ok is false where others
// are asked for. SCALE names parts, each with the steps to take or all of them:
// "partitions:1,10000 log".
func costSizesOf(t *testing.T, part string) (s costSizes, ok bool) {
	t.Helper()
	asked := os.Getenv("SCALE")
	if asked == "" {
		return costSizes{
			partitions: []int{1, 30}, connections: []int{1, 20}, logMB: []int{4},
			span: 5 * time.Millisecond, idle: 5 * time.Millisecond, clients: 2,
		}, true
	}
	s = costSizes{
		sized: true, partitions: []int{1, 100, 10_000, 100_000}, connections: []int{1, 10, 100, 1000},
		logMB: []int{1 << 10, 5 << 10, 20 << 10}, span: 4 * time.Second, idle: 15 * time.Second, clients: 8,
	}
	for one := range strings.FieldsSeq(asked) {
		name, steps, some := strings.Cut(one, ":")
		if name != part {
			continue
		}
		if some {
			var to []int
			for text := range strings.SplitSeq(steps, ",") {
				n, err := strconv.Atoi(text)
				if err != nil || n < 1 {
					t.Fatalf("SCALE: %q is no step of %s", text, part)
				}
				to = append(to, n)
			}
			s.partitions, s.connections, s.logMB = to, to, to
		}
		return s, true
	}
	return s, false
}

// site is a broker with its database, and what is asked of them.
type site struct {
	t     *testing.T
	p     *broker.Process
	dir   string
	db    *pgx.Conn
	table costTable
	first map[string]float64 // µs per message of a load, where it was first compared; nil: nothing is
}

// TestCost measures what a message costs as partitions, connections and the log grow.
func TestCost(t *testing.T) {
	var p *broker.Process
	var dir string
	for _, part := range []struct {
		name, title string
		run         func(s *site, size costSizes)
	}{
		{"partitions", "Cost as partitions grow", (*site).costOfPartitions},
		{"connections", "Cost as connections grow", (*site).costOfConnections},
		{"log", "Cost as the log grows", (*site).costOfTheLog}, // the last: it starts the broker anew
	} {
		size, asked := costSizesOf(t, part.name)
		if !asked {
			continue
		}
		if p == nil || size.sized { // small, they share a broker
			dir = broker.TempDataDir(t)
			p = start(t, broker.Config{DataDir: dir, Args: strings.Fields(os.Getenv("SCALE_ARGS"))})
		}
		t.Run(part.name, func(t *testing.T) {
			s := &site{t: t, p: p, dir: dir, db: database(t.Context(), t, dir), table: costTable{title: part.title}}
			if size.sized {
				s.table.progress = t.Log // it takes minutes
				s.first = map[string]float64{}
			}
			defer func() { t.Logf("\n%s", s.table.String()) }()
			part.run(s, size)
		})
	}
}

// used is the processor time taken so far.
type used struct {
	broker, database time.Duration
	at               time.Time
}

// usedBy reads /proc. Of the database, processes that have ended count too.
func usedBy(t *testing.T, pid int, dataDir string) used {
	t.Helper()
	pg, err := broker.Postgres(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var inBroker, inDatabase int64
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
		ticks := func(from, to int) (sum int64) {
			for _, f := range fields[from:to] {
				n, _ := strconv.ParseInt(f, 10, 64)
				sum += n
			}
			return sum
		}
		switch parent, _ := strconv.Atoi(fields[1]); {
		case id == pid:
			inBroker += ticks(11, 13) // user and system
		case id == pg.PID:
			inDatabase += ticks(11, 15) // and of children that ended
		case parent == pg.PID:
			inDatabase += ticks(11, 13)
		}
	}
	const tick = time.Second / 100
	return used{time.Duration(inBroker) * tick, time.Duration(inDatabase) * tick, time.Now()}
}

// residentMB is a process's memory in MB, now and at most.
func residentMB(t *testing.T, pid int) (now, peak int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for name, to := range map[string]*int{"VmRSS:": &now, "VmHWM:": &peak} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				kb, err := strconv.Atoi(strings.Fields(rest)[0])
				if err != nil {
					t.Fatal(err)
				}
				*to = kb >> 10
			}
		}
	}
	return now, peak
}

// cost is what a load took.
type cost struct {
	messages   int64
	turns      int // requests
	took       time.Duration
	broker, db time.Duration
	p50, p99   time.Duration
}

func (c cost) rate() float64 { return float64(c.messages) / c.took.Seconds() }

// each is microseconds of processor time per message.
func (c cost) each() float64 {
	return float64((c.broker + c.db).Microseconds()) / float64(max(1, c.messages))
}

// turn makes one request and answers how many messages it was about.
type turn func(ctx context.Context, r *rand.Rand) (messages int, err error)

// load has clients make requests for a time, each as soon as its last was
// answered, or with pace over zero that often a second all together.
func (s *site) load(clients int, span time.Duration, pace float64, client func(i int) (turn, error)) cost {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	turns := make([]turn, clients)
	for i := range turns {
		var err error
		if turns[i], err = client(i); err != nil {
			s.t.Fatal(err)
		}
	}
	var c cost
	var messages atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	before := usedBy(s.t, s.p.PID(), s.dir)
	end := before.at.Add(span)
	for i, next := range turns {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			var mine []time.Duration
			due := before.at
			if pace > 0 {
				due = due.Add(time.Duration(float64(i) / pace * float64(time.Second)))
			}
			for first := true; first || time.Now().Before(end); first = false {
				if pace > 0 {
					pause(ctx, time.Until(due))
				} else {
					due = time.Now()
				}
				n, err := next(ctx, r)
				if err != nil {
					s.t.Errorf("client %d: %v", i, err)
					return
				}
				messages.Add(int64(n))
				mine = append(mine, time.Since(due)) // from when it was due
				if pace > 0 {
					due = due.Add(time.Duration(float64(clients) / pace * float64(time.Second)))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	wg.Wait()
	after := usedBy(s.t, s.p.PID(), s.dir)
	if s.t.Failed() {
		s.t.FailNow()
	}
	slices.Sort(took)
	c.messages, c.turns, c.took = messages.Load(), len(took), after.at.Sub(before.at)
	c.broker, c.db = after.broker-before.broker, after.database-before.database
	c.p50, c.p99 = took[len(took)/2], took[len(took)*99/100]
	return c
}

// pause waits for d or ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// rest measures what is used while nothing is asked, in hundredths of a core.
func (s *site) rest(step, what string, span time.Duration) {
	s.t.Helper()
	before := usedBy(s.t, s.p.PID(), s.dir)
	pause(s.t.Context(), span)
	after := usedBy(s.t, s.p.PID(), s.dir)
	percent := func(d time.Duration) string {
		return fmt.Sprintf("%.1f %%", 100*float64(d)/float64(after.at.Sub(before.at)))
	}
	rss, _ := residentMB(s.t, s.p.PID())
	s.table.add(step, what, "", percent(after.broker-before.broker), percent(after.database-before.database), "", "", strconv.Itoa(rss), "")
}

// note adds a load's line to the table.
func (s *site) note(step, what string, c cost, more string) {
	rss, _ := residentMB(s.t, s.p.PID())
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.1f", float64(d.Microseconds())/float64(max(1, c.messages)))
	}
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
	s.table.add(step, what, fmt.Sprintf("%.0f", c.rate()), per(c.broker), per(c.db), ms(c.p50), ms(c.p99), strconv.Itoa(rss), more)
}

// costGrows is how much more a message may cost at a later step.
const costGrows = 2

// flat is note for a load that must not cost more than it did.
func (s *site) flat(step, what string, c cost, more string) {
	s.t.Helper()
	s.note(step, what, c, more)
	if s.first == nil {
		return
	}
	was, seen := s.first[what]
	if !seen {
		s.first[what] = c.each()
	} else if c.each() > costGrows*was {
		s.t.Errorf("%s: a message of %q takes %.1f µs, at first it was %.1f", step, what, c.each(), was)
	}
}

// costTable is a report in Markdown.
type costTable struct {
	title    string
	rows     [][]string
	progress func(...any) // nil: none is told
}

var costColumns = []string{"step", "load", "msg/s", "broker µs/msg", "database µs/msg", "p50 ms", "p99 ms", "broker RSS MB", ""}

func (c *costTable) add(cells ...string) {
	c.rows = append(c.rows, cells)
	if c.progress != nil {
		c.progress(strings.Join(cells, " | "))
	}
}

// String is the table. Of what is idle the processor columns are hundredths of a core.
func (c *costTable) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| %s |\n|---|---|%s\n", c.title, strings.Join(costColumns, " | "), strings.Repeat("---:|", len(costColumns)-2))
	for _, r := range c.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
	}
	return b.String()
}

// costHTTP keeps a connection for each client.
var costHTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, DisableCompression: true}}

// asks makes one HTTP request on a client's own connections.
func (s *site) asks(ctx context.Context, c *http.Client, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.p.HTTP+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// costIDs makes every id new.
var costIDs atomic.Int64

const costValueBytes = 256

// letters is text that compresses little, to take values from.
var letters = func() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[r.IntN(64)]
	}
	return b
}()

func value(r *rand.Rand) []byte {
	at := r.IntN(len(letters) - costValueBytes)
	return letters[at : at+costValueBytes]
}

// pushes pushes n messages a request, each with an id, to the partitions that to
// names, and wants all of them stored.
func (s *site) pushes(queue string, n int, to func(r *rand.Rand, i int) int) func(*http.Client) func(int) (turn, error) {
	return func(c *http.Client) func(int) (turn, error) {
		return func(int) (turn, error) { return s.pusher(c, queue, n, to), nil }
	}
}

// pusher pushes over the connections of c.
func (s *site) pusher(c *http.Client, queue string, n int, to func(r *rand.Rand, i int) int) turn {
	var body []byte
	return func(ctx context.Context, r *rand.Rand) (int, error) {
		body = append(body[:0], `{"items":[`...)
		for i := range n {
			if i > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"queue":%q,"partition":"%d","transactionId":"%d","payload":{"text":"%s"}}`,
				queue, to(r, i), costIDs.Add(1), value(r))
		}
		body = append(body, `]}`...)
		status, text, err := s.asks(ctx, c, http.MethodPost, "/api/v1/push", body)
		if err != nil {
			return 0, err
		}
		if queued := bytes.Count(text, []byte(`"status":"queued"`)); queued != n {
			return 0, fmt.Errorf("status %d, %d of %d queued: %.300s", status, queued, n, text)
		}
		return n, nil
	}
}

// pops takes up to n messages a request and completes them. An empty answer is no error.
func (s *site) pops(queue string, n int, group string, empty *atomic.Int64) func(int) (turn, error) {
	path := fmt.Sprintf("/api/v1/pop/queue/%s?batch=%d&autoAck=true&consumerGroup=%s", queue, n, group)
	return func(int) (turn, error) {
		return func(ctx context.Context, _ *rand.Rand) (int, error) {
			status, text, err := s.asks(ctx, costHTTP, http.MethodGet, path, nil)
			if err != nil || status != http.StatusOK && status != http.StatusNoContent {
				return 0, fmt.Errorf("status %d (%w): %.300s", status, err, text)
			}
			if status == http.StatusNoContent {
				empty.Add(1)
			}
			return max(0, bytes.Count(text, []byte(`"partitionId"`))-1), nil // once of all
		}, nil
	}
}

// kafkaConn is a bare connection for load: it decodes no more than it must.
type kafkaConn struct {
	conn net.Conn
	r    *bufio.Reader
	form *kmsg.RequestFormatter
	buf  []byte
	corr int32
}

func (s *site) kafkaConn() (*kafkaConn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(s.t.Context(), "tcp", s.p.Kafka)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { conn.Close() })
	return &kafkaConn{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("cost"))}, nil
}

// ask sends a request and reads its answer.
func (c *kafkaConn) ask(ctx context.Context, req kmsg.Request, version int16) (kmsg.Response, error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	c.corr++
	req.SetVersion(version)
	c.buf = c.form.AppendRequest(c.buf[:0], req, c.corr)
	if _, err := c.conn.Write(c.buf); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:4])) - 4
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != c.corr || size < 0 || size > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes answers request %d, not %d", size, got, c.corr)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return nil, err
	}
	return decode(body, req)
}

// The versions spoken: the last ones with names and the session of a fetch.
const (
	costProduce = 9
	costFetch   = 12
)

// topicWidth is how many partitions a topic has at most.
const topicWidth = 10_000

// topicOf is the topic and number of the i-th of so many partitions.
func topicOf(partitions, i int) (string, int32) {
	return fmt.Sprintf("cost-%d-%d", partitions, i/topicWidth), int32(i % topicWidth)
}

// produces sends batches of n records to partitions that follow any one.
func (s *site) produces(partitions, n, batches int) func(int) (turn, error) {
	return s.producesFrom(partitions, n, batches, func(r *rand.Rand) int { return r.IntN(partitions) })
}

// producesFrom sends batches of n records, one to each of the partitions that
// follow the one named.
func (s *site) producesFrom(partitions, n, batches int, from func(r *rand.Rand) int) func(int) (turn, error) {
	return func(int) (turn, error) {
		c, err := s.kafkaConn()
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, r *rand.Rand) (int, error) {
			values := make([]string, n)
			for i := range values {
				values[i] = string(value(r))
			}
			at := from(r)
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = -1, 30_000
			records := plain(values)
			for i := range min(batches, partitions) {
				topic, number := topicOf(partitions, (at+i)%partitions)
				if k := len(req.Topics); k == 0 || req.Topics[k-1].Topic != topic {
					rt := kmsg.NewProduceRequestTopic()
					rt.Topic = topic
					req.Topics = append(req.Topics, rt)
				}
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = number, records
				rt := &req.Topics[len(req.Topics)-1]
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp, err := c.ask(ctx, req, costProduce)
			if err != nil {
				return 0, err
			}
			stored := 0
			for _, rt := range resp.(*kmsg.ProduceResponse).Topics {
				for _, rp := range rt.Partitions {
					if rp.ErrorCode != 0 {
						return 0, fmt.Errorf("produce to %s %d: %s", rt.Topic, rp.Partition, codeName(rp.ErrorCode))
					}
					stored += n
				}
			}
			return stored, nil
		}, nil
	}
}

// plain is a batch of records with these values, of now.
func plain(vs []string) []byte { return values(vs...).at(time.Now().UnixMilli()).encode() }

// makeTopics makes the topics of so many partitions.
func (s *site) makeTopics(partitions int) {
	s.t.Helper()
	r := RunCase(s.t.Context(), Options{Brokers: []string{s.p.Kafka}, Timeout: 10 * time.Minute}, Case{s.t.Name(), func(_ context.Context, k *T) {
		w := k.control()
		for i := 0; i < partitions; i += topicWidth {
			topic, _ := topicOf(partitions, i)
			w.makeTopics(newTopic(topic, int32(min(topicWidth, partitions-i))))
		}
	}})
	if r.Result != Pass {
		s.t.Fatal(r.Detail)
	}
}
