package main

import (
	"strings"
	"testing"

	"queenmq/compat"
)

func TestCompatPrintsReasonsOfFailuresOnLines(t *testing.T) {
	t.Parallel()
	f := func(r compat.Result, want string) {
		t.Helper()
		if got := resultLine(r); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	f(compat.Result{Name: "a/b", Result: compat.Pass, MS: 1234}, "pass    1.23s  a/b\n")
	f(compat.Result{Name: "a/b", Result: compat.Pass, MS: 1234, Detail: "7 ms"}, "pass    1.23s  a/b  (7 ms)\n")
	f(compat.Result{Name: "a/b", Result: compat.Skip, Detail: "not advertised"}, "skip    0.00s  a/b  (not advertised)\n")
	f(compat.Result{Name: "a/b", Result: compat.Fail, MS: 10, Detail: "one\ntwo"}, "fail    0.01s  a/b\n        one\n        two\n")
}

func TestCompatWithoutABrokerFailsAndSaysWhere(t *testing.T) {
	t.Parallel()
	code, out, log := runQueen("compat", "--list")
	if code != 0 || !strings.Contains(out, "produce/resend-answers-original-offset\n") {
		t.Errorf("--list: code %d, %q, %q", code, out, log)
	}
	code, _, log = runQueen("compat", "--timeout=-1s")
	if code != exitUsage || !strings.Contains(log, "--timeout") {
		t.Errorf("--timeout=-1s: code %d, %q", code, log)
	}
}
