package clients

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"queenmq/compat/kafkanode"
)

// Client is one row of the matrix.
type Client struct {
	// Name is how it is selected and listed.
	Name string
	// Quick clients need nothing but Go and what `make test` installs, and are
	// done in seconds.
	Quick bool
	// HTTP clients speak to the HTTP door, and take its address.
	HTTP bool
	// prepare answers the command line that takes the broker's address behind it,
	// and what to add to its environment.
	prepare func(ctx context.Context, k kit) (argv, env []string, err error)
}

// kit is where a client is prepared.
type kit struct {
	source string // the folder of this package
	work   string // gone after the run
}

// Clients answers all rows, quick ones first.
func Clients() []Client {
	return []Client{
		{Name: "kcat", Quick: true, prepare: script("kcat/run.sh")},
		{Name: "sarama", Quick: true, prepare: golang("sarama")},
		{Name: "kafka-go", Quick: true, prepare: golang("kafka-go")},
		{Name: "confluent-python", prepare: python("confluent-python")},
		{Name: "kafka-python", prepare: python("kafka-python")},
		{Name: "kafkajs", prepare: node("kafkajs")},
		{Name: "queen-python", HTTP: true, prepare: python("queen-python")},
		{Name: "java-3.9", prepare: java("java", "Matrix", "kafka.version=3.9.2")},
		{Name: "java-4", prepare: java("java", "Matrix")},
		{Name: "tools-3.9", prepare: withJars("tools", "kafka.version=3.9.2")},
		{Name: "tools-4", prepare: withJars("tools")},
		{Name: "streams", prepare: java("streams", "WordCount")},
		{Name: "connect", prepare: withJars("connect")},
	}
}

func script(path string) func(context.Context, kit) ([]string, []string, error) {
	return func(_ context.Context, k kit) ([]string, []string, error) {
		return []string{filepath.Join(k.source, path)}, nil, nil
	}
}

// golang builds the module in a folder.
func golang(folder string) func(context.Context, kit) ([]string, []string, error) {
	return func(ctx context.Context, k kit) ([]string, []string, error) {
		binary := filepath.Join(k.work, folder)
		cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
		cmd.Dir = filepath.Join(k.source, folder)
		return []string{binary}, nil, run(cmd)
	}
}

// java compiles the sources in a folder against the jars of its pom.xml.
func java(folder, main string, properties ...string) func(context.Context, kit) ([]string, []string, error) {
	return func(ctx context.Context, k kit) ([]string, []string, error) {
		source := filepath.Join(k.source, folder)
		jars, err := jarsOf(ctx, k, folder, properties...)
		if err != nil {
			return nil, nil, err
		}
		classes, err := os.MkdirTemp(k.work, folder)
		if err != nil {
			return nil, nil, err
		}
		cmd := exec.CommandContext(ctx, "javac", "-nowarn", "-d", classes, "-cp", jars,
			"-sourcepath", source+":"+filepath.Join(k.source, "java"), filepath.Join(source, main+".java"))
		if err := run(cmd); err != nil {
			return nil, nil, err
		}
		return []string{"java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classes + ":" + jars, main}, nil, nil
	}
}

// withJars builds the module in a folder, which runs Java programs out of the jars of
// the pom.xml beside it.
func withJars(folder string, properties ...string) func(context.Context, kit) ([]string, []string, error) {
	return func(ctx context.Context, k kit) ([]string, []string, error) {
		argv, env, err := golang(folder)(ctx, k)
		if err != nil {
			return nil, nil, err
		}
		jars, err := jarsOf(ctx, k, folder, properties...)
		return argv, append(env, "CLASSPATH="+jars), err
	}
}

func jarsOf(ctx context.Context, k kit, folder string, properties ...string) (string, error) {
	pom, err := os.ReadFile(filepath.Join(k.source, folder, "pom.xml"))
	if err != nil {
		return "", err
	}
	return kafkanode.JarsOf(ctx, pom, properties...)
}

// python runs main.py of a folder in an environment made of its requirements.txt.
func python(folder string) func(context.Context, kit) ([]string, []string, error) {
	return func(ctx context.Context, k kit) ([]string, []string, error) {
		source := filepath.Join(k.source, folder)
		dir, err := installed(filepath.Join(source, "requirements.txt"), func(dir string) []*exec.Cmd {
			return []*exec.Cmd{
				exec.CommandContext(ctx, "python3", "-m", "venv", dir),
				exec.CommandContext(ctx, filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "-q",
					"--disable-pip-version-check", "-r", filepath.Join(source, "requirements.txt")),
			}
		})
		if err != nil {
			return nil, nil, err
		}
		return []string{filepath.Join(dir, "bin", "python"), filepath.Join(source, "main.py")}, nil, nil
	}
}

// node runs main.js of a folder with the packages of its package.json.
func node(folder string) func(context.Context, kit) ([]string, []string, error) {
	return func(ctx context.Context, k kit) ([]string, []string, error) {
		source := filepath.Join(k.source, folder)
		manifest := filepath.Join(source, "package.json")
		dir, err := installed(manifest, func(dir string) []*exec.Cmd {
			return []*exec.Cmd{
				exec.CommandContext(ctx, "cp", manifest, dir),
				exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"),
			}
		})
		if err != nil {
			return nil, nil, err
		}
		return []string{"node", filepath.Join(source, "main.js")}, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}, nil
	}
}

// installed answers a folder in the user's cache that was filled once by commands
// for this content of a manifest. One that was filled half is filled again.
func installed(manifest string, commands func(dir string) []*exec.Cmd) (string, error) {
	content, err := os.ReadFile(manifest)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	dir := filepath.Join(cache, "queen-clients", filepath.Base(filepath.Dir(manifest))+"-"+hex.EncodeToString(sum[:6]))
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return dir, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, cmd := range commands(dir) {
		if err := run(cmd); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(complete, nil, 0o644)
}

// run runs a command of the preparation; its error has what was printed.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
