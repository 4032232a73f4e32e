package broker

import "syscall"

// dieWithParent has the broker killed when its starter ends, however that ends:
// a test that runs out of time puts nothing away.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
