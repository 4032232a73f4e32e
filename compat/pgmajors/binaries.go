package pgmajors

import (
	"archive/zip"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"queenmq/compat/kafkanode"
)

//go:embed pom.xml
var pom []byte

// versions are the releases the tests run on, by major version.
var versions = map[string]string{
	"14": "14.19.0",
	"15": "15.14.0",
	"16": "16.10.0",
	"17": "17.6.0",
	"18": "18.0.0",
}

// Majors are the versions there are, the oldest first.
func Majors() []string { return slices.Sorted(maps.Keys(versions)) }

// platforms says how the archives name what Go calls otherwise.
var platforms = map[string]string{
	"linux/amd64":  "linux-amd64",
	"linux/arm64":  "linux-arm64v8",
	"darwin/amd64": "darwin-amd64",
	"darwin/arm64": "darwin-arm64v8",
}

// Binaries answers the folder that holds initdb, pg_ctl and postgres of a major
// version, fetching it on first use.
func Binaries(ctx context.Context, major string) (string, error) {
	version, ok := versions[major]
	if !ok {
		return "", fmt.Errorf("PostgreSQL %s is none of %s", major, strings.Join(Majors(), ", "))
	}
	platform, ok := platforms[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("PostgreSQL %s: nothing to fetch for %s/%s", version, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("PostgreSQL %s: %w", version, err)
	}
	dir := filepath.Join(cache, version)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		jars, err := kafkanode.JarsOf(ctx, pom, "postgres.version="+version, "postgres.platform="+platform)
		if err != nil {
			return "", fmt.Errorf("PostgreSQL %s: %w", version, err)
		}
		if err := unpack(ctx, jars, dir); err != nil {
			return "", fmt.Errorf("PostgreSQL %s: %w", version, err)
		}
	}
	return filepath.Join(dir, "bin"), nil
}

// cacheDir is where versions are unpacked. Root's server runs as another user, who
// does not get into root's home.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/queen-postgres", nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "queen-postgres"), err
}

// unpack fills dir with the archive in the only jar of a class path, by way of a
// sibling folder and a rename, so that a half of it is never taken for all.
func unpack(ctx context.Context, jars, dir string) error {
	found, err := filepath.Glob(jars + ".jar")
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d jars in %s, want one: %w", len(found), filepath.Dir(jars), err)
	}
	archive, err := archiveOf(found[0])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "unpack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what is left is in nobody's way
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-xJf", "-", "-C", tmp)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tar -xJ: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, dir); err != nil {
		// Another process was faster: its folder is as good as ours.
		if _, statErr := os.Stat(dir); statErr == nil {
			return nil
		}
		return err
	}
	return nil
}

// archiveOf reads the one .txz of a jar.
func archiveOf(jar string) ([]byte, error) {
	r, err := zip.OpenReader(jar)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, ".txz") {
			return fs.ReadFile(r, f.Name)
		}
	}
	return nil, fmt.Errorf("%s holds no .txz", jar)
}
