package bench

import (
	"strings"
	"testing"
)

func TestTableShowsRatiosAndConditionsOnce(t *testing.T) {
	t.Parallel()
	produce, e2e := sampleReport(), sampleReport()
	e2e.Conditions.Rate = 5000
	produce.Conditions.Disk, e2e.Conditions.Disk = &Disk{FsyncP50MS: 0.5, WritePerSec: 4e8}, &Disk{FsyncP50MS: 0.25, WritePerSec: 3e8}
	table := Table{Cells: []Cell{
		{Load: "produce", Size: 1024, Partitions: 12, Compression: "none", Flush: "each append", Report: produce},
		{Load: "e2e", Size: 100, Partitions: 1, Compression: "none", Flush: "by its defaults", Report: e2e},
	}}
	var b strings.Builder
	if err := table.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| produce | 1024 B | 12 | none | each append | 55 MB/s | 100 MB/s | 0.55 (0.53 to 0.57) |\n",
		"| e2e | 100 B | 1 | none | by its defaults | p50 2.5 ms, p99 25.0 ms | p50 1.0 ms, p99 10.0 ms | p50 2.50 (2.25 to 2.75), p99 2.50 (2.25 to 2.75) |\n",
		"\nA one\nB two\n", "produce: random values, acks=all", "e2e: random values, 5000 records/s, acks=all",
		"fsync p50 0.25 to 0.50 ms, sequential 300 to 400 MB/s",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "postgresql "); n != 1 {
		t.Errorf("the database's settings are there %d times, want once:\n%s", n, b.String())
	}
}
