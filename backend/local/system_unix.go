//go:build unix

package local

import (
	"os"
	"syscall"
)

// Supported returns nil: jobs can be processes on this system.
func Supported() error { return nil }

func resume(p *os.Process) { p.Signal(syscall.SIGCONT) }
