package pid1

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func init() {
	if os.Getenv(key) == "" {
		return
	}
	if os.Getpid() != 1 {
		os.Unsetenv(key)
		return
	}
	os.Exit(run())
}

// run starts the program as a child and returns its exit code, 128+n where
// signal n ended it.
func run() int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	child, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: environment(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "fiber: starting the program below an init:", err)
		return 127
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
		if !strings.HasPrefix(kv, key+"=") {
			env = append(env, kv)
		}
	}
	return env
}
