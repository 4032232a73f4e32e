package main

import (
	"strings"
	"testing"
)

func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	const external = "--database-url=postgres://127.0.0.1:1/x"
	refused := func(flag, fix, line string) {
		t.Helper()
		code, out, log := runQueen(strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.Contains(log, flag+" has no effect ") || !strings.Contains(log, fix) {
			t.Errorf("queen %s: code %d, stdout %q, stderr %q; want code %d, %q and %q", line, code, out, log, exitUsage, flag, fix)
		}
	}
	serve := "serve --database-wait=0s --kafka-addr=127.0.0.1:0 --http-addr=127.0.0.1:0 " + external
	refused("--postgres-bin", "leave out one", serve+" --postgres-bin=/x")
	refused("--postgres-bin", "leave out one", "migrate --postgres-bin=/x "+external)
	refused("--dedup-cache-mb", "leave out one", serve+" --no-dedup-cache --dedup-cache-mb=512")
	refused("--read-cache-mb", "--data-dir", serve+" --read-cache-mb=1024")
	refused("--http", "--serve", "bench push --serve --http=127.0.0.1:1")
	refused("--http", "--engine", "bench push --engine --http=127.0.0.1:1")
	refused("--http", "--serve", "bench dedup --serve --http=127.0.0.1:1")
	refused("--http", "--serve", "bench pop --serve --http=127.0.0.1:1")
	refused("--brokers", "--serve", "bench produce --serve --brokers=127.0.0.1:1")
	refused("--brokers", "--serve", "bench e2e --serve --brokers=127.0.0.1:1")
	refused("--brokers", "--serve", "bench consume --serve --brokers=127.0.0.1:1")
	refused("--brokers", "--serve", "bench kafka --serve --vs=127.0.0.1:1 --brokers=127.0.0.1:1")
	refused("--data-dir", "leave out one", "bench baseline --data-dir=/x "+external)
	refused("--row", "--vs baseline", "bench push --row=4096")
	refused("--connections", "--vs baseline", "bench produce --vs=127.0.0.1:1 --connections=8")
	refused("--vs-topic-config", "--vs", "bench produce --vs-topic-config=flush.messages=1")

	t.Run("a variable names a flag, too", func(t *testing.T) {
		t.Setenv("QUEEN_POSTGRES_BIN", "/x")
		refused("--postgres-bin (QUEEN_POSTGRES_BIN)", "leave out one", serve)
		t.Setenv("QUEEN_DEDUP_CACHE", "0")
		t.Setenv("QUEEN_DEDUP_CACHE_MB", "7")
		refused("--dedup-cache-mb (QUEEN_DEDUP_CACHE_MB)", "QUEEN_DEDUP_CACHE=0", serve)
	})
	t.Run("defaults and what agrees are none", func(t *testing.T) {
		for _, more := range []string{"", " --no-dedup-cache", " --read-cache-mb=0", " --insecure --unsafe-database", " --broker-id=7"} {
			if code, _, log := runQueen(strings.Fields(serve + more)...); code != exitFailed || !strings.Contains(log, "connection refused") {
				t.Errorf("queen %s: code %d, stderr %q; want it to look for the database", serve+more, code, log)
			}
		}
	})
}

// A variable may be set for other commands: who does not see it in the line is told.
func TestUsageErrorsNameTheVariable(t *testing.T) {
	t.Setenv("QUEEN_OUTPUT", "table")
	code, _, log := runQueen("bench", "produce")
	if code != exitUsage || !strings.Contains(log, `QUEEN_OUTPUT says "table"`) {
		t.Errorf("code %d, stderr %q; want the variable named", code, log)
	}
}
