package localpg

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeInstall writes programs that only know their version.
func fakeInstall(t *testing.T, version string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(openTempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + program + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLocateRefusesOldVersions(t *testing.T) {
	t.Parallel()
	as, err := chooseAccount("")
	if err != nil {
		t.Fatal(err)
	}
	for version, major := range map[string]int{"14.2": 14, "15.18 (Debian 15.18-0+deb12u1)": 15, "19beta1": 19} {
		b, err := locate(t.Context(), fakeInstall(t, version), as, 0)
		if err != nil || b.major != major {
			t.Errorf("version %s: %d, %v; want %d", version, b.major, err, major)
		}
	}
	for _, version := range []string{"13.9", "9.6.24"} {
		_, err := locate(t.Context(), fakeInstall(t, version), as, 0)
		if err == nil || !strings.Contains(err.Error(), "too old") || !strings.Contains(err.Error(), "PostgreSQL 14 or newer") {
			t.Errorf("version %s: %v, want a refusal that says what to install", version, err)
		}
	}
}

// Not parallel: it sets PATH.
func TestLocateFollowsLinksInPATHAndPrefersTheNewest(t *testing.T) {
	old, newest := fakeInstall(t, "98.1"), fakeInstall(t, "99.1")
	links := t.TempDir()
	for _, program := range []string{"initdb", "postgres"} {
		if err := os.Symlink(filepath.Join(newest, program), filepath.Join(links, program)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", old+":"+links+":"+os.Getenv("PATH"))
	if dirs := candidateDirs(t.Context()); !slices.Contains(dirs, newest) || slices.Contains(dirs, links) {
		t.Errorf("folders %v, want %s behind the links in %s", dirs, newest, links)
	}
	as, err := chooseAccount("")
	if err != nil {
		t.Fatal(err)
	}
	f := func(cluster int, want string) {
		t.Helper()
		b, err := locate(t.Context(), "", as, cluster)
		if err != nil || b.dir != want {
			t.Errorf("for a cluster of version %d: %s, %v; want %s", cluster, b.dir, err, want)
		}
	}
	f(0, newest)
	f(98, old)
}

// A cluster is run by the version that made it, and what to do about another one
// depends on which is newer and on who chose it.
func TestClusterOfAnotherVersionNamesTheWaysOut(t *testing.T) {
	t.Parallel()
	as, err := chooseAccount("")
	if err != nil {
		t.Fatal(err)
	}
	dir := fakeInstall(t, "98.1")
	f := func(cluster int, says string, not string) {
		t.Helper()
		_, err := locate(t.Context(), dir, as, cluster)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), dir+" is 98: ") || strings.Contains(err.Error(), not) {
			t.Errorf("a cluster of version %d: %v, want a refusal that says %q and not %q", cluster, err, says, not)
		}
	}
	f(97, "to version 98 with pg_upgrade", "install version")
	f(99, "name the folder of version 99 with --postgres-bin", "pg_upgrade")
	if err := otherMajor(14, []binaries{{"/b", 98}, {"/a", 98}, {"/c", 97}}, false); !strings.Contains(err.Error(), "installed here is 98, 97: install version 14 beside it") {
		t.Error(err)
	}
}

// Not parallel: it sets the environment.
func TestVariableNamesTheBinaries(t *testing.T) {
	dir := openTempDir(t)
	t.Setenv(BinDirVar, filepath.Join(dir, "none"))
	_, err := Start(t.Context(), Config{DataDir: filepath.Join(dir, "q")})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "none")) {
		t.Errorf("start with %s: %v, want an error about that folder", BinDirVar, err)
	}
}

func TestSettingsAreQuoted(t *testing.T) {
	t.Parallel()
	s := start(t, Config{
		DataDir:  filepath.Join(openTempDir(t), "q"),
		Settings: map[string]string{"queen.note": `it's a \ back` + "\n" + "slash"},
	})
	if got, want := ask(t, s, "SELECT current_setting('queen.note')"), `it's a \ back`+"\n"+"slash"; got != want {
		t.Errorf("setting is %q, want %q", got, want)
	}
}
