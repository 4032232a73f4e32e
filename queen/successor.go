package queen

import (
	"context"

	"github.com/google/uuid"
)

// redirect hands an entry whose queue was deleted to the queue that has its
// name now, once.
func (e *Engine) redirect(en *entry) {
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.WriteTimeout)
	defer cancel()
	if en.batch != nil {
		p, err := e.catalog.partition(ctx, PartitionRef{Queue: QueueRef{Name: en.ref.Name}, Number: en.number})
		if err != nil {
			e.writer.failEntry(en, err)
			return
		}
		e.writer.enqueue(p, en)
		return
	}
	open := en.items[:0:0]
	for _, it := range en.items {
		if !it.settled {
			open = append(open, it)
		}
	}
	for _, it := range open {
		p, err := e.choosePartition(ctx, it.msg)
		if err != nil {
			it.settle(Failed, uuid.UUID{}, -1, err)
			continue
		}
		e.writer.enqueue(p, &entry{items: []*pushItem{it}, ref: en.ref, retried: true})
	}
}

// gone hands entries that came by name to the queue that has the name now.
func (w *writer) gone(f *flight) {
	w.catalog.drop(f.p.queue)
	w.tail.forget(f.p.id)
	w.cache.Forget(f.p.id)
	w.waiters.wake(f.p.id)
	w.hotlist.wrote(f.p)
	f.unfold()
	for _, e := range f.seg.entries {
		if e.retried || (e.batch != nil && e.ref.Name == "") {
			w.failEntry(e, unknownQueue(e.ref))
			continue
		}
		e.retried = true
		e.dropped = nil // what the deleted queue had
		w.redirect(e)
	}
}
