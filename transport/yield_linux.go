package transport

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// yield gives the processor to another thread.
func yield() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
