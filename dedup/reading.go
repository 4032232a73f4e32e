package dedup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Reading back: after a start, an eviction or a change of the window an entry
// is born from one snapshot of its whole window; when another broker wrote, it
// catches up with what is above verified. Either streams, and pushes go on meanwhile.

// late keeps commits that arrive while an entry is being read.
type late struct {
	commits []lateCommit
	ids     int
}

type lateCommit struct {
	base, end, created int64
	hashes             []Hash
}

// keep copies a commit. Beyond idsMax nothing more is kept: there is a gap
// then, which is read like any other.
func (l *late) keep(cm Commit, idsMax int) {
	if l.ids+len(cm.Hashes) > idsMax || len(l.commits) >= idsMax {
		return
	}
	l.ids += len(cm.Hashes)
	var hashes []Hash
	if len(cm.Hashes) > 0 {
		hashes = append(make([]Hash, 0, len(cm.Hashes)), cm.Hashes...)
	}
	l.commits = append(l.commits, lateCommit{cm.Base, cm.End, cm.CreatedAt.UnixNano(), hashes})
}

func (l *late) bytes() int64 { return 16*int64(l.ids) + 48*int64(cap(l.commits)) }

var (
	errTooBig    = errors.New("the window does not fit into the budget")
	errDropped   = errors.New("the entry is gone")
	errOtherRows = errors.New("the rows contradict what is known")
)

// catchUp has what other brokers wrote read, at most one reading at a time. Under e.mu.
func (c *Cache) catchUp(e *entry, now time.Time) {
	if e.reading || e.dead || now.Before(e.nextTry) {
		return
	}
	select {
	case c.reads <- e:
		e.reading = true
	default: // the next question tries again
	}
}

func (c *Cache) runReader(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.reads:
			c.read(ctx, e)
		}
	}
}

func (c *Cache) read(ctx context.Context, e *entry) {
	e.mu.Lock()
	dead, birth := e.dead, e.mem == nil
	e.mu.Unlock()
	if dead {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ReadTimeout)
	defer cancel()
	var err error
	if birth {
		err = c.readWindow(ctx, e)
		c.stats.hydrations.Add(1)
	} else {
		err = c.readAbove(ctx, e)
		c.stats.catchUps.Add(1)
	}
	if err == nil {
		c.relieve(e)
		return
	}
	now := c.cfg.Now()
	switch {
	case errors.Is(err, errTooBig):
		c.drop(e)
		c.suppress(e.partition, now)
	case errors.Is(err, errDropped):
		c.drop(e)
	default:
		c.stats.failures.Add(1)
		c.cfg.Log.Debug("dedup cache: a window was not read", "partition", e.partition, "error", err)
		c.drop(e)
		c.notes.update(e.partition, c.clock(now), func(t *note) { t.until, t.suppressed = c.clock(now.Add(c.cfg.RetryPause)), false })
	}
}

// readWindow gives an entry its memory: the whole window, from one snapshot.
func (c *Cache) readWindow(ctx context.Context, e *entry) error {
	window := time.Duration(e.window) * time.Second
	m := born(-1, window)
	var b builder
	var charged int64
	defer func() { c.bytes.Add(-charged) }()
	charge := func() { n := m.bytes(); c.bytes.Add(n - charged); charged = n }
	first, began := true, c.cfg.Now()
	var oldest, newest int64
	sealed := 0
	verified, epoch, dbNow, err := c.cfg.Source.Window(ctx, e.partition, e.readSeconds(c.cfg.Slack), -1,
		func(base, end int64, createdAt time.Time, hashes []Hash) error {
			newest = createdAt.UnixNano()
			if first {
				oldest = newest
			}
			if o := m.read(base, end, newest, hashes, first); o != followed {
				return fmt.Errorf("%w: offset %d after %d", errOtherRows, base, m.verified)
			}
			first = false
			if n := len(m.blocks); n != sealed {
				sealed = n
				c.mergeAlone(ctx, &b, m)
			}
			charge()
			for !c.fits(0) && m.thin(c.cfg.VainIDsMax) {
				charge()
			}
			if !c.fits(0) && !c.roomFor(0, note{}, c.cfg.Now()) {
				return errTooBig
			}
			return nil
		})
	if errors.Is(err, errTooBig) {
		c.noteTooBig(e, m, oldest, newest, began)
		return err
	}
	if err != nil {
		return fmt.Errorf("read the window of partition %d: %w", e.partition, err)
	}
	if epoch != e.epoch {
		return errDropped
	}
	m.readAll(verified, e.readSince(dbNow, c.cfg.Slack))
	m.saw(dbNow.UnixNano(), c.cfg.Now())

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return errDropped
	}
	e.mem = m
	return c.readDone(e)
}

// noteTooBig notes what the window would have cost: as much again for each
// part of its time that was not read.
func (c *Cache) noteTooBig(e *entry, m *memory, oldest, newest int64, began time.Time) {
	share := 1.0
	if newest > oldest {
		share = min(1, float64(newest-oldest)/float64(m.window))
	}
	c.notes.update(e.partition, c.clock(began), func(t *note) {
		t.bytes, t.ids = int64(float64(m.bytes())/share), int64(float64(m.ids)/share)
		t.at, t.window, t.grown = c.clock(began), e.window, 0
	})
}

// readAbove adds the rows above verified to an entry's memory.
func (c *Cache) readAbove(ctx context.Context, e *entry) error {
	e.mu.Lock()
	if e.dead {
		e.mu.Unlock()
		return errDropped
	}
	after := e.mem.verified
	e.mu.Unlock()
	first := true
	verified, epoch, dbNow, err := c.cfg.Source.Window(ctx, e.partition, e.readSeconds(c.cfg.Slack), after,
		func(base, end int64, createdAt time.Time, hashes []Hash) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.dead {
				return errDropped
			}
			o := e.mem.read(base, end, createdAt.UnixNano(), hashes, first)
			first = false
			c.charge(e)
			if o != followed && o != known {
				return fmt.Errorf("%w: offset %d after %d", errOtherRows, base, e.mem.verified)
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("catch up with partition %d: %w", e.partition, err)
	}
	if epoch != e.epoch {
		return errDropped
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return errDropped
	}
	e.mem.readAll(verified, e.readSince(dbNow, c.cfg.Slack))
	e.mem.saw(dbNow.UnixNano(), c.cfg.Now())
	return c.readDone(e)
}

// readDone applies what arrived meanwhile, by the gap rule. Under e.mu.
func (c *Cache) readDone(e *entry) error {
	commits := e.late.commits
	e.late = late{}
	defer c.charge(e)
	for _, l := range commits {
		if e.mem.commit(l.base, l.end, l.created, l.hashes) == impossible {
			return fmt.Errorf("%w: offset %d was committed, %d is known", errOtherRows, l.base, e.mem.verified)
		}
	}
	now := c.cfg.Now()
	e.reading = false
	e.nextTry = now.Add(c.cfg.CatchUpPause)
	if e.mem.width() < c.cfg.KeepMin && e.mem.verified >= c.cfg.KeepMin {
		c.tooSmall(e, now)
		return nil
	}
	c.wantMerge(e)
	return nil
}

// readSince is when, in Unix nanoseconds, the oldest row that a reading at dbNow does
// not leave out can have been created.
func (e *entry) readSince(dbNow time.Time, slack time.Duration) int64 {
	return dbNow.UnixNano() - int64(e.readSeconds(slack))*int64(time.Second)
}

// readSeconds is the window with slack, rounded up.
func (e *entry) readSeconds(slack time.Duration) int32 {
	return int32(min(int64(e.window)+int64((slack+time.Second-1)/time.Second), math.MaxInt32))
}
