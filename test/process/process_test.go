//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/meta"
	"github.com/fiber-go/fiber/test/fibertest"
)

// started starts a process that is killed when the test ends.
func started[In, Out any](t testing.TB, fn *fiber.Func[In, Out], arg In, opts ...fiber.ProcessOption) *fiber.Process {
	t.Helper()
	p := fiber.NewProcess(fn, arg, opts...)
	require.NoError(t, p.Start(fibertest.Soon(t)))
	t.Cleanup(func() { p.Kill(); <-p.Done() })
	return p
}

func TestProcess(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	p := fiber.NewProcess(fibertest.Mark, fibertest.Marking{File: file, Line: "here"}, fiber.WithName("Marker"))
	require.Equal(t, "Marker", p.Name())
	require.False(t, p.Alive())
	require.Empty(t, p.ID())
	require.Zero(t, p.PID())
	require.Nil(t, p.Done())
	_, exited := p.ExitCode()
	require.False(t, exited)
	require.ErrorIs(t, p.Join(fibertest.Soon(t)), fiber.ErrNotStarted)
	_, err := p.Logs(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrNotStarted)
	require.NoError(t, p.Terminate())
	require.NoError(t, p.Kill())
	require.Empty(t, fibertest.Lines(t, file), "it ran before Start")

	require.NoError(t, p.Start(fibertest.Soon(t)))
	require.Equal(t, strconv.Itoa(p.PID()), p.ID())
	require.NotEqual(t, os.Getpid(), p.PID())
	require.ErrorIs(t, p.Start(fibertest.Soon(t)), fiber.ErrStarted)
	for range 2 {
		require.NoError(t, p.Join(fibertest.Soon(t)))
	}
	<-p.Done()
	require.False(t, p.Alive())
	code, exited := p.ExitCode()
	require.True(t, exited)
	require.Zero(t, code)
	require.False(t, fibertest.Running(p.PID()))
	require.Equal(t, []string{"here"}, fibertest.Lines(t, file))
	require.ErrorIs(t, p.Start(fibertest.Soon(t)), fiber.ErrStarted)
	require.NoError(t, p.Terminate(), "it has ended")
	require.NoError(t, p.Kill(), "it has ended")

	require.Regexp(t, `^Process-[0-9]+$`, fiber.NewProcess(fibertest.Square, 1).Name())
	require.NotEqual(t, fiber.NewProcess(fibertest.Square, 1).Name(), fiber.NewProcess(fibertest.Square, 1).Name())
}

func TestProcessIsAlive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	p := fiber.NewProcess(fibertest.Nap, time.Hour)
	require.NoError(t, p.Start(ctx))
	cancel() // it bounds the start alone
	require.ErrorIs(t, p.Join(fibertest.Within(t, 200*time.Millisecond)), context.DeadlineExceeded)
	require.True(t, p.Alive())
	require.True(t, fibertest.Running(p.PID()))
	_, exited := p.ExitCode()
	require.False(t, exited)
	select {
	case <-p.Done():
		t.Error("it is done")
	default:
	}
	require.NoError(t, p.Kill())
	require.Error(t, p.Join(fibertest.Soon(t)))
	require.False(t, p.Alive())
}

// ending is a function that ends its process in some way.
var ending = fiber.Register("ending", func(ctx context.Context, how string) (string, error) {
	fmt.Println("to stdout")
	fmt.Fprintln(os.Stderr, "last words")
	switch word, arg, _ := strings.Cut(how, " "); word {
	case "exit":
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	case "signal":
		n, _ := strconv.Atoi(arg)
		syscall.Kill(os.Getpid(), syscall.Signal(n))
		select {}
	case "goroutine":
		go func() { panic("out of hand") }()
		select {}
	}
	return fibertest.Fail.Call(ctx, how)
})

func TestProcessEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		how     string
		code    int
		message string // of a *RemoteError
		panics  bool
		exits   bool   // an *ExitError with code 0
		signal  string // of an *ExitError
		is      error
	}{
		{how: "well", code: 0},
		{how: "exit 0", code: 0, exits: true},
		{how: "exit 1", code: 1},
		{how: "exit 3", code: 3},
		{how: "exit 255", code: 255},
		{how: "signal 9", code: 137, signal: "killed"},
		{how: "goroutine", code: 2},
		{how: "error", code: 1, message: "it is broken"},
		{how: "sentinel", code: 1, message: "at step 7: diverged", is: fibertest.ErrDiverged},
		{how: "context", code: 1, message: "own: context canceled", is: context.Canceled},
		{how: "panic", code: 1, message: "help", panics: true},
		{how: "panic with an error", code: 1, message: "help: diverged", panics: true, is: fibertest.ErrDiverged},
		{how: "goexit", code: 1, message: "the function called runtime.Goexit"},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			p := fiber.NewProcess(ending, test.how, fiber.WithName("Ending"))
			require.NoError(t, p.Start(fibertest.Soon(t)))
			err := p.Join(fibertest.Soon(t))
			code, exited := p.ExitCode()
			require.True(t, exited)
			require.Equal(t, test.code, code)
			switch {
			case test.message != "":
				var remote *fiber.RemoteError
				require.ErrorAs(t, err, &remote)
				require.Equal(t, test.message, remote.Message)
				require.Equal(t, "ending", remote.Func)
				require.Equal(t, "Ending", remote.Worker)
				require.Equal(t, test.panics, remote.Stack != "")
				if test.panics {
					require.Contains(t, remote.Stack, "functions.go", "the stack does not show where")
				}
			case test.code != 0 || test.exits:
				var exit *fiber.ExitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, "Ending", exit.Name)
				require.Equal(t, p.ID(), exit.ID)
				require.Equal(t, test.code, exit.Code)
				require.Equal(t, test.signal, exit.Signal)
				require.NotEmpty(t, exit.Stderr)
				if test.how == "goroutine" {
					require.Contains(t, fmt.Sprintf("%+v", err), "out of hand")
				} else if strings.HasPrefix(test.how, "exit") {
					require.Equal(t, []string{"last words"}, exit.Stderr)
					require.Contains(t, fmt.Sprintf("%+v", err), "last words")
				}
				require.False(t, exit.OOM)
			default:
				require.NoError(t, err)
			}
			if test.is != nil {
				require.ErrorIs(t, err, test.is)
			}
		})
	}
}

// hasty is terminated as soon as it runs.
var hasty = fiber.Register("hasty", func(ctx context.Context, file string) (fibertest.None, error) {
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	return fibertest.None{}, fibertest.Marking{File: file, Line: "heeded"}.Append()
})

func exitOf(t testing.TB, p *fiber.Process) *fiber.ExitError {
	t.Helper()
	var exit *fiber.ExitError
	require.ErrorAs(t, p.Join(fibertest.Soon(t)), &exit)
	code, exited := p.ExitCode()
	require.True(t, exited)
	require.Equal(t, exit.Code, code)
	return exit
}

func TestTerminateProcess(t *testing.T) {
	t.Parallel()
	terminated := func(t *testing.T, p *fiber.Process) {
		t.Helper()
		require.NoError(t, p.Terminate())
		exit := exitOf(t, p)
		require.Equal(t, 143, exit.Code)
		require.Equal(t, "terminated", exit.Signal)
	}
	t.Run("heeded", func(t *testing.T) {
		t.Parallel()
		if fibertest.Alone(t, "FIBER_SHUTDOWN_GRACE=1h") {
			return
		}
		file := fibertest.TempFile(t)
		p := started(t, fibertest.Heeding, file)
		fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it is up")
		terminated(t, p)
		require.Equal(t, []string{"up", "heeded"}, fibertest.Lines(t, file))
	})
	t.Run("at the function's first step", func(t *testing.T) {
		t.Parallel()
		if fibertest.Alone(t, "FIBER_SHUTDOWN_GRACE=1h", "GOMAXPROCS=1") { // nothing else of the process runs until the function waits
			return
		}
		file := fibertest.TempFile(t)
		p := started(t, hasty, file)
		require.Equal(t, 143, exitOf(t, p).Code)
		require.Equal(t, []string{"heeded"}, fibertest.Lines(t, file))
	})
	heedless := func(t *testing.T) *fiber.Process {
		t.Helper()
		file := fibertest.TempFile(t)
		p := started(t, fibertest.Mark, fibertest.Marking{File: file, Line: "up", Nap: time.Hour})
		fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it is up")
		return p
	}
	t.Run("ignored", func(t *testing.T) {
		t.Parallel()
		p := heedless(t)
		begun := time.Now()
		terminated(t, p)
		require.Greater(t, time.Since(begun), 900*time.Millisecond, "it got no time to heed it")
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		p := heedless(t)
		require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
		terminated(t, p)
	})
	t.Run("at once after its start", func(t *testing.T) {
		t.Parallel()
		for range 10 {
			terminated(t, started(t, fibertest.Rest, time.Hour))
		}
	})
}

func TestKillProcess(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		p := started(t, fibertest.Nap, time.Hour)
		if stopped {
			require.NoError(t, syscall.Kill(p.PID(), syscall.SIGSTOP))
		}
		require.NoError(t, p.Kill())
		exit := exitOf(t, p)
		require.Equal(t, 137, exit.Code)
		require.Equal(t, "killed", exit.Signal)
		require.Empty(t, exit.Reason, "it was not Fiber's idea")
	}
}

func TestManyWaitForAProcess(t *testing.T) {
	t.Parallel()
	p := started(t, fibertest.Nap, 200*time.Millisecond)
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if err := p.Join(fibertest.Soon(t)); err != nil || p.Alive() {
				t.Error("not joined", err)
			}
		})
	}
	waiting.Wait()
}

func TestFiftyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			p := fiber.NewProcess(fibertest.Exit, i)
			if err := p.Start(fibertest.Soon(t)); err != nil {
				t.Error(err)
				return
			}
			p.Join(fibertest.Soon(t))
			if code, exited := p.ExitCode(); !exited || code != i {
				t.Errorf("exit code %d (%v) of process %d", code, exited, i)
			}
		})
	}
	all.Wait()
}

func TestStartFromManyGoroutines(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	p := fiber.NewProcess(fibertest.Mark, fibertest.Marking{File: file, Line: "once"})
	errs := make(chan error, 10)
	for range cap(errs) {
		go func() { errs <- p.Start(fibertest.Soon(t)) }()
	}
	fine := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			fine++
		} else {
			require.ErrorIs(t, err, fiber.ErrStarted)
		}
	}
	require.Equal(t, 1, fine)
	require.NoError(t, p.Join(fibertest.Soon(t)))
	require.Equal(t, []string{"once"}, fibertest.Lines(t, file))
}

// leaving leaves a process of its own behind.
var leaving = fiber.Register("leaving", func(ctx context.Context, file string) (fibertest.None, error) {
	p := fiber.NewProcess(fibertest.Nap, time.Hour)
	if err := p.Start(ctx); err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, fibertest.Marking{File: file, Line: p.ID()}.Append()
})

func TestWhatAProcessLeavesRunningIsEnded(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	require.NoError(t, started(t, leaving, file).Join(fibertest.Soon(t)))
	pid, err := strconv.Atoi(fibertest.Lines(t, file)[0])
	require.NoError(t, err)
	require.False(t, fibertest.Running(pid), "its process lives on")
}

// own runs this executable without Fiber: it is a program of its own.
var own = fiber.Register("own", func(ctx context.Context, file string) (fibertest.None, error) {
	exe, err := os.Executable()
	if err != nil {
		return fibertest.None{}, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fibertest.ProgramKey+"=fine")
	out, err := cmd.CombinedOutput()
	return fibertest.None{}, errors.Join(err, os.WriteFile(file, out, 0o644))
})

func TestProgramsOfAProcessAreNoChildrenOfFibers(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	require.NoError(t, started(t, own, file).Join(fibertest.Soon(t)))
	require.Equal(t, []string{"squares", "100", "9801"}, fibertest.Lines(t, file))
}

// writeProcs writes how many cores it may use.
var writeProcs = fiber.Register("writeProcs", func(_ context.Context, file string) (fibertest.None, error) {
	return fibertest.None{}, fibertest.Marking{File: file, Line: strconv.Itoa(runtime.GOMAXPROCS(0))}.Append()
}, meta.CPU(2))

func TestProcessMeta(t *testing.T) {
	t.Parallel()
	file := fibertest.TempFile(t)
	require.NoError(t, started(t, writeProcs, file).Join(fibertest.Soon(t)))
	require.NoError(t, started(t, writeProcs, file, fiber.WithMeta(meta.CPU(3))).Join(fibertest.Soon(t)))
	require.Equal(t, []string{"2", "3"}, fibertest.Lines(t, file))
}

// A Process that NewProcess has not made says so, and starts nothing.
func TestZeroProcess(t *testing.T) {
	t.Parallel()
	require.EqualError(t, new(fiber.Process).Start(fibertest.Soon(t)), "fiber: use of an uninitialised Process; create it with NewProcess")
}
