package localpg

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// Config says where the server lives. The zero value of every field but DataDir
// means its default.
type Config struct {
	// DataDir holds everything; it is created when missing.
	DataDir string
	// Port is the suffix of the socket's name (default 5432). No port is opened.
	Port int
	// Log receives what happens to the server (default: discarded).
	Log *slog.Logger
	// StartTimeout bounds how long the server may be silent while it starts, or
	// how long a leftover one may take to shut down (default 60 s). Crash
	// recovery is not silent and takes as long as it takes.
	StartTimeout time.Duration
	// RestartsMax is how often in a row a server that never becomes ready is
	// started again before the supervisor gives up (default 20).
	RestartsMax int
	// Settings are further server settings. Those that protect data or say who
	// can connect cannot be changed.
	Settings map[string]string
	// BinDir holds initdb and postgres (default: what BinDirVar names, else looked
	// for, see locate.go).
	BinDir string

	// detached starts the server without tying its life to ours: what happens on
	// systems without a parent-death signal. For tests.
	detached bool
}

// BinDirVar is the variable of the environment that says which PostgreSQL is run:
// the folder of its programs. Tests obey it too, so that all of a run is on one.
const BinDirVar = "QUEEN_POSTGRES_BIN"

const (
	restartWaitMin = 100 * time.Millisecond
	restartWaitMax = 5 * time.Second
	immediateWait  = 5 * time.Second // from an immediate shutdown to SIGKILL
)

func (c Config) withDefaults() Config {
	if c.Port == 0 {
		c.Port = 5432
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.BinDir == "" {
		c.BinDir = os.Getenv(BinDirVar)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 60 * time.Second
	}
	if c.RestartsMax == 0 {
		c.RestartsMax = 20
	}
	return c
}

func (c Config) validate() error {
	if c.DataDir == "" {
		return errors.New("local database: DataDir is empty")
	}
	if c.Port < 1 || c.Port > 65535 {
		return fmt.Errorf("local database: Port is %d, must be 1 to 65535", c.Port)
	}
	if c.StartTimeout < 0 {
		return fmt.Errorf("local database: StartTimeout is %s, must not be negative", c.StartTimeout)
	}
	if c.RestartsMax < 0 {
		return fmt.Errorf("local database: RestartsMax is %d, must not be negative", c.RestartsMax)
	}
	for name := range c.Settings {
		if !settingName(name) {
			return fmt.Errorf("local database: %q is no setting's name", name)
		}
		if _, fixed := fixedSettings("", 0)[strings.ToLower(name)]; fixed {
			return fmt.Errorf("local database: setting %s is fixed and cannot be changed", name)
		}
	}
	return nil
}
