//go:build unix && !linux

package local

import (
	"os"
	"syscall"
)

// selfPath is the running executable.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// attributes make a process lead a group. Without a parent-death signal, it
// ends when it reads the end of its parent's socket.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// wait waits for a process and kills what is left of its group. Portably, that
// is possible only after the process is reaped. It would hit a stranger only if
// the number went to a new process that leads a group in the moment between.
func wait(p *os.Process) (*os.ProcessState, error) {
	state, err := p.Wait()
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	return state, err
}
