package queen

import (
	"sync"
	"time"
)

// damage tells the log of what is stored and cannot be read, once a second at most:
// readers come back to it.
type damage struct {
	mu   sync.Mutex
	told time.Time
}

// damaged says it of a partition.
func (e *Engine) damaged(p *partition, err error) {
	e.damage.mu.Lock()
	defer e.damage.mu.Unlock()
	if time.Since(e.damage.told) < time.Second {
		return
	}
	e.damage.told = time.Now()
	e.log.Error("what is stored cannot be read: bring it back from a backup, or have the log begin behind it",
		"queue", p.queue.name(), "partition", p.name, "error", detail(err))
}
