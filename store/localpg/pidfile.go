package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pidfile is what a postmaster writes about itself into postmaster.pid.
type pidfile struct {
	pid       int
	dataDir   string
	port      int
	socketDir string
	status    string // "starting", "stopping", "ready", "standby"; "" until written
}

func pidfilePath(pgDir string) string { return filepath.Join(pgDir, "postmaster.pid") }

// readPidfile returns false when there is none, or it is empty (the server was
// killed while it wrote it).
func readPidfile(pgDir string) (pidfile, bool, error) {
	b, err := os.ReadFile(pidfilePath(pgDir))
	if errors.Is(err, fs.ErrNotExist) {
		return pidfile{}, false, nil
	}
	if err != nil {
		return pidfile{}, false, fmt.Errorf("read postmaster.pid: %w", err)
	}
	p, ok := parsePidfile(string(b))
	return p, ok, nil
}

// parsePidfile reads the lines: pid, data folder, start time, port, socket
// folder, listen address, shared memory, status.
func parsePidfile(text string) (pidfile, bool) {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	lines = append(lines, make([]string, 8)...)
	pid, err := strconv.Atoi(lines[0])
	if err != nil || pid <= 1 {
		return pidfile{}, false
	}
	port, _ := strconv.Atoi(lines[3])
	return pidfile{pid: pid, dataDir: lines[1], port: port, socketDir: lines[4], status: lines[7]}, true
}
