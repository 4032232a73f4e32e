package queen

import (
	"sync"
)

// incarnation remembers which one the memory belongs to.
type incarnation struct {
	mu    sync.Mutex
	epoch int32
}

// meetIncarnation forgets what was learned from another incarnation of the
// database (restart, failover, restore). It is called before memory is used; what a
// write relies on is checked once more against its own connection.
func (e *Engine) meetIncarnation() {
	now := e.db.Incarnation().Epoch
	e.incarnation.mu.Lock()
	defer e.incarnation.mu.Unlock()
	if now == e.incarnation.epoch {
		return
	}
	if e.incarnation.epoch != 0 {
		e.log.Warn("the database is another incarnation (restart, failover or restore); memory dropped", "epoch", now)
		e.tail.forgetAll()
		e.catalog.forgetMarks()
		e.cache.ForgetAll()
	}
	e.incarnation.epoch = now
}
