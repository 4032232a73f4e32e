// Package broker runs the shipped binary, `queen serve`, as a process that can
// be killed, and finds the PostgreSQL it supervises. Tests of the whole product
// use it; it knows only what an operator knows: flags, the ready line, signals,
// and the files in the data folder.
package broker
