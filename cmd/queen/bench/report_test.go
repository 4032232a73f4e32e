package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func sampleReport() *Report {
	out := Outcome{
		A: SideReport{Name: "one", Rounds: rounds(50e6, 20, 60e6, 30)},
		B: &SideReport{Name: "two", Rounds: rounds(100e6, 10, 100e6, 10)},
	}
	out.sum(true)
	idempotent := true
	return &Report{Mode: "produce", Outcome: out, Conditions: Conditions{
		Cores: 2, Payload: Random, Size: 1024, Partitions: 12, Acks: "all", Compression: "none", Idempotent: &idempotent,
		PostgreSQL: map[string]string{"server_version": "15.1", "fsync": "on"}, Rounds: 2, Duration: "5s",
	}}
}

func TestReportAsJSONHasWhatScriptsRead(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := sampleReport().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Mode  string
		Ratio struct{ Throughput, P99 float64 }
		A, B  struct {
			Name   string
			Rounds []struct{ BytesPerSecond float64 }
			Median struct{ BytesPerSecond float64 }
		}
		Conditions struct {
			Cores, Size, Partitions, Rounds int
			Payload, Acks, Compression      string
			PostgreSQL                      map[string]string
		}
	}
	d := json.NewDecoder(&b)
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Ratio.Throughput != 0.55 || got.Ratio.P99 != 2.5 {
		t.Errorf("ratio %+v, want throughput 0.55 and p99 2.5", got.Ratio)
	}
	if len(got.A.Rounds) != 2 || len(got.B.Rounds) != 2 || got.A.Rounds[1].BytesPerSecond != 60e6 || got.A.Median.BytesPerSecond != 55e6 {
		t.Errorf("sides %+v and %+v, want them round by round with the median", got.A, got.B)
	}
	if c := got.Conditions; c.Cores != 2 || c.Payload != "random" || c.Acks != "all" || c.PostgreSQL["fsync"] != "on" {
		t.Errorf("conditions %+v", c)
	}
}

func TestReportOfAFixedRateShowsLatencies(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	for _, s := range []*SideReport{&r.A, r.B} {
		for i := range s.Rounds {
			s.Rounds[i].LatencyMS.P999, s.Rounds[i].LatencyMS.Max = 77.7, 88.8
			s.Rounds[i].SentLateMS = &Latency{P99: 5.5}
		}
	}
	r.sum(true)
	r.Conditions.Rate, r.Conditions.Linger = 5000, "0s"
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p50 A/B", "p99 A/B", "2.500", "A p99.9 ms", "77.7", "88.8", "B sent late p99 ms", "5.5", "5000 records/s", "linger 0s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, b.String())
		}
	}
}

func TestReportAsTextShowsRatioAndConditions(t *testing.T) {
	t.Parallel()
	r := sampleReport()
	r.Ratio.ThroughputSpread.Low95, r.Ratio.ThroughputSpread.High95 = 0.123, 0.987
	r.Conditions.Turn = "250ms"
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"95 % 0.123 to 0.987", "sides in turn of 250ms within a round", "A  one", "B  two", "0.500", "0.600", "0.550", "fsync=on", "acks=all", "12 partitions"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("report lacks %q:\n%s", want, b.String())
		}
	}
}
