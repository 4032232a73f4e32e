package kafkawire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzFrame sends bytes to a connection as they are: whatever they claim, the
// connection ends, what it took from the budget is given back, and nothing
// panics.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\xff\xff\xff\xff\x00"))
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	for _, a := range table(Config{}.withDefaults()) {
		for _, version := range []int16{a.min, a.max} {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(version)
			f.Add(formatter.AppendRequest(nil, req, 1))
		}
	}
	f.Add(formatter.AppendRequest(nil, produceRequest(9, 0, "t", batch(nil, record{value: "x"})), 1))
	f.Fuzz(func(t *testing.T, sent []byte) {
		d := open(t)
		d.fake.topic("t", 1)
		conn := d.pipes.dial()
		go func() {
			_, _ = conn.Write(sent)
			_ = conn.Close()
		}()
		_, _ = io.Copy(io.Discard, conn)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Fatalf("the connection did not end: %v", err)
		}
		for _, b := range d.room.parts {
			if b.free != b.size {
				t.Errorf("%d bytes were not given back", b.size-b.free)
			}
		}
		if bytes.Contains([]byte(d.logs.String()), []byte("BUG:")) {
			t.Error(d.logs.String())
		}
	})
}

// decodeFixed is what decoding may allocate whatever the size of its frame.
const decodeFixed = 16 << 10

// FuzzRequest decodes a body as a request: it must not panic, and not allocate
// more than its row of the table says.
func FuzzRequest(f *testing.F) {
	cfg := Config{}.withDefaults()
	rows := make(map[int16]*api)
	for _, a := range table(cfg) {
		rows[a.key] = &a
		for version := a.min; version <= a.max; version++ {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(version)
			f.Add(a.key, version, req.AppendTo(nil))
			f.Add(a.key, version, bytes.Repeat([]byte{0, 0, 0, 3, 0, 1, 'x'}, 20))
			f.Add(a.key, version, lyingCount(version, 4<<10))
		}
	}
	f.Add(int16(0), int16(9), produceRequest(9, -1, "t", batch(nil, record{value: "x"})).AppendTo(nil))
	f.Add(int16(1), int16(11), fetchRequest(11, "t", 0, 0).AppendTo(nil))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a := rows[key]
		if a == nil || version < a.min || version > a.max {
			return
		}
		frame := append([]byte{0xff, 0xff, 0}, body...) // no client id, no tags
		if req := kmsg.RequestForKey(key); req != nil {
			if req.SetVersion(version); !req.IsFlexible() {
				frame = append([]byte{0xff, 0xff}, body...)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = a.decode(prefix{size: int32(len(frame) + 8), key: key, version: version}, frame, &cfg)
		runtime.ReadMemStats(&after)
		allowed := decodeFixed + a.expands*int64(len(frame))
		if key == 0 {
			allowed = decodeFixed + expandsMax*int64(min(len(frame), cfg.ElementsMax*6)) // its counts are walked
		}
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > allowed {
			t.Errorf("%s v%d: %d bytes allocated %d, allowed are %d", a.name, version, len(frame), n, allowed)
		}
	})
}

// lyingCount is n bytes that claim to be an array as long as they are, at
// several places at once.
func lyingCount(version int16, n int) []byte {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		b = binary.BigEndian.AppendUint32(b, uint32(n/2))
		b = binary.AppendUvarint(b, uint64(n/3))
		b = append(b, byte(version))
	}
	return b
}

// The most expensive claims that can be made, measured: at every place of a
// request, an array that fills the frame with the smallest elements there are.
// It runs alone, since it reads what the whole process allocates.
func TestDecodingAllocatesWithinItsRow(t *testing.T) {
	const size = 16 << 10
	for _, a := range table(Config{}.withDefaults()) {
		if a.key == 0 {
			continue // walked first
		}
		worst := int64(0)
		for _, version := range []int16{a.min, (a.min + a.max) / 2, a.max} {
			req := kmsg.RequestForKey(a.key)
			req.SetVersion(version)
			empty := req.AppendTo(nil)
			for at := range len(empty) + 1 {
				for _, divisor := range []int{1, 2, 3, 6, 18} {
					worst = max(worst, claims(req, empty[:at], size, divisor))
				}
			}
		}
		if worst > a.expands*size+1<<10 { // and the request itself
			t.Errorf("%s: a frame of %d bytes allocates %d, %d times; its row says %d", a.name, size, worst, worst/size, a.expands)
		}
	}
}

// claims decodes head, a count of size/divisor and size zeros, and gives what
// that allocated.
func claims(req kmsg.Request, head []byte, size, divisor int) int64 {
	body := append([]byte(nil), head...)
	if req.IsFlexible() {
		body = binary.AppendUvarint(body, uint64(size/divisor))
	} else {
		body = binary.BigEndian.AppendUint32(body, uint32(size/divisor))
	}
	body = append(body, make([]byte, size)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = req.ReadFrom(body)
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
