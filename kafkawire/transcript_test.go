package kafkawire

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// transcript is a script of commands with what they answer.
type transcript struct {
	t   *testing.T
	at  time.Duration // since the start
	out strings.Builder
}

func (s *transcript) now() time.Time                    { return time.Unix(1_000_000, 0).Add(s.at) }
func (s *transcript) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// testTranscripts replays testdata/DIR/*.txt, each from a new beginning: lines that
// start with "> " are commands, the rest is what they answer and the state they
// leave. Run with -update to rewrite them, then read the difference.
func testTranscripts(t *testing.T, dir string, begin func(*transcript) (do func(words []string))) {
	files, err := filepath.Glob("testdata/" + dir + "/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &transcript{t: t}
			do := begin(s)
			for line := range strings.SplitSeq(string(want), "\n") {
				switch {
				case strings.HasPrefix(line, "# "), line == "" && !strings.HasSuffix("\n\n"+s.out.String(), "\n\n"):
					s.printf("%s\n", line)
				case strings.HasPrefix(line, "> "):
					s.printf("%s\n", line)
					do(strings.Fields(line[2:]))
				}
			}
			got := strings.TrimRight(s.out.String(), "\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s has changed; read the difference, then run with -update:\n%s", file, firstDifference(string(want), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(w), len(g))
}
