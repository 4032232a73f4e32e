package bench

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const progressEvery = 500 * time.Millisecond

// Progress keeps one line of a terminal up to date: a bar, the rate, p50 and p99.
type Progress struct {
	w    io.Writer
	stop chan struct{}
	done chan struct{}
}

// NewProgress writes to f when that is a terminal, and else nowhere.
func NewProgress(f *os.File) *Progress {
	p := &Progress{w: io.Discard}
	if fi, err := f.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		p.w = f
	}
	return p
}

// Began starts to show what is going on; a nil meter has no numbers.
func (p *Progress) Began(doing string, m *Meter) {
	p.stop, p.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for began := time.Now(); ; {
			line := doing
			if m != nil {
				now := time.Now()
				line += bar(m.Done(now)) + numbers(m.Read(now))
			} else {
				line += fmt.Sprintf(" … %.0f s", time.Since(began).Seconds())
			}
			fmt.Fprintf(p.w, "\r\x1b[K%s", line)
			select {
			case <-p.stop:
				fmt.Fprint(p.w, "\r\x1b[K")
				return
			case <-tick.C:
			}
		}
	}()
}

// Ended clears the line.
func (p *Progress) Ended() {
	close(p.stop)
	<-p.done
}

// bar draws how much of the measured time is over, of one.
func bar(done float64) string {
	const width = 20
	n := int(done * width)
	return "  [" + strings.Repeat("=", n) + strings.Repeat(" ", width-n) + "]"
}

func numbers(r Round) string {
	s := fmt.Sprintf("  %.1f MB/s  %.0f records/s", r.BytesPerSecond/1e6, r.RecordsPerSecond)
	if r.LatencyMS != nil {
		s += fmt.Sprintf("  p50 %.1f ms  p99 %.1f ms", r.LatencyMS.P50, r.LatencyMS.P99)
	}
	return s
}
