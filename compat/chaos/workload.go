package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Cluster is where clients find the brokers of a run. Addresses stay the same
// across restarts.
type Cluster struct {
	Kafka []string // host:port of each broker's Kafka door
	HTTP  []string // and of its HTTP door, in the same order
}

// Workload is what clients do in a run. They write until Writing ends, then
// finish what they have begun while Settling lasts: every message ends with a
// definite answer or is given up as unknown.
type Workload struct {
	Cluster Cluster
	// Queues are deduplicated queues, written over HTTP.
	Queues []string
	// Topic is written by idempotent Kafka producers.
	Topic string
	// Partitions is how many each queue and the topic have, named by their numbers.
	Partitions int32
	// Pushers, Racers and Producers are how many clients of each kind write at once.
	Pushers, Racers, Producers int
	// Pause is what a client waits between two steps, on average.
	Pause time.Duration
	Seed  uint64

	known known
}

// Run has the clients write until writing ends and settle until ctx ends. It
// returns when all are done. The error is about clients that could not work at all.
func (w *Workload) Run(ctx, writing context.Context, h *History) error {
	var wg sync.WaitGroup
	errs := make(chan error, w.Pushers+w.Racers+w.Producers)
	for i := range w.Pushers {
		p := w.pusher(h, fmt.Sprintf("h%d", i), uint64(i))
		wg.Go(func() { errs <- p.run(ctx, writing) })
	}
	for i := range w.Racers {
		p := w.pusher(h, fmt.Sprintf("x%d", i), uint64(1000+i))
		wg.Go(func() { errs <- p.race(ctx, writing) })
	}
	for i := range w.Producers {
		p := &producer{w: w, h: h, name: fmt.Sprintf("k%d", i), rand: rand.New(rand.NewPCG(w.Seed, uint64(2000+i)))}
		wg.Go(func() { errs <- p.run(ctx, writing) })
	}
	// Watchers and readers have nothing to settle.
	for i, addr := range w.Cluster.Kafka {
		wg.Go(func() { w.watchEnds(writing, h, fmt.Sprintf("e%d", i), addr) })
		wg.Go(func() { w.tail(writing, h, fmt.Sprintf("r%d", i), addr) })
	}
	wg.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

// wait pauses about d; false means that ctx has ended.
func wait(ctx context.Context, r *rand.Rand, d time.Duration) bool {
	t := time.NewTimer(d/2 + time.Duration(r.Int64N(int64(d)+1)))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pusher pushes batches over HTTP and repeats them, at whichever broker, until
// each message is known to be stored.
type pusher struct {
	w    *Workload
	h    *History
	name string
	rand *rand.Rand
	next int
}

func (w *Workload) pusher(h *History, name string, stream uint64) *pusher {
	return &pusher{w: w, h: h, name: name, rand: rand.New(rand.NewPCG(w.Seed, stream))}
}

// item is one message to push.
type item struct {
	queue     string
	partition int32
	id        string
}

func (i item) log() string { return fmt.Sprintf("%s/%d", i.queue, i.partition) }

// known are messages that some client knows to be stored, a random sample.
type known struct {
	mu    sync.Mutex
	items []item
}

// knownMax bounds the sample.
const knownMax = 4096

func (k *known) add(i item, r *rand.Rand) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.items) < knownMax {
		k.items = append(k.items, i)
		return
	}
	k.items[r.IntN(knownMax)] = i
}

func (k *known) any(r *rand.Rand) (item, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.items) == 0 {
		return item{}, false
	}
	return k.items[r.IntN(len(k.items))], true
}

// fresh is a message of an id that was never used, of any partition.
func (p *pusher) fresh() item {
	p.next++
	return item{
		p.w.Queues[p.rand.IntN(len(p.w.Queues))], p.rand.Int32N(p.w.Partitions), fmt.Sprintf("%s/%d", p.name, p.next),
	}
}

// run pushes bundles over any partitions. Some messages come twice in one
// request; some that any client has pushed before it repeats for no reason, as
// retrying clients do.
func (p *pusher) run(ctx, writing context.Context) error {
	for wait(writing, p.rand, p.w.Pause) {
		var batch []item
		for range 1 + p.rand.IntN(5) {
			batch = append(batch, p.fresh())
		}
		if p.rand.IntN(4) == 0 {
			batch = append(batch, batch[p.rand.IntN(len(batch))])
		}
		if old, ok := p.w.known.any(p.rand); ok && p.rand.IntN(3) == 0 {
			batch = append(batch, old)
		}
		p.rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		if err := p.settle(ctx, "", batch); err != nil {
			return err
		}
	}
	return nil
}

// race has several clients push the same messages at once, each in an order of
// its own and to a broker of its own, two of them to the same one: that one may
// store both requests in one flush. An id is pushed to several partitions, where
// it is as many messages.
func (p *pusher) race(ctx, writing context.Context) error {
	for wait(writing, p.rand, 3*p.w.Pause) {
		var batch []item
		for range 1 + p.rand.IntN(3) {
			i := p.fresh()
			for range 1 + p.rand.IntN(3) {
				batch = append(batch, i)
				i.partition = (i.partition + 1) % p.w.Partitions
			}
		}
		runners := append(p.w.Cluster.HTTP[:len(p.w.Cluster.HTTP):len(p.w.Cluster.HTTP)], p.w.Cluster.HTTP[p.rand.IntN(len(p.w.Cluster.HTTP))])
		errs := make(chan error, len(runners))
		for i, addr := range runners {
			r := p.w.pusher(p.h, fmt.Sprintf("%s.%d", p.name, i), p.rand.Uint64())
			mine := append(batch[:0:0], batch...)
			r.rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			go func() { errs <- r.settle(ctx, addr, mine) }()
		}
		var all error
		for range runners {
			all = errors.Join(all, <-errs)
		}
		if all != nil {
			return all
		}
	}
	return nil
}

// settle repeats a batch until all of it has definite answers or ctx ends, at the
// first address, if there is one, and then at any.
func (p *pusher) settle(ctx context.Context, first string, batch []item) error {
	for try := 0; len(batch) > 0; try++ {
		if try > 0 && !wait(ctx, p.rand, 100*time.Millisecond) {
			return fmt.Errorf("pusher %s: %d messages have no definite answer", p.name, len(batch))
		}
		addr := first
		if try > 0 || first == "" {
			addr = p.w.Cluster.HTTP[p.rand.IntN(len(p.w.Cluster.HTTP))]
		}
		start := p.h.Now()
		answers, err := pushBatch(ctx, addr, batch)
		end := p.h.Now()
		var left []item
		for i, m := range batch {
			w := Write{Client: p.name, Partition: m.log(), ID: m.id, Seq: -1, Start: start, End: end, Outcome: Unknown}
			if err != nil {
				w.Detail = err.Error()
			} else {
				a := answers[i]
				w.Outcome, w.Offset, w.Message, w.Detail = a.outcome(), a.Offset, a.Message, a.Error
			}
			p.h.Write(w)
			switch w.Outcome {
			case Stored, Duplicate:
				p.w.known.add(m, p.rand)
			default:
				left = append(left, m)
			}
		}
		batch = left
	}
	return nil
}

// answer is the outcome of one pushed message as the HTTP door tells it.
type answer struct {
	Status  string `json:"status"`
	Offset  int64  `json:"offset"`
	Message string `json:"message_id"`
	Error   string `json:"error"`
}

func (a answer) outcome() Outcome {
	switch a.Status {
	case "queued":
		return Stored
	case "duplicate":
		return Duplicate
	default:
		return Unknown // an error may or may not have stored it
	}
}

// pushTimeout is how long a pusher waits for an answer.
const pushTimeout = 5 * time.Second

func pushBatch(ctx context.Context, addr string, batch []item) ([]answer, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	items := make([]map[string]string, len(batch))
	for i, m := range batch {
		items[i] = map[string]string{
			"queue": m.queue, "partition": strconv.Itoa(int(m.partition)), "payload": m.id, "transactionId": m.id,
		}
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/push", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusCreated {
		return nil, fmt.Errorf("answered %d: %s", resp.StatusCode, text)
	}
	var answers []answer
	if err := json.Unmarshal(text, &answers); err != nil {
		return nil, err
	}
	if len(answers) != len(batch) {
		return nil, fmt.Errorf("%d answers to %d messages", len(answers), len(batch))
	}
	return answers, nil
}

// producer is franz-go as it comes: idempotent, with five batches in flight, patient.
type producer struct {
	w    *Workload
	h    *History
	name string
	rand *rand.Rand
}

func (p *producer) run(ctx, writing context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.w.Cluster.Kafka...), kgo.DefaultProduceTopic(p.w.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(1<<10),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(2*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		return fmt.Errorf("producer %s: %w", p.name, err)
	}
	defer cl.Close()
	for seq := int64(0); wait(writing, p.rand, p.w.Pause); {
		for range 1 + p.rand.IntN(10) {
			to := p.rand.Int32N(p.w.Partitions)
			id := fmt.Sprintf("%s/%d", p.name, seq)
			w := Write{Client: p.name, Partition: partition(p.w.Topic, to), ID: id, Seq: seq, Start: p.h.Now()}
			seq++
			cl.Produce(ctx, &kgo.Record{Partition: to, Value: []byte(id)}, func(r *kgo.Record, err error) {
				w.End, w.Outcome, w.Offset = p.h.Now(), Stored, r.Offset
				if err != nil {
					w.Outcome, w.Detail = Unknown, err.Error()
				}
				p.h.Write(w)
			})
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("producer %s: records have no answer: %w", p.name, err)
	}
	return nil
}

// watchEnds asks one broker over and over where the logs end.
func (w *Workload) watchEnds(ctx context.Context, h *History, name, addr string) {
	cl, err := kgo.NewClient(append(onlyAt(addr), kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		return
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics := append([]string{w.Topic}, w.Queues...)
	r := rand.New(rand.NewPCG(w.Seed, uint64(len(name))))
	for wait(ctx, r, 100*time.Millisecond) {
		start := h.Now()
		ends, err := adm.ListEndOffsets(ctx, topics...)
		end := h.Now()
		if err != nil {
			continue // a broker that is down says nothing
		}
		ends.Each(func(o kadm.ListedOffset) {
			if o.Err == nil {
				h.End(End{Client: name, Partition: partition(o.Topic, o.Partition), Start: start, End: end, Offset: o.Offset})
			}
		})
	}
}

// partition names a log.
func partition(topic string, p int32) string { return fmt.Sprintf("%s/%d", topic, p) }

// onlyAt makes a client talk to one broker, whoever it is told leads a partition:
// any broker serves any. From ApiVersions 5 on a client says whom it means to talk
// to, and is sent away; so it goes with the versions before.
func onlyAt(addr string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(addr), kgo.MaxVersions(kversion.V4_0_0()),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, addr)
		}),
	}
}

// tail reads everything from the start as it comes, at one broker.
func (w *Workload) tail(ctx context.Context, h *History, name, addr string) {
	cl, err := kgo.NewClient(append(w.reader(), onlyAt(addr)...)...)
	if err != nil {
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachPartition(func(f kgo.FetchTopicPartition) {
			p := partition(f.Topic, f.Partition)
			if f.Err == nil {
				// When the broker looked is not known: this end binds later looks, not itself.
				h.End(End{Client: name, Partition: p, End: h.Now(), Offset: f.HighWatermark})
			}
			f.EachRecord(func(r *kgo.Record) { h.Read(name, p, entry(r)) })
		})
	}
}

func (w *Workload) reader() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(w.Cluster.Kafka...), kgo.ConsumeTopics(append([]string{w.Topic}, w.Queues...)...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(2 * time.Second), kgo.FetchMaxWait(500 * time.Millisecond),
	}
}

// entry understands a stored message: a producer's value is its id, a pusher's
// the id as JSON.
func entry(r *kgo.Record) Entry {
	e := Entry{Offset: r.Offset, ID: strings.Trim(string(r.Value), `"`), Seq: -1}
	client, n, _ := strings.Cut(e.ID, "/")
	e.Client = client
	if seq, err := strconv.ParseInt(n, 10, 64); err == nil && strings.HasPrefix(client, "k") { // a producer's
		e.Seq = seq
	}
	return e
}

// ReadLogs reads everything from the start to the present ends, at one broker.
func (w *Workload) ReadLogs(ctx context.Context, addr string) (map[string][]Entry, error) {
	cl, err := kgo.NewClient(append(w.reader(), onlyAt(addr)...)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, append([]string{w.Topic}, w.Queues...)...)
	if err != nil {
		return nil, fmt.Errorf("read the logs: %w", err)
	}
	if err := ends.Error(); err != nil {
		return nil, fmt.Errorf("read the logs: %w", err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	logs := make(map[string][]Entry)
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return logs, fmt.Errorf("read the logs: %d messages below the ends do not come: %w", left, context.Cause(ctx))
		}
		fs.EachRecord(func(r *kgo.Record) {
			p := partition(r.Topic, r.Partition)
			logs[p] = append(logs[p], entry(r))
			left--
		})
	}
	return logs, nil
}
