package job

import (
	"fmt"
	"syscall"

	"github.com/fiber-go/fiber/backend"
)

// maxSignal is the highest signal that an exit code may stand for.
const maxSignal = 64

// Exited returns the status of an exit code; 128+n stands for signal n.
func Exited(code int) backend.ExitStatus {
	status := backend.ExitStatus{Code: code}
	if n := code - 128; n > 0 && n <= maxSignal {
		status.Signal = syscall.Signal(n)
	}
	return status
}

// OutOfMemory returns the status of a job that was killed for the memory it used. The limit is in MiB, 0 for none.
func OutOfMemory(limit int) backend.ExitStatus {
	status := Exited(128 + int(syscall.SIGKILL))
	status.OOMKilled, status.Reason = true, "it used more memory than its node has"
	if limit > 0 {
		status.Reason = fmt.Sprintf("used more than its %d MiB", limit)
	}
	return status
}
