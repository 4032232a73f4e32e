package localpg

import "testing"

// What a server of a full disk wrote while it started, to clients who came too early too.
func TestWhatClientsWereToldExplainsNothing(t *testing.T) {
	t.Parallel()
	const log = `2026-11-30 21:02:30.101 UTC [13199]  LOG:  starting PostgreSQL 15.18
2026-11-30 21:02:30.631 UTC [13251]  LOG:  redo done at 0/4FFFAC0
2026-11-30 21:02:30.643 UTC [13355] [unknown] FATAL:  the database system is not yet accepting connections
2026-11-30 21:02:30.648 UTC [13357] [unknown] FATAL:  the database system is not yet accepting connections
2026-11-30 21:02:30.648 UTC [13355] [unknown] DETAIL:  Consistent recovery state has not been yet reached.
2026-11-30 21:02:30.699 UTC [13251]  FATAL:  could not write to file "pg_wal/xlogtemp.13251": No space left on device
2026-11-30 21:02:30.700 UTC [13251]  HINT:  Make room.
2026-11-30 21:02:30.700 UTC [13357] [unknown] DETAIL:  Consistent recovery state has not been yet reached.
2026-11-30 21:02:30.738 UTC [13199]  LOG:  startup process (PID 13251) exited with exit code 1
`
	const want = `could not write to file "pg_wal/xlogtemp.13251": No space left on device; Make room.`
	if got := messages(log, "FATAL:", "PANIC:", "DETAIL:", "HINT:"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
