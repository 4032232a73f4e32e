package queen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"queenmq/dedup"
	"queenmq/store"
)

// The writer turns what was appended into calls of store.Append.
//
//	Append/Push ─► partition.pending (open segments) ─► ready list ─► flushers
//	                    ▲ joins while another flush        each takes up to 16 partitions
//	                    │ of the partition is in flight    and 1 MiB into one call
//
// One flush per partition is in flight, so a hot partition's batch grows by
// itself while the one before it commits, and an idle one waits for nobody.
type writer struct {
	db       *store.DB
	cfg      Config
	log      *slog.Logger
	catalog  *catalog
	tail     *tail
	waiters  *waiters
	hotlist  *hotlist
	budget   *budget
	metrics  *metrics
	runs     *runBuilder
	cache    *dedup.Cache
	redirect func(*entry) // gives an entry to its queue's successor
	stumbles stumbles

	wake chan struct{} // buffered, one token per flusher

	closing atomic.Bool
	bundles atomic.Int64    // shared calls made so far
	alone   chan struct{}   // a place for each call that goes alone
	goes    *sync.WaitGroup // those calls
	open    atomic.Int64    // segments not yet completed
	idle    chan struct{}   // closed when closing and nothing is open
	idled   sync.Once

	mu     sync.Mutex   // taken before a partition's
	ready  []*partition // guarded by mu: each has a pending segment, oldest claim first
	flying int          // guarded by mu: flushers with a bundle
}

// enqueue adds an entry to the partition's open segment, or begins one. Where nothing
// of the partition is under way it is put on the ready list at once.
func (w *writer) enqueue(p *partition, e *entry) {
	size := e.size()
	w.count(1) // first: close waits for whatever gets past the next line
	defer w.count(-1)
	if w.closing.Load() {
		w.failEntry(e, ErrClosing)
		return
	}
	p.mu.Lock()
	var last *openSegment
	if n := len(p.pending); n > 0 {
		last = p.pending[n-1]
	}
	if last == nil || last.turn != nil || last.bytes+size > w.cfg.SegmentBytesMax {
		last = &openSegment{deadline: time.Now().Add(w.cfg.WriteTimeout)}
		p.pending = append(p.pending, last)
		w.count(1)
	}
	last.entries = append(last.entries, e)
	last.bytes += size
	start := !p.busy
	p.busy = true
	p.mu.Unlock()
	if start {
		w.push(p)
	}
}

// count tracks open segments, so that close can wait for the last.
func (w *writer) count(n int64) {
	if w.open.Add(n) == 0 && w.closing.Load() {
		w.idled.Do(func() { close(w.idle) })
	}
}

// push puts a partition on the ready list and wakes a flusher.
func (w *writer) push(p *partition) {
	w.mu.Lock()
	w.ready = append(w.ready, p)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run is one flusher.
func (w *writer) run(ctx context.Context) {
	patience := time.NewTimer(0)
	defer patience.Stop()
	var since time.Time // it waits with something small; zero: it does not
	for {
		fl, wait := w.take(!since.IsZero() && time.Since(since) >= smallWaitMax)
		switch {
		case len(fl) > 0:
			since = time.Time{}
			w.flush(ctx, fl)
			continue
		case !wait:
			since = time.Time{}
			patience.Stop()
		case since.IsZero(): // else whatever comes meanwhile does not make it longer
			since = time.Now()
			patience.Reset(smallWaitMax)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-patience.C:
		}
	}
}

// While smallFlights bundles are under way, one of less than smallFlightBytes waits for
// the first of them: a call for many partitions costs PostgreSQL a fraction of what a
// call for each does, and those would wait for each other about as long anyway. It
// waits no longer than smallWaitMax: the others may be stuck.
const (
	smallFlights     = 2
	smallFlightBytes = 64 << 10
	smallWaitMax     = 5 * time.Millisecond
)

// isSmall says whether what is ready is worth waiting with. mu is held.
func (w *writer) isSmall() bool {
	if w.flying < smallFlights || len(w.ready) >= w.cfg.BundlePartitionsMax {
		return false
	}
	bytes := 0
	for _, p := range w.ready {
		p.mu.Lock()
		s := p.pending[0]
		bytes += s.bytes
		p.mu.Unlock()
		if s.turn != nil || bytes >= smallFlightBytes {
			return false
		}
	}
	return true
}

// landed is said by a flusher whose bundle has its outcome, but for what goes alone:
// that may take long, and nobody small is to wait for it.
func (w *writer) landed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying--
}

// take removes up to a bundle's worth of partitions from the ready list, and
// the oldest segment of each. It may say to wait with what is there, unless late.
func (w *writer) take(late bool) (fl []*flight, wait bool) {
	bytes := 0
	w.mu.Lock()
	if len(w.ready) > 0 && !late && w.isSmall() {
		w.mu.Unlock()
		return nil, true
	}
	n := 0
	for n < len(w.ready) && len(fl) < w.cfg.BundlePartitionsMax {
		p := w.ready[n]
		p.mu.Lock()
		s := p.pending[0]
		if len(fl) > 0 && bytes+s.bytes > w.cfg.BundleBytesMax {
			p.mu.Unlock()
			break
		}
		p.pending[0] = nil
		p.pending = p.pending[1:]
		p.mu.Unlock()
		n++
		if s.turn != nil {
			close(s.turn) // the partition stays busy until whoever waited is done
			continue
		}
		bytes += s.bytes
		fl = append(fl, &flight{p: p, seg: s})
	}
	w.ready = slices.Delete(w.ready, 0, n)
	more := len(w.ready) > 0
	if len(fl) > 0 {
		w.flying++
	}
	w.mu.Unlock()
	if more {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return fl, false
}

// flush stores flights until each has an outcome.
func (w *writer) flush(ctx context.Context, fl []*flight) {
	left := fl[:0:0]
	for _, f := range fl {
		if w.prepare(ctx, f) {
			left = append(left, f)
		} else {
			w.finish(f)
		}
	}
	defer w.landed()
	backoff := w.cfg.RetryMin
	for {
		if left = w.goAlone(ctx, left); len(left) == 0 {
			return
		}
		w.bundles.Add(1)
		slices.SortFunc(left, func(a, b *flight) int { return cmp.Compare(a.p.id, b.p.id) })
		left = w.attempt(ctx, left, &backoff)
	}
}

// attempt makes one call and returns the flights that must go again: after a pause,
// if it failed.
func (w *writer) attempt(ctx context.Context, fl []*flight, backoff *time.Duration) (again []*flight) {
	again, err := w.call(ctx, fl)
	if err == nil {
		*backoff = w.cfg.RetryMin
		return again
	}
	w.metrics.flushFailures.Inc()
	if again = w.afterError(ctx, fl, err); len(again) > 0 {
		w.log.Debug("append repeated", "error", err, "segments", len(again))
		sleep(ctx, *backoff+time.Duration(rand.Int64N(int64(*backoff))))
		*backoff = min(2**backoff, w.cfg.RetryMax)
	}
	return again
}

// call makes one call of store.Append and takes its answers; it returns the
// flights that must go again.
func (w *writer) call(ctx context.Context, bundle []*flight) (again []*flight, err error) {
	segs := make([]store.Segment, len(bundle))
	wait := len(bundle) == 1
	for i, f := range bundle {
		segs[i] = f.call
		wait = wait || f.unknown // the row may be held by our own lost attempt
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	start, bundles := time.Now(), w.bundles.Load()
	res, err := w.db.Append(ctx, segs, wait)
	if err != nil {
		return nil, err
	}
	bundle[0].rest = w.rest(bundle[0], time.Since(start), w.bundles.Load() != bundles)
	w.metrics.flushSeconds.Observe(time.Since(start).Seconds())
	w.metrics.probed(bundle, time.Since(start))
	w.metrics.flushSegments.Observe(float64(len(bundle)))
	// Readers are woken when all of the bundle is there: who reads many of its
	// partitions gets them in one answer.
	defer w.wakeReaders(bundle...)
	for i, f := range bundle {
		if res[i].Compacted && !(w.originals(ctx, f.p, res[i].Dups) && w.originals(ctx, f.p, res[i].Withheld)) {
			again = append(again, f) // its verdict is repeated
			continue
		}
		if w.settle(f, &res[i]) {
			w.finish(f)
			continue
		}
		if f.call.Parts == nil && !w.prepare(ctx, f) { // to be encoded anew
			w.finish(f)
			continue
		}
		again = append(again, f)
	}
	return again, nil
}

// afterError decides which flights of a failed call go again. After the end of
// ctx none does.
func (w *writer) afterError(ctx context.Context, bundle []*flight, err error) (again []*flight) {
	unknown := errors.Is(err, store.ErrOutcomeUnknown)
	retry := unknown || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrStorageFull)
	now := time.Now()
	for _, f := range bundle {
		f.unknown = f.unknown || unknown
		if retry && now.Before(f.seg.deadline) && ctx.Err() == nil {
			again = append(again, f)
			continue
		}
		if !retry && len(bundle) > 1 {
			f.alone = true // one segment's trouble must not fail its neighbours
			again = append(again, f)
			continue
		}
		if !retry {
			w.log.Error("append failed", "error", err, "queue", f.p.queue.name(), "partition", f.p.name)
		}
		w.fail(f, w.outcome(f, err))
		w.finish(f)
	}
	return again
}

// outcome turns a final error of a call into the one its callers see: once an
// attempt may have been stored, no later error can say that it was not.
func (w *writer) outcome(f *flight, err error) error {
	if f.unknown {
		return fmt.Errorf("%w: the database did not confirm in time; retry", ErrOutcomeUnknown)
	}
	if errors.Is(err, store.ErrCorrupted) {
		return &ledgerError{"append", ErrUnavailable, err} // ErrCorruptBatch would say it of what was sent
	}
	return storeError("append", err)
}

// prepare encodes a flight under a fresh id base. It reports false when
// nothing is left to store.
func (w *writer) prepare(ctx context.Context, f *flight) bool {
	if len(f.seg.entries) == 0 {
		return false
	}
	m := f.p.marks()
	if !m.known && !m.loaded {
		var err error
		if m, err = w.learn(ctx, f); err != nil {
			w.fail(f, err)
			return false
		}
	}
	if f.changed {
		// The options are others than this broker remembers.
		if err := w.catalog.reload(ctx, f.p.queue); err != nil && !errors.Is(err, ErrUnknownQueueID) && !errors.Is(err, ErrUnknownQueue) {
			w.fail(f, err)
			return false
		}
		f.changed = false
	}
	options := f.p.queue.describe().Options
	window := options.DedupWindowSeconds
	f.readIDs(options.DedupSource, w.cfg.DecompressedBytesMax, w.failEntry)
	if !f.fixed {
		f.base = NewIDBase(time.Now())
	}
	if rest := f.cut(window); len(rest) > 0 {
		w.putBack(f.p, rest, f.seg.deadline)
	}
	encode := func(suspected func(dedup.Hash) bool) error {
		return f.encode(window, options.MaxMessageBytes, w.cfg.DecompressedBytesMax, suspected)
	}
	if err := encode(nothing); err != nil {
		w.fail(f, err)
		return false
	}
	if len(f.call.Parts) == 0 {
		return false
	}
	kafka := slices.ContainsFunc(f.kafka, func(e *entry) bool { return e != nil })
	f.asked = false
	vouched := dedup.Answer{Verified: -1}
	if window > 0 && len(f.call.Hashes) > 0 {
		vouched = w.vouch(f, m, window)
		if n := f.suspected(vouched); n > 0 && n < len(f.natives) && !kafka && !f.whole {
			if err := encode(vouched.Suspected); err != nil {
				w.fail(f, err)
				return false
			}
		}
	}
	f.call.Partition, f.call.Known, f.call.Epoch = f.p.id, m.next, m.epoch
	f.call.IDHi, f.call.IDLo = f.base.Hi, f.base.Lo
	f.call.Window, f.call.Verified = int32(window), vouched.Verified
	f.call.AsOf = vouched.AsOf
	f.suspect(vouched)
	if kafka {
		f.call.Source = options.DedupSource
	}
	now := time.Now()
	for i, e := range f.kafka {
		f.call.Parts[i].Follows = e != nil && w.stumbles.follows(e.stumbler(), &e.info, now)
	}
	f.pack()
	return true
}

// nothing is suspected.
func nothing(dedup.Hash) bool { return false }

// learn reads the partition's end, which must be known when an id base is minted.
func (w *writer) learn(ctx context.Context, f *flight) (mark, error) {
	backoff := w.cfg.RetryMin
	for {
		call, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
		ms, err := w.db.Marks(call, []int64{f.p.id})
		cancel()
		if err == nil {
			if !ms[0].Found { // gone: the call will say so
				return mark{known: true, epoch: w.db.Incarnation().Epoch}, nil
			}
			f.p.seen(ms[0].Incarnation, ms[0].LogStart, ms[0].NextOffset)
			return f.p.marks(), nil
		}
		if ctx.Err() != nil || time.Now().After(f.seg.deadline) {
			return mark{}, storeError("read the log's end", err)
		}
		sleep(ctx, backoff)
		backoff = min(2*backoff, w.cfg.RetryMax)
	}
}

// putBack makes entries the partition's next segment.
func (w *writer) putBack(p *partition, rest []*entry, deadline time.Time) {
	s := &openSegment{entries: rest, deadline: deadline}
	for _, e := range rest {
		s.bytes += e.size()
	}
	w.count(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = slices.Insert(p.pending, 0, s)
}

// finish ends a flight that has its outcome.
func (w *writer) finish(f *flight) {
	f.packed.release()
	if f.rest > 0 {
		time.AfterFunc(f.rest, func() { w.next(f.p) })
	} else {
		w.next(f.p)
	}
	w.count(-1)
}

// next releases a partition for its next segment.
func (w *writer) next(p *partition) {
	p.mu.Lock()
	more := len(p.pending) > 0
	p.busy = more
	p.mu.Unlock()
	if more {
		w.push(p)
	}
}

// close refuses new entries and waits until the last open segment is done, or ctx.
func (w *writer) close(ctx context.Context) error {
	w.count(1)
	w.closing.Store(true)
	w.count(-1)
	select {
	case <-w.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("flush what was accepted: %w", context.Cause(ctx))
	}
}

// sleep waits for d or ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
