package compat

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queenmq/compat/broker"
)

// TestParkedPollsHoldNothingOfTheDatabase parks long polls, half of them on one
// queue and the rest on queues of their own: no connection is added, none is busy,
// and each is served by the push that it waits for. PARKED=1000 makes it the sized
// run, which also counts what they cost.
func TestParkedPollsHoldNothingOfTheDatabase(t *testing.T) {
	t.Parallel()
	n, sized := 60, false
	if s := os.Getenv("PARKED"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
		sized = true
	}
	ctx := within(t, 5*time.Minute)
	dir := broker.TempDataDir(t)
	p := start(t, broker.Config{DataDir: dir})
	db := database(ctx, t, dir)
	push(ctx, t, p, item{Queue: "shared", Payload: 0})
	call(ctx, t, p, "GET", "/api/v1/pop/queue/shared?autoAck=true", nil, nil, http.StatusOK)

	t.Run("a client that hangs up takes nothing", func(t *testing.T) { hangUps(ctx, t, p) })

	backends := func() (all, busy int) {
		t.Helper()
		if err := db.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&all, &busy); err != nil {
			t.Fatal(err)
		}
		return all, busy
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 0}}
	defer client.CloseIdleConnections()
	served := make(chan int, n)
	queueOf := func(i int) string {
		if i%2 == 0 {
			return "shared"
		}
		return fmt.Sprintf("own-%d", i)
	}
	for i := range n {
		go func() {
			req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.HTTP+"/api/v1/pop/queue/"+queueOf(i)+"?wait=true&timeout=600000&autoAck=true", nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				served <- 0
				return
			}
			_ = resp.Body.Close()
			served <- resp.StatusCode
		}()
	}
	untilInFlight(ctx, t, p, n)
	if sized {
		span := 20 * time.Second
		before, calls := usedBy(t, p.PID(), dir).all(), statements(ctx, t, db)
		quiet := time.NewTimer(span)
		<-quiet.C
		used := usedBy(t, p.PID(), dir).all() - before
		t.Logf("%d parked polls for %s: %s of CPU (broker and its database), %.1f %% of a core; %d transactions a second", n, span,
			used, 100*used.Seconds()/span.Seconds(), (statements(ctx, t, db)-calls)/int64(span.Seconds()))
		if used > span/10 {
			t.Errorf("they cost %.1f %% of a core, want under 10", 100*used.Seconds()/span.Seconds())
		}
	}
	// The pools are what they are for any load: parked polls are many more.
	all, busy := backends()
	for i := 0; busy > 2 && i < 100; i++ { // the broker's own: heartbeat, catalog, retention
		all, busy = backends()
	}
	if all > 20 || busy > 2 {
		t.Errorf("%d parked polls: %d connections, %d busy", n, all, busy)
	}
	for i := range n {
		push(ctx, t, p, item{Queue: queueOf(i), Partition: fmt.Sprint(i), Payload: i})
	}
	for range n {
		select {
		case status := <-served:
			if status != http.StatusOK {
				t.Fatalf("a parked poll was answered %d", status)
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d polls were served", n-len(served), n)
		}
	}
}

// hangUps (H07): somebody waits for a message and leaves; the next one has it at
// once, with a lease and without. Where the two are as close as can be the broker
// may have written the answer to somebody who had just left, and then it is given
// when that lease ends.
func hangUps(ctx context.Context, t *testing.T, p *broker.Process) {
	for i := range 30 {
		race, more := i%3 == 2, "&leaseSeconds=300"
		switch {
		case race:
			more = "&leaseSeconds=1"
		case i%3 == 1:
			more = "&autoAck=true"
		}
		leaving, leave := context.WithCancel(ctx)
		left := make(chan int, 1)
		go func() {
			status, _, _ := try(leaving, p, "GET", "/api/v1/pop/queue/left?wait=true&timeout=60000"+more, nil)
			left <- status
		}()
		untilInFlight(ctx, t, p, 2) // with the question itself
		if race {
			go leave()
		} else {
			leave()
			<-left
			untilFewer(ctx, t, p, 2)
		}
		id := fmt.Sprintf("hangup-%d", i)
		push(ctx, t, p, item{Queue: "left", Payload: i, TransactionID: id})
		if race {
			if status := <-left; status != 0 { // it was there to the end; its lease of a second ends
				t.Logf("round %d: the answer came before the hang-up", i)
			}
		}
		leave()
		next := pop(ctx, t, p, "/api/v1/pop/queue/left?wait=true&timeout=60000&autoAck=true")
		if len(next) != 1 || next[0].TransactionID != id {
			t.Fatalf("round %d (%s): popped %+v, want %s", i, more, next, id)
		}
	}
}

// untilInFlight waits until the broker holds so many requests.
func untilInFlight(ctx context.Context, t *testing.T, p *broker.Process, n int) {
	t.Helper()
	inFlight(ctx, t, p, func(v int) bool { return v >= n })
}

// untilFewer waits until it holds fewer.
func untilFewer(ctx context.Context, t *testing.T, p *broker.Process, n int) {
	t.Helper()
	inFlight(ctx, t, p, func(v int) bool { return v < n })
}

func inFlight(ctx context.Context, t *testing.T, p *broker.Process, enough func(int) bool) {
	t.Helper()
	for ctx.Err() == nil {
		_, text, err := try(ctx, p, "GET", "/metrics/prometheus", nil)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if v, err := strconv.ParseFloat(value, 64); err == nil && strings.Contains(name, "http") && strings.Contains(name, "in_flight") && enough(int(v)) {
				return
			}
		}
	}
	t.Fatal("the requests are not as many as they should be")
}

// statements is how many transactions the database has ended.
func statements(ctx context.Context, t *testing.T, db *pgx.Conn) (n int64) {
	t.Helper()
	if err := db.QueryRow(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
