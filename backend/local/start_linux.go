package local

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath is the running executable: the same file even after a build has
// replaced it or "go run" has deleted it.
func selfPath() string { return "/proc/self/exe" }

// attributes make a process die with this one and lead a group.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// wait waits for a process, kills its group and reaps the process. Until then
// its number belongs to the group and cannot be reused.
func wait(p *os.Process) (*os.ProcessState, error) {
	for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	unix.Kill(-p.Pid, unix.SIGKILL)
	return p.Wait()
}
