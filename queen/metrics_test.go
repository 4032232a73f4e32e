package queen

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"queenmq/store/storetest"
)

// gathered are a registry's samples by "name label…"; of a histogram its count, and its
// sum under "name_sum label…".
func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			h := m.GetHistogram()
			out[f.GetName()+labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(h.GetSampleCount())
			if h != nil {
				out[f.GetName()+"_sum"+labels] = h.GetSampleSum()
			}
		}
	}
	return out
}

// TestDeduplicationIsCounted: verdicts by layer, and what was looked through by what the
// memory of ids could say.
func TestDeduplicationIsCounted(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	r := prometheus.NewRegistry()
	e := openEngine(t, db, func(c *Config) { c.Registry = r })
	var was map[string]float64
	moved := func(what string, want map[string]float64) {
		t.Helper()
		is := gathered(t, r)
		for name, now := range is {
			if !strings.HasPrefix(name, "queen_dedup_") || strings.HasPrefix(name, "queen_dedup_cache_bytes") ||
				strings.HasPrefix(name, "queen_dedup_probe_seconds_sum") {
				continue
			}
			if now-was[name] != want[name] {
				t.Errorf("%s: %s moved by %v, want %v", what, name, now-was[name], want[name])
			}
		}
		for name := range want {
			if _, ok := is[name]; !ok {
				t.Errorf("there is no %s", name)
			}
		}
		was = is
	}
	push := func(e *Engine, ids ...string) {
		t.Helper()
		var msgs []Message
		for _, id := range ids {
			msgs = append(msgs, Message{Queue: "q", ID: []byte(id), Value: []byte("x")})
		}
		for _, p := range e.Push(t.Context(), msgs) {
			if p.Err != nil {
				t.Fatal(p.Err)
			}
		}
	}
	const verdicts, answers, offsets, seconds = "queen_dedup_verdicts_total", "queen_dedup_cache_answers_total", "queen_dedup_probe_offsets", "queen_dedup_probe_seconds"
	moved("nothing yet", nil)
	push(e, "a", "b", "a")
	moved("a new partition", map[string]float64{
		verdicts + " ledger new": 2, verdicts + " request duplicate": 1,
		answers + " vouched": 1, offsets + " vouched": 1, seconds + " vouched": 1,
		"queen_dedup_cache_partitions": 1, "queen_dedup_cache_hashes": 2,
	})
	push(e, "c", "b")
	moved("a suspect", map[string]float64{
		verdicts + " ledger new": 1, verdicts + " ledger duplicate": 1,
		answers + " suspect": 1, offsets + " suspect": 1, offsets + "_sum suspect": 2, seconds + " suspect": 1,
		"queen_dedup_cache_hashes": 1,
	})
	if s := was[seconds+"_sum suspect"]; s <= 0 {
		t.Errorf("a call took %v s", s)
	}
	sourced(t, e, "t", DedupSourceKey)
	wantBase(t, e, "t", keyed(t, codecNone, "k", "l", "k"), 0)
	moved("records", map[string]float64{
		verdicts + " ledger new": 2, verdicts + " flush duplicate": 1,
		answers + " vouched": 1, offsets + " vouched": 1, seconds + " vouched": 1,
		"queen_dedup_cache_partitions": 1, "queen_dedup_cache_hashes": 2,
	})
	zero := 0
	if _, err := e.Configure(t.Context(), "off", OptionsPatch{DedupWindowSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	pushOne(t, e, "off", "a")
	moved("where nobody looks", nil)
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprint("id-", i)
	}
	other := openEngine(t, storetest.Open(t, db))
	push(other, many...)
	push(other, "d")
	push(e, "e") // is a gap to whoever hears of it
	for e.cache.Stats().CatchUps == 0 || e.cache.Stats().Hashes != 3+2+300+1+1 {
		runtime.Gosched()
	}
	is := gathered(t, r)
	p, err := e.catalog.named(t.Context(), "q", DefaultPartition)
	if err != nil {
		t.Fatal(err)
	}
	was = is
	e.cache.Forget(p.id)
	push(e, "d")
	for e.cache.Stats().Hydrations == 0 || e.cache.Stats().Hashes != 3+2+300+1+1 {
		runtime.Gosched()
	}
	moved("after it was forgotten", map[string]float64{
		verdicts + " ledger duplicate": 1,
		answers + " cold":              1, offsets + " cold": 1, offsets + "_sum cold": 305, seconds + " cold": 1,
		"queen_dedup_cache_hydrations_total": 1,
	})
	for _, name := range []string{"suppressed_partitions", "evictions_total", "bytes", "bytes_max"} {
		if _, ok := is["queen_dedup_cache_"+name]; !ok {
			t.Errorf("there is no queen_dedup_cache_%s", name)
		}
	}
}
