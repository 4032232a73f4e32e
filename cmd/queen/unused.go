package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// Flags that have no effect beside others are refused: who names one expects
// something of it. What only allows something that is not asked for (--insecure,
// --unsafe-database) is no such flag, and neither is a default.

// namedFlags is what the user named: by flag, the words it was named with.
type namedFlags map[string]string

// namedIn collects the flags of a command that stand on the command line or have
// their variable set.
func namedIn(command *kong.Context) namedFlags {
	named := make(namedFlags)
	for _, flag := range command.Flags() {
		for _, env := range flag.Envs {
			if _, ok := os.LookupEnv(env); ok {
				named[flag.Name] = "--" + flag.Name + " (" + env + ")"
			}
		}
	}
	for _, at := range command.Path {
		if at.Flag != nil {
			named[at.Flag.Name] = "--" + at.Flag.Name
		}
	}
	return named
}

// unused is a pair of flags of which one has no effect; why ends with what to do.
type unused struct {
	flag string // has none
	here bool   // as things are
	why  string
}

// refuse is the error about those of the list that were named.
func (n namedFlags) refuse(list ...unused) error {
	var errs []error
	for _, u := range list {
		if words, ok := n[u.flag]; ok && u.here {
			errs = append(errs, fmt.Errorf("%s has no effect %s", words, u.why))
		}
	}
	return errors.Join(errs...)
}

// picky is a command with flags that have no effect beside others.
type picky interface {
	refuseUnused(namedFlags) error
}

func checkUnused(command *kong.Context) error {
	node := command.Selected()
	if node == nil {
		return nil
	}
	c, ok := node.Target.Addr().Interface().(picky)
	if !ok {
		return nil
	}
	if err := c.refuseUnused(namedIn(command)); err != nil {
		return fmt.Errorf("%w; see queen %s --help", err, node.Path())
	}
	return nil
}

func (f *databaseFlags) refuseUnused(named namedFlags) error {
	return named.refuse(
		unused{"postgres-bin", f.DatabaseURL != "", "beside --database-url: it names the programs of a PostgreSQL that is run in the data folder; leave out one of the two"},
	)
}

func (c *serveCommand) refuseUnused(named namedFlags) error {
	return errors.Join(c.databaseFlags.refuseUnused(named), named.refuse(
		unused{"dedup-cache-mb", !c.DedupCache, "with --no-dedup-cache (QUEEN_DEDUP_CACHE=0): there is no memory to bound; leave out one of the two"},
		unused{"read-cache-mb", c.ReadCacheMB > 0 && c.DatabaseURL != "" && c.DataDir == "", "beside --database-url without a folder to keep the cache in: name one with --data-dir, or leave it out"},
	))
}

func (c *benchRun) refuseUnused(named namedFlags) error {
	const own = "with --serve: the load is put on the broker that is run for it; leave out one of the two"
	return named.refuse(
		unused{"brokers", c.Serve, own},
		unused{"http", c.Serve, own},
		unused{"data-dir", c.DatabaseURL != "", "beside --database-url: either says where PostgreSQL is; leave out one of the two"},
	)
}

// unusedWithoutBaseline is what only the baseline has.
func unusedWithoutBaseline(named namedFlags, vs string) error {
	const why = "without --vs baseline, whose it is: compare with that, or leave it out"
	return named.refuse(
		unused{"connections", vs != vsBaseline, why},
		unused{"row", vs != vsBaseline, why},
	)
}

func (c *benchKafka) refuseUnused(named namedFlags, vs string) error {
	return named.refuse(
		unused{"vs-topic-config", vs == "" || vs == vsBaseline, "without other brokers to compare with: name them with --vs, or leave it out"},
	)
}

func (c *benchProduce) refuseUnused(named namedFlags) error {
	return errors.Join(c.benchRun.refuseUnused(named), c.benchKafka.refuseUnused(named, c.Vs), unusedWithoutBaseline(named, c.Vs))
}

func (c *benchE2E) refuseUnused(named namedFlags) error {
	return errors.Join(c.benchRun.refuseUnused(named), c.benchKafka.refuseUnused(named, c.Vs), unusedWithoutBaseline(named, c.Vs))
}

func (c *benchConsume) refuseUnused(named namedFlags) error {
	return errors.Join(c.benchRun.refuseUnused(named), c.benchKafka.refuseUnused(named, c.Vs), unusedWithoutBaseline(named, c.Vs))
}

func (c *benchPush) refuseUnused(named namedFlags) error {
	const engine = "with --engine: nothing goes over HTTP; leave out one of the two"
	return errors.Join(c.benchRun.refuseUnused(named), unusedWithoutBaseline(named, c.Vs), named.refuse(
		unused{"http", c.Engine, engine},
	))
}

func (c *benchPop) refuseUnused(named namedFlags) error {
	return errors.Join(c.benchRun.refuseUnused(named), unusedWithoutBaseline(named, c.Vs))
}

func (c *benchDedup) refuseUnused(named namedFlags) error {
	return errors.Join(c.benchRun.refuseUnused(named), unusedWithoutBaseline(named, ""))
}

func (c *benchTable) refuseUnused(named namedFlags) error {
	return errors.Join(c.benchRun.refuseUnused(named), unusedWithoutBaseline(named, ""))
}
