//go:build !linux

package localpg

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing here: a server that outlives us is adopted at the
// next start.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// parentDeathSignal says whether dieWithParent does anything.
const parentDeathSignal = false

// isServer says whether the process was started as the postmaster of this
// cluster, by its command line.
func isServer(pid int, pgDir string) bool {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // answers at once
	if err != nil {
		return false
	}
	program, args, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return filepath.Base(program) == "postgres" && strings.Contains(args, pgDir)
}

// gone says whether an adopted server has ended.
func gone(pid int, _ string) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// serverProcesses is not known here; leftover children end by themselves when
// they notice that their postmaster is gone.
func serverProcesses(string) []int { return nil }

func recoveryTitle(string) string { return "" }
