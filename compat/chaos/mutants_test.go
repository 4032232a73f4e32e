//go:build mutant

package chaos

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// change is one replacement in a file of the product.
type change struct{ file, old, new string }

const (
	appendSQL = "store/schema/functions/append_1.sql"
	// underFaults is the run of this package, with the seed of the short lane.
	underFaults = "TestNothingIsLostOrDoubledUnderFaults"
)

// mutants are mistakes somebody could make, each with the nearest test, which
// must fail. Where that is a run under faults, says is a violation it may find:
// another failure would be of the harness.
var mutants = []struct {
	name    string
	changes []change
	pkg     string
	test    string
	says    []string
}{
	{name: "probe in the statement that locks", pkg: "./store", test: "TestAppendConcurrentIDsAreStoredOnce", changes: []change{
		{appendSQL, "ORDER BY p.id FOR NO KEY UPDATE);", "ORDER BY p.id);"},
		{appendSQL, "FROM probe_1(v_pid, v_from,", "FROM (SELECT p.id FROM log_partitions p WHERE p.id = v_pid FOR NO KEY UPDATE) held CROSS JOIN LATERAL probe_1(held.id, v_from,"},
		{appendSQL, "v_probe := p_repeats[s] OR s = ANY (p_uid_segment);", "v_probe := true;"},
		{appendSQL, "            -- 5 Write.\n", `
			SELECT t.end_offset + 1, t.created_at INTO next_offset, v_newest FROM log_txns t
			 WHERE t.partition_id = v_pid ORDER BY t.end_offset DESC LIMIT 1;
			next_offset := COALESCE(next_offset, 0);
			v_newest := COALESCE(v_newest, '-infinity');
			v_at := next_offset + p_parts[s];
`},
		{"store/schema/functions/probe_1.sql", "LANGUAGE plpgsql VOLATILE", "LANGUAGE plpgsql STABLE"},
		{"store/schema/functions/rows_probe_1.sql", "LANGUAGE plpgsql VOLATILE", "LANGUAGE plpgsql STABLE"},
		{"store/schema/functions/runs_probe_1.sql", "LANGUAGE plpgsql VOLATILE", "LANGUAGE plpgsql STABLE"},
	}},
	{name: "partitions locked in any order", pkg: "./store", test: "TestAppendBundlesInAnyOverlapDoNotDeadlock", changes: []change{
		{appendSQL, "ORDER BY p.id FOR NO KEY UPDATE);", "ORDER BY random() FOR NO KEY UPDATE);"},
	}},
	{name: "an earlier attempt is not looked for", pkg: "./store", test: "TestAppendRepeatedCallIsStoredOnce", changes: []change{
		{appendSQL, "IF next_offset > p_known[s] THEN", "IF false THEN"},
	}},
	{name: "one remembered batch per producer, not five", pkg: "./queen", test: "TestSequenceRuleInSQLIsTheRuleInGo", changes: []change{
		{appendSQL, "IF v_count >= 5 THEN", "IF v_count >= 1 THEN"},
		{appendSQL, "[v_count - 3 :]", "[v_count + 1 :]"},
	}},
	{name: "a producer's epoch is not fenced", pkg: "./queen", test: "TestSequenceRuleInSQLIsTheRuleInGo", changes: []change{
		{appendSQL, "IF p_part_epoch[k] < v_state.epoch THEN", "IF false THEN"},
	}},
	{name: "the epoch of a coordinator is not checked", pkg: "./queen", test: "TestSlotsAreSharedAndGivenBack", changes: []change{
		{"store/schema/functions/cursors_commit_1.sql", "IF p_slot_epoch <> 0 THEN", "IF false THEN"},
	}},
	{name: "a slot is looked at without its lock", pkg: "./store", test: "TestATakeoverWaitsForCommitsUnderWay", changes: []change{
		{"store/schema/functions/cursors_commit_1.sql", "AND s.epoch = p_slot_epoch FOR SHARE;", "AND s.epoch = p_slot_epoch;"},
	}},
	{name: "ids are purged inside the window", pkg: "./store", test: "TestSidecarPurgeKeepsTheWindowAndTheNewestRow", changes: []change{
		{"store/schema/functions/txns_purge_1.sql", "GREATEST(q.dedup_window_seconds, ", "GREATEST("},
	}},
	{name: "the log start is raised without the lock", pkg: "./store", test: "TestLogStartIsRaisedUnderTheLock", changes: []change{
		{"store/schema/functions/log_start_raise_1.sql", "WHERE id = p_partition FOR NO KEY UPDATE;", "WHERE id = p_partition;"},
	}},
	{name: "a repeated call is another call", pkg: "./compat/chaos", test: "TestALateFirstAttemptStoresNothing", changes: []change{
		{"queen/writer.go", "now.Before(f.seg.deadline) && ctx.Err() == nil {\n", "now.Before(f.seg.deadline) && ctx.Err() == nil {\n\t\t\tw.prepare(ctx, f)\n"},
	}},
	{name: "the cache decides what is new", pkg: "./queen", test: "TestPushTheSameIDsThroughTwoBrokersStoresEachOnce", changes: []change{
		{"queen/writer.go", "f.call.Window, f.call.Verified = int32(window), vouched.Verified", "f.call.Window, f.call.Verified = int32(window), 1<<40"},
	}},
	{name: "the cache does not see a gap", pkg: "./dedup", test: ".", changes: []change{
		{"dedup/memory.go", "case base > m.verified+1:\n\t\treturn gap", "case false:\n\t\treturn gap"},
	}},
	{name: "an id stored after the sieve was made is not in it", pkg: "./dedup", test: "TestMergedMemoryMissesNothing", changes: []change{
		{"dedup/memory.go", "m.sieve.add(k)\n", "\n"},
	}},
	{name: "an id stored while the sieve was made is not in it", pkg: "./dedup", test: "TestMergedMemoryMissesNothing", changes: []change{
		{"dedup/sieve.go", "s.addAll(m.blocks[i].keys)", "_ = m.blocks[i].keys"},
	}},
	{name: "a follower in a request answers queued", pkg: "./queen", test: "TestPushRepeatedInOneRequestFollowsItsLeader", changes: []change{
		{"queen/push.go", "out[f.at].Status = Duplicate", "out[f.at].Status = Queued"},
	}},
	{name: "a follower in a flush answers queued", pkg: "./queen", test: "TestPushTheSameIDInOneFlushFollowsItsLeader", changes: []change{
		{"queen/settle.go", "status = Duplicate", "status = Queued"},
	}},
	{name: "what is packed is counted as it lies in the row", pkg: "./queen", test: "TestPackedLogGivesBackWhatWasSent", changes: []change{
		{"queen/flight.go", "part.Bytes += int32(f.packed.next())\n\t\t}", "part.Bytes += int32(f.packed.next())\n\t\t}\n\t\tpart.Size = part.Bytes"},
	}},
	{name: "what was unpacked is not held against its checksum", pkg: "./queen", test: "TestUnpackingRefusesDamage", changes: []change{
		{"queen/packing.go", "castagnoli) != want {", "castagnoli) != want && false {"},
	}},
	{name: "no position because of an error", pkg: "./kafkawire", test: "TestOffsetFetchTellsNoneFromAnError", changes: []change{
		{"kafkawire/offsets.go", "case code != codeNone:\n\t\tp.ErrorCode = code", "case code != codeNone:"},
	}},
	{name: "a partition is given before it is let go of", pkg: "./kafkawire", test: "TestConsumerGroupModel", changes: []change{
		{"kafkawire/consumer_group_reconcile.go", "return !taken || o.member == m // what", "return true || o.member == m || taken // what"},
		{"kafkawire/consumer_group_reconcile.go", "if o, taken := g.owners[p]; taken && o.member != m {", "if o, taken := g.owners[p]; false && taken && o.member != m {"},
	}},
	{name: "a member's epoch is not checked at commits", pkg: "./kafkawire", test: "TestCommitsOfConsumerGroups", changes: []change{
		{"kafkawire/consumer_group_reconcile.go", "if o, ok := g.owners[p]; !ok || o.member != m || o.since > epoch {", "if o, ok := g.owners[p]; false && (!ok || o.member != m || o.since > epoch) {"},
	}},
	{
		name: "acknowledged before the commit is on disk", pkg: "./compat/chaos", test: underFaults,
		says: []string{"lost:", "end went back:", "skipped:", "changed:", "elsewhere:", "twice:", "two names:"}, changes: []change{
			{"store/db.go", `"synchronous_commit":                  "on"`, `"synchronous_commit":                  "off"`},
		},
	},
	{
		name: "acknowledged before the commit", pkg: "./compat/chaos", test: underFaults,
		says: []string{"lost:", "elsewhere:", "stored twice:"}, changes: []change{
			{"queen/writer.go", "res, err := w.db.Append(ctx, segs, wait)\n", `go func() { _, _ = w.db.Append(context.WithoutCancel(ctx), segs, wait) }()
	res, err := make([]store.SegmentResult, len(segs)), error(nil)
	for i, s := range segs {
		at := s.Known
		for _, p := range s.Parts {
			res[i].Verdicts = append(res[i].Verdicts, store.PartStored)
			res[i].Offsets = append(res[i].Offsets, at)
			at += int64(p.Span)
		}
		res[i].Base, res[i].End, res[i].Next, res[i].Epoch, res[i].CreatedAt = s.Known, at-1, at, s.Epoch, start
	}
`},
		},
	},
	{
		name: "the end is told before the commit", pkg: "./compat/chaos", test: underFaults,
		says: []string{"end went back:", "end beyond the log:"}, changes: []change{
			{"queen/writer.go", "	res, err := w.db.Append(ctx, segs, wait)\n", `	for _, f := range bundle {
		next := f.call.Known
		for _, p := range f.call.Parts {
			next += int64(p.Span)
		}
		f.p.seen(f.call.Epoch, 0, next)
		w.waiters.wake(f.p.id)
	}
	res, err := w.db.Append(ctx, segs, wait)
`},
		},
	},
}

// The text that each mutant changes is there: the gate asks, since the mutants
// themselves take long and run seldom.
func TestMutantsFit(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) { overlay(t, root, m.changes) })
	}
}

// Every mutant is caught. The product is not touched: the compiler is told to read
// the changed text in place of a file.
func TestMutantsAreCaught(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if m.says == nil {
			m.says = []string{"--- FAIL"}
		}
		t.Run(m.name, func(t *testing.T) {
			overlay := overlay(t, root, m.changes)
			env := os.Environ()
			if m.pkg == "./compat/chaos" {
				bin := filepath.Join(t.TempDir(), "queen")
				run(t, root, env, true, "build", "-overlay", overlay, "-o", bin, "./cmd/queen")
				env = append(env, "QUEEN_BINARY="+bin)
			}
			begun := time.Now()
			out := run(t, root, env, false, "test", "-count=1", "-overlay", overlay, "-run", m.test, m.pkg)
			says := slices.IndexFunc(m.says, func(s string) bool { return strings.Contains(out, s) })
			if !strings.Contains(out, "--- FAIL") || says < 0 {
				t.Fatalf("%s fails, but not because of the mutant:\n%s", m.test, out)
			}
			t.Logf("caught by %s (%s) in %s, building included", m.test, m.says[says], time.Since(begun).Round(time.Second))
		})
	}
}

// overlay writes the changed files and the list of them that `go -overlay` reads.
func overlay(t *testing.T, root string, changes []change) string {
	t.Helper()
	dir := t.TempDir()
	text := make(map[string]string)
	for _, c := range changes {
		path := filepath.Join(root, c.file)
		if text[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text[path] = string(b)
		}
		if !strings.Contains(text[path], c.old) {
			t.Fatalf("%s has no %q any more", c.file, c.old)
		}
		text[path] = strings.ReplaceAll(text[path], c.old, c.new)
	}
	list := struct{ Replace map[string]string }{make(map[string]string)}
	for path, s := range text {
		list.Replace[path] = filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, root), "/", "-"))
		if err := os.WriteFile(list.Replace[path], []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs the go command, which must succeed, or must not.
func run(t *testing.T, root string, env []string, succeeds bool, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.CombinedOutput()
	if (err == nil) != succeeds {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
