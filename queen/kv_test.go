package queen

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"queenmq/store/storetest"
)

// kvModel is keys and values in a map, on a clock of its own.
type kvModel struct {
	keys map[string]kvModelRow
	now  int64 // seconds
}

type kvModelRow struct {
	value   string
	version int64 // as the engine gave it
	expires int64 // 0: never
}

func (m *kvModel) live(key string) (kvModelRow, bool) {
	r, there := m.keys[key]
	return r, there && (r.expires == 0 || r.expires > m.now)
}

// apply is what an operation must answer. The version of a write is the
// engine's to choose: it must be higher than any before.
func (m *kvModel) apply(o KVOp) (applied bool, reason string) {
	row, live := m.live(o.Key)
	refuse := func(why string) (bool, string) { return false, why }
	expect := o.Expect
	if o.Op == KVPutIfAbsent {
		expect = new(int64)
	}
	switch {
	case expect != nil && *expect == 0 && live:
		return refuse("exists")
	case expect != nil && *expect > 0 && !live:
		return refuse("absent")
	case expect != nil && *expect > 0 && *expect != row.version:
		return refuse("version")
	case (o.Op == KVGet || o.Op == KVDelete) && !live:
		return refuse("absent")
	}
	switch o.Op {
	case KVDelete:
		delete(m.keys, o.Key)
	case KVPut, KVPutIfAbsent:
		m.keys[o.Key] = kvModelRow{value: string(o.Value), expires: m.ends(o)}
	case KVIncr:
		old := int64(0)
		if live {
			var err error
			if old, err = strconv.ParseInt(row.value, 10, 64); err != nil {
				return refuse("type")
			}
		} else {
			row = kvModelRow{expires: m.ends(o)}
		}
		d, _ := strconv.ParseInt(o.Delta, 10, 64)
		if least, err := strconv.ParseInt(o.Min, 10, 64); err == nil && old+d < least {
			return refuse("limit")
		}
		if most, err := strconv.ParseInt(o.Max, 10, 64); err == nil && old+d > most {
			return refuse("limit")
		}
		row.value, row.version = strconv.FormatInt(old+d, 10), 0 // as of any write: not told yet
		m.keys[o.Key] = row
	}
	return true, ""
}

func (m *kvModel) ends(o KVOp) int64 {
	if o.Forever {
		return 0
	}
	return m.now + o.TTLSeconds
}

// agePool makes keys older, as if seconds had passed.
func agePool(t interface {
	Helper()
	Fatal(...any)
}, pool *pgxpool.Pool, seconds int64,
) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), `UPDATE kv SET expires_at = expires_at - make_interval(secs => $1) WHERE expires_at < 'infinity'`, seconds); err != nil {
		t.Fatal(err)
	}
}

// TestKeysAndValuesAgreeWithAMap runs random calls, on real PostgreSQL, against
// a map: conditions, versions, counters, expiry, several operations on one key in a
// call, and calls that roll back because something required did not apply.
func TestKeysAndValuesAgreeWithAMap(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db)
	pool := storetest.Pool(t, db)
	space := 0
	rapid.Check(t, func(t *rapid.T) {
		space++
		ns := fmt.Sprint("ns", space)
		m := &kvModel{keys: map[string]kvModelRow{}}
		newest := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			if rapid.IntRange(0, 3).Draw(t, "pass time") == 0 {
				// Times are multiples of an hour, so that seconds of a slow run change nothing.
				m.now += 3600
				agePool(t, pool, 3600)
			}
			ops := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) KVOp { return drawOp(t, ns, m) }), 1, 6).Draw(t, "ops")
			before := &kvModel{keys: map[string]kvModelRow{}, now: m.now}
			for k, v := range m.keys {
				before.keys[k] = v
			}
			got, err := e.KV(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			lost := -1
			for i, o := range ops {
				applied, reason := m.apply(o)
				r := got.Results[i]
				if o.Required && !applied && lost < 0 {
					lost = i
				}
				if got.Lost >= 0 && applied && !o.reads() {
					if r.Applied || r.Reason != "rolled_back" {
						t.Fatalf("%d: %+v, want rolled back", i, r)
					}
					if row, live := m.live(o.Key); live && o.Op != KVCheck {
						row.version = -1 // never given out
						m.keys[o.Key] = row
					}
					continue
				}
				if r.Applied != applied || r.Reason != reason {
					t.Fatalf("%d: %+v: applied %v %q, want %v %q", i, o, r.Applied, r.Reason, applied, reason)
				}
				row, live := m.live(o.Key)
				if applied && live && (o.Op == KVPut || o.Op == KVPutIfAbsent || o.Op == KVIncr) {
					row.version = r.Version
					m.keys[o.Key] = row
				}
				switch {
				case got.Lost >= 0:
				case !live:
					if r.Version != 0 || r.Value != nil {
						t.Fatalf("%d: %+v, want nothing there", i, r)
					}
				case r.Version != row.version || string(r.Value) != row.value || r.ExpiresAt.IsZero() != (row.expires == 0):
					t.Fatalf("%d: %+v, want %+v", i, r, row)
				}
			}
			if got.Lost != lost {
				t.Fatalf("lost %d, want %d", got.Lost, lost)
			}
			if lost >= 0 {
				m = before
			} else {
				most := newest
				for i, o := range ops {
					if r := got.Results[i]; r.Applied && (o.Op == KVPut || o.Op == KVPutIfAbsent || o.Op == KVIncr) {
						if r.Version <= newest {
							t.Fatalf("%d: version %d was given out before (%d)", i, r.Version, newest)
						}
						most = max(most, r.Version)
					}
				}
				newest = most
			}
			checkKeys(t, e, ns, m)
		}
	})
}

// drawOp draws an operation, with conditions that often hold.
func drawOp(t *rapid.T, ns string, m *kvModel) KVOp {
	o := KVOp{NS: ns, Key: rapid.SampledFrom([]string{"a", "b", "a/b", "é"}).Draw(t, "key")}
	o.Op = rapid.SampledFrom([]KVKind{KVGet, KVPut, KVPutIfAbsent, KVDelete, KVIncr, KVIncr, KVCheck}).Draw(t, "op")
	if o.Op != KVGet {
		o.Required = rapid.IntRange(0, 5).Draw(t, "required") == 0
	}
	switch o.Op {
	case KVPut, KVPutIfAbsent, KVIncr:
		if o.Forever = rapid.Bool().Draw(t, "forever"); !o.Forever {
			o.TTLSeconds = rapid.SampledFrom([]int64{1800, 5400}).Draw(t, "ttl")
		}
	}
	switch o.Op {
	case KVPut, KVPutIfAbsent:
		o.Value = []byte(rapid.SampledFrom([]string{"null", "7", `"x\u0000"`, ` {"a": 1, "a": 2} `, "1e400", "-3"}).Draw(t, "value"))
	case KVIncr:
		o.Delta = strconv.Itoa(rapid.IntRange(-5, 5).Draw(t, "delta"))
		if rapid.Bool().Draw(t, "bounded") {
			o.Min, o.Max = "-4", "9"
		}
	}
	if o.Op == KVCheck || (o.Op == KVPut || o.Op == KVDelete) && rapid.Bool().Draw(t, "conditional") {
		v := int64(0)
		if row, live := m.live(o.Key); live && rapid.IntRange(0, 3).Draw(t, "right version") > 0 {
			v = row.version
		}
		if v < 0 || rapid.IntRange(0, 5).Draw(t, "wrong version") == 0 {
			v = 1
		}
		o.Expect = &v
	}
	return o
}

// checkKeys compares all that is there, by get, getMany and page by page.
func checkKeys(t *rapid.T, e *Engine, ns string, m *kvModel) {
	t.Helper()
	all := []string{"a", "a/b", "b", "é"} // ascending by bytes
	ops := []KVOp{{Op: KVGetMany, NS: ns, Keys: all}}
	for _, k := range all {
		ops = append(ops, KVOp{Op: KVGet, NS: ns, Key: k})
	}
	ops = append(ops, KVOp{Op: KVGetPrefix, NS: ns, Prefix: "a", Limit: 1})
	got, err := e.KV(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	var live, missing, found []string
	for i, k := range all {
		row, there := m.live(k)
		r := got.Results[1+i]
		if r.Applied != there || there && (string(r.Value) != row.value || r.Version != row.version) {
			t.Fatalf("get %q: %+v, want %+v %v", k, r, row, there)
		}
		if there {
			live = append(live, k)
		} else {
			missing = append(missing, k)
		}
	}
	for _, r := range got.Results[0].Rows {
		found = append(found, r.Key)
	}
	if !slices.Equal(found, live) || !slices.Equal(got.Results[0].Missing, missing) {
		t.Fatalf("getMany: %v and not %v, want %v and not %v", found, got.Results[0].Missing, live, missing)
	}
	var walked []string
	page := got.Results[len(ops)-1]
	for {
		for _, r := range page.Rows {
			walked = append(walked, r.Key)
		}
		if !page.Truncated {
			break
		}
		next, err := e.KV(t.Context(), []KVOp{{Op: KVGetPrefix, NS: ns, Prefix: "a", Limit: 1, After: page.NextAfter}})
		if err != nil {
			t.Fatal(err)
		}
		page = next.Results[0]
	}
	want := slices.DeleteFunc(slices.Clone(live), func(k string) bool { return !strings.HasPrefix(k, "a") })
	if !slices.Equal(walked, want) {
		t.Fatalf("pages hold %v, want %v", walked, want)
	}
}

// TestOneOfManyWinsAKey: of callers at once, on two brokers, exactly one puts
// what must be absent, in any order of keys; counters lose nothing.
func TestOneOfManyWinsAKey(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	brokers := []*Engine{openEngine(t, db), openEngine(t, storetest.Open(t, db))}
	const callers = 16
	var mu sync.Mutex
	won := map[string]int{}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			ops := []KVOp{
				{Op: KVPutIfAbsent, NS: "n", Key: "a", Value: []byte("1"), Forever: true},
				{Op: KVPutIfAbsent, NS: "n", Key: "b", Value: []byte("1"), Forever: true},
				{Op: KVIncr, NS: "n", Key: "sum", Delta: strconv.Itoa(i), TTLSeconds: 60},
			}
			if i%2 == 1 {
				ops[0], ops[1] = ops[1], ops[0]
			}
			got, err := brokers[i/2%2].KV(t.Context(), ops)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for k, r := range got.Results[:2] {
				if r.Applied {
					won[ops[k].Key]++
				}
			}
		})
	}
	wg.Wait()
	if won["a"] != 1 || won["b"] != 1 {
		t.Errorf("winners: %v, want one of each", won)
	}
	got, err := brokers[0].KV(t.Context(), []KVOp{{Op: KVGet, NS: "n", Key: "sum"}})
	if err != nil || string(got.Results[0].Value) != strconv.Itoa(callers*(callers-1)/2) {
		t.Errorf("sum: %s, %v", got.Results[0].Value, err)
	}
}

// TestPurgeDeletesWhatHasExpired: bounded steps, each going on where the one
// before it ended; what lives stays.
func TestPurgeDeletesWhatHasExpired(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	e := openEngine(t, db, func(c *Config) { c.RetentionEvery = time.Hour })
	pool := storetest.Pool(t, db)
	var ops []KVOp
	for i := range 20 {
		ops = append(ops, KVOp{Op: KVPut, NS: "n", Key: fmt.Sprint(i), Value: []byte("1"), TTLSeconds: int64(1000 + 1000*(i%2) + i)})
	}
	ops = append(ops, KVOp{Op: KVPut, NS: "n", Key: "forever", Value: []byte("1"), Forever: true})
	if _, err := e.KV(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	agePool(t, pool, 1500)
	after, total := time.Time{}, 0
	for _, want := range []int{6, 4, 0} {
		n, upto, err := db.PurgeKV(t.Context(), after, 6)
		if err != nil || n != want || upto.Before(after) {
			t.Fatalf("purged %d up to %v after %v, %v; want %d", n, upto, after, err, want)
		}
		after, total = upto, total+n
	}
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM kv`).Scan(&left); err != nil || left != 11 || total != 10 {
		t.Errorf("%d keys left, %d purged, %v; want 11 and 10", left, total, err)
	}
}

// contextWithTimeout ends a test that waits for what does not come.
func contextWithTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}
