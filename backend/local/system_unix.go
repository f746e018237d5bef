//go:build unix

package local

import (
	"os"
	"syscall"
	"time"
)

// Supported returns nil: jobs can be processes on this system.
func Supported() error { return nil }

func resume(p *os.Process) { p.Signal(syscall.SIGCONT) }

// Processor returns how much processor time this process has used.
func Processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
