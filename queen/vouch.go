package queen

import (
	"slices"

	"queenmq/dedup"
	"queenmq/store"
)

// What a flight asks the memory of ids, and what that is told.

// vouch lets the cache narrow what the call looks through. Whether an id is
// stored remains SQL's to say.
func (w *writer) vouch(f *flight, m mark, window int) dedup.Answer {
	if f.p.id == 0 { // still to be made
		return dedup.Answer{Verified: -1}
	}
	a := w.cache.Ask(dedup.Question{
		Partition: f.p.id, Epoch: m.epoch, WindowSeconds: int32(window), Hashes: f.hashes, Next: m.next,
	})
	f.asked, f.mode, f.span = true, a.Mode, m.next-1-a.Verified
	for _, s := range a.Suspects {
		f.span += s.To - s.From + 1
	}
	// A large span keeps the partition's row locked for long: its call must not
	// keep other partitions' rows with it.
	f.probes = m.next-1-a.Verified > w.cfg.ProbeAloneOffsets
	f.alone = f.alone || f.probes
	return a
}

// suspected counts the native messages that would be withheld.
func (f *flight) suspected(a dedup.Answer) (n int) {
	if len(a.Suspects) == 0 {
		return 0
	}
	for _, it := range f.natives {
		if it != nil && !it.uid && a.Suspected(it.hash) {
			n++
		}
	}
	return n
}

// suspect says in which spans which of the segment's ids may lie.
func (f *flight) suspect(a dedup.Answer) {
	if len(a.Suspects) == 0 {
		return
	}
	f.call.Suspects = make([]store.Suspect, len(a.Suspects))
	for i, s := range a.Suspects {
		f.call.Suspects[i].From, f.call.Suspects[i].To = s.From, s.To
	}
	for i, h := range slices.Concat(f.call.Hashes, f.call.Withheld) {
		for _, at := range a.Holding(h) {
			f.call.Suspects[at].IDs = append(f.call.Suspects[at].IDs, int32(i))
		}
	}
}

// learned tells the cache which ids the segment now in the log has.
func (w *writer) learned(f *flight, r *store.SegmentResult) {
	c := dedup.Commit{
		Partition: f.p.id, Epoch: r.Epoch, WindowSeconds: f.call.Window, Base: r.Base, End: r.End, CreatedAt: r.CreatedAt,
	}
	if c.Hashes = f.hashes; len(f.hashes) > 0 && slices.ContainsFunc(r.Verdicts, isLeftOut) {
		c.Hashes = nil
		at := 0
		for i, p := range f.call.Parts {
			if !isLeftOut(r.Verdicts[i]) {
				c.Hashes = append(c.Hashes, f.hashes[at:at+int(p.Span)]...)
			}
			at += int(p.Span)
		}
	}
	judged := 0 // none where the window is 0: a flight has no hashes then
	for i := range c.Hashes {
		if !c.Hashes[i].IsMinted() {
			judged++
		}
	}
	w.metrics.verdicts[layerLedger][0].Add(float64(judged))
	w.cache.Committed(c)
}

func isLeftOut(v store.PartVerdict) bool { return v != store.PartStored }
