package kafkawire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// L01: bytes that are not Kafka's close the connection at once, before anything
// of their alleged size is allocated, and say so in the log.
func TestNonKafkaBytesCloseAtOnce(t *testing.T) {
	t.Parallel()
	f := func(name, sent, why string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			c := d.dial()
			go func() { _, _ = c.conn.Write([]byte(sent)) }()
			c.closed()
			if log := d.wholeLog(); !strings.Contains(log, why) {
				t.Errorf("the log does not say %q: %s", why, log)
			}
		})
	}
	f("http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP request")
	f("http post", "POST /x HTTP/1.1\r\n\r\n", "HTTP request")
	f("tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS handshake")
	f("minus one", "\xff\xff\xff\xff", "too small")
	f("zero", "\x00\x00\x00\x00", "too small")
	f("too small", "\x00\x00\x00\x09", "too small")
	f("2 GiB", "\x7f\xff\xff\xff", "above the limit")
	f("100 MiB and one", "\x06\x40\x00\x01", "above the limit")
	// Key 3 in a frame that only Produce may have.
	f("100 MiB of Metadata", "\x06\x40\x00\x00\x00\x03\x00\x09\x00\x00\x00\x01", "Metadata frame of 104857600 bytes is above its limit")
	f("client id longer than the frame", "\x00\x00\x00\x0c\x00\x03\x00\x00\x00\x00\x00\x01\x7f\xffab", "client id")
	f("undecodable", "\x00\x00\x00\x0e\x00\x03\x00\x00\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff", "cannot be decoded")
}

func TestShortConnectionsAreQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		for _, sent := range []string{"", "\x00\x00\x00"} { // a load balancer's probe
			c := d.dial()
			if _, err := io.WriteString(c.conn, sent); err != nil {
				t.Fatal(err)
			}
			_ = c.conn.Close()
		}
		synctest.Wait()
		if log := d.logs.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=INFO") || strings.Count(log, "closed by the client") != 2 {
			t.Errorf("two probes wrote: %s", log)
		}
	})
}

func TestHostileBytesCannotFloodTheLog(t *testing.T) {
	t.Parallel()
	d := open(t)
	for range 100 {
		c := d.dial()
		go func() { _, _ = c.conn.Write([]byte("\xff\xff\xff\xff")) }()
		c.closed()
	}
	if n := strings.Count(d.wholeLog(), "level=WARN"); n != 10 {
		t.Errorf("100 bad connections wrote %d warnings, want 10", n)
	}
}

// A declared size costs nothing until its bytes come. It runs alone, since it
// reads what the whole process allocates.
func TestDeclaredSizeIsNotAllocated(t *testing.T) {
	for _, sent := range []int{10, frameStep + 10} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readBody(bytes.NewReader(make([]byte, sent)), 100<<20, func(int) error { return nil })
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Error("a frame cut short was read")
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 3*largePiece {
			t.Errorf("%d bytes of a 100 MiB frame allocated %d bytes", sent, n)
		}
	}
}

func TestProduceOfTooManyPartitionsCloses(t *testing.T) {
	t.Parallel()
	d := open(t, func(c *Config) { c.ElementsMax = 1 })
	d.fake.topic("t", 1)
	c := d.dial()
	c.send(produceRequest(9, -1, "t", batch(nil, record{value: "x"}))) // a topic and a partition
	c.closed()
	if log := d.wholeLog(); !strings.Contains(log, "more than 1 partitions") {
		t.Errorf("the log does not say why: %s", log)
	}
}

func TestLargeFrameIsReadWhole(t *testing.T) {
	t.Parallel()
	for _, size := range []int{frameStep + 1, 5*largePiece + 3, pooledFrameBytesMax, pooledFrameBytesMax + 3} {
		sent := make([]byte, size)
		for i := range sent {
			sent[i] = byte(i * 7)
		}
		var steps []int
		got, err := readBody(bytes.NewReader(sent), len(sent), func(n int) error {
			steps = append(steps, n)
			return nil
		})
		if len(steps) != 2 || steps[0] != frameStep || steps[1] != len(sent)-frameStep {
			t.Errorf("steps of %v", steps)
		}
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("read %d bytes of %d, %v", len(got), len(sent), err)
		}
	}
}

// F38: a request cut at any byte, pipelined or repeated, never stops the others.
func TestTruncatedRequestsDoNoHarm(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.fake.topic("t", 1)
	whole := kmsg.NewRequestFormatter(kmsg.FormatterClientID("x")).AppendRequest(nil, produceRequest(9, -1, "t", batch(nil, record{value: "x"})), 5)
	for n := range len(whole) - 4 {
		c := d.dial()
		cut := bytes.Clone(whole[:4+n])
		binary.BigEndian.PutUint32(cut, uint32(n)) // well framed, but cut short inside
		go func() { _, _ = c.conn.Write(cut) }()
		c.closed()
	}
	if n := d.end("t", 0); n != 0 {
		t.Errorf("%d records were stored", n)
	}
}

func TestProduceCountsAreCheckedBeforeTheyAreBelieved(t *testing.T) {
	t.Parallel()
	for version := int16(3); version <= 13; version++ {
		req := produceRequest(version, -1, "t", bytes.Repeat([]byte{1}, 300))
		id := "txn"
		req.TransactionID = &id
		body := req.AppendTo(nil)
		if err := walkProduce(body, version, &Config{ElementsMax: 2}); err != nil {
			t.Errorf("v%d: %v", version, err)
		}
		if err := walkProduce(body, version, &Config{ElementsMax: 1}); err == nil {
			t.Errorf("v%d: a topic and a partition pass a limit of 1", version)
		}
		for n := range body {
			if err := walkProduce(body[:n], version, &Config{ElementsMax: 2}); err == nil {
				t.Errorf("v%d: cut to %d of %d bytes it passes", version, n, len(body))
			}
		}
	}
}

func TestFetchCountsAreCheckedBeforeTheyAreBelieved(t *testing.T) {
	t.Parallel()
	for version := int16(4); version <= 18; version++ {
		req := at(kmsg.NewPtrFetchRequest(), version)
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "t"
		topic.Partitions = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition(), kmsg.NewFetchRequestTopicPartition()}
		req.Topics = []kmsg.FetchRequestTopic{topic, topic}
		elements := 6
		if version >= 7 {
			gone := kmsg.NewFetchRequestForgottenTopic()
			gone.Topic, gone.Partitions = "gone", []int32{7, 8, 9}
			req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{gone}
			elements += 4
		}
		req.Rack = "rack"
		if version >= 15 {
			req.ReplicaState.ID = 3 // a tag
		}
		body := req.AppendTo(nil)
		f := func(body []byte, most int, pass bool) {
			t.Helper()
			if err := walkFetch(body, version, &Config{FetchPartitionsMax: most}); (err == nil) != pass {
				t.Errorf("v%d: %d of %d bytes, at most %d topics and partitions: %v", version, len(body), len(req.AppendTo(nil)), most, err)
			}
		}
		f(body, elements, true)
		f(body, elements-1, false)
		for n := range body {
			f(body[:n], elements, false)
		}
		f(append(body[:len(body):len(body)], 0), elements, true) // kmsg leaves the rest alone too
	}
}

// One consumer may have very many partitions, and those that are too many are
// refused with a word on what to do.
func TestOneConsumerFetchesAHundredThousandPartitions(t *testing.T) {
	t.Parallel()
	const topics, each = 10, 10_000
	d := open(t)
	req := at(kmsg.NewPtrFetchRequest(), 12)
	for i := range topics {
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = fmt.Sprint("t", i)
		d.fake.topic(topic.Topic, each)
		for n := range int32(each) {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch = n, -1
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	c := d.dial()
	got := 0
	for _, rt := range ask[*kmsg.FetchResponse](c, req).Topics {
		for _, p := range rt.Partitions {
			if p.ErrorCode == codeNone && p.HighWatermark == 0 {
				got++
			}
		}
	}
	if got != topics*each {
		t.Errorf("%d partitions are answered, want %d", got, topics*each)
	}
	d = open(t, func(c *Config) { c.FetchPartitionsMax = topics * each }) // and the topics
	c = d.dial()
	c.send(req)
	c.closed()
	if log := d.wholeLog(); !strings.Contains(log, "Fetch names more than 100000 topics and partitions; more consumers must share them") {
		t.Errorf("the log does not say why: %s", log)
	}
}

func TestPipelinedRequestsAreAllAnswered(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.dial()
	const n = 1000
	req := at(kmsg.NewPtrApiVersionsRequest(), 0)
	go func() {
		var b []byte
		for i := range n {
			b = append(b, c.fmt.AppendRequest(nil, req, int32(i))...)
		}
		_, _ = c.conn.Write(b)
	}()
	for i := range n {
		c.receive(req, int32(i))
	}
}
