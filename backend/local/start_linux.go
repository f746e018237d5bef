package local

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// selfPath is the running executable: the same file even after a build has
// replaced it or "go run" has deleted it.
func selfPath() string { return "/proc/self/exe" }

// The kernel sends a parent-death signal when the *thread* that forked ends,
// not the process (prctl(2), PR_SET_PDEATHSIG). So one locked thread does all
// the forking. It lives as long as any of its children, and a moment longer,
// since another is often about to start.
var launcher struct {
	sync.Mutex
	requests chan launch // nil without a thread
	jobs     int         // running or starting
}

const launcherIdle = 100 * time.Millisecond

type launch struct {
	path string
	argv []string
	attr *os.ProcAttr
	done chan launched
}

type launched struct {
	process *os.Process
	err     error
}

// start runs a program that dies with this process and leads a group.
func start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	attr.Sys = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	launcher.Lock()
	if launcher.requests == nil {
		launcher.requests = make(chan launch)
		go launcherThread(launcher.requests)
	}
	launcher.jobs++
	requests := launcher.requests
	launcher.Unlock()
	l := launch{path, argv, attr, make(chan launched, 1)}
	requests <- l
	result := <-l.done
	if result.err != nil {
		released()
	}
	return result.process, result.err
}

// released uncounts a job that start counted.
func released() {
	launcher.Lock()
	defer launcher.Unlock()
	launcher.jobs--
	if launcher.jobs > 0 {
		return
	}
	time.AfterFunc(launcherIdle, func() {
		launcher.Lock()
		defer launcher.Unlock()
		if launcher.jobs == 0 && launcher.requests != nil {
			close(launcher.requests)
			launcher.requests = nil
		}
	})
}

func launcherThread(requests <-chan launch) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	for l := range requests {
		p, err := os.StartProcess(l.path, l.argv, l.attr)
		l.done <- launched{p, err}
	}
}

// wait waits for a process, kills its group and reaps the process. Until then
// its number belongs to the group and cannot be reused.
func wait(p *os.Process) (*os.ProcessState, error) {
	for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	unix.Kill(-p.Pid, unix.SIGKILL)
	return p.Wait()
}
