package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Pop is the side that takes leased batches over HTTP and acknowledges each. The
// queue is filled first and read over and over, each time by a new group; an
// answer is a pop and its ack.
type Pop struct {
	*Push
	Messages int64 // in the queue before the first round
	Take     int   // messages of one pop at most

	group atomic.Int64 // the one that reads now
}

// Name is how the report calls it.
func (p *Pop) Name() string { return "http pop and ack at " + p.Addr + p.Label }

// Prepare fills the queue.
func (p *Pop) Prepare(ctx context.Context) error {
	if err := p.Push.Prepare(ctx); err != nil {
		return err
	}
	return p.store(ctx, p.Messages)
}

// Round pops and acknowledges until the time is over.
func (p *Pop) Round(ctx context.Context, t Times, m *Meter) error {
	to := m.Begin(time.Now(), t)
	return each(ctx, p.Connections, func(ctx context.Context, i int) error {
		c := popper{side: p}
		for shard, empty := m.Shard(i), 0; ; {
			asked := time.Now()
			if !asked.Before(to) || ctx.Err() != nil {
				return ctx.Err()
			}
			group := p.group.Load()
			n, err := c.take(ctx, groupName(group), nil)
			if err != nil {
				return err
			}
			if n == 0 {
				// This group has it all, or the others hold the rest.
				if empty++; empty > emptyMax {
					return errors.New("pop: group after group finds nothing in a queue that is not empty")
				}
				p.group.CompareAndSwap(group, group+1)
				continue
			}
			empty = 0
			shard.Answered(asked, time.Now(), n, n*p.Payload.Size())
		}
	})
}

// emptyMax is how many groups in a row may have nothing for one client.
const emptyMax = 1000

func groupName(n int64) string { return "g" + strconv.FormatInt(n, 10) }

// popper is one client: its buffers.
type popper struct {
	side   *Pop
	answer bytes.Buffer
	ack    []byte
}

// take pops one batch, hands it to look, and acknowledges it; it answers how
// many messages there were.
func (c *popper) take(ctx context.Context, group string, look func(answer []byte) error) (int, error) {
	p := c.side
	path := "/api/v1/pop/queue/" + p.Queue + "?batch=" + strconv.Itoa(p.Take) + "&consumerGroup=" + group
	status, got, err := p.ask(ctx, http.MethodGet, path, nil, &c.answer)
	if err != nil {
		return 0, fmt.Errorf("pop: %w", err)
	}
	if status == http.StatusNoContent {
		return 0, nil
	}
	if status != http.StatusOK {
		return 0, fmt.Errorf("pop: status %d: %.300s", status, got)
	}
	if look != nil {
		if err := look(got); err != nil {
			return 0, err
		}
	}
	n := c.acknowledge(got, group)
	if n == 0 {
		return 0, fmt.Errorf("pop: an answer without messages: %.300s", got)
	}
	status, got, err = p.ask(ctx, http.MethodPost, "/api/v1/ack/batch", c.ack, &c.answer)
	if err != nil {
		return n, fmt.Errorf("ack: %w", err)
	}
	if done := bytes.Count(got, []byte(`"success":true`)); status != http.StatusOK || done != n {
		return n, fmt.Errorf("ack: status %d, %d of %d acknowledged: %.300s", status, done, n, got)
	}
	return n, nil
}

// acknowledge makes the body that completes every message of a pop's answer. Our
// ids and the broker's need no escapes, and no value of ours has these names in it.
func (c *popper) acknowledge(answer []byte, group string) (n int) {
	b := append(c.ack[:0], `{"consumerGroup":"`...)
	b = append(append(b, group...), `","acknowledgments":[`...)
	lease, _ := textAfter(answer, `"leaseId":"`)
	partition, _ := textAfter(answer, `"partitionId":"`)
	for {
		var id []byte
		if id, answer = textAfter(answer, `"transactionId":"`); answer == nil {
			break
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(append(b, `{"transactionId":"`...), id...)
		b = append(append(b, `","partitionId":"`...), partition...)
		b = append(append(b, `","leaseId":"`...), lease...)
		b = append(b, `","status":"completed"}`...)
	}
	c.ack = append(b, "]}"...)
	return n
}

// textAfter is the text that follows a name up to its quote, and what follows
// that; nil where there is none.
func textAfter(b []byte, name string) (text, rest []byte) {
	i := bytes.Index(b, []byte(name))
	if i < 0 {
		return nil, nil
	}
	b = b[i+len(name):]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil, nil
	}
	return b[:end], b[end:]
}

// Verify pops everything once more, by a group of its own, and checks that each
// message comes once and as it was pushed.
func (p *Pop) Verify(ctx context.Context) (Verified, error) {
	var v Verified
	back := newSeen(p.next)
	c := popper{side: p}
	for {
		n, err := c.take(ctx, "verify", func(answer []byte) error {
			var got struct {
				Messages []struct {
					TransactionID string          `json:"transactionId"`
					Data          json.RawMessage `json:"data"`
				} `json:"messages"`
			}
			if err := json.Unmarshal(answer, &got); err != nil {
				return fmt.Errorf("pop: %w", err)
			}
			for _, m := range got.Messages {
				id, err := p.Payload.Check(m.Data)
				if err == nil && m.TransactionID != string(p.IDs.appendID(nil, id)) {
					err = errForeign
				}
				back.count(&v, id, err)
			}
			return nil
		})
		if err != nil {
			return v, err
		}
		if n == 0 {
			break
		}
	}
	back.finish(&v)
	return v, nil
}
