package compat

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/compat/broker"
)

// rss reads what a process holds in memory and what it ever held, in bytes.
func rss(t *testing.T, pid int) (now, peak int64) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb int64
		if _, err := fmt.Sscanf(s.Text(), "VmRSS: %d kB", &kb); err == nil {
			now = kb << 10
		}
		if _, err := fmt.Sscanf(s.Text(), "VmHWM: %d kB", &kb); err == nil {
			peak = kb << 10
		}
	}
	return now, peak
}

// An idle broker is small, and what strangers say to it does not make it large.
func TestMemoryOfAnIdleAndOfAMolestedBroker(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	p := start(t, broker.Config{DataDir: broker.TempDataDir(t)})
	push(ctx, t, p, item{Queue: "q", Payload: 1})
	_, idle := rss(t, p.PID())
	if idle > 60<<20 {
		t.Errorf("an idle broker holds %d MiB, want under 60", idle>>20)
	}
	on(t, p, func(_ context.Context, k *T) {
		// Frames that promise much and send little, many at once, kept open. What
		// they promise together stays under what may be in flight, so that nobody waits.
		for i := range 300 {
			w := k.dial()
			size := []uint32{256 << 10, 100<<20 + 1, 1 << 30, 64 << 10}[i%4]
			// The head of a Produce, Metadata, Fetch or CreateTopics.
			head := append(binary.BigEndian.AppendUint32(nil, size), 0, []byte{0, 3, 1, 19}[i%4])
			_, _ = w.conn.Write(append(head, 0, 4, 0, 0, 0, 1, 0xff, 0xff)) // it may be closed on us
		}
		// Someone with honest business is served meanwhile.
		ask[*kmsg.MetadataResponse](k.dial(), kmsg.NewPtrMetadataRequest(), k.max(kmsg.Metadata, newest))
		push(ctx, t, p, item{Queue: "q", Payload: 2})
	})
	_, after := rss(t, p.PID())
	if grown := after - idle; grown > 20<<20 {
		t.Errorf("300 lying frames made it %d MiB larger, want under 20", grown>>20)
	}
	t.Logf("idle %d MiB, after lying frames %d MiB", idle>>20, after>>20)
}

// Null records are refused with a code, where Apache Kafka says nothing.
func TestNullRecordsAreRefused(t *testing.T) {
	t.Parallel()
	on(t, shared(t), func(_ context.Context, k *T) {
		tp := k.topic(1)
		for _, limit := range []int16{3, 7, 9, newest} {
			v := k.max(kmsg.Produce, limit)
			got := k.dial().produce(tp, v, -1, part{0, nil})
			if got[0].ErrorCode == 0 {
				k.Errorf("v%d: null records were taken", v)
			}
		}
		k.wantStored(tp, 0, 0)
	})
}

// Bytes that are no HTTP get a 400 or a closed connection on the HTTP port.
func TestForeignBytesOnTheHTTPPort(t *testing.T) {
	t.Parallel()
	p, ctx := shared(t), within(t, time.Minute)
	for _, junk := range []string{
		"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff", // a Kafka frame
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",             // TLS
		"\xff\xff\xff\xff\r\n\r\n", "GET\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"POST /api/v1/push HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
	} {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", p.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(junk)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: neither answered nor closed", junk)
		}
		if line != "" && !strings.HasPrefix(line, "HTTP/1.1 400 ") {
			t.Errorf("%.20q: answered %q", junk, line)
		}
		conn.Close()
	}
	push(ctx, t, p, item{Queue: "after-junk", Payload: 1})
}
