package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// commandLine lists every command and every flag of the binary.
type commandLine struct {
	LogLevel  string `env:"QUEEN_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" help:"Least important log lines to write: ${enum}."`
	LogFormat string `env:"QUEEN_LOG_FORMAT" default:"text" enum:"text,json" help:"Format of the log on stderr: ${enum}."`

	ShowVersion versionFlag `name:"version" help:"Print the version and exit."`

	Serve   serveCommand   `cmd:"" help:"Run a broker: the Kafka and the HTTP door over one PostgreSQL."`
	Compat  compatCommand  `cmd:"" help:"Show that a broker behaves as Apache Kafka does."`
	Bench   benchCommand   `cmd:"" help:"Put load on a broker, in turn with something to compare it to."`
	Migrate migrateCommand `cmd:"" help:"Bring the database's schema to this version and exit."`
	Version versionCommand `cmd:"" help:"Print the version and exit."`

	Push  pushCommand   `cmd:"" help:"Push messages to a queue."`
	Pop   popCommand    `cmd:"" help:"Lease messages of a queue, or complete them at once. Exit code 3: nothing was there."`
	Ack   ackCommand    `cmd:"" help:"Say what became of popped messages."`
	Queue queueCommands `cmd:"" help:"Queues: list, look at, configure, delete."`
	Group groupCommands `cmd:"" help:"Consumer groups: list, look at, move, delete."`
	DLQ   dlqCommands   `cmd:"" name:"dlq" help:"Dead letters: list, replay, purge."`
	KV    kvCommands    `cmd:"" name:"kv" help:"Keys and values."`
}

// databaseFlags say which PostgreSQL holds everything.
type databaseFlags struct {
	DatabaseURL    place `env:"QUEEN_DATABASE_URL" name:"database-url" placeholder:"URL" help:"PostgreSQL 14 or newer to use. Without it, a PostgreSQL of our own is run in the data folder."`
	DataDir        place `env:"QUEEN_DATA_DIR" name:"data-dir" placeholder:"DIR" help:"Data folder (default: /var/lib/queen for root, else queen in the user's state folder, ~/.local/state). With --database-url it holds the broker's id and its read cache, and there is none unless one is named."`
	PostgresBin    place `env:"QUEEN_POSTGRES_BIN" name:"postgres-bin" placeholder:"DIR" help:"Folder of the programs of the PostgreSQL to run (default: the newest found, or for a data folder that exists, that of its version)."`
	UnsafeDatabase bool  `env:"QUEEN_UNSAFE_DATABASE" help:"Accept a database with fsync or full_page_writes off, which loses acknowledged messages when its machine stops."`
}

// process is what a command gets from the world.
type process struct {
	ctx    context.Context // ends at the first SIGINT or SIGTERM
	stdin  io.Reader
	stdout io.Writer
	// terminal: a person reads stdout.
	terminal bool
	log      *slog.Logger
}

const (
	exitFailed  = 1
	exitUsage   = 2
	exitNothing = 3 // what was asked for is not there: an empty queue, a missing key
	exitRetry   = 4 // no answer, or not now: repeating the command is right
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, release := untilTold(signals, func(s os.Signal) {
		fmt.Fprintln(os.Stderr, "queen: another signal: ending at once")
		signal.Reset() // it finds no handler any more
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
	})
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	release()
	os.Exit(code)
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var cl commandLine
	exited := -1
	parser, err := newParser(&cl, stdout, stderr, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(stderr, "queen:", err)
		return exitFailed
	}
	for i, arg := range args {
		if !utf8.ValidString(arg) { // the parser would replace its bytes silently
			fmt.Fprintf(stderr, "queen: argument %d is not UTF-8: %s; queen push --bytes takes bytes from stdin\n", i+1, harmless(arg))
			return exitUsage
		}
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(stderr, "queen:", harmlessLines(err.Error())+helpOf(err))
		return exitUsage
	}
	if err := errors.Join(checkNamed(command), checkUnused(command)); err != nil {
		fmt.Fprintln(stderr, "queen:", err)
		return exitUsage
	}
	p := &process{ctx: ctx, stdin: stdin, stdout: stdout, terminal: onTerminal(stdout), log: newLog(stderr, cl.LogLevel, cl.LogFormat)}
	if err := command.Run(p); err != nil {
		fmt.Fprintln(stderr, "queen:", harmlessLines(err.Error())) // it may quote what a client sent
		var exit *exitError
		if errors.As(err, &exit) {
			return exit.code
		}
		return exitFailed
	}
	return 0
}

// helpOf says where a command that was not understood is explained.
func helpOf(err error) string {
	var parse *kong.ParseError
	if !errors.As(err, &parse) {
		return ""
	}
	for _, flag := range parse.Context.Flags() { // a variable may have been meant for another command
		for _, env := range flag.Envs {
			if value, ok := os.LookupEnv(env); ok && strings.HasPrefix(err.Error(), "--"+flag.Name+" must be one of ") {
				return fmt.Sprintf("; %s says %q unless the flag does", env, value)
			}
		}
	}
	if node := parse.Context.Selected(); node != nil {
		return "; see queen " + node.Path() + " --help"
	}
	if strings.HasPrefix(err.Error(), "unknown flag ") {
		return "; the flags of a command stand after it: queen COMMAND --FLAG; see queen --help"
	}
	return "; see queen --help"
}

// checkNamed refuses what is named and left empty, such as a variable of the shell
// that is not set: without an id, a lease or a group a command does something else
// than was meant. What may be empty is tagged so.
func checkNamed(command *kong.Context) error {
	for _, at := range command.Path {
		v := at.Positional
		if at.Flag != nil {
			v = at.Flag.Value
		}
		if v == nil || v.Target.Kind() != reflect.String || v.Target.Len() > 0 || v.Tag.Has("empty") {
			continue
		}
		if at.Flag == nil {
			return fmt.Errorf("%s is empty: give it a value", v.ShortSummary())
		}
		return fmt.Errorf("%s is empty: give it a value, or leave it out", v.ShortSummary())
	}
	return nil
}

func newParser(cl *commandLine, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(cl,
		kong.Name("queen"),
		kong.Description("A Kafka-protocol broker and an HTTP queue with exact deduplication over PostgreSQL."),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
}
