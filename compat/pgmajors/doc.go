// Package pgmajors fetches the server programs of every major version of
// PostgreSQL that the product promises to run on.
//
// A machine has one of them installed, mostly, and `make test` runs on that. What
// differs between versions (settings, rights, plans) shows only where the tests of
// the rooms run on each: that is `make postgres-majors`. The archives named in
// pom.xml are fetched once by Maven and unpacked into a cache folder outside the
// repository. They hold initdb, pg_ctl and postgres, and no programs for clients.
//
// Needs `java`, `mvn`, `tar` and `xz` in PATH, and the network on first use only.
package pgmajors
