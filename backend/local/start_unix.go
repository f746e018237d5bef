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

// start runs a program that leads a process group. Without a parent-death
// signal, the program ends when it reads the end of its parent's socket.
func start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	return os.StartProcess(path, argv, attr)
}

func released() {}

// wait waits for a process and kills what is left of its group. Portably, that
// is possible only after the process is reaped. It would hit a stranger only if
// the number went to a new process that leads a group in the moment between.
func wait(p *os.Process) (*os.ProcessState, error) {
	state, err := p.Wait()
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	return state, err
}
