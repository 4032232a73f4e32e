package localpg

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestURLOfARunningServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(openTempDir(t), "q")
	if _, err := URLOf(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("URLOf an empty folder: %v, want %v", err, ErrNotRunning)
	}
	s := start(t, Config{DataDir: dir, Port: 6543})
	got, err := URLOf(dir)
	if err != nil || got != s.URL() {
		t.Errorf("URLOf = %q, %v, want %q", got, err, s.URL())
	}
	stop(t, s)
	if _, err := URLOf(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("URLOf after Stop: %v, want %v", err, ErrNotRunning)
	}
}
