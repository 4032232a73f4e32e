package dedup

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// ledger is an honest small database: rows per partition, its own clock, and
// the search that alone decides.
type ledger struct {
	mu    sync.Mutex
	step  time.Duration // its clock against ours
	parts map[int64][]row
	epoch int32

	// Faults and gates of a reading, where a test wants them.
	fail   error
	before func(partition int64) // called with the snapshot taken, nothing streamed yet
	reads  map[int64][]time.Time // when each partition was read in full
	above  int                   // readings above an offset
}

type row struct {
	base, end int64
	created   time.Time
	hashes    []Hash
}

func newLedger() *ledger {
	return &ledger{parts: map[int64][]row{}, reads: map[int64][]time.Time{}}
}

func (l *ledger) now() time.Time { return time.Now().Add(l.step) }

// append stores hashes as one row, as SQL does: created never falls.
func (l *ledger) append(p int64, n int64, hashes []Hash) row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := l.parts[p]
	r := row{base: 0, created: l.now(), hashes: hashes}
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		r.base = last.end + 1
		if last.created.After(r.created) {
			r.created = last.created
		}
	}
	r.end = r.base + n - 1
	l.parts[p] = append(rows, r)
	return r
}

func (l *ledger) next(p int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rows := l.parts[p]; len(rows) > 0 {
		return rows[len(rows)-1].end + 1
	}
	return 0
}

// missed returns an offset in the window, at or below verified and outside the
// spans named for it, that holds one of the hashes; −1 if there is none.
func (l *ledger) missed(p int64, window int32, hashes []Hash, a Answer) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.UnixMicro() < a.AsOf {
		return -1 // as SQL does, it takes the answer for none
	}
	since := now.Add(-time.Duration(window) * time.Second)
	asked := make(map[Hash]bool, len(hashes))
	for _, h := range hashes {
		asked[h] = true
	}
	for _, r := range l.parts[p] {
		if r.created.Before(since) {
			continue
		}
		for i, h := range r.hashes {
			off := r.base + int64(i)
			if off > a.Verified || h.IsMinted() || !asked[h] {
				continue
			}
			if !slices.ContainsFunc(a.Holding(h), func(at int32) bool { return a.Suspects[at].From <= off && off <= a.Suspects[at].To }) {
				return off
			}
		}
	}
	return -1
}

// Window is the Source.
func (l *ledger) Window(ctx context.Context, p int64, seconds int32, after int64,
	row func(int64, int64, time.Time, []Hash) error,
) (int64, int32, time.Time, error) {
	l.mu.Lock()
	rows, now, epoch, fail, before := slices.Clone(l.parts[p]), l.now(), l.epoch, l.fail, l.before
	if after < 0 {
		l.reads[p] = append(l.reads[p], now)
	} else {
		l.above++
	}
	l.mu.Unlock()
	if before != nil {
		before(p)
	}
	if fail != nil {
		return -1, 0, now, fail
	}
	since := now.Add(-time.Duration(seconds) * time.Second)
	verified := int64(-1)
	for _, r := range rows {
		verified = r.end
		if r.end <= after || r.created.Before(since) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return -1, 0, now, err
		}
		if err := row(r.base, r.end, r.created, r.hashes); err != nil {
			return -1, 0, now, err
		}
	}
	return verified, epoch, now, nil
}

var errDown = errors.New("the database is down")

// id is the hash of a small number.
func id(n int) Hash {
	return Of(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// ids is the hashes of numbers from a to b, b excluded.
func ids(a, b int) []Hash {
	h := make([]Hash, 0, b-a)
	for i := a; i < b; i++ {
		h = append(h, id(i))
	}
	return h
}

// randomHashes is fast and spread like hashes are.
func randomHashes(rng *rand.ChaCha8, n int) []Hash {
	h := make([]Hash, n)
	for i := range h {
		binary.BigEndian.PutUint64(h[i][:8], rng.Uint64())
		binary.BigEndian.PutUint64(h[i][8:], rng.Uint64()|1)
	}
	return h
}

// broker is what a writer does with its cache.
type broker struct {
	c      *Cache
	l      *ledger
	window int32
}

func newBroker(t testing.TB, l *ledger, window int32, cfg Config) *broker {
	t.Helper()
	cfg.Source, cfg.Log = l, slog.New(slog.DiscardHandler)
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &broker{c: c, l: l, window: window}
}

func (b *broker) ask(p int64, hashes []Hash) Answer {
	return b.c.Ask(Question{Partition: p, Epoch: b.l.epoch, WindowSeconds: b.window, Hashes: hashes, Next: b.l.next(p)})
}

// push asks, stores, and tells, without looking for duplicates.
func (b *broker) push(p int64, hashes []Hash) Answer {
	a := b.ask(p, hashes)
	b.tell(p, b.l.append(p, int64(len(hashes)), hashes))
	return a
}

func (b *broker) tell(p int64, r row) {
	b.c.Committed(Commit{
		Partition: p, Epoch: b.l.epoch, WindowSeconds: b.window,
		Base: r.base, End: r.end, CreatedAt: r.created, Hashes: r.hashes,
	})
}
