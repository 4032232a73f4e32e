package broker

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// NewDataDir makes a folder for a broker's data. Root's PostgreSQL runs as
// another user, so the folder can be entered by all.
func NewDataDir() (string, error) {
	dir, err := os.MkdirTemp("", "queen-")
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return filepath.Join(dir, "data"), nil
}

// Discard removes what NewDataDir made, ending first a PostgreSQL that a killed
// broker left behind.
func Discard(dataDir string) error {
	var err error
	if pg, pgErr := Postgres(dataDir); pgErr == nil {
		err = pg.end()
	}
	return errors.Join(err, os.RemoveAll(filepath.Dir(dataDir)))
}

// PG is the PostgreSQL of a data folder, as its own files describe it.
type PG struct {
	PID       int
	Dir       string // the cluster
	SocketDir string
	Port      int
}

// Postgres reads postmaster.pid of the server that a broker supervises.
func Postgres(dataDir string) (PG, error) {
	b, err := os.ReadFile(filepath.Join(dataDir, "pg", "postmaster.pid"))
	if err != nil {
		return PG{}, fmt.Errorf("postgres of %s: %w", dataDir, err)
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 5 {
		return PG{}, fmt.Errorf("postgres of %s: postmaster.pid has %d lines", dataDir, len(lines))
	}
	pg := PG{Dir: strings.TrimSpace(lines[1]), SocketDir: strings.TrimSpace(lines[4])}
	if pg.PID, err = strconv.Atoi(strings.TrimSpace(lines[0])); err != nil {
		return PG{}, fmt.Errorf("postgres of %s: %w", dataDir, err)
	}
	if pg.Port, err = strconv.Atoi(strings.TrimSpace(lines[3])); err != nil {
		return PG{}, fmt.Errorf("postgres of %s: %w", dataDir, err)
	}
	return pg, nil
}

// Socket is the path of the server's unix socket.
func (pg PG) Socket() string {
	return filepath.Join(pg.SocketDir, ".s.PGSQL."+strconv.Itoa(pg.Port))
}

// URL connects over the socket, as a second broker or an administrator would.
func (pg PG) URL() string {
	q := url.Values{"host": {pg.SocketDir}, "port": {strconv.Itoa(pg.Port)}, "sslmode": {"disable"}}
	return "postgres://queen@/queen?" + q.Encode()
}

// URLAt connects to the same database through a TCP address, such as a proxy's.
func (pg PG) URLAt(addr string) string {
	return "postgres://queen@" + addr + "/queen?sslmode=disable"
}

// Immediate ends the server as `pg_ctl stop -m immediate` does: without a
// checkpoint, so that the next start recovers.
func (pg PG) Immediate() error { return syscall.Kill(pg.PID, syscall.SIGQUIT) }

// end stops the server and waits; a leftover is worth no clean shutdown.
func (pg PG) end() error {
	if err := pg.Immediate(); errors.Is(err, syscall.ESRCH) {
		return nil
	}
	for range 200 {
		if errors.Is(syscall.Kill(pg.PID, 0), syscall.ESRCH) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("postgres %d has not ended", pg.PID)
}
