package localpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// socketPathMax is what fits into sockaddr_un on every system we know (Linux
// holds 108 bytes with the closing zero, macOS 104).
const socketPathMax = 103

// makeDataDir creates the data folder and its missing parents, and returns the
// path without links: the server records it, and the recorded one is compared.
func makeDataDir(dir string, as *account) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data folder %s: %w", dir, err)
	}
	var missing []string
	for at := dir; ; at = filepath.Dir(at) {
		fi, err := os.Stat(at)
		if err == nil {
			if !fi.IsDir() {
				return "", fmt.Errorf("data folder %s: %s is not a folder", dir, at)
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("data folder: %w", err)
		}
		missing = append(missing, at)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		// Parents stay open to the server's user whatever the umask is; the
		// folder itself is the server's and closed to others.
		mode, leaf := fs.FileMode(0o755), i == 0
		if leaf {
			mode = 0o700
		}
		if err := os.Mkdir(missing[i], mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("make data folder: %w", err)
		}
		if err := os.Chmod(missing[i], mode); err != nil {
			return "", fmt.Errorf("make data folder: %w", err)
		}
		if leaf {
			if err := as.own(dir); err != nil {
				return "", fmt.Errorf("give data folder to user %s: %w", as, err)
			}
		}
	}
	return filepath.EvalSymlinks(dir)
}

// checkReach fails when the account cannot enter the folder, naming the parent
// that is in the way. The question is put to the system, which knows about
// access lists and security modules: a program is started there.
func checkReach(ctx context.Context, dir string, as *account, b binaries) error {
	if as == nil {
		return nil
	}
	err := b.command(ctx, as, dir, "postgres", "--version").Run()
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("run PostgreSQL as user %s: %w", as, err)
	}
	at := "one of its parents"
	for p := dir; p != "/"; p = filepath.Dir(p) {
		if fi, err := os.Stat(p); err == nil && !as.mayEnter(fi) {
			at = p
		}
	}
	return fmt.Errorf("data folder %s cannot be reached by user %s, which runs PostgreSQL because root may not "+
		"(%s is closed): choose a folder such as /var/lib/queen with --data-dir, or allow it with chmod o+x %s", dir, as, at, at)
}

func (a *account) mayEnter(fi fs.FileInfo) bool {
	st := fi.Sys().(*syscall.Stat_t)
	if st.Uid == a.uid {
		return fi.Mode()&0o100 != 0
	}
	if st.Gid == a.gid {
		return fi.Mode()&0o010 != 0
	}
	for _, g := range a.groups {
		if st.Gid == g {
			return fi.Mode()&0o010 != 0
		}
	}
	return fi.Mode()&0o001 != 0
}

// makeSocketDir returns the folder of the socket: run/ in the data folder, or,
// when that path is too long for a socket, a folder under the system's
// temporary one whose name follows from the data folder, so that the next start
// finds the same. Either belongs to the account and is closed to others, which
// is why connections need no password.
func makeSocketDir(dataDir string, port int, as *account) (string, error) {
	dir := filepath.Join(dataDir, "run")
	if len(socketPath(dir, port)) > socketPathMax {
		sum := sha256.Sum256([]byte(dataDir))
		dir = filepath.Join(os.TempDir(), "queen-"+hex.EncodeToString(sum[:8]))
		if len(socketPath(dir, port)) > socketPathMax {
			dir = filepath.Join("/tmp", filepath.Base(dir))
		}
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		if err := as.own(dir); err != nil {
			return "", fmt.Errorf("give socket folder to user %s: %w", as, err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make socket folder: %w", err)
	}
	// Lstat: in a folder where everybody may write, a link is an attack.
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("socket folder: %w", err)
	}
	owner := fi.Sys().(*syscall.Stat_t).Uid
	if owner == 0 && as != nil && fi.IsDir() {
		// Root made it and was killed before it gave it away.
		if err := as.own(dir); err != nil {
			return "", fmt.Errorf("give socket folder to user %s: %w", as, err)
		}
		owner = as.id()
	}
	if !fi.IsDir() || owner != as.id() {
		return "", fmt.Errorf("socket folder %s belongs to user %s, not to %s: remove it", dir, userName(owner), as)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("close socket folder: %w", err)
	}
	return dir, nil
}

func socketPath(dir string, port int) string {
	return filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", port))
}

// replaceFile writes a file of the account's as a whole or not at all.
func replaceFile(path string, as *account, text string) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if err := as.own(tmp); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// syncDir makes a rename in the folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
