package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

var (
	//go:embed query/kv_apply.sql
	kvApplySQL string
	//go:embed query/kv_read.sql
	kvReadSQL string
	//go:embed query/kv_purge.sql
	kvPurgeSQL string
)

// KVOp is one operation on a key; see schema/functions/kv_apply_1.sql.
type KVOp struct {
	Op    string `json:"op"` // get, put, delete, check, incr
	NS    string `json:"ns"`
	Key   string `json:"key"`
	Value string `json:"value,omitempty"` // put: JSON text
	// Expect is the version the key must have, 0 for a key that must not be
	// there; nil is no condition.
	Expect *int64 `json:"expect,omitempty"`
	// TTL is how long the value lives, seconds; 0 is for ever.
	TTL int64 `json:"ttl,omitempty"`
	// Delta, Low and High are of incr, decimal numbers; Low and High may be empty.
	Delta string `json:"delta,omitempty"`
	Low   string `json:"low,omitempty"`
	High  string `json:"high,omitempty"`
	// Required: unless it applies nothing of the call does.
	Required bool `json:"required,omitempty"`
}

// KVResult is what became of a KVOp, and what is there now.
type KVResult struct {
	Applied bool    `json:"applied"`
	Reason  string  `json:"reason"`  // why not: exists, absent, version, limit, type
	Version int64   `json:"version"` // 0: nothing is there
	Value   *string `json:"value"`   // nil also where a put has just set it
	Expires *int64  `json:"expires"` // µs since 1970; nil: never
	Updated *int64  `json:"updated"` // µs since 1970
}

// KVAnswer is what became of a call.
type KVAnswer struct {
	Results []KVResult `json:"results"` // one per operation, in order
	// Lost is the first operation that was required and did not apply: then none
	// took effect. nil: none is.
	Lost *int `json:"lost"`
}

// KV applies operations in one autocommit call. The call's id makes a repeat
// after ErrOutcomeUnknown, with repeat set, answer what the first attempt did.
func (db *DB) KV(ctx context.Context, call uuid.UUID, repeat bool, ops []KVOp) (KVAnswer, error) {
	var a KVAnswer
	text, err := json.Marshal(ops)
	if err != nil {
		return a, fmt.Errorf("keys and values: %w", err)
	}
	answer, err := only(writeRows(ctx, db, db.write, "keys and values", pgx.RowTo[[]byte], kvApplySQL, call, repeat, text))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return a, fmt.Errorf("keys and values: %w", err)
	}
	return a, nil
}

// KVKey names one key.
type KVKey struct{ NS, Key string }

// KVPage asks for keys that begin with a prefix, in ascending order of bytes.
type KVPage struct {
	NS, Prefix string
	After      string // go on after this key
	Rows       int    // at most
	Values     bool   // else keys only
}

// KVRow is a key that is there.
type KVRow struct {
	// Place says who asked for it: the place among the keys, and then among the
	// pages, from 0.
	Place     int
	Key       string
	Value     string // empty where none was wanted, or the bytes were used up; JSON never is
	Version   int64
	ExpiresAt time.Time // zero: never
	UpdatedAt time.Time
}

// lastKey is above whatever can follow a prefix: as many of the highest character
// as a key can hold.
var lastKey = strings.Repeat("\U0010ffff", 1024/4)

// KVRead reads keys and pages of keys as of one moment, and calls each with every row.
// Rows of pages come without their values once those have bytesMax bytes, but for the
// first one of each.
func (db *DB) KVRead(ctx context.Context, keys []KVKey, pages []KVPage, bytesMax int, each func(KVRow)) error {
	ns, key, pns, prefix, upto, after := []string{}, []string{}, []string{}, []string{}, []string{}, []string{} // nil would be NULL
	rows, vals := []int32{}, []bool{}
	for _, k := range keys {
		ns, key = append(ns, k.NS), append(key, k.Key)
	}
	for _, p := range pages {
		pns, prefix, after = append(pns, p.NS), append(prefix, p.Prefix), append(after, p.After)
		upto = append(upto, p.Prefix+lastKey)
		rows, vals = append(rows, int32(p.Rows)), append(vals, p.Values)
	}
	conn, err := db.read.Acquire(ctx)
	if err != nil {
		return db.acquireError("read keys", err)
	}
	defer conn.Release()
	ctx, cancel := db.whileAnswered(ctx)
	defer cancel()
	res, err := conn.Query(ctx, kvReadSQL, ns, key, pns, prefix, upto, after, rows, vals, bytesMax)
	if err == nil {
		for res.Next() {
			var r KVRow
			var value *string
			var expires pgtype.Timestamptz // infinity is none of time.Time
			if err = res.Scan(&r.Place, &r.Key, &value, &r.Version, &expires, &r.UpdatedAt); err != nil {
				break
			}
			r.Place--
			if value != nil {
				r.Value = *value
			}
			r.ExpiresAt = expires.Time
			each(r)
		}
		res.Close()
		if err == nil {
			err = res.Err()
		}
	}
	return db.readError("read keys", conn.Conn(), err)
}

// PurgeKV deletes up to rowsMax expired keys, those that expired after a moment,
// oldest first; it returns how many went, and the moment to go on after.
func (db *DB) PurgeKV(ctx context.Context, after time.Time, rowsMax int) (deleted int, upto time.Time, err error) {
	return db.purgeAfter(ctx, "purge keys", kvPurgeSQL, after, rowsMax)
}
