package bench

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// popServer answers each pop with the next of some batches, then with 204, and
// acknowledges all but those in refuse. It keeps what was acknowledged.
type popServer struct {
	t       *testing.T
	batches [][]string // messages as JSON
	refuse  string
	acked   []string
}

func (s *popServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if len(s.batches) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write([]byte(`{"success":true,"partitionId":"7","leaseId":"lease","messages":[` + strings.Join(s.batches[0], ",") + `]}`))
		s.batches = s.batches[1:]
		return
	}
	var body struct {
		ConsumerGroup   string
		Acknowledgments []struct{ TransactionID, PartitionID, LeaseID, Status string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.t.Errorf("ack: %v", err)
	}
	var out []string
	for _, a := range body.Acknowledgments {
		if a.PartitionID != "7" || a.LeaseID != "lease" || a.Status != "completed" || body.ConsumerGroup == "" {
			s.t.Errorf("ack %+v of group %q", a, body.ConsumerGroup)
		}
		s.acked = append(s.acked, a.TransactionID)
		out = append(out, map[bool]string{true: `{"success":true}`, false: `{"success":false}`}[a.TransactionID != s.refuse])
	}
	_, _ = w.Write([]byte("[" + strings.Join(out, ",") + "]"))
}

func popSide(t *testing.T, s *popServer, pushed uint64) *Pop {
	t.Helper()
	s.t = t
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &Pop{Take: 10, Push: &Push{
		Addr: server.Listener.Addr().String(), Queue: "q", Payload: payload(t, Text, 64), IDs: UUIDs,
		client: server.Client(), next: []uint64{pushed},
	}}
}

// message is one as a pop answers it: a number's value under an id.
func message(p *Payload, n uint64, id string) string {
	v := make([]byte, p.Size())
	p.Fill(v, n)
	return `{"id":"x","transactionId":"` + id + `","leaseId":"lease","data":` + string(v) + `}`
}

func TestPoppedMessagesAreAcknowledgedAndChecked(t *testing.T) {
	t.Parallel()
	s := &popServer{}
	p := popSide(t, s, 4)
	id := func(n uint64) string { return string(UUIDs.appendID(nil, n)) }
	s.batches = [][]string{
		{message(p.Payload, 0, id(0)), message(p.Payload, 1, id(1))},
		{message(p.Payload, 1, id(1)), message(p.Payload, 2, id(0))}, // once more; under another's id
	}
	v, err := p.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (Verified{Acknowledged: 4, Read: 4, Repeated: 1, Damaged: 1, Missing: 2}); v != want || v.err() == nil {
		t.Errorf("verified %+v, want %+v and an error", v, want)
	}
	if got, want := strings.Join(s.acked, " "), strings.Join([]string{id(0), id(1), id(1), id(0)}, " "); got != want {
		t.Errorf("acknowledged %s, want %s", got, want)
	}
}

func TestAnAckThatFailsEndsTheRun(t *testing.T) {
	t.Parallel()
	s := &popServer{refuse: "b"}
	p := popSide(t, s, 2)
	s.batches = [][]string{{message(p.Payload, 0, "a"), message(p.Payload, 1, "b")}}
	c := popper{side: p}
	if _, err := c.take(t.Context(), "g", nil); err == nil || !strings.Contains(err.Error(), "1 of 2 acknowledged") {
		t.Errorf("take: %v, want one of two acknowledged", err)
	}
}
