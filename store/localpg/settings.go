package localpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	confFile      = "queen.conf"
	localConfFile = "local.conf"
	// connectionsMax leaves room for two brokers' worth of pools, psql and backups.
	connectionsMax = 64
)

// fixedSettings go on the server's command line, which wins over every file and
// over ALTER SYSTEM: no edit can make a commit less than durable, or open a
// door to others.
func fixedSettings(socketDir string, port int) map[string]string {
	return map[string]string{
		"fsync":                   "on",
		"full_page_writes":        "on",
		"synchronous_commit":      "on",
		"listen_addresses":        "",
		"unix_socket_directories": socketDir,
		"unix_socket_permissions": "0700",
		"port":                    strconv.Itoa(port),
	}
}

// tunedSettings are what a log of small commits and large values wants; an
// operator changes them in local.conf.
func tunedSettings(memory int64, walCompression string) map[string]string {
	return map[string]string{
		"cluster_name":             "queen",
		"max_connections":          strconv.Itoa(connectionsMax),
		"shared_buffers":           strconv.FormatInt(sharedBuffers(memory)>>20, 10) + "MB",
		"wal_buffers":              "16MB",
		"wal_compression":          walCompression,
		"max_wal_size":             "4GB",
		"min_wal_size":             "256MB",
		"max_slot_wal_keep_size":   "20GB",
		"checkpoint_timeout":       "15min",
		"autovacuum_naptime":       "15s",
		"jit":                      "off",
		"track_io_timing":          "on",
		"timezone":                 "UTC",
		"log_timezone":             "UTC",
		"log_lock_waits":           "on",
		"log_checkpoints":          "on",
		"log_destination":          "stderr",
		"logging_collector":        "on",
		"log_directory":            "log",
		"log_filename":             "postgresql-%a.log",
		"log_truncate_on_rotation": "on",
		"log_rotation_age":         "1d",
		"log_rotation_size":        "0",
		"log_line_prefix":          "%m [%p] %a ",
		"restart_after_crash":      "on",
	}
}

// sharedBuffers is a quarter of the memory, between 128 MB and 2 GB: the broker
// and the page cache want the rest.
func sharedBuffers(memory int64) int64 {
	return min(max(memory/4, 128<<20), 2<<30)
}

// MemoryBytes is what this machine or container may use; 0 when unknown.
func MemoryBytes() int64 {
	var total int64
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			if kb, ok := strings.CutPrefix(sc.Text(), "MemTotal:"); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(kb, "kB")), 10, 64)
				total = n << 10
			}
		}
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && (total == 0 || n < total) {
			total = n
		}
	}
	return total
}

// walCompression asks the server which of the methods it was built with.
func walCompression(ctx context.Context, b binaries, as *account, pgDir string) string {
	for _, method := range []string{"zstd", "lz4"} {
		cmd := b.command(ctx, as, pgDir, "postgres", "-C", "wal_compression",
			"-D", pgDir, "-c", "config_file=/dev/null", "-c", "wal_compression="+method)
		if cmd.Run() == nil {
			return method
		}
	}
	return "on"
}

// writeSettings replaces queen.conf as a whole.
func writeSettings(pgDir string, as *account, tuned, extra map[string]string) error {
	var b strings.Builder
	b.WriteString("# Written by queen at every start. Your own settings go into " + localConfFile + ".\n")
	all := maps.Clone(tuned)
	maps.Copy(all, extra)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = %s\n", name, quoteSetting(all[name]))
	}
	fmt.Fprintf(&b, "include_if_exists = '%s'\n", localConfFile)
	return replaceFile(filepath.Join(pgDir, confFile), as, b.String())
}

// includeSettings makes postgresql.conf read our file, unless it names it already. A
// cluster that pg_upgrade filled has the file that its initdb wrote.
func includeSettings(pgDir string) (err error) {
	path := filepath.Join(pgDir, "postgresql.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	line := "include_if_exists = '" + confFile + "'\n"
	if strings.Contains(string(text), line) {
		return nil
	}
	conf, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conf, "\n# queen's settings; your own go into %s.\n%s", localConfFile, line)
	return errors.Join(err, conf.Sync(), conf.Close())
}

func quoteSetting(v string) string {
	return "'" + strings.NewReplacer(`'`, `''`, `\`, `\\`, "\n", `\n`).Replace(v) + "'"
}

var settingPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

func settingName(s string) bool { return settingPattern.MatchString(s) }
