package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
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
	// Queues are deduplicated queues, one partition each, written over HTTP.
	Queues []string
	// Topic has Partitions partitions and is written by idempotent Kafka producers.
	Topic      string
	Partitions int32
	// Pushers and Producers are how many clients of each door write at once.
	Pushers, Producers int
	// Pause is what a client waits between two steps, on average.
	Pause time.Duration
	Seed  uint64
}

// Run has the clients write until writing ends and settle until ctx ends. It
// returns when all are done. The error is about clients that could not work at all.
func (w Workload) Run(ctx, writing context.Context, h *History) error {
	var wg sync.WaitGroup
	errs := make(chan error, w.Pushers+w.Producers)
	for i := range w.Pushers {
		p := &pusher{w: w, h: h, name: fmt.Sprintf("h%d", i), rand: rand.New(rand.NewPCG(w.Seed, uint64(i)))}
		wg.Go(func() { errs <- p.run(ctx, writing) })
	}
	for i := range w.Producers {
		p := &producer{w: w, h: h, name: fmt.Sprintf("k%d", i), rand: rand.New(rand.NewPCG(w.Seed, uint64(1000+i)))}
		wg.Go(func() { errs <- p.run(ctx, writing) })
	}
	// Watchers and readers have nothing to settle.
	for i, addr := range w.Cluster.Kafka {
		wg.Go(func() { w.watchEnds(writing, h, fmt.Sprintf("e%d", i), addr) })
	}
	for i := range 2 {
		wg.Go(func() { w.tail(writing, h, fmt.Sprintf("r%d", i)) })
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
// each message is known to be stored. Some it repeats afterwards for no reason,
// as retrying clients do.
type pusher struct {
	w    Workload
	h    *History
	name string
	rand *rand.Rand
	next int
	old  []message // stored before, to be repeated
}

type message struct{ queue, id string }

func (p *pusher) run(ctx, writing context.Context) error {
	for wait(writing, p.rand, p.w.Pause) {
		var batch []message
		for range 1 + p.rand.IntN(5) {
			queue := p.w.Queues[p.rand.IntN(len(p.w.Queues))]
			batch = append(batch, message{queue, fmt.Sprintf("%s/%d", p.name, p.next)})
			p.next++
		}
		if len(p.old) > 0 && p.rand.IntN(3) == 0 {
			batch = append(batch, p.old[p.rand.IntN(len(p.old))])
		}
		if err := p.settle(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// settle repeats a batch until all of it has definite answers or ctx ends.
func (p *pusher) settle(ctx context.Context, batch []message) error {
	for try := 0; len(batch) > 0; try++ {
		if try > 0 && !wait(ctx, p.rand, 50*time.Millisecond) {
			return fmt.Errorf("pusher %s: %d messages have no definite answer", p.name, len(batch))
		}
		addr := p.w.Cluster.HTTP[p.rand.IntN(len(p.w.Cluster.HTTP))]
		start := p.h.Now()
		answers, err := pushBatch(ctx, addr, batch)
		end := p.h.Now()
		var left []message
		for i, m := range batch {
			w := Write{Client: p.name, Partition: m.queue, ID: m.id, Seq: -1, Start: start, End: end, Outcome: Unknown}
			if err != nil {
				w.Detail = err.Error()
			} else {
				w.Outcome, w.Offset, w.Detail = answers[i].outcome(), answers[i].Offset, answers[i].Error
			}
			p.h.Write(w)
			switch w.Outcome {
			case Stored, Duplicate:
				p.old = append(p.old, m)
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
	Status string `json:"status"`
	Offset int64  `json:"offset"`
	Error  string `json:"error"`
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
const pushTimeout = 10 * time.Second

func pushBatch(ctx context.Context, addr string, batch []message) ([]answer, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	items := make([]map[string]string, len(batch))
	for i, m := range batch {
		items[i] = map[string]string{"queue": m.queue, "payload": m.id, "transactionId": m.id}
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

// producer is franz-go as it comes: idempotent, with batches in flight, patient.
type producer struct {
	w    Workload
	h    *History
	name string
	rand *rand.Rand
}

func (p *producer) run(ctx, writing context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.w.Cluster.Kafka...), kgo.DefaultProduceTopic(p.w.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(4<<10),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(2*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		return fmt.Errorf("producer %s: %w", p.name, err)
	}
	defer cl.Close()
	for seq := int64(0); wait(writing, p.rand, p.w.Pause); {
		for range 1 + p.rand.IntN(10) {
			partition := p.rand.Int32N(p.w.Partitions)
			id := fmt.Sprintf("%s/%d", p.name, seq)
			w := Write{Client: p.name, Partition: fmt.Sprintf("%s/%d", p.w.Topic, partition), ID: id, Seq: seq, Start: p.h.Now()}
			seq++
			cl.Produce(ctx, &kgo.Record{Partition: partition, Value: []byte(id)}, func(r *kgo.Record, err error) {
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
func (w Workload) watchEnds(ctx context.Context, h *History, name, addr string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(100*time.Millisecond))
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
				h.End(End{Client: name, Partition: w.partition(o.Topic, o.Partition), Start: start, End: end, Offset: o.Offset})
			}
		})
	}
}

// partition names a log: a queue has one, the topic several.
func (w Workload) partition(topic string, p int32) string {
	if topic == w.Topic {
		return fmt.Sprintf("%s/%d", topic, p)
	}
	return topic
}

// tail reads everything from the start as it comes.
func (w Workload) tail(ctx context.Context, h *History, name string) {
	cl, err := kgo.NewClient(w.reader()...)
	if err != nil {
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			h.Read(name, w.partition(r.Topic, r.Partition), entry(r))
		})
	}
}

func (w Workload) reader() []kgo.Opt {
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
	if seq, err := strconv.ParseInt(n, 10, 64); err == nil && strings.HasPrefix(client, "k") {
		e.Seq = seq
	}
	return e
}

// ReadLogs reads everything from the start to the present ends.
func (w Workload) ReadLogs(ctx context.Context) (map[string][]Entry, error) {
	cl, err := kgo.NewClient(w.reader()...)
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
			p := w.partition(r.Topic, r.Partition)
			logs[p] = append(logs[p], entry(r))
			left--
		})
	}
	return logs, nil
}
