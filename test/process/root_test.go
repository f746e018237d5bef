//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// family starts that program and waits until all its children are there.
func family(t *testing.T) *fibertest.Execution {
	x := fibertest.Start(t, "family")
	x.Says("started")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(x.Children()) == 5 }, "5 children")
	return x
}

func TestKilledRootLeavesNobody(t *testing.T) {
	t.Parallel()
	x := family(t)
	stopped := x.Children()[1:4]
	for _, pid := range stopped {
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	x.SignalRoot(syscall.SIGKILL)
	x.NobodyLeft()
}

func TestKilledMiddleLeavesNobodyBelow(t *testing.T) {
	t.Parallel()
	x := family(t)
	var middle, below int
	for _, pid := range x.Children() {
		if c := fibertest.ChildrenOf(pid); len(c) > 0 {
			middle, below = pid, c[0]
		}
	}
	require.NotZero(t, middle)
	require.NoError(t, syscall.Kill(below, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(middle, syscall.SIGKILL))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return !fibertest.Running(below) }, "the grandchild lives on")
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
				x.SignalGroup(test.first)
			} else {
				x.SignalRoot(test.first)
			}
			require.Equal(t, test.code, x.Wait(fibertest.Patience))
			require.Empty(t, x.Processes(), "processes are left")
			require.NotContains(t, x.Err.String(), "canceled", "a signal is no error to print")
		})
	}
}

func TestChildrenAreToldEvenIfRunGoesOn(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "stubborn")
	x.Says("started")
	x.SignalRoot(syscall.SIGINT)
	x.Says("told")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(x.Children()) == 0 }, "the child lives on")
}

// A first signal that does not end the program soon says why, and what does.
func TestASignalThatHasToWaitSaysForWhom(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "stubborn", "FIBER_SHUTDOWN_GRACE=1h")
	x.Says("started")
	x.SignalRoot(syscall.SIGINT)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return x.Err.String() != "" }, "it says nothing")
	require.Regexp(t, `level=WARN msg="fiber: the program has yet to end; a second Ctrl-C ends it at once" signal=interrupt `+
		`waits_for="the function that Main runs, Process-1 \(nap\)"\n$`, x.Err.String())
	x.SignalRoot(syscall.SIGINT)
	require.Equal(t, 130, x.Wait(fibertest.Patience))
	x.NobodyLeft()
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "stubborn")
	x.Says("started")
	x.SignalRoot(syscall.SIGINT)
	x.Says("told")
	x.SignalRoot(syscall.SIGTERM) // it would sleep for an hour
	require.Equal(t, 143, x.Wait(fibertest.Patience))
	x.NobodyLeft()
}

var _ = fibertest.MainProgram("failing", func(context.Context) error { return errors.New("it did not work") })

func TestExitCodeOfMain(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "failing")
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Equal(t, "it did not work\n", x.Err.String())
	x = fibertest.Start(t, "fine")
	require.Equal(t, 0, x.Wait(fibertest.Patience))
	require.Equal(t, "squares 100 9801\n", x.Out.String())
	require.Empty(t, x.Err.String())
	require.Empty(t, x.Processes())
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
var _ = fibertest.MainProgram("suspended", func(ctx context.Context) error {
	pool, err := fiber.NewPool(4)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	p := fiber.NewProcess(fibertest.Nap, 3*time.Second)
	if err := p.Start(ctx); err != nil {
		return err
	}
	var ins []fibertest.Marking
	for i := range 40 {
		ins = append(ins, fibertest.Marking{File: os.Getenv(fibertest.ArgKey), Line: fmt.Sprint(i), Nap: 100 * time.Millisecond})
	}
	fmt.Println("started")
	pids, err := fiber.Map(ctx, pool, fibertest.Mark, ins)
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
		stop func(*fibertest.Execution, syscall.Signal)
		sig  syscall.Signal
	}{
		{"all", (*fibertest.Execution).SignalGroup, syscall.SIGTSTP},
		{"all, forced", (*fibertest.Execution).SignalGroup, syscall.SIGSTOP},
		{"the root alone", (*fibertest.Execution).SignalRoot, syscall.SIGSTOP},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := fibertest.TempFile(t)
			x := fibertest.Start(t, "suspended", fibertest.ArgKey+"="+file)
			x.Says("started")
			fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) > 4 }, "tasks run")
			test.stop(x, test.sig)
			fibertest.Eventually(t, fibertest.Patience, func() bool { s := fibertest.Stat(x.Cmd.Process.Pid); return len(s) > 0 && s[0] == "T" }, "it is stopped")
			time.Sleep(nap)
			test.stop(x, syscall.SIGCONT)
			require.Equal(t, 0, x.Wait(fibertest.Patience))
			require.Equal(t, "started\ndone 40 lost 0 retried 0 started 4\n", x.Out.String())
			require.Len(t, fibertest.Lines(t, file), 40, "a task ran twice")
		})
	}
}
