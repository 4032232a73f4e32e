package compat

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var connCases = []Case{
	{"conn/pipelined-replies-keep-their-order", pipelined},
	{"conn/acks-0-has-no-reply", acksZero},
	{"conn/bytes-one-at-a-time", trickled},
	{"conn/foreign-bytes-close-only-their-connection", foreignBytes},
	{"conn/lying-lengths-close-only-their-connection", lyingLengths},
}

// pipelined: a slow request is not overtaken on its own socket, and holds up
// nobody on another.
func pipelined(_ context.Context, t *T) {
	tp := t.topic(1)
	addr := t.leader(tp.name, 0)
	fetchV, produceV := t.max(kmsg.Fetch, newest), t.max(kmsg.Produce, newest)
	metaV := t.max(kmsg.Metadata, newest)
	w, second := t.dialTo(addr), t.dialTo(addr)

	fetch := fetchRequest(tp, fetchSpec{maxWait: 3 * time.Second, minBytes: 1, maxBytes: 1 << 20}, 0)
	produce := produceRequest(tp, 1, part{0, values("late").encode()})
	// All four in one write, so that they are there before any is answered.
	var all []byte
	var corrs []int32
	reqs := []kmsg.Request{fetch, kmsg.NewPtrMetadataRequest(), kmsg.NewPtrApiVersionsRequest(), produce}
	for i, v := range []int16{fetchV, metaV, 0, produceV} {
		f, corr := w.frame(reqs[i], v)
		all, corrs = append(all, f...), append(corrs, corr)
	}
	start := time.Now()
	w.write(all)

	ask[*kmsg.MetadataResponse](second, kmsg.NewPtrMetadataRequest(), metaV)
	other := time.Since(start)
	f := answer[*kmsg.FetchResponse](w, fetch, corrs[0])
	slow := time.Since(start)
	if other >= slow {
		t.Errorf("the second socket waited %s, as long as the slow request (%s)", other, slow)
	}
	if slow < 2500*time.Millisecond {
		t.Errorf("the fetch of an empty partition returned after %s of 3s", slow)
	}
	if n := len(f.Topics); n == 1 && len(f.Topics[0].Partitions[0].RecordBatches) > 0 {
		t.Errorf("the fetch saw the record of the produce behind it")
	}
	answer[*kmsg.MetadataResponse](w, reqs[1], corrs[1])
	answer[*kmsg.ApiVersionsResponse](w, reqs[2], corrs[2])
	p := answer[*kmsg.ProduceResponse](w, produce, corrs[3])
	t.wantCode("produce", p.Topics[0].Partitions[0].ErrorCode, 0)
	t.Notef("other socket %s, slow one %s", other.Round(time.Millisecond), slow.Round(time.Millisecond))
}

// acksZero: the next reply on the socket belongs to the next request.
func acksZero(_ context.Context, t *T) {
	tp := t.topic(1)
	w := t.dialTo(t.leader(tp.name, 0))
	v := t.max(kmsg.Produce, newest)
	for range 3 {
		w.send(produceRequest(tp, 0, part{0, values("x").encode()}), v)
	}
	ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
	p := w.produce(tp, v, 1, part{0, values("y").encode()})
	t.wantCode("produce behind acks=0", p[0].ErrorCode, 0)
	if p[0].BaseOffset != 3 {
		t.Errorf("offset %d behind three records of acks=0, want 3", p[0].BaseOffset)
	}
}

func trickled(_ context.Context, t *T) {
	w := t.dial()
	req := kmsg.NewPtrMetadataRequest()
	f, corr := w.frame(req, t.max(kmsg.Metadata, newest))
	for _, b := range f {
		w.write([]byte{b})
	}
	answer[*kmsg.MetadataResponse](w, req, corr)
}

// foreignBytes: port scanners, health checks and browsers must be shown out
// while a producer works on undisturbed.
func foreignBytes(ctx context.Context, t *T) {
	tp := t.topic(1)
	producer := t.client(kgo.DefaultProduceTopic(tp.name))
	stop := make(chan struct{})
	var acked int64
	var working sync.WaitGroup
	working.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := producer.ProduceSync(ctx, kgo.StringRecord("steady")).FirstErr(); err != nil {
				t.Errorf("the producer next door: %v", err)
				return
			}
			acked++
		}
	})
	for _, junk := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\xab", 32), // TLS hello
		"\xff\xff\xff\xff", "\x80\x00\x00\x00", "\x00\x00\x00\x00",
		"\x7f\xff\xff\xff", "\x06\x40\x00\x01", // 100 MiB and one byte
	} {
		w := t.dial()
		w.write([]byte(junk))
		if !w.ended(20 * time.Second) {
			t.Errorf("after %q the connection lives on", junk)
		}
	}
	var many sync.WaitGroup
	turns := make(chan struct{}, 100)
	for i := range 500 {
		many.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			conn, err := t.connect(t.brokers...)
			if err != nil {
				t.Errorf("connect: %v", err)
				return
			}
			_, _ = conn.Write([]byte("abc")[:i%4]) // it may be closed on us
			_ = conn.Close()
		})
	}
	many.Wait()
	close(stop)
	working.Wait()
	if got := t.endOffset(tp.name, 0); got != acked || acked == 0 {
		t.Errorf("the producer next door has %d records stored of %d acknowledged", got, acked)
	}
}

// lyingLengths: inside a frame of honest size, counts that claim more than
// follows. A refusal or a closed connection are both fine; a hang or a crash is not.
func lyingLengths(_ context.Context, t *T) {
	v := t.max(kmsg.Metadata, 8) // not flexible: four-byte counts
	bomb := func(key, version int16, body []byte) []byte {
		var b bytes.Buffer
		head := []any{int32(10 + len(body)), key, version, int32(7), int16(-1)}
		for _, x := range head {
			_ = binary.Write(&b, binary.BigEndian, x) // a Buffer never fails
		}
		b.Write(body)
		return b.Bytes()
	}
	many := []byte{0x7f, 0xff, 0xff, 0xff}
	for what, frame := range map[string][]byte{
		"topics of Metadata":       bomb(3, v, append(many, 0)),
		"topics of DeleteTopics":   bomb(20, 1, many),
		"string of Metadata":       bomb(3, v, []byte{0, 0, 0, 1, 0x7f, 0xff, 'x'}),
		"negative string":          bomb(3, v, []byte{0, 0, 0, 1, 0x80, 0x00, 'x'}),
		"protocols of JoinGroup":   bomb(11, 2, append([]byte{0, 1, 'g', 0, 0, 0x27, 0x10, 0, 0, 0x27, 0x10, 0, 0, 0, 1, 'c'}, many...)),
		"topics of Fetch":          bomb(1, 4, append(make([]byte, 17), many...)),
		"client id beyond the end": {0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff},
		"header cut short":         {0, 0, 0, 5, 0, 3, 0, 1, 0},
	} {
		w := t.dial()
		w.write(frame)
		_ = w.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := w.read(); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: neither answered nor closed", what)
		}
	}
	ask[*kmsg.MetadataResponse](t.dial(), kmsg.NewPtrMetadataRequest(), t.max(kmsg.Metadata, newest))
}
