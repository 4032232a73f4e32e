package kafkawire

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"queenmq/queen"
	"queenmq/store/storetest"
)

// TestAnAnswerNobodyReadsIsCut: a client that asks and does not read keeps the memory
// of its answer for some seconds only, when others wait for it.
func TestAnAnswerNobodyReadsIsCut(t *testing.T) {
	t.Parallel()
	const size = 4 * outKept
	e, err := queen.Open(t.Context(), queen.Config{DB: storetest.New(t), Broker: queen.BrokerConfig{ID: -1}, AnswerBytesMax: size / 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := e.CreateQueue(t.Context(), queen.NewQueue{Name: "t", Partitions: 1, Options: queen.DefaultOptions()}); err != nil {
		t.Fatal(err)
	}
	item := queen.AppendItem{
		Partition: queen.PartitionRef{Queue: queen.QueueRef{Name: "t"}},
		Batch:     batch(nil, record{value: strings.Repeat("x", size)}),
	}
	if _, err := e.Append(t.Context(), []queen.AppendItem{item})[0].Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := open(t, func(c *Config) { c.Engine, c.WriteTimeout = e, time.Hour })
	idler := d.dial()
	idler.send(fetchRequest(11, "t", 0, 0))
	if _, err := io.ReadFull(idler.conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// Now the answer is being written. Of others one may give up before it is cut, on
	// a busy machine, but not one after the other.
	reader := d.dial()
	given := 0
	for try := 0; try < 3 && given < size; try++ {
		req := fetchRequest(11, "t", 0, 0)
		corr := reader.send(req)
		_, body, err := reader.frame()
		if err != nil {
			reader = d.dial()
			continue
		}
		resp, err := decodeReply(req, body)
		if err != nil {
			t.Fatal(corr, err)
		}
		given = len(resp.AppendTo(nil))
	}
	if given < size {
		t.Errorf("a reader was given %d bytes beside an answer that nobody reads, want %d", given, size)
	}
	if n, err := io.Copy(io.Discard, idler.conn); n >= size {
		t.Errorf("the answer that nobody read came after all, %d bytes, %v", n, err)
	}
}
