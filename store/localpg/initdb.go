package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	roleName     = "queen"
	databaseName = "queen"
)

// hba lets everybody in who can open the socket, and only the server's user (and
// root) can.
const hba = "# Written by queen. The socket's folder is closed to other users.\n" +
	"local all all trust\n" +
	"local replication all trust\n"

// clusterMajor reads which PostgreSQL made the cluster; 0 when there is none.
func clusterMajor(pgDir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(pgDir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		if entries, err := os.ReadDir(pgDir); err == nil && len(entries) > 0 {
			return 0, fmt.Errorf("folder %s is not empty and holds no PostgreSQL cluster: move it away", pgDir)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read cluster version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("read cluster version: %w", err)
	}
	return major, nil
}

// initCluster makes the cluster in a folder beside it and renames that when all
// is on disk, so whoever kills us leaves no half cluster behind.
func initCluster(ctx context.Context, b binaries, as *account, dataDir, pgDir string) (err error) {
	tmp, err := os.MkdirTemp(dataDir, "pg.new-*")
	if err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := as.own(tmp); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	cmd := b.command(ctx, as, tmp, "initdb", "-D", tmp, "-U", roleName, "-A", "trust",
		"-E", "UTF8", "--locale=C", "--data-checksums")
	dieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := runLocked(cmd); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(out.String(), 5))
	}
	if err := replaceFile(filepath.Join(tmp, "pg_hba.conf"), as, hba); err != nil {
		return err
	}
	if err := errors.Join(includeSettings(tmp), syncDir(tmp)); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	if fi, err := os.Lstat(pgDir); err == nil && !fi.IsDir() {
		return fmt.Errorf("make cluster: %s is not a folder: a link must lead to a finished cluster", pgDir)
	}
	if err := os.Remove(pgDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make cluster: %w", err)
	}
	if err := os.Rename(tmp, pgDir); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	if err := syncDir(dataDir); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	return nil
}

// sweepUnfinished removes what a killed initdb left. The caller holds the lock.
func sweepUnfinished(dataDir string) error {
	left, err := filepath.Glob(filepath.Join(globEscape(dataDir), "pg.new-*"))
	if err != nil {
		return fmt.Errorf("look for unfinished clusters: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove unfinished cluster: %w", err)
		}
	}
	return nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
