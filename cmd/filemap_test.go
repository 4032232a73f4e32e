package cmd_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fileName is a Go file as a file map names it; dial*.go is all that begin so.
var fileName = regexp.MustCompile(`[a-z0-9_]+\*?\.go`)

// A file map tells the truth: it names every file of its package, and no other. Files
// for one system (_linux, _other) may go without saying, and so may tests.
func TestFileMapsNameEveryFile(t *testing.T) {
	t.Parallel()
	docs, err := filepath.Glob("../*/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, deeper := range []string{"../*/*/doc.go", "../*/*/*/doc.go"} {
		more, err := filepath.Glob(deeper)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, more...)
	}
	maps := 0
	for _, doc := range docs {
		f, err := parser.ParseFile(token.NewFileSet(), doc, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		named := fileName.FindAllString(f.Doc.Text(), -1)
		if len(named) == 0 {
			continue
		}
		maps++
		dir := filepath.Dir(doc)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		names := func(file string) bool {
			return slices.ContainsFunc(named, func(n string) bool {
				ok, _ := filepath.Match(n, file)
				return ok
			})
		}
		var files []string
		for _, e := range entries {
			file := e.Name()
			if !strings.HasSuffix(file, ".go") {
				continue
			}
			files = append(files, file)
			told := file == "doc.go" || strings.HasSuffix(file, "_test.go") ||
				strings.HasSuffix(file, "_linux.go") || strings.HasSuffix(file, "_other.go")
			if !told && !names(file) {
				t.Errorf("%s does not name %s", doc, file)
			}
		}
		for _, n := range named {
			if !slices.ContainsFunc(files, func(file string) bool { ok, _ := filepath.Match(n, file); return ok }) {
				t.Errorf("%s names %s, which is not there", doc, n)
			}
		}
	}
	if maps < 8 {
		t.Errorf("%d file maps were found: that cannot be all", maps)
	}
}
