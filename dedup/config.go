package dedup

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is what a Cache is made of. The zero value of a field means its default.
type Config struct {
	BytesMax int64 // of everything kept, scratch included; 512 MiB
	Disabled bool  // the kill switch: every answer is −1, nothing is kept
	Source   Source
	Log      *slog.Logger     // slog.Default()
	Now      func() time.Time // with a monotonic reading; time.Now

	Slack        time.Duration // added to a window on the safe side; 5 s
	Cooldown     time.Duration // a partition that did not fit is not tried again before; 30 s
	GuardFor     time.Duration // what was used so recently is never evicted; 5 s
	WarnEvery    time.Duration // one warning about suppressed partitions in; 1 min
	SweepEvery   time.Duration // idle entries are expired every; 5 s
	ReadTimeout  time.Duration // for reading one window back; 10 min
	RetryPause   time.Duration // after a failed reading; 1 s
	CatchUpPause time.Duration // between two readings of what other brokers wrote; 20 ms

	FitPercent    int   // of BytesMax a newcomer may fill; 90
	KeepMin       int64 // a window of fewer offsets is probed, not kept; 256
	ReadsMax      int   // partitions read back at once; 2
	ReadsQueued   int   // partitions waiting for that, beyond it they are asked about again; 1024
	LateIDsMax    int   // ids kept of commits that arrive while a window is read; 65,536
	NotesMax      int   // partitions remembered without an entry; 100,000
	AsksToEvict   int64 // questions during a cooldown that let a newcomer evict what was idle as long; 4
	VainIDsMax    int64 // ids SQL may read in vain per id looked up, for filters to be thinned rather than dropped; 1024
	FilterIDsMax  int   // ids under one filter; 2 Mi
	SuspectsShare int64 // suspects wider than the covered span divided by this are answered −1; 2
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Slack, 5*time.Second)
	def(&c.Cooldown, 30*time.Second)
	def(&c.GuardFor, 5*time.Second)
	def(&c.WarnEvery, time.Minute)
	def(&c.SweepEvery, 5*time.Second)
	def(&c.ReadTimeout, 10*time.Minute)
	def(&c.RetryPause, time.Second)
	def(&c.CatchUpPause, 20*time.Millisecond)
	num := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	num(&c.FitPercent, 90)
	num(&c.ReadsMax, 2)
	num(&c.ReadsQueued, 1024)
	num(&c.LateIDsMax, 1<<16)
	num(&c.NotesMax, 100_000)
	num(&c.FilterIDsMax, 2<<20)
	num64 := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	num64(&c.BytesMax, 512<<20)
	num64(&c.KeepMin, 256)
	num64(&c.AsksToEvict, 4)
	num64(&c.VainIDsMax, 1024)
	num64(&c.SuspectsShare, 2)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) validate() error {
	if c.Source == nil && !c.Disabled {
		return errors.New("dedup cache: a source is needed")
	}
	if c.FitPercent < 1 || c.FitPercent > 100 {
		return fmt.Errorf("dedup cache: FitPercent is %d, not within 1 to 100", c.FitPercent)
	}
	for name, v := range map[string]int64{
		"BytesMax": c.BytesMax, "KeepMin": c.KeepMin, "ReadsMax": int64(c.ReadsMax), "ReadsQueued": int64(c.ReadsQueued),
		"LateIDsMax": int64(c.LateIDsMax), "NotesMax": int64(c.NotesMax), "AsksToEvict": c.AsksToEvict,
		"VainIDsMax": c.VainIDsMax, "SuspectsShare": c.SuspectsShare,
		"Slack": int64(c.Slack), "Cooldown": int64(c.Cooldown), "GuardFor": int64(c.GuardFor), "WarnEvery": int64(c.WarnEvery),
		"SweepEvery": int64(c.SweepEvery), "ReadTimeout": int64(c.ReadTimeout), "RetryPause": int64(c.RetryPause),
		"CatchUpPause": int64(c.CatchUpPause),
	} {
		if v < 0 {
			return fmt.Errorf("dedup cache: %s is %d, below 0", name, v)
		}
	}
	if c.FilterIDsMax < filterIDsMin {
		return fmt.Errorf("dedup cache: FilterIDsMax is %d, below %d", c.FilterIDsMax, filterIDsMin)
	}
	return nil
}
