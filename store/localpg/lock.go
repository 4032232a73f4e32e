package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrInUse says that another live broker holds the data folder.
var ErrInUse = errors.New("data folder is in use")

// folderLock is held as long as the file is open: the system releases it when
// its process dies, however it dies.
type folderLock struct{ f *os.File }

// Lock takes a data folder that holds no server of ours, as Start takes one
// that does; ErrInUse when another live process has it. It ends with release or
// with the process.
func Lock(dataDir string) (release func() error, err error) {
	l, err := lockFolder(dataDir)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}

func lockFolder(dataDir string) (*folderLock, error) {
	f, err := os.OpenFile(filepath.Join(dataDir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data folder %s: %w", dataDir, err)
		}
		by := make([]byte, 32)
		n, _ := f.ReadAt(by, 0)
		return nil, fmt.Errorf("%w: %s is held by process %s; stop that one first, or choose another --data-dir",
			ErrInUse, dataDir, strings.TrimSpace(string(by[:n])))
	}
	l := &folderLock{f}
	if err := errors.Join(f.Truncate(0), l.writePID()); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data folder: %w", err), l.release())
	}
	return l, nil
}

func (l *folderLock) writePID() error {
	_, err := l.f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// release unlocks before it closes: a child being started at this moment has
// the file open too, until it runs its program.
func (l *folderLock) release() error {
	return errors.Join(syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN), l.f.Close())
}
