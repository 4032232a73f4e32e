package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// identity is what a broker keeps in its data folder: a restarted process
// takes its id over at once, without waiting for its predecessor to be dead.
type identity struct {
	BrokerID int32     `json:"broker_id"` // 0: none yet
	Instance uuid.UUID `json:"instance"`  // of the process that last used the folder
}

func readIdentity(dir string) (identity, error) {
	var id identity
	b, err := os.ReadFile(identityFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	}
	if err != nil {
		return id, fmt.Errorf("read the broker's identity: %w", err)
	}
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("read the broker's identity: %s: %w; delete the file to take a new id", identityFile(dir), err)
	}
	return id, nil
}

// write replaces the file, so that a crash, of the machine too, leaves the old or the
// new one: an empty one would have to be deleted before the broker starts again.
func (id identity) write(dir string) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := replaceFile(identityFile(dir), append(b, '\n')); err != nil {
		return fmt.Errorf("keep the broker's identity: %w", err)
	}
	return nil
}

// replaceFile has what it writes on the disk before the file's name says so.
func replaceFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func identityFile(dir string) string { return filepath.Join(dir, "broker.json") }
