//go:build unix

package fiber_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
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
	programKey = "TEST_PROGRAM"  // which one
	runKey     = "TEST_RUN"      // all processes of one run have the same
	argKey     = "TEST_ARGUMENT" // what else the test has to say to it
)

var programs = map[string]func(){}

// program adds a program that is all main.
func program(name string, main func()) struct{} {
	if programs[name] != nil {
		panic("two programs are called " + name)
	}
	programs[name] = main
	return struct{}{}
}

// mainProgram adds a program that is given to fiber.Main.
func mainProgram(name string, run func(context.Context) error, opts ...fiber.InitOption) struct{} {
	return program(name, func() { fiber.Main(run, opts...) })
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

// execution is a program that runs.
type execution struct {
	t    testing.TB
	cmd  *exec.Cmd
	id   string
	out  output
	err  output
	done chan struct{}
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

// start runs a program in a process group of its own.
func start(t testing.TB, name string, env ...string) *execution {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return startFile(t, exe, name, env...)
}

func startFile(t testing.TB, exe, name string, env ...string) *execution {
	t.Helper()
	x := &execution{t: t, cmd: exec.Command(exe), id: rand.Text(), done: make(chan struct{})}
	x.cmd.Env = append(os.Environ(), programKey+"="+name, runKey+"="+x.id)
	x.cmd.Env = append(x.cmd.Env, env...)
	x.cmd.Dir = t.TempDir()
	x.cmd.Stdout, x.cmd.Stderr = &x.out, &x.err
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, kv := range env {
		if file, ok := strings.CutPrefix(kv, "fiberconfig="); ok {
			require.NoError(t, os.WriteFile(x.cmd.Dir+"/.fiberconfig", []byte(file), 0o644))
		}
	}
	require.NoError(t, x.cmd.Start())
	go func() {
		defer close(x.done)
		x.cmd.Wait()
		x.code = x.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		for _, pid := range x.processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-x.done
		if t.Failed() {
			t.Logf("%s wrote\n%s\nand to stderr\n%s", name, x.out.String(), x.err.String())
		}
	})
	return x
}

// processes lists all processes of the run, the root and orphans included.
func (x *execution) processes() (all []int) {
	for _, pid := range pids() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && running(pid) && bytes.Contains(env, []byte(runKey+"="+x.id)) {
			all = append(all, pid)
		}
	}
	return all
}

func (x *execution) children() (all []int) {
	for _, pid := range x.processes() {
		if pid != x.cmd.Process.Pid {
			all = append(all, pid)
		}
	}
	return all
}

// says waits until the program has written text.
func (x *execution) says(text string) {
	x.t.Helper()
	eventually(x.t, patience, func() bool {
		select {
		case <-x.done:
			return true
		default:
			return strings.Contains(x.out.String(), text)
		}
	}, "the program never says "+text)
	require.Contains(x.t, x.out.String(), text)
}

// wait waits for the program's end and gives its exit code.
func (x *execution) wait(d time.Duration) int {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(d):
		x.cmd.Process.Signal(syscall.SIGQUIT)
		<-x.done
		require.FailNow(x.t, "the program did not end within "+d.String())
	}
	return x.code
}

// nobodyLeft waits until no process of the run is left.
func (x *execution) nobodyLeft() {
	x.t.Helper()
	eventually(x.t, patience, func() bool { return len(x.processes()) == 0 }, "processes are left")
}

func (x *execution) group(sig syscall.Signal) {
	x.t.Helper()
	require.NoError(x.t, syscall.Kill(-x.cmd.Process.Pid, sig))
}

func (x *execution) root(sig syscall.Signal) {
	x.t.Helper()
	require.NoError(x.t, syscall.Kill(x.cmd.Process.Pid, sig))
}

// A program with children of all sorts: workers that are busy, heedlessly
// busy and idle, a process, and a process's process.
var parenting = fiber.Register("parenting", func(ctx context.Context, d time.Duration) (none, error) {
	p := fiber.NewProcess(nap, d)
	if err := p.Start(ctx); err != nil {
		return none{}, err
	}
	return none{}, p.Join(ctx)
})

var _ = mainProgram("family", func(ctx context.Context) error {
	pool, err := fiber.NewPool(3)
	if err != nil {
		return err
	}
	defer pool.Terminate()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	heedless := fiber.ApplyAsync(ctx, pool, nap, time.Hour)
	fiber.ApplyAsync(ctx, pool, rest, time.Hour)
	p := fiber.NewProcess(parenting, time.Hour)
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Println("started")
	_, err = heedless.Get(ctx)
	return err
})

// family starts that program and waits until all its children are there.
func family(t *testing.T) *execution {
	x := start(t, "family")
	x.says("started")
	eventually(t, patience, func() bool { return len(x.children()) == 5 }, "5 children")
	return x
}

func TestKilledRootLeavesNobody(t *testing.T) {
	t.Parallel()
	x := family(t)
	stopped := x.children()[1:4]
	for _, pid := range stopped {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	x.root(syscall.SIGKILL)
	x.nobodyLeft()
}

func TestKilledMiddleLeavesNobodyBelow(t *testing.T) {
	t.Parallel()
	x := family(t)
	var middle, below int
	for _, pid := range x.children() {
		if c := childrenOf(pid); len(c) > 0 {
			middle, below = pid, c[0]
		}
	}
	require.NotZero(t, middle)
	require.NoError(t, syscall.Kill(below, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(middle, syscall.SIGKILL))
	eventually(t, patience, func() bool { return !running(below) }, "the grandchild lives on")
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		first syscall.Signal
		group bool
		code  int
	}{
		{"ctrl-c", syscall.SIGINT, true, 130},
		{"SIGINT", syscall.SIGINT, false, 130},
		{"SIGTERM", syscall.SIGTERM, false, 143},
		{"SIGTERM to all", syscall.SIGTERM, true, 143},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			x := family(t)
			if test.group {
				x.group(test.first)
			} else {
				x.root(test.first)
			}
			require.Equal(t, test.code, x.wait(patience))
			require.Empty(t, x.processes(), "processes are left")
			require.NotContains(t, x.err.String(), "canceled", "a signal is no error to print")
		})
	}
}

var _ = mainProgram("stubborn", func(ctx context.Context) error {
	p := fiber.NewProcess(nap, time.Hour)
	if err := p.Start(ctx); err != nil {
		return err
	}
	fmt.Println("started")
	<-ctx.Done()
	fmt.Println("told")
	time.Sleep(time.Hour)
	return nil
})

func TestChildrenAreToldEvenIfRunGoesOn(t *testing.T) {
	t.Parallel()
	x := start(t, "stubborn")
	x.says("started")
	x.root(syscall.SIGINT)
	x.says("told")
	eventually(t, patience, func() bool { return len(x.children()) == 0 }, "the child lives on")
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	x := start(t, "stubborn")
	x.says("started")
	x.root(syscall.SIGINT)
	x.says("told")
	x.root(syscall.SIGTERM) // it would sleep for an hour
	require.Equal(t, 143, x.wait(patience))
	require.Empty(t, x.processes())
}

var _ = mainProgram("failing", func(context.Context) error { return errors.New("it did not work") })

var _ = mainProgram("fine", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Close()
	squares, err := fiber.Map(ctx, pool, square, numbers(100))
	if err != nil {
		return err
	}
	fmt.Println("squares", len(squares), squares[99])
	return nil
})

func TestExitCodeOfMain(t *testing.T) {
	t.Parallel()
	x := start(t, "failing")
	require.Equal(t, 1, x.wait(patience))
	require.Equal(t, "it did not work\n", x.err.String())
	x = start(t, "fine")
	require.Equal(t, 0, x.wait(patience))
	require.Equal(t, "squares 100 9801\n", x.out.String())
	require.Empty(t, x.err.String())
	require.Empty(t, x.processes())
}

// A pool may end while its workers start: they have nothing to say then.
func TestAChildWhoseParentIsGoneIsSilent(t *testing.T) {
	t.Parallel()
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	require.NoError(t, syscall.Close(fds[0]))
	theirs := os.NewFile(uintptr(fds[1]), "parent")
	defer theirs.Close()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), `FIBER_BOOTSTRAP={"process":"x","build":"y","fd":3}`)
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, failed.ExitCode())
	require.Empty(t, string(out))
}

// Ctrl-Z: naps that count how often they run, and a heartbeat_timeout that is
// shorter than the time that the program is stopped.
var _ = mainProgram("suspended", func(ctx context.Context) error {
	pool, err := fiber.NewPool(4)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	p := fiber.NewProcess(nap, 3*time.Second)
	if err := p.Start(ctx); err != nil {
		return err
	}
	var ins []marking
	for i := range 40 {
		ins = append(ins, marking{File: os.Getenv(argKey), Line: fmt.Sprint(i), Nap: 100 * time.Millisecond})
	}
	fmt.Println("started")
	pids, err := fiber.Map(ctx, pool, mark, ins)
	if err != nil {
		return err
	}
	if err := p.Join(ctx); err != nil {
		return err
	}
	s := pool.Stats()
	fmt.Println("done", len(pids), "lost", s.WorkersLost, "retried", s.Retried, "started", s.WorkersStarted)
	return nil
})

func TestSuspended(t *testing.T) {
	t.Parallel()
	nap := 30 * time.Second
	if testing.Short() {
		nap = 12 * time.Second
	}
	for _, test := range []struct {
		name string
		stop func(*execution, syscall.Signal)
		sig  syscall.Signal
	}{
		{"all", (*execution).group, syscall.SIGTSTP},
		{"all, forced", (*execution).group, syscall.SIGSTOP},
		{"the root alone", (*execution).root, syscall.SIGSTOP},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := tempFile(t)
			x := start(t, "suspended", argKey+"="+file)
			x.says("started")
			eventually(t, patience, func() bool { return len(lines(t, file)) > 4 }, "tasks run")
			test.stop(x, test.sig)
			eventually(t, patience, func() bool { s := stat(x.cmd.Process.Pid); return len(s) > 0 && s[0] == "T" }, "it is stopped")
			time.Sleep(nap)
			test.stop(x, syscall.SIGCONT)
			require.Equal(t, 0, x.wait(patience))
			require.Equal(t, "started\ndone 40 lost 0 retried 0 started 4\n", x.out.String())
			require.Len(t, lines(t, file), 40, "a task ran twice")
		})
	}
}
