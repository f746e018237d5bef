package pid1

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiber-go/fiber/internal/container/logmux"
)

// outputGrace bounds the wait for the output of a child that has ended:
// processes that it has started may hold it open for ever.
const outputGrace = time.Second

func init() {
	if os.Getenv(Key) == Value {
		os.Exit(run())
	}
}

// run runs the program as a child, joins its outputs on this process's stdout,
// and returns its exit code, 128+n if signal n ended it.
//
// The program must not know the mark of the stream's end, although it may run as
// the same user. So this process is made not dumpable: then reading its memory
// or its files in /proc takes CAP_SYS_PTRACE. If that fails, the stream has no
// end.
func run() int {
	to := logmux.NewWriter(os.Stdout)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err == nil {
		to.Begin()
	}
	var reading sync.WaitGroup
	var ends []*os.File
	for _, s := range []*logmux.Stream{to.Stdout(), to.Stderr()} {
		from, end, err := os.Pipe()
		if err != nil {
			fmt.Fprintln(os.Stderr, "fiber: the outputs of the program:", err)
			return 127
		}
		reading.Go(func() {
			io.Copy(s, from)
			s.Flush()
		})
		ends = append(ends, end)
	}
	end := child(ends[0], ends[1])
	read := make(chan struct{})
	go func() { reading.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(outputGrace):
	}
	to.End(end)
	return end.Code
}

// child runs the program with these outputs, which child closes.
func child(stdout, stderr *os.File) logmux.End {
	defer stdout.Close()
	defer stderr.Close()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	os.Unsetenv(Key) // the child is the program
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: os.Environ(),
		Files: []uintptr{0, stdout.Fd(), stderr.Fd()}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "fiber: starting the program below an init:", err)
		return logmux.End{Code: 127}
	}
	for s := range signals {
		switch s {
		case syscall.SIGCHLD:
			if end, ended := reap(pid); ended {
				return end
			}
		case syscall.SIGURG, syscall.SIGPIPE: // the Go runtime's, and our own
		default:
			syscall.Kill(pid, s.(syscall.Signal))
		}
	}
	return logmux.End{Code: 127}
}

// reap reaps all dead processes, and returns how the child ended if it has.
func reap(child int) (end logmux.End, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case pid <= 0:
			return end, ended
		case pid != child:
		case status.Signaled():
			end, ended = logmux.End{Code: 128 + int(status.Signal()), OutOfMemory: status.Signal() == syscall.SIGKILL && ranOut()}, true
		default:
			end, ended = logmux.End{Code: status.ExitStatus()}, true
		}
	}
}

// ranOut reports whether the kernel has killed a process of this container for
// the memory used. The kernel counts that before it kills, so the count is right
// once the process has been reaped.
func ranOut() bool {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		counts, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(counts)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strings.TrimSpace(n) != "0"
			}
		}
	}
	return false
}
