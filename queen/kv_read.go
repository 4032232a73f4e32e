package queen

import (
	"context"

	"queenmq/store"
)

// kvRead answers a call that only reads, in one statement.
func (e *Engine) kvRead(ctx context.Context, ops []KVOp) (KVAnswer, error) {
	keys, pages := kvQuestions(ops)
	read := newKVReading(len(keys), pages)
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	if err := e.db.KVRead(ctx, keys, pages, kvReplyBytesMax, read.row); err != nil {
		return KVAnswer{}, storeError("read keys", err)
	}
	return read.answer(ops), nil
}

// kvQuestions turns operations that read into those of the ledger: single keys, and
// pages with a row more than is given, which says whether there are others.
func kvQuestions(ops []KVOp) (keys []store.KVKey, pages []store.KVPage) {
	for i := range ops {
		o := &ops[i]
		switch o.Op {
		case KVGet:
			keys = append(keys, store.KVKey{NS: o.NS, Key: o.Key})
		case KVGetMany:
			for _, k := range o.Keys {
				keys = append(keys, store.KVKey{NS: o.NS, Key: k})
			}
		default:
			limit := o.Limit
			if limit <= 0 {
				limit = KVPageDefault
			}
			pages = append(pages, store.KVPage{
				NS: o.NS, Prefix: o.Prefix, After: o.After, Rows: min(limit, KVPageMax) + 1, Values: !o.KeysOnly,
			})
		}
	}
	return keys, pages
}

// kvReading is what was read so far for single keys and for pages, by their places.
type kvReading struct {
	pages  []store.KVPage
	found  []*KVRow  // by key; nil: not there. Without a value where the answer is full
	listed [][]KVRow // by page
	full   []bool    // by page: there are others
	left   int       // of kvReplyBytesMax
}

func newKVReading(keys int, pages []store.KVPage) *kvReading {
	return &kvReading{
		pages: pages, found: make([]*KVRow, keys), listed: make([][]KVRow, len(pages)), full: make([]bool, len(pages)),
		left: kvReplyBytesMax,
	}
}

// row takes a row of the ledger.
func (k *kvReading) row(r store.KVRow) {
	row := KVRow{Key: r.Key, Version: r.Version, ExpiresAt: r.ExpiresAt, UpdatedAt: r.UpdatedAt, Value: []byte(r.Value)}
	k.left -= len(r.Value)
	if r.Place < len(k.found) {
		if k.left < 0 {
			row.Value = nil
		}
		k.found[r.Place] = &row
		return
	}
	at := r.Place - len(k.found)
	withheld := k.pages[at].Values && r.Value == ""
	if !k.pages[at].Values {
		row.Value = nil
	}
	// A page has a row in any case, or a walk over pages would not get on.
	if k.full[at] || withheld || k.left < 0 && len(k.listed[at]) > 0 || len(k.listed[at]) == k.pages[at].Rows-1 {
		k.full[at] = true
		return
	}
	k.listed[at] = append(k.listed[at], row)
}

// answer is what was read, as answers to ops.
func (k *kvReading) answer(ops []KVOp) KVAnswer {
	out := KVAnswer{Results: make([]KVResult, len(ops)), Lost: -1}
	key, page := 0, 0
	for i := range ops {
		o, r := &ops[i], &out.Results[i]
		switch o.Op {
		case KVGet:
			row := k.found[key]
			key++
			if row == nil {
				r.Reason, r.Key = "absent", o.Key
				continue
			}
			r.Applied, r.KVRow, r.Truncated = true, *row, row.Value == nil
		case KVGetMany:
			for _, name := range o.Keys {
				row := k.found[key]
				key++
				switch {
				case row == nil:
					r.Missing = append(r.Missing, name)
				case row.Value == nil:
					r.Truncated = true
				default:
					r.Rows = append(r.Rows, *row)
				}
			}
		default:
			if r.Rows, r.Truncated = k.listed[page], k.full[page]; r.Truncated {
				r.NextAfter = r.Rows[len(r.Rows)-1].Key
			}
			page++
		}
	}
	return out
}
