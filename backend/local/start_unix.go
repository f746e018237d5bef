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

// start runs a program that leads a group. Without a parent-death signal it
// ends when it reads the end of its parent's socket.
func start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	return os.StartProcess(path, argv, attr)
}

func released() {}

// wait waits for a process and kills what is left of its group. There is no
// portable way to do that before the process is reaped; in the moment between,
// its number would have to be given away, to a process that leads a group.
func wait(p *os.Process) (*os.ProcessState, error) {
	state, err := p.Wait()
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	return state, err
}
