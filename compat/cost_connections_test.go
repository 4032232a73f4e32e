package compat

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// costOfConnections: the same load costs the same over one connection as
// over a thousand, and a connection that asks nothing costs its memory.
func (s *site) costOfConnections(size costSizes) {
	const partitions, queue = 100, "cost-native-100"
	s.makeTopics(partitions)
	to := func(r *rand.Rand, _ int) int { return r.IntN(partitions) }
	s.load(1, 0, 0, s.pushes(queue, 1000, to)(costHTTP)) // makes them
	for _, n := range size.connections {
		step := strconv.Itoa(n)
		pace := min(200, 20*float64(n)/size.span.Seconds())
		if size.sized {
			pace = 200
		}
		for _, closed := range []bool{false, true} {
			how, pace := fmt.Sprintf("%.0f requests/s", pace), pace
			if closed {
				how, pace = "closed loop", 0
			}
			s.note(step, "push of 10, "+how, s.load(n, size.span, pace, s.onOwnConnection(s.pushes(queue, 10, to))), "")
			s.note(step, "produce of 10, "+how, s.load(n, size.span, pace, s.produces(partitions, 10, 1)), "")
		}
		s.idleConnections(step, n, size)
	}
}

// onOwnConnection gives each client a connection that nobody else uses.
func (s *site) onOwnConnection(client func(*http.Client) func(int) (turn, error)) func(int) (turn, error) {
	return func(i int) (turn, error) {
		tr := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
		s.t.Cleanup(tr.CloseIdleConnections)
		return client(&http.Client{Transport: tr})(i)
	}
}

// idleConnections holds connections to both doors that ask for nothing more.
func (s *site) idleConnections(step string, n int, size costSizes) {
	s.t.Helper()
	before, _ := residentMB(s.t, s.p.PID())
	var conns []net.Conn
	for _, addr := range []string{s.p.Kafka, s.p.HTTP} {
		for range n {
			c, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(s.t.Context(), "tcp", addr)
			if err != nil {
				s.t.Fatal(err)
			}
			conns = append(conns, c)
		}
	}
	s.rest(step, fmt.Sprintf("%d more connections, idle", len(conns)), size.idle/3)
	now, _ := residentMB(s.t, s.p.PID())
	s.table.add(step, "memory", "", "", "", "", "", strconv.Itoa(now), fmt.Sprintf("%d MB more for %d connections", now-before, len(conns)))
	for _, c := range conns {
		c.Close()
	}
}
