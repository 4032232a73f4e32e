package queen

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// forgetMarks drops what is remembered of the partitions' ends: the database
// is another incarnation, in which they may lie lower.
func (c *catalog) forgetMarks() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, q := range c.byTopic {
		q.mu.RLock()
		for _, p := range q.parts {
			p.forget()
		}
		q.mu.RUnlock()
	}
}

// refresh takes over what other brokers changed. It costs one small statement
// when nothing did, and another one that reads what did.
func (c *catalog) refresh(ctx context.Context) error {
	v, err := c.db.CatalogVersion(ctx)
	if err != nil {
		return storeError("read catalog version", err)
	}
	epoch := c.db.Incarnation().Epoch
	if v == c.version && epoch == c.epoch {
		return nil
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	ids := c.topics()
	done := len(ids) == 0
	// Where more changed than is cached, reading what is cached costs less.
	if !done && c.version != 0 && epoch == c.epoch && v-c.version <= int64(len(ids)) {
		v, done, err = c.followChanges(ctx)
	}
	if err == nil && !done {
		err = c.readAgain(ctx, ids, epoch != c.epoch)
	}
	if err != nil {
		return err
	}
	c.version, c.epoch = v, epoch
	c.seen.Store(int64(epoch)<<40 | v)
	return nil
}

// topics lists the cached queues.
func (c *catalog) topics() []uuid.UUID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	ids := make([]uuid.UUID, 0, len(c.byTopic))
	for id := range c.byTopic {
		ids = append(ids, id)
	}
	return ids
}

// followChanges takes over what changed since c.version in queues that are cached,
// up to a version. It reports whether that is all: not where a queue was deleted and
// swept meanwhile, of which nothing is left to see. Called with loading held.
func (c *catalog) followChanges(ctx context.Context) (version int64, all bool, err error) {
	changes, err := c.db.ChangedQueues(ctx, c.version)
	if err != nil {
		return 0, false, storeError("list changed queues", err)
	}
	for _, row := range changes.Queues {
		q := c.cached(QueueRef{TopicID: row.TopicID})
		switch {
		case q == nil:
		case row.Deleted():
			c.drop(q)
		default:
			if _, err := c.load(ctx, row); err != nil {
				return 0, false, err
			}
		}
	}
	return changes.Version, !changes.Swept, nil
}

// readAgain reads the cached queues ids again, and drops those that are gone; in
// another incarnation of the database nothing is taken for granted. Called with
// loading held.
func (c *catalog) readAgain(ctx context.Context, ids []uuid.UUID, another bool) error {
	rows, err := c.db.Queues(ctx, nil, ids)
	if err != nil {
		return storeError("look up queues", err)
	}
	alive := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		alive[row.TopicID] = true
		if another {
			if err := c.survived(ctx, row); err != nil {
				return err
			}
		}
		if _, err := c.load(ctx, row); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if q := c.cached(QueueRef{TopicID: id}); q != nil && !alive[id] {
			c.drop(q)
		}
	}
	return nil
}

// survived compares a cached queue with what another incarnation of the
// database has of it: partitions that were lost may have left their numbers,
// and even their ids, to others. Called with loading held.
func (c *catalog) survived(ctx context.Context, row store.QueueRow) error {
	q := c.cached(QueueRef{TopicID: row.TopicID})
	if q == nil {
		return nil
	}
	q.version = 0 // the lost rows may have had higher ones
	rows, err := c.db.Partitions(ctx, q.id, 0, math.MaxInt32)
	if err != nil {
		return storeError("list partitions", err)
	}
	for i, p := range q.all() {
		if i >= len(rows) || rows[i].ID != p.id || rows[i].Name != p.name {
			c.drop(q)
			break
		}
	}
	return nil
}

// run keeps the cache fresh until ctx ends.
func (c *catalog) run(ctx context.Context, every, timeout time.Duration, failed func(error)) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			call, cancel := context.WithTimeout(ctx, timeout)
			if err := c.refresh(call); err != nil && ctx.Err() == nil {
				failed(err)
			}
			cancel()
		}
	}
}
