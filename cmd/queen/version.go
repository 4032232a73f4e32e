package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/alecthomas/kong"
)

// version is set by the build (see Makefile); the linker can set nothing else.
var version = "devel"

type versionCommand struct{}

// Run prints one line.
func (*versionCommand) Run(p *process) error { return printVersion(p.stdout) }

// versionFlag is the command as the flag that other programs have.
type versionFlag bool

// BeforeReset prints the line before anything else of the command line is judged.
func (versionFlag) BeforeReset(parser *kong.Kong) error {
	err := printVersion(parser.Stdout)
	parser.Exit(0)
	return err
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "queen %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
	return err
}
