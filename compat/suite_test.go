package compat

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryCaseHasItsOwnName(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range Cases() {
		if seen[c.Name] || !strings.Contains(c.Name, "/") || strings.ContainsAny(c.Name, " _") {
			t.Errorf("case %q: names are subject/behaviour in words joined by -, each used once", c.Name)
		}
		seen[c.Name] = true
	}
}

func TestCaseOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		run    func(context.Context, *T)
		want   Outcome
		detail string
	}{
		{"nothing wrong", func(context.Context, *T) {}, Pass, ""},
		{"a measurement", func(_ context.Context, t *T) { t.Notef("%d ms", 7) }, Pass, "7 ms"},
		{"two failures", func(_ context.Context, t *T) { t.Errorf("one"); t.Errorf("two") }, Fail, "one\ntwo"},
		{"an end", func(_ context.Context, t *T) { t.Fatalf("one"); t.Errorf("two") }, Fail, "one"},
		{"not offered", func(_ context.Context, t *T) { t.Skipf("no %s", "such") }, Skip, "no such"},
		{"a failure before not offered", func(_ context.Context, t *T) { t.Errorf("one"); t.Skipf("no") }, Fail, "one"},
		{"an error code", func(_ context.Context, t *T) { t.wantCode("x", 3, 0, 1) }, Fail, "x: answered 3 UNKNOWN_TOPIC_OR_PARTITION, want 0 or 1 OFFSET_OUT_OF_RANGE"},
		{"cleanup after an end", func(_ context.Context, t *T) {
			t.cleanup(func() { t.Errorf("second") })
			t.cleanup(func() { t.Errorf("first") })
			t.Fatalf("end")
		}, Fail, "end\nfirst\nsecond"},
	} {
		r := RunCase(t.Context(), Options{}, Case{"x/" + c.what, c.run})
		if r.Result != c.want || r.Detail != c.detail {
			t.Errorf("%s: %s %q, want %s %q", c.what, r.Result, r.Detail, c.want, c.detail)
		}
	}
	r := RunCase(t.Context(), Options{}, Case{"x/panic", func(context.Context, *T) { panic("boom") }})
	if r.Result != Fail || !strings.HasPrefix(r.Detail, "panic: boom") {
		t.Errorf("a panic: %s %q", r.Result, r.Detail)
	}
}

func TestCaseThatHangsFailsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		start := time.Now()
		r := RunCase(t.Context(), Options{Timeout: time.Minute}, Case{"x/hang", func(context.Context, *T) { <-release }})
		if want := "not finished after 1m0s\nnor 20s later"; r.Result != Fail || r.Detail != want {
			t.Errorf("%s %q, want %q", r.Result, r.Detail, want)
		}
		if took := time.Since(start); took != 80*time.Second {
			t.Errorf("reported after %s", took)
		}
		close(release)
	})
}

func TestReportIsStableJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(Report{Cases: []Result{{"a/b", Pass, 12, ""}, {"c/d", Skip, 0, "not offered"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cases":[{"name":"a/b","result":"pass","ms":12,"detail":""},{"name":"c/d","result":"skip","ms":0,"detail":"not offered"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	brokers := []string{"127.0.0.1:1"}
	f := func(want string, o Options) {
		t.Helper()
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	f("no brokers", Options{})
	f("timeout", Options{Brokers: brokers, Timeout: -1})
	f("parallel", Options{Brokers: brokers, Parallel: -1})
	f("filter", Options{Brokers: brokers, Filter: "("})
	f(`no case's name matches "no such case"`, Options{Brokers: brokers, Filter: "no such case"})
	f("no broker answers", Options{Brokers: brokers})
}

func TestCaseThatIsInterruptedSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancelCause(t.Context())
		release := make(chan struct{})
		r := RunCase(ctx, Options{}, Case{"x/y", func(context.Context, *T) {
			interrupt(errors.New("interrupted"))
			<-release
		}})
		if want := "interrupted\nnor 20s later"; r.Result != Fail || r.Detail != want {
			t.Errorf("%s %q, want %q", r.Result, r.Detail, want)
		}
		close(release)
	})
}
