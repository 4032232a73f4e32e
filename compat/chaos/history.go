package chaos

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Outcome is what a client was told.
type Outcome string

// The outcomes of a write. Unknown is every answer that leaves it open whether
// something was stored; Failed is one that says that nothing was.
const (
	Stored    Outcome = "stored"
	Duplicate Outcome = "duplicate"
	Failed    Outcome = "failed"
	Unknown   Outcome = "unknown"
)

// Write is one attempt to store one message. Repeating a push is another Write
// of the same ID. Those of one request are recorded in its order, with one Start.
type Write struct {
	Client    string        `json:"client"`
	Partition string        `json:"partition"`
	ID        string        `json:"id"`  // unique per message of the partition, and what is stored
	Seq       int64         `json:"seq"` // order in which the client produced it to the partition; −1: none is promised
	Start     time.Duration `json:"start"`
	End       time.Duration `json:"end"`
	Outcome   Outcome       `json:"outcome"`
	Offset    int64         `json:"offset"`            // with Stored and Duplicate
	Message   string        `json:"message,omitempty"` // the message id of the answer; Kafka's have none
	Detail    string        `json:"detail,omitempty"`
}

// End is one look at where a log ends.
type End struct {
	Client    string        `json:"client"`
	Partition string        `json:"partition"`
	Start     time.Duration `json:"start"`
	End       time.Duration `json:"end"`
	Offset    int64         `json:"offset"`
}

// Entry is one message as it was read.
type Entry struct {
	Offset int64  `json:"offset"`
	ID     string `json:"id"`
	Client string `json:"client"` // who produced it
	Seq    int64  `json:"seq"`
}

// History is everything clients saw in one run.
type History struct {
	mu     sync.Mutex
	began  time.Time
	Writes []Write
	Ends   []End
	// Reads are what each tailing reader saw of each partition, in its order.
	Reads map[string]map[string][]Entry
}

// NewHistory starts the clock of a run.
func NewHistory() *History {
	return &History{began: time.Now(), Reads: make(map[string]map[string][]Entry)}
}

// Now is the time since the run began, by the monotonic clock.
func (h *History) Now() time.Duration { return time.Since(h.began) }

// Write records an attempt.
func (h *History) Write(w Write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Writes = append(h.Writes, w)
}

// End records a look at a log's end.
func (h *History) End(e End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Ends = append(h.Ends, e)
}

// Read records a message that a tailing reader was given.
func (h *History) Read(reader, partition string, e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Reads[reader] == nil {
		h.Reads[reader] = make(map[string][]Entry)
	}
	h.Reads[reader][partition] = append(h.Reads[reader][partition], e)
}

// Counts says how much of what there was.
func (h *History) Counts() map[Outcome]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := make(map[Outcome]int)
	for _, w := range h.Writes {
		n[w.Outcome]++
	}
	return n
}

// WriteTo writes the history as one JSON object per line, each kind in the order
// in which it ended.
func (h *History) WriteTo(w io.Writer) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := &counted{w: w}
	enc := json.NewEncoder(out)
	for _, x := range h.Writes {
		if err := enc.Encode(struct {
			Kind string `json:"kind"`
			Write
		}{"write", x}); err != nil {
			return out.n, err
		}
	}
	for _, x := range h.Ends {
		if err := enc.Encode(struct {
			Kind string `json:"kind"`
			End
		}{"end", x}); err != nil {
			return out.n, err
		}
	}
	for reader, ps := range h.Reads {
		for p, es := range ps {
			for _, e := range es {
				if err := enc.Encode(struct {
					Kind      string `json:"kind"`
					Reader    string `json:"reader"`
					Partition string `json:"partition"`
					Entry
				}{"read", reader, p, e}); err != nil {
					return out.n, err
				}
			}
		}
	}
	return out.n, nil
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
