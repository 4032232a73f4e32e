package compat

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"queenmq/compat/broker"
)

// used is the processor time taken so far.
type used struct {
	broker, database time.Duration
	at               time.Time
}

func (u used) all() time.Duration { return u.broker + u.database }

// usedBy reads /proc. Of the database, processes that have ended count too.
func usedBy(t *testing.T, pid int, dataDir string) used {
	t.Helper()
	pg, err := broker.Postgres(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var inBroker, inDatabase int64
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
		ticks := func(from, to int) (sum int64) {
			for _, f := range fields[from:to] {
				n, _ := strconv.ParseInt(f, 10, 64)
				sum += n
			}
			return sum
		}
		switch parent, _ := strconv.Atoi(fields[1]); {
		case id == pid:
			inBroker += ticks(11, 13) // user and system
		case id == pg.PID:
			inDatabase += ticks(11, 15) // and of children that ended
		case parent == pg.PID:
			inDatabase += ticks(11, 13)
		}
	}
	const tick = time.Second / 100
	return used{time.Duration(inBroker) * tick, time.Duration(inDatabase) * tick, time.Now()}
}

// residentMB is a process's memory in MB, now and at most.
func residentMB(t *testing.T, pid int) (now, peak int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for name, to := range map[string]*int{"VmRSS:": &now, "VmHWM:": &peak} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				kb, err := strconv.Atoi(strings.Fields(rest)[0])
				if err != nil {
					t.Fatal(err)
				}
				*to = kb >> 10
			}
		}
	}
	return now, peak
}
