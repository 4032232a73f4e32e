package localpg

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// majorMin is the oldest PostgreSQL we run on.
const majorMin = 14

// installHint ends every error about missing binaries.
const installHint = "install PostgreSQL 14 or newer (Debian, Ubuntu: apt-get install postgresql; " +
	"Fedora: dnf install postgresql-server; macOS: brew install postgresql), have its programs in PATH " +
	"or name their folder with --postgres-bin, or use a running server with --database-url"

// binaries is one installed PostgreSQL.
type binaries struct {
	dir   string
	major int
}

// binPatterns are the folders where packages put PostgreSQL without touching PATH.
var binPatterns = []string{
	"/usr/lib/postgresql/*/bin",  // Debian, Ubuntu, Alpine's versioned packages
	"/usr/libexec/postgresql*",   // Alpine
	"/usr/pgsql-*/bin",           // PGDG on Fedora, RHEL, SUSE
	"/usr/lib/postgresql*/bin",   // SUSE, Gentoo
	"/usr/lib64/postgresql*/bin", // Gentoo
	"/usr/bin",                   // Fedora, Arch
	"/usr/local/bin",             // FreeBSD
	"/usr/local/pgsql/bin",       // built from source
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// locate finds the binaries: those of binDir when given, else the newest
// installed; for an existing cluster, the ones of its major version. Every
// candidate is run as the account that will run the server.
func locate(ctx context.Context, binDir string, as *account, clusterMajor int) (binaries, error) {
	dirs := candidateDirs(ctx)
	if binDir != "" {
		dirs = []string{binDir}
	}
	var found []binaries
	var rejected []string
	for _, dir := range dirs {
		major, err := probe(ctx, dir, as)
		switch {
		case err != nil:
			rejected = append(rejected, fmt.Sprintf("%s: %v", dir, err))
		case major < majorMin:
			rejected = append(rejected, fmt.Sprintf("%s: PostgreSQL %d is too old", dir, major))
		default:
			found = append(found, binaries{dir, major})
		}
	}
	slices.SortStableFunc(found, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	if len(found) == 0 {
		seen := ""
		if len(rejected) > 0 {
			seen = " (" + strings.Join(rejected, "; ") + ")"
		}
		return binaries{}, fmt.Errorf("no usable PostgreSQL found%s: %s", seen, installHint)
	}
	if clusterMajor == 0 {
		return found[0], nil
	}
	for _, b := range found {
		if b.major == clusterMajor {
			return b, nil
		}
	}
	return binaries{}, otherMajor(clusterMajor, found, binDir != "")
}

// otherMajor says what to do about a cluster that none of the binaries found can
// run, newest first: a cluster is run by the major version that made it.
func otherMajor(cluster int, found []binaries, named bool) error {
	var majors []string
	for _, b := range found {
		if m := strconv.Itoa(b.major); !slices.Contains(majors, m) {
			majors = append(majors, m)
		}
	}
	where, ways := "installed here", fmt.Sprintf("install version %d beside it", cluster)
	if named {
		where, ways = "in "+found[0].dir, fmt.Sprintf("name the folder of version %d with --postgres-bin (%s)", cluster, BinDirVar)
	}
	if found[0].major > cluster {
		ways += ", or move the folder's pg to version " + majors[0] + " with pg_upgrade"
	}
	return fmt.Errorf("the data folder was made by PostgreSQL %d and runs on that version only, but %s is %s: %s",
		cluster, where, strings.Join(majors, ", "), ways)
}

// candidateDirs lists the folders that hold both programs we need, once each.
func candidateDirs(ctx context.Context) []string {
	var dirs []string
	add := func(dir string) {
		// A link in /usr/local/bin leads to the folder where the rest is.
		program, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
		if err != nil {
			return
		}
		dir = filepath.Dir(program)
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) {
			add(dir)
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		add(strings.TrimSpace(string(out)))
	}
	for _, pattern := range binPatterns {
		matches, _ := filepath.Glob(pattern)
		for _, dir := range matches {
			add(dir)
		}
	}
	return dirs
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// probe runs `postgres --version`.
func probe(ctx context.Context, dir string, as *account) (major int, err error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, fmt.Errorf("no initdb there: %w", err)
	}
	out, err := binaries{dir: dir}.command(ctx, as, "/", "postgres", "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("postgres --version: %w", err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("postgres --version says %q", out)
	}
	return strconv.Atoi(string(m[1]))
}

// command prepares a program of this installation, run as the account in the
// folder, in a process group of its own (a Ctrl-C at our terminal is ours to
// act on), without our environment's PG* variables.
func (b binaries) command(ctx context.Context, as *account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, program), args...)
	cmd.Dir = dir
	cmd.Env = childEnv(dir)
	cmd.SysProcAttr = as.sysProcAttr()
	return cmd
}

// mallocEnv keeps memory of a statement for the next one. A call of append takes
// several buffers of up to 1 MiB; by default glibc maps each anew, and clearing and
// unmapping their pages took an eighth of the server's time. Other C libraries
// ignore these.
var mallocEnv = []string{"MALLOC_MMAP_THRESHOLD_=16777216", "MALLOC_TRIM_THRESHOLD_=16777216", "MALLOC_TOP_PAD_=4194304"}

func childEnv(home string) []string {
	env := append([]string{"HOME=" + home, "LC_ALL=C", "LANG=C"}, mallocEnv...)
	for _, name := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
