//go:build unix

package fibertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// Some tests need a root of their own: one that is killed, stopped, given
// another configuration. They run this test binary as a program.
const (
	ProgramKey = "TEST_PROGRAM"  // which one
	runKey     = "TEST_RUN"      // all processes of one run have the same
	ArgKey     = "TEST_ARGUMENT" // what else the test has to say to it
)

var programs = map[string]func(){}

// Program adds a program that is all main.
func Program(name string, main func()) struct{} {
	if programs[name] != nil {
		panic("two programs are called " + name)
	}
	programs[name] = main
	return struct{}{}
}

// MainProgram adds a program that is given to fiber.Main.
func MainProgram(name string, run func(context.Context) error, opts ...fiber.Config) struct{} {
	return Program(name, func() { fiber.Main(run, opts...) })
}

func runProgram(name string) {
	main, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program %q\n", name)
		os.Exit(99)
	}
	main()
	os.Exit(0)
}

// Execution is a program that runs.
type Execution struct {
	t    testing.TB
	Cmd  *exec.Cmd
	id   string
	Out  output
	Err  output
	Done chan struct{}
	code int
}

// output is what a program writes, to be looked at while it does.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Start runs a program in a process group of its own.
func Start(t testing.TB, name string, env ...string) *Execution {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return StartFile(t, exe, name, env...)
}

func StartFile(t testing.TB, exe, name string, env ...string) *Execution {
	t.Helper()
	x := &Execution{t: t, Cmd: exec.Command(exe), id: rand.Text(), Done: make(chan struct{})}
	x.Cmd.Env = append(os.Environ(), ProgramKey+"="+name, runKey+"="+x.id, "FIBER_ENV=*")
	x.Cmd.Env = append(x.Cmd.Env, env...)
	x.Cmd.Dir = t.TempDir()
	x.Cmd.Stdout, x.Cmd.Stderr = &x.Out, &x.Err
	x.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, kv := range env {
		if file, ok := strings.CutPrefix(kv, "fiberconfig="); ok {
			require.NoError(t, os.WriteFile(x.Cmd.Dir+"/.fiberconfig", []byte(file), 0o644))
			require.NoError(t, os.Chmod(x.Cmd.Dir, 0o777|os.ModeSticky)) // all processes may write there, and nobody replace the file
		}
	}
	require.NoError(t, x.Cmd.Start())
	go func() {
		defer close(x.Done)
		x.Cmd.Wait()
		x.code = x.Cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		for _, pid := range x.Processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-x.Done
		if t.Failed() {
			t.Logf("%s wrote\n%s\nand to stderr\n%s", name, x.Out.String(), x.Err.String())
		}
	})
	return x
}

// Processes lists all processes of the run, the root and orphans included.
func (x *Execution) Processes() (all []int) {
	for _, pid := range Pids() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && Running(pid) && bytes.Contains(env, []byte(runKey+"="+x.id)) {
			all = append(all, pid)
		}
	}
	return all
}

func (x *Execution) Children() (all []int) {
	for _, pid := range x.Processes() {
		if pid != x.Cmd.Process.Pid {
			all = append(all, pid)
		}
	}
	return all
}

// Says waits until the program has written text.
func (x *Execution) Says(text string) {
	x.t.Helper()
	Eventually(x.t, Patience, func() bool {
		select {
		case <-x.Done:
			return true
		default:
			return strings.Contains(x.Out.String(), text)
		}
	}, "the program never says "+text)
	require.Contains(x.t, x.Out.String(), text)
}

// Wait waits for the program's end and returns its exit code.
func (x *Execution) Wait(d time.Duration) int {
	x.t.Helper()
	select {
	case <-x.Done:
	case <-time.After(d):
		x.Cmd.Process.Signal(syscall.SIGQUIT)
		<-x.Done
		require.FailNow(x.t, "the program did not end within "+d.String())
	}
	return x.code
}

// NobodyLeft waits until no process of the run is left.
func (x *Execution) NobodyLeft() {
	x.t.Helper()
	Eventually(x.t, Patience, func() bool { return len(x.Processes()) == 0 }, "processes are left")
}

func (x *Execution) SignalGroup(sig syscall.Signal) {
	x.t.Helper()
	require.NoError(x.t, syscall.Kill(-x.Cmd.Process.Pid, sig))
}

func (x *Execution) SignalRoot(sig syscall.Signal) {
	x.t.Helper()
	require.NoError(x.t, syscall.Kill(x.Cmd.Process.Pid, sig))
}
