package bench

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Conditions are what a number depends on.
type Conditions struct {
	Cores       int               `json:"cores"`
	Processor   string            `json:"processor,omitempty"`
	System      string            `json:"system"`
	LoadAverage string            `json:"loadAverage,omitempty"` // before the run: whether others were at work
	Go          string            `json:"go"`
	Client      string            `json:"client,omitempty"`
	PostgreSQL  map[string]string `json:"postgresql,omitempty"`
	Disk        *Disk             `json:"disk,omitempty"`
	Settle      string            `json:"settle,omitempty"`

	Payload       PayloadKind       `json:"payload"`
	Size          int               `json:"size"`
	Partitions    int               `json:"partitions,omitempty"`
	Clients       int               `json:"clients,omitempty"`
	Batch         int               `json:"batch,omitempty"`
	Acks          string            `json:"acks,omitempty"`
	Compression   string            `json:"compression,omitempty"`
	Idempotent    *bool             `json:"idempotent,omitempty"`
	Rate          int               `json:"recordsPerSecond,omitempty"`
	Linger        string            `json:"linger,omitempty"`
	FetchMaxWait  string            `json:"fetchMaxWait,omitempty"` // of at least one byte
	TopicConfig   map[string]string `json:"topicConfig,omitempty"`
	VsTopicConfig map[string]string `json:"vsTopicConfig,omitempty"`
	WindowSeconds *int              `json:"dedupWindowSeconds,omitempty"`
	BufferedBytes int               `json:"BufferedBytes,omitempty"`
	FillBytes     int64             `json:"fillBytes,omitempty"`
	IDs           IDKind            `json:"ids,omitempty"`
	FillMessages  int64             `json:"fillMessages,omitempty"`
	FillIDs       int64             `json:"fillIds,omitempty"`
	Duplicates    int               `json:"duplicatesPerRequest,omitempty"`
	BaselineRow   int               `json:"baselineRow,omitempty"`
	BaselineTried []RowTrial        `json:"baselineTried,omitempty"`
	BaselineConns int               `json:"baselineConnections,omitempty"`
	Rounds        int               `json:"rounds"`
	Duration      string            `json:"duration"`
	Turn          string            `json:"turn,omitempty"` // of a side within a round
	PeakClientRSS int64             `json:"peakClientRssBytes,omitempty"`
}

// Disk is what the disk under the data folder does.
type Disk struct {
	Folder      string  `json:"folder"`
	FsyncP50MS  float64 `json:"fsyncP50Ms"` // of a page appended to a file
	FsyncP99MS  float64 `json:"fsyncP99Ms"`
	WritePerSec float64 `json:"sequentialBytesPerSecond"` // 1 MiB at a time, each synced
}

const (
	fsyncTries = 100
	fsyncPage  = 8 << 10
	syncChunk  = 1 << 20
	syncChunks = 64
)

// Machine describes where the run takes place.
func Machine() Conditions {
	c := Conditions{
		Cores: runtime.GOMAXPROCS(0), Processor: processor(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		c.LoadAverage = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return c
}

// ClientVersion is the version of the Kafka client inside this binary.
func ClientVersion() string {
	const module = "github.com/twmb/franz-go"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return "franz-go " + m.Version
			}
		}
	}
	return "franz-go"
}

func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// AskDatabase adds the server's settings, and the disk's speed where the data is
// on this machine; folder is where it is, "" asks the server.
func (c *Conditions) AskDatabase(ctx context.Context, db *Database, folder string) error {
	var err error
	if c.PostgreSQL, err = db.settings(ctx); err != nil {
		return err
	}
	if err := db.Settle(ctx); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.Settle = db.settles()
	if folder == "" {
		folder = db.dataFolder(ctx)
	}
	if folder == "" {
		return nil
	}
	// A folder we may not write to leaves this condition out.
	if disk, err := measureDisk(folder); err == nil {
		c.Disk = &disk
	}
	return nil
}

// measureDisk writes a little and syncs a lot, in a file that has no name.
func measureDisk(folder string) (Disk, error) {
	f, err := os.CreateTemp(folder, "queen-bench-*")
	if err != nil {
		return Disk{}, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return Disk{}, err
	}
	d := Disk{Folder: filepath.Clean(folder)}
	pool, err := NewPayload(Random, syncChunk, 1)
	if err != nil {
		return d, err
	}
	data := make([]byte, syncChunk)
	times := hdrhistogram.New(1, latencyMax.Microseconds(), 3)
	for i := range fsyncTries {
		pool.FillRow(data[:fsyncPage], uint64(i))
		began := time.Now()
		if _, err := f.Write(data[:fsyncPage]); err != nil {
			return d, err
		}
		if err := fdatasync(f); err != nil {
			return d, err
		}
		_ = times.RecordValue(max(1, time.Since(began).Microseconds()))
	}
	d.FsyncP50MS = float64(times.ValueAtQuantile(50)) / 1000
	d.FsyncP99MS = float64(times.ValueAtQuantile(99)) / 1000
	began := time.Now()
	for i := range syncChunks {
		pool.FillRow(data, uint64(i))
		if _, err := f.Write(data); err != nil {
			return d, err
		}
		if err := fdatasync(f); err != nil {
			return d, err
		}
	}
	d.WritePerSec = math.Round(syncChunks * syncChunk / time.Since(began).Seconds())
	return d, nil
}

// peakRSS is the most memory this process ever had.
func peakRSS() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return u.Maxrss
	}
	return u.Maxrss << 10
}
