package compat

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// logPartitions is how many partitions the log that grows has.
const logPartitions = 12

// costOfTheLog: what is stored and not asked for costs nothing, neither
// those who write and read nor in the background.
func (s *site) costOfTheLog(size costSizes) {
	s.makeTopics(logPartitions)
	on(s.t, s.p, func(ctx context.Context, k *T) {
		name, retention := logTopic, "-1"
		if _, err := k.adm().CreateTopic(ctx, logPartitions, 1, map[string]*string{"retention.ms": &retention}, name); err != nil {
			k.Fatalf("create %s: %v", name, err)
		}
	})
	to := func(r *rand.Rand, _ int) int { return r.IntN(logPartitions) }
	var filled atomic.Int64
	for _, mb := range size.logMB {
		step := strconv.Itoa(mb) + " MB"
		was := filled.Load()
		c := s.load(size.clients, 0, 0, s.fills(&filled, int64(mb)<<20))
		s.note(step, "filled with records of 1 KB", c, fmt.Sprintf("%.0f MB/s, %.2f ms of broker and %.2f ms of database per MB", float64(filled.Load()-was)/(1<<20)/c.took.Seconds(),
			perMB(c.broker, filled.Load()-was), perMB(c.db, filled.Load()-was)))
		s.flat(step, "produce, 100 to a partition", s.load(size.clients, size.span, 0, s.produces(logPartitions, 100, 1)), "")
		s.flat(step, "push, 100 to 12 partitions", s.load(size.clients, size.span, 0, s.pushes("cost-log-native", 100, to)(costHTTP)), "")
		for _, from := range []string{"the start", "the end"} {
			var bytes atomic.Int64
			c := s.load(4, size.span, 0, s.fetches(from == "the end", &bytes))
			s.flat(step, "fetch from "+from, c, fmt.Sprintf("%.0f MB/s, %.2f ms of broker and %.2f ms of database per MB", float64(bytes.Load())/(1<<20)/c.took.Seconds(),
				perMB(c.broker, bytes.Load()), perMB(c.db, bytes.Load())))
		}
		var empty atomic.Int64
		s.flat(step, "pop of 100, from the start", s.load(size.clients, size.span, 0, s.pops(logTopic, 100, "g"+step[:len(step)-3], &empty)), fmt.Sprintf("%d empty", empty.Load()))
		s.note(step, "offset of a time", s.load(1, size.span/4, 0, s.offsetsByTime()), "")
		s.rest(step, "idle", size.idle)
		s.restart(step)
	}
	var segments, runs int64
	if err := s.db.QueryRow(s.t.Context(), `SELECT (SELECT count(*) FROM log_segments), (SELECT count(*) FROM log_runs)`).Scan(&segments, &runs); err != nil {
		s.t.Fatal(err)
	}
	s.table.add("at the end", "rows", "", "", "", "", "", "", fmt.Sprintf("%d segments, %d runs", segments, runs))
}

const logTopic = "cost-log"

func perMB(d time.Duration, bytes int64) float64 {
	return float64(d.Microseconds()) / 1000 / (float64(max(1, bytes)) / (1 << 20))
}

// fills produces batches of nearly 1 MB until so many bytes are stored.
func (s *site) fills(filled *atomic.Int64, to int64) func(int) (turn, error) {
	return func(i int) (turn, error) {
		c, err := s.kafkaConn()
		if err != nil {
			return nil, err
		}
		r := rand.New(rand.NewPCG(uint64(i), 3))
		vs := make([]string, 900)
		for i := range vs {
			b := make([]byte, 0, 1024)
			for len(b) < 1024 {
				b = binary.LittleEndian.AppendUint64(b, r.Uint64())
			}
			vs[i] = string(b)
		}
		records := plain(vs)
		return func(ctx context.Context, r *rand.Rand) (n int, err error) {
			for filled.Load() < to && err == nil {
				req := kmsg.NewPtrProduceRequest()
				req.Acks, req.TimeoutMillis = -1, 30_000
				rt := kmsg.NewProduceRequestTopic()
				rt.Topic = logTopic
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = int32(r.IntN(logPartitions)), records
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
				var resp kmsg.Response
				if resp, err = c.ask(ctx, req, costProduce); err != nil {
					return n, err
				}
				if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
					return n, fmt.Errorf("produce: %s", codeName(code))
				}
				filled.Add(int64(len(records)))
				n += len(vs)
			}
			return n, err
		}, nil
	}
}

// fetches reads a partition on from its start, or its last records again and again.
func (s *site) fetches(atEnd bool, bytes *atomic.Int64) func(int) (turn, error) {
	return func(i int) (turn, error) {
		c, err := s.kafkaConn()
		if err != nil {
			return nil, err
		}
		partition, offset := int32(i%logPartitions), int64(0)
		return func(ctx context.Context, _ *rand.Rand) (int, error) {
			req := kmsg.NewPtrFetchRequest()
			req.MaxBytes, req.MinBytes, req.SessionEpoch = 4<<20, 1, -1
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic = logTopic
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 4<<20
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp, err := c.ask(ctx, req, costFetch)
			if err != nil {
				return 0, err
			}
			got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if got.ErrorCode != 0 {
				return 0, fmt.Errorf("fetch at %d: %s", offset, codeName(got.ErrorCode))
			}
			first, next := offset, offset
			for b := got.RecordBatches; len(b) >= batchHeaderSize; {
				next = baseOffset(b) + int64(int32(binary.BigEndian.Uint32(b[23:]))) + 1
				b = b[min(len(b), 12+int(binary.BigEndian.Uint32(b[8:]))):]
			}
			bytes.Add(int64(len(got.RecordBatches)))
			switch {
			case atEnd && next == first:
				offset = max(0, got.HighWatermark-900)
			case atEnd: // the same again
				offset = max(0, got.HighWatermark-900)
			case next >= got.HighWatermark:
				offset = 0
			default:
				offset = next
			}
			return int(next - first), nil
		}, nil
	}
}

// offsetsByTime looks up the first record since a moment of the last minutes.
func (s *site) offsetsByTime() func(int) (turn, error) {
	return func(int) (turn, error) {
		c, err := s.kafkaConn()
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, r *rand.Rand) (int, error) {
			at := time.Now().Add(-time.Duration(r.IntN(300_000)) * time.Millisecond).UnixMilli()
			resp, err := c.ask(ctx, listOffsetsRequest(logTopic, at, int32(r.IntN(logPartitions))), 5)
			if err != nil {
				return 0, err
			}
			if code := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
				return 0, fmt.Errorf("offset of a time: %s", codeName(code))
			}
			return 1, nil
		}, nil
	}
}

// restart ends the broker with its database and starts both again.
func (s *site) restart(step string) {
	s.t.Helper()
	began := time.Now()
	if err := s.p.Stop(2 * time.Minute); err != nil {
		s.t.Fatal(err)
	}
	stopped := time.Since(began)
	s.p = start(s.t, broker.Config{DataDir: s.dir, ReadyTimeout: 2 * time.Minute})
	s.db = database(s.t.Context(), s.t, s.dir)
	began = time.Now()
	status, text, err := s.asks(s.t.Context(), costHTTP, http.MethodPost, "/api/v1/push", []byte(`{"items":[{"queue":"cost-log-native","partition":"0","payload":1}]}`))
	if err != nil || status != http.StatusCreated {
		s.t.Fatalf("the first push: %d %v %s", status, err, text)
	}
	s.table.add(step, "restart", "", "", "", "", "", "", fmt.Sprintf("ended in %s, ready in %s, first push %s", stopped.Round(10*time.Millisecond),
		s.p.ReadyAfter.Round(10*time.Millisecond), time.Since(began).Round(time.Millisecond)))
}
