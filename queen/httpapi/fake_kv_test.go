package httpapi

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"queenmq/queen"
)

// fakeKeys are keys and values in a map; its clock is the fake's.
type fakeKeys struct {
	rows     map[[2]string]queen.KVRow
	versions int64
}

func (f *fake) KV(_ context.Context, ops []queen.KVOp) (queen.KVAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastKV = ops
	if f.down != nil {
		return queen.KVAnswer{}, f.down
	}
	for _, o := range ops {
		if err := fakeName(o.NS); err != nil {
			return queen.KVAnswer{}, err
		}
	}
	return f.keys.apply(f.now, ops), nil
}

func (k *fakeKeys) apply(now time.Time, ops []queen.KVOp) queen.KVAnswer {
	if k.rows == nil {
		k.rows = map[[2]string]queen.KVRow{}
	}
	before := maps.Clone(k.rows)
	a := queen.KVAnswer{Lost: -1}
	for i, o := range ops {
		r := k.one(now, o)
		if o.Required && !r.Applied && a.Lost < 0 {
			a.Lost = i
		}
		a.Results = append(a.Results, r)
	}
	if a.Lost >= 0 {
		k.rows = before
		for i, r := range a.Results {
			if r.Applied && ops[i].Op != queen.KVGet {
				a.Results[i] = queen.KVResult{Reason: "rolled_back"}
			}
		}
	}
	return a
}

func (k *fakeKeys) one(now time.Time, o queen.KVOp) (r queen.KVResult) {
	switch o.Op {
	case queen.KVGetMany:
		for _, key := range o.Keys {
			if row, there := k.rows[[2]string{o.NS, key}]; there {
				r.Rows = append(r.Rows, row)
			} else {
				r.Missing = append(r.Missing, key)
			}
		}
		return r
	case queen.KVGetPrefix:
		for _, at := range slices.SortedFunc(maps.Keys(k.rows), func(a, b [2]string) int { return strings.Compare(a[1], b[1]) }) {
			if at[0] != o.NS || !strings.HasPrefix(at[1], o.Prefix) || at[1] <= o.After {
				continue
			}
			if o.Limit > 0 && len(r.Rows) == o.Limit {
				r.Truncated, r.NextAfter = true, r.Rows[o.Limit-1].Key
				break
			}
			row := k.rows[at]
			if o.KeysOnly {
				row.Value = nil
			}
			r.Rows = append(r.Rows, row)
		}
		return r
	}
	at := [2]string{o.NS, o.Key}
	row, there := k.rows[at]
	expect := o.Expect
	if o.Op == queen.KVPutIfAbsent {
		expect = new(int64)
	}
	r.KVRow = row
	switch {
	case expect != nil && *expect == 0 && there:
		r.Reason = "exists"
	case expect != nil && *expect > 0 && !there, !there && (o.Op == queen.KVGet || o.Op == queen.KVDelete):
		r.Reason = "absent"
	case expect != nil && *expect > 0 && *expect != row.Version:
		r.Reason = "version"
	}
	if r.Reason != "" {
		return r
	}
	row.Key, row.UpdatedAt = o.Key, now
	ends := time.Time{}
	if !o.Forever {
		ends = now.Add(time.Duration(o.TTLSeconds) * time.Second)
	}
	switch o.Op {
	case queen.KVPut, queen.KVPutIfAbsent:
		row.Value, row.ExpiresAt = slices.Clone(o.Value), ends
	case queen.KVIncr:
		if !there {
			row.Value, row.ExpiresAt = []byte("0"), ends
		}
		old, err := strconv.Atoi(string(row.Value))
		add, _ := strconv.Atoi(o.Delta)
		most, bounded := strconv.Atoi(o.Max)
		switch {
		case err != nil:
			r.Reason = "type"
			return r
		case bounded == nil && old+add > most:
			r.Reason = "limit"
			return r
		}
		row.Value = []byte(strconv.Itoa(old + add))
	case queen.KVDelete:
		delete(k.rows, at)
		return queen.KVResult{Applied: true}
	default:
		r.Applied = true
		return r
	}
	k.versions++
	row.Version = k.versions
	k.rows[at] = row
	return queen.KVResult{Applied: true, KVRow: row}
}
