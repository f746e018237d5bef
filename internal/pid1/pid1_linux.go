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

	"github.com/fiber-go/fiber/internal/joined"
)

// outputGrace bounds the wait for the output of a child that has ended: what
// it has started may have it open for ever.
const outputGrace = time.Second

func init() {
	switch how := os.Getenv(key); {
	case how == "":
	case how == withTwo:
		os.Exit(runJoined())
	case os.Getpid() == 1:
		os.Exit(run(os.Stdout, os.Stderr))
	default:
		os.Unsetenv(key)
	}
}

// runJoined is run with the child's outputs joined on this process's stdout.
func runJoined() int {
	to := joined.NewWriter(os.Stdout)
	var reading sync.WaitGroup
	var ends []*os.File
	for _, s := range []*joined.Stream{to.Stdout(), to.Stderr()} {
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
	code := run(ends[0], ends[1])
	read := make(chan struct{})
	go func() { reading.Wait(); close(read) }()
	select {
	case <-read:
	case <-time.After(outputGrace):
	}
	to.End(code)
	return code
}

// run starts the program as a child with these outputs, which it closes if
// they are not this process's, and returns its exit code, 128+n where signal n ended it.
func run(stdout, stderr *os.File) int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	child, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: environment(),
		Files: []uintptr{0, stdout.Fd(), stderr.Fd()}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "fiber: starting the program below an init:", err)
		return 127
	}
	if stdout != os.Stdout {
		stdout.Close()
		stderr.Close()
	}
	for s := range signals {
		switch s {
		case syscall.SIGCHLD:
			if code, ended := reap(child); ended {
				return code
			}
		case syscall.SIGURG, syscall.SIGPIPE: // the Go runtime's, and our own
		default:
			syscall.Kill(child, s.(syscall.Signal))
		}
	}
	return 127
}

// reap takes in all that have died, and tells how the child did if it has.
func reap(child int) (code int, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case pid <= 0:
			return code, ended
		case pid != child:
		case status.Signaled():
			code, ended = 128+int(status.Signal()), true
		default:
			code, ended = status.ExitStatus(), true
		}
	}
}

func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, envPrefix) {
			env = append(env, kv)
		}
	}
	return env
}
