package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strconv"
)

// ErrNotRunning says that a data folder has no live server.
var ErrNotRunning = errors.New("no database is running")

// URL is what pgx connects with: the socket, the owner's role, no password.
func (s *Server) URL() string { return socketURL(s.socketDir, s.cfg.Port) }

func socketURL(socketDir string, port int) string {
	q := url.Values{"host": {socketDir}, "port": {strconv.Itoa(port)}, "sslmode": {"disable"}}
	return (&url.URL{Scheme: "postgres", User: url.User(roleName), Path: "/" + databaseName, RawQuery: q.Encode()}).String()
}

// URLOf is the URL of the server another process runs in a data folder, for
// tools beside a broker. It says ErrNotRunning when there is none.
func URLOf(dataDir string) (string, error) {
	none := fmt.Errorf("local database: %w in %s", ErrNotRunning, dataDir)
	pgDir, err := filepath.EvalSymlinks(filepath.Join(dataDir, "pg"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", none
	}
	if err != nil {
		return "", fmt.Errorf("local database: %w", err)
	}
	p, ok, err := readPidfile(pgDir)
	if err != nil {
		return "", fmt.Errorf("local database: %w", err)
	}
	if !ok || p.socketDir == "" || !isServer(p.pid, pgDir) {
		return "", none
	}
	return socketURL(p.socketDir, p.port), nil
}
