package main

import (
	"fmt"
	"runtime"
)

// version is set by the build (see Makefile); the linker can set nothing else.
var version = "devel"

type versionCommand struct{}

// Run prints one line.
func (*versionCommand) Run(p *process) error {
	_, err := fmt.Fprintf(p.stdout, "queen %s %s/%s %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
	return err
}
