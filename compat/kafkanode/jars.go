package kafkanode

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed pom.xml
var pom []byte

// Jars answers the class path of Apache Kafka and its tools, fetching the jars
// on first use.
func Jars(ctx context.Context) (string, error) { return JarsOf(ctx, pom) }

// JarsOf answers the class path of what a pom.xml depends on at run time, given
// properties as NAME=VALUE. The jars are kept under the user's cache folder in one
// folder per content and properties, so changing a version never mixes two sets.
func JarsOf(ctx context.Context, pom []byte, properties ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kafka jars: no cache folder: %w", err)
	}
	sum := sha256.Sum256(append([]byte(strings.Join(properties, "\n")), pom...))
	dir := filepath.Join(cache, "queen-kafka", hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "*"), nil
	}
	if err := fetch(ctx, dir, pom, properties); err != nil {
		return "", err
	}
	return filepath.Join(dir, "*"), nil
}

// fetch fills dir by way of a sibling folder and a rename, so that a fetch cut
// short is never taken for a complete one.
func fetch(ctx context.Context, dir string, pom []byte, properties []string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("kafka jars: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "fetch-")
	if err != nil {
		return fmt.Errorf("kafka jars: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what is left is in nobody's way
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("kafka jars: %w", err)
	}
	jars := filepath.Join(tmp, "jars")
	args := []string{"-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=" + jars}
	for _, p := range properties {
		args = append(args, "-D"+p)
	}
	cmd := exec.CommandContext(ctx, "mvn", args...)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kafka jars: mvn dependency:copy-dependencies: %w\n%s", err, out)
	}
	if err := os.Rename(jars, dir); err != nil {
		// Another process was faster: its folder is as good as ours.
		if _, statErr := os.Stat(dir); errors.Is(err, os.ErrExist) || statErr == nil {
			return nil
		}
		return fmt.Errorf("kafka jars: %w", err)
	}
	return nil
}
