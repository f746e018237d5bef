//go:build !unix

package local

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Supported returns why jobs cannot be processes on this system: they inherit a
// socket, end on a signal, and may not outlive their parent.
func Supported() error {
	return fmt.Errorf("fiber: the local backend does not work on %s: run the program on Linux (WSL 2 will do), "+
		"or set FIBER_BACKEND to docker or kubernetes", runtime.GOOS)
}

func selfPath() string { return os.Args[0] }

func attributes() *syscall.SysProcAttr { return nil }

func resume(*os.Process) {}

func wait(p *os.Process) (*os.ProcessState, error) { return p.Wait() }

// Processor returns 0: how much processor time this process has used is not known.
func Processor() time.Duration { return 0 }
