package localpg

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent makes the system send the signal to the child when the thread
// that started it ends, so the starter must be locked to a thread that lives as
// long as the child should.
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// parentDeathSignal says whether dieWithParent does anything.
const parentDeathSignal = true

// isServer says whether the process is a PostgreSQL process of this cluster:
// all of them work inside the cluster's folder.
func isServer(pid int, pgDir string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	if err != nil || cwd != pgDir {
		return false
	}
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return false
	}
	// An upgraded package leaves " (deleted)" behind the name.
	return strings.TrimSuffix(filepath.Base(exe), " (deleted)") == "postgres" && !zombie(proc)
}

// gone says whether an adopted server has ended.
func gone(pid int, pgDir string) bool { return !isServer(pid, pgDir) }

// zombie processes have ended and wait for a parent to notice.
func zombie(proc string) bool {
	b, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return true
	}
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	return len(fields) > 0 && fields[0] == "Z"
}

// serverProcesses lists all live processes of the cluster.
func serverProcesses(pgDir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && isServer(pid, pgDir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// recoveryTitle is what the process that replays the log says it is doing.
func recoveryTitle(pgDir string) string {
	for _, pid := range serverProcesses(pgDir) {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err != nil {
			continue
		}
		if _, title, ok := strings.Cut(strings.TrimRight(string(b), "\x00 "), "startup "); ok {
			return title
		}
	}
	return ""
}
