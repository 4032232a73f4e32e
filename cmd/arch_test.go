// Package cmd_test holds the tests of the repository as a whole.
package cmd_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "queenmq/"

// goPackage is what `go list -json` says about a package of ours.
type goPackage struct {
	ImportPath, Name, Doc              string
	Imports, TestImports, XTestImports []string
}

// arrows are all imports between our packages. A room may import what is
// listed for it; a package below a room, what is listed for itself when it has
// a row of its own, else its room's. "*" allows all.
var arrows = map[string][]string{
	"cmd":             {"*"},
	"kafkawire":       {"queen"},
	"queen/httpapi":   {"queen"},
	"queen":           {"store", "dedup"},
	"store":           {},
	"store/localpg":   {},
	"store/storetest": {"store", "store/localpg"},
	"dedup":           {},
	"compat":          {"compat/*"}, // it only speaks the network
}

// testArrows are what tests may import on top.
var testArrows = map[string][]string{
	"queen":         {"store/storetest"},
	"queen/httpapi": {"store", "store/storetest"},
	"kafkawire":     {"store", "store/storetest"},
	"store":         {"store/storetest"},
}

// libraries are those that only some of our packages may use.
var libraries = map[string][]string{
	"github.com/jackc/pgx/":             {"store", "store/localpg", "store/storetest", "compat", "cmd"},
	"github.com/jackc/tern/":            {"store"},
	"github.com/twmb/franz-go/pkg/kmsg": {"kafkawire", "compat", "cmd"},
	"github.com/twmb/franz-go/pkg/kgo":  {"compat", "cmd"},
	"github.com/twmb/franz-go/pkg/kadm": {"compat", "cmd"},
	"github.com/alecthomas/kong":        {"cmd"},
	"github.com/anishathalye/porcupine": {"compat"},
	"github.com/zeebo/xxh3":             {"dedup", "queen"}, // of ids; of groups, to slots
	"pgregory.net/rapid":                {},
	"go.uber.org/goleak":                {},
	"testing":                           {"store/storetest"},
}

func TestImportsFollowTheArrows(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		row, ok := rowOf(name)
		if !ok {
			t.Errorf("%s is no room of ours: give it a row in arrows, or another place", name)
			continue
		}
		for _, imported := range p.Imports {
			if !allowed(name, imported, arrows[row]) {
				t.Errorf("%s imports %s", name, imported)
			}
			for library, users := range libraries {
				if covers(library, imported) && !slices.Contains(users, row) {
					t.Errorf("%s imports %s, which only %v may (outside of tests)", name, imported, users)
				}
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if imported != p.ImportPath && !allowed(name, imported, slices.Concat(arrows[row], testArrows[row])) {
				t.Errorf("tests of %s import %s", name, imported)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		// A folder of tests alone has its comment in a test file, which go list does not read.
		if p.Doc == "" && !strings.HasSuffix(p.ImportPath, "/cmd") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// rowOf finds the row of arrows that speaks about a package: its own or that of
// the nearest folder above.
func rowOf(name string) (string, bool) {
	for {
		if _, ok := arrows[name]; ok {
			return name, true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return "", false
		}
		name = name[:i]
	}
}

func allowed(name, imported string, to []string) bool {
	other, ours := strings.CutPrefix(imported, module)
	if !ours {
		return true
	}
	if other == "store/localpg" && !strings.HasPrefix(name, "cmd/") && name != "store/storetest" {
		return false
	}
	for _, t := range to {
		if t == "*" || t == other {
			return true
		}
		if folder, ok := strings.CutSuffix(t, "/*"); ok && (other == folder || strings.HasPrefix(other, folder+"/")) {
			return true
		}
	}
	return false
}

// covers says whether the import is the library or a package of it.
func covers(library, imported string) bool {
	library = strings.TrimSuffix(library, "/")
	return imported == library || strings.HasPrefix(imported, library+"/")
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	// `go test` remembers a result until a file the test itself opened changes, and
	// does not see what `go list` reads: so look at every folder.
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Doc,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 7 {
		t.Fatalf("go list found %d packages, want at least the seven rooms", len(all))
	}
	return all
}
