package bench

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
	"sync/atomic"
	"time"
)

const (
	answerBytesMax  = 64 << 20
	pushTimeout     = 60 * time.Second
	fetchRecordsMax = 4 << 20 // bytes of one fetch when verifying
)

// Push is the side that pushes batches over HTTP, each into one partition, every
// message with an explicit id of its own.
type Push struct {
	Addr        string // host:port of the HTTP door
	Queue       string
	Partitions  int
	Batch       int // messages of one request
	Window      int // seconds of the deduplication window
	Connections int
	Payload     *Payload
	IDs         IDKind
	// Duplicates is how many of a batch's messages repeat an id that was
	// acknowledged before; at most half of Batch. Each must be answered duplicate.
	Duplicates int
	// Fill is how many ids are stored before the first round.
	Fill int64
	// Label says in the report what is particular about this side.
	Label string

	client *http.Client
	made   bool
	next   []uint64
}

// Name is how the report calls it.
func (p *Push) Name() string { return "http push at " + p.Addr + p.Label }

// Clients is one shard per client.
func (p *Push) Clients() int { return p.Connections }

// Prepare makes the queue with its window.
func (p *Push) Prepare(ctx context.Context) error {
	p.client = &http.Client{Timeout: pushTimeout, Transport: &http.Transport{
		MaxIdleConnsPerHost: p.Connections, MaxConnsPerHost: p.Connections,
	}}
	p.next = make([]uint64, p.Connections)
	body, err := json.Marshal(map[string]any{
		"queue": p.Queue, "options": map[string]any{"dedupWindowSeconds": p.Window},
	})
	if err != nil {
		return err
	}
	status, answer, err := p.ask(ctx, http.MethodPost, "/api/v1/configure", body, nil)
	if err != nil {
		return fmt.Errorf("no broker answers: %w; start one with `queen serve`, or name it with --http", err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("configure queue: status %d: %s", status, answer)
	}
	p.made = true
	return p.fill(ctx)
}

// fillBatch is how many ids a request of fill stores.
const fillBatch = 2000

// fill stores Fill ids that no round uses, spread over the partitions.
func (p *Push) fill(ctx context.Context) error {
	var taken atomic.Int64
	value := []byte("null")
	return each(ctx, p.Connections, func(ctx context.Context, i int) error {
		var body []byte
		var answer bytes.Buffer
		for ctx.Err() == nil {
			from := taken.Add(fillBatch) - fillBatch
			if from >= p.Fill {
				return nil
			}
			body = append(body[:0], `{"items":[`...)
			n := min(fillBatch, int(p.Fill-from))
			for k := range n {
				// Of a client that does not exist: no round has these ids.
				body = p.appendItem(body, k, int(from/fillBatch)%p.Partitions, idOf(p.Connections, uint64(from)+uint64(k)), value)
			}
			status, got, err := p.ask(ctx, http.MethodPost, "/api/v1/push", append(body, "]}"...), &answer)
			if err != nil {
				return fmt.Errorf("store ids first: %w", err)
			}
			if queued := bytes.Count(got, []byte(`"status":"queued"`)); status != http.StatusCreated || queued != n {
				return fmt.Errorf("store ids first: status %d, %d of %d queued: %.300s", status, queued, n, got)
			}
		}
		return ctx.Err()
	})
}

// ask makes one request; the answer is read into buf when it fits.
func (p *Push) ask(ctx context.Context, method, path string, body []byte, buf *bytes.Buffer) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.Addr+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if buf == nil {
		buf = new(bytes.Buffer)
	}
	buf.Reset()
	_, err = buf.ReadFrom(io.LimitReader(res.Body, answerBytesMax))
	return res.StatusCode, buf.Bytes(), err
}

// Round pushes until the time is over.
func (p *Push) Round(ctx context.Context, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	return each(ctx, p.Connections, func(ctx context.Context, i int) error {
		c := pusher{side: p, client: i, value: make([]byte, p.Payload.Size())}
		for shard := m.Shard(i); ; {
			asked := time.Now()
			if !asked.Before(to) || ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.push(ctx); err != nil {
				return err
			}
			shard.Answered(asked, time.Now(), p.Batch, p.Batch*len(c.value))
		}
	})
}

// store pushes at least n messages, as rounds do.
func (p *Push) store(ctx context.Context, n int64) error {
	var taken atomic.Int64
	return each(ctx, p.Connections, func(ctx context.Context, i int) error {
		c := pusher{side: p, client: i, value: make([]byte, p.Payload.Size())}
		for taken.Add(int64(p.Batch))-int64(p.Batch) < n && ctx.Err() == nil {
			if err := c.push(ctx); err != nil {
				return fmt.Errorf("fill queue: %w", err)
			}
		}
		return ctx.Err()
	})
}

// pusher is one client: its buffers.
type pusher struct {
	side   *Push
	client int
	body   []byte
	value  []byte
	answer bytes.Buffer
}

// push pushes the client's next batch, and wants every message answered as it must be.
func (c *pusher) push(ctx context.Context) error {
	p := c.side
	var repeated int
	c.body, repeated = p.appendBatch(c.body[:0], c.value, c.client)
	status, got, err := p.ask(ctx, http.MethodPost, "/api/v1/push", c.body, &c.answer)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	queued, dups := bytes.Count(got, []byte(`"status":"queued"`)), bytes.Count(got, []byte(`"status":"duplicate"`))
	if status != http.StatusCreated || queued != p.Batch-repeated || dups != repeated {
		return fmt.Errorf("push: status %d, %d queued and %d duplicates of %d and %d: %.300s",
			status, queued, dups, p.Batch-repeated, repeated, got)
	}
	p.next[c.client] += uint64(p.Batch)
	return nil
}

// appendBatch appends the body of a client's next request, and says how many
// of its ids were acknowledged before.
func (p *Push) appendBatch(b, value []byte, client int) (body []byte, repeated int) {
	batch := int(p.next[client]) / p.Batch
	partition := (batch + client) % p.Partitions
	// An earlier batch of the same client and partition, whose second half was new.
	earlier := 0
	if p.Duplicates > 0 && batch >= p.Partitions {
		earlier = batch - p.Partitions*(1+rand.IntN(batch/p.Partitions))
		repeated = p.Duplicates
	}
	b = append(b, `{"items":[`...)
	for k := range p.Batch {
		id := idOf(client, p.next[client]+uint64(k))
		if k < repeated {
			id = idOf(client, uint64(earlier*p.Batch+p.Duplicates+k))
		}
		p.Payload.Fill(value, id)
		b = p.appendItem(b, k, partition, id, value)
	}
	return append(b, "]}"...), repeated
}

func (p *Push) appendItem(b []byte, k, partition int, id uint64, value []byte) []byte {
	if k > 0 {
		b = append(b, ',')
	}
	b = append(append(b, `{"queue":"`...), p.Queue...)
	b = append(append(b, `","partition":"`...), partitionName(partition)...)
	b = append(b, `","transactionId":"`...)
	b = p.IDs.appendID(b, id)
	b = append(append(b, `","payload":`...), value...)
	return append(b, '}')
}

func partitionName(i int) string { return "p" + strconv.Itoa(i) }

// Verify fetches every partition from its start.
func (p *Push) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	back := newSeen(p.next)
	for i := range p.Partitions {
		for offset := int64(0); ; {
			got, err := p.fetch(ctx, partitionName(i), offset)
			if err != nil {
				return v, err
			}
			if len(got) == 0 {
				break
			}
			for _, r := range got {
				id, err := p.Payload.Check(r.Payload)
				back.count(&v, id, err)
			}
			offset = got[len(got)-1].Offset + 1
		}
	}
	back.finish(&v)
	return v, nil
}

type fetchedRecord struct {
	Offset  int64           `json:"offset"`
	Payload json.RawMessage `json:"payload"`
}

func (p *Push) fetch(ctx context.Context, partition string, offset int64) ([]fetchedRecord, error) {
	entry := map[string]any{"queue": p.Queue, "partition": partition, "offset": offset, "maxBytes": fetchRecordsMax}
	body, err := json.Marshal(map[string]any{"entries": []any{entry}})
	if err != nil {
		return nil, err
	}
	status, answer, err := p.ask(ctx, http.MethodPost, "/api/v1/fetch", body, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	var got struct {
		Entries []struct {
			Records []fetchedRecord `json:"records"`
			Error   *string         `json:"error"`
		} `json:"entries"`
	}
	if status == http.StatusOK {
		err = json.Unmarshal(answer, &got)
	}
	if err != nil || status != http.StatusOK || len(got.Entries) != 1 {
		return nil, fmt.Errorf("fetch: status %d: %.300s: %w", status, answer, errors.Join(err, errors.New("unexpected answer")))
	}
	if e := got.Entries[0].Error; e != nil {
		if *e == "UNKNOWN_TOPIC_OR_PARTITION" {
			return nil, nil // nothing was ever pushed there
		}
		return nil, fmt.Errorf("fetch: %s", *e)
	}
	return got.Entries[0].Records, nil
}

// Close deletes the queue.
func (p *Push) Close(ctx context.Context) error {
	if !p.made {
		return nil
	}
	p.made = false
	defer p.client.CloseIdleConnections()
	status, answer, err := p.ask(ctx, http.MethodDelete, "/api/v1/resources/queues/"+p.Queue, nil, nil)
	if err != nil {
		return fmt.Errorf("delete queue %s: %w", p.Queue, err)
	}
	if status >= http.StatusMultipleChoices && status != http.StatusNotFound {
		return fmt.Errorf("delete queue %s: status %d: %.300s", p.Queue, status, answer)
	}
	return nil
}
