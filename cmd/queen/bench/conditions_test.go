package bench

import (
	"os"
	"testing"
)

func TestTheDiskIsMeasuredWithoutLeavingAFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d, err := measureDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	if d.FsyncP50MS <= 0 || d.FsyncP99MS < d.FsyncP50MS || d.WritePerSec <= 0 || d.Folder != folder {
		t.Errorf("disk %+v, want times and a speed", d)
	}
	if left := dirEntries(t, folder); len(left) != 0 {
		t.Errorf("%v was left behind", left)
	}
}

func dirEntries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return left
}
