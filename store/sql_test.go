package store

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFilesSayWhatTheyPromise holds the .sql files to their form: a header,
// functions named like their file, with a pinned search path.
func TestFilesSayWhatTheyPromise(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"query", "schema", "schema/functions"} {
		names, err := fs.Glob(os.DirFS(dir), "*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(names), err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(os.DirFS(dir), name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "-- ") {
				t.Errorf("%s/%s has no header", dir, name)
			}
			if dir != "schema/functions" {
				continue
			}
			fn := strings.TrimSuffix(name, ".sql")
			if !functionName.MatchString(fn) || !strings.HasPrefix(string(text), "-- "+fn+" ") {
				t.Errorf("%s: file, header and function must share a numbered name", name)
			}
			for _, need := range []string{`(?m)^CREATE FUNCTION ` + fn + `\(`, `VOLATILE SECURITY INVOKER`, `(?m)^SET search_path FROM CURRENT$`, `(?m)^-- Locks: `} {
				if !regexp.MustCompile(need).Match(text) {
					t.Errorf("%s lacks %q", name, need)
				}
			}
		}
	}
}
