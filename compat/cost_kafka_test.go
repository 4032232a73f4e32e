package compat

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions spoken: the last ones with names and the session of a fetch.
const (
	costProduce = 9
	costFetch   = 12
)

// topicWidth is how many partitions a topic has at most.
const topicWidth = 10_000

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
