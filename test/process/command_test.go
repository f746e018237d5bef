//go:build linux

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// ownerKey is set in what a process starts, to the process's id.
const ownerKey = "TEST_OWNER"

// litterEach is how many programs litter leaves running.
const litterEach = 3

// litter starts programs as people do who do not wait for them.
func litter(command func(name string, args ...string) *exec.Cmd) error {
	for _, cmd := range []*exec.Cmd{command("sleep", "1000"), command("sh", "-c", "sleep 1000 & exec sleep 1000")} {
		cmd.Env = append(os.Environ(), ownerKey+"="+strconv.Itoa(os.Getpid()))
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	return nil
}

var littering = fiber.Register("littering", func(ctx context.Context, what string) (fibertest.None, error) {
	if err := litter(exec.Command); err != nil {
		return fibertest.None{}, err
	}
	fmt.Println(what, os.Getpid())
	return fibertest.None{}, nil
})

var litteringBelow = fiber.Register("littering below", func(ctx context.Context, what string) (fibertest.None, error) {
	if _, err := littering.Call(ctx, what); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	return fibertest.None{}, ctx.Err()
})

var litteringTwice = fiber.Register("littering twice", func(ctx context.Context, what string) (fibertest.None, error) {
	if _, err := littering.Call(ctx, what); err != nil {
		return fibertest.None{}, err
	}
	p := fiber.NewProcess(litteringBelow, "below")
	if err := p.Start(ctx); err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, p.Join(ctx)
})

var _ = fibertest.MainProgram("litter", func(ctx context.Context) error {
	if err := litter(func(name string, args ...string) *exec.Cmd { return fiber.Command(ctx, name, args...) }); err != nil {
		return err
	}
	pool, err := fiber.NewPool(2, fiber.WithInitializer(littering, "worker"))
	if err != nil {
		return err
	}
	if err := pool.WaitUntilWorkersUp(ctx); err != nil {
		return err
	}
	p := fiber.NewProcess(litteringTwice, "middle")
	if err := p.Start(ctx); err != nil {
		return err
	}
	for _, err := os.Stat(os.Getenv(fibertest.ArgKey)); err != nil; _, err = os.Stat(os.Getenv(fibertest.ArgKey)) {
		time.Sleep(5 * time.Millisecond)
	}
	pool.Close()
	fmt.Println("closed")
	p.Join(ctx)
	<-ctx.Done()
	return nil
})

// litterOf lists what a process of the run has started that runs.
func litterOf(x *fibertest.Execution, owner int) (all []int) {
	for _, pid := range x.Processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if bytes.Contains(env, []byte(ownerKey+"="+strconv.Itoa(owner)+"\x00")) {
			all = append(all, pid)
		}
	}
	return all
}

// litters waits until a process of the run has n of them.
func litters(t testing.TB, x *fibertest.Execution, owner, n int, why string) {
	t.Helper()
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(litterOf(x, owner)) == n }, why)
}

// littered starts that program and returns what has started something.
func littered(t *testing.T) (x *fibertest.Execution, file string, root, middle, below int, workers []int) {
	file = fibertest.TempFile(t) + ".close"
	x = fibertest.Start(t, "litter", fibertest.ArgKey+"="+file)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return strings.Count(x.Out.String(), "\n") == 4 }, "all are up")
	for line := range strings.Lines(x.Out.String()) {
		line = strings.TrimSpace(line)
		pid, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
		require.NoError(t, err)
		switch {
		case strings.HasPrefix(line, "worker"):
			workers = append(workers, pid)
		case strings.HasPrefix(line, "middle"):
			middle = pid
		default:
			below = pid
		}
	}
	root = x.Cmd.Process.Pid
	for _, pid := range append(workers, root, middle, below) {
		litters(t, x, pid, litterEach, "its programs run")
	}
	return x, file, root, middle, below, workers
}

func TestWhatAProcessStartsEndsWithIt(t *testing.T) {
	t.Parallel()
	x, file, root, middle, below, workers := littered(t)
	require.NoError(t, syscall.Kill(workers[0], syscall.SIGKILL))
	litters(t, x, workers[0], 0, "a killed worker's programs live on")
	require.NoError(t, syscall.Kill(middle, syscall.SIGKILL))
	litters(t, x, middle, 0, "a killed process's programs live on")
	litters(t, x, below, 0, "the programs of a process live on whose parent was killed")
	require.Len(t, litterOf(x, workers[1]), litterEach, "a process that lives has lost its programs")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	x.Says("closed")
	litters(t, x, workers[1], 0, "the programs of a closed pool's worker live on")
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(x.Processes()) == 1+litterEach }, "the root, and its own programs")
	x.SignalRoot(syscall.SIGTERM)
	require.Equal(t, 143, x.Wait(fibertest.Patience))
	litters(t, x, root, 0, "the root's commands live on")
}

func TestWhatProcessesStartEndsWithTheRoot(t *testing.T) {
	t.Parallel()
	x, _, root, _, _, _ := littered(t)
	guard := guardOf(t, root)
	x.SignalRoot(syscall.SIGKILL)
	x.NobodyLeft()
	fibertest.Eventually(t, fibertest.Patience, func() bool { return !fibertest.Running(guard) }, "the guard lives on")
}

// guardOf returns the guard of a root's run.
func guardOf(t *testing.T, root int) (guard int) {
	for _, pid := range fibertest.ChildrenOf(root) {
		if strings.TrimSpace(fibertest.CommandOf(pid)) == "fiber-guard" {
			guard = pid
		}
	}
	require.NotZero(t, guard, "there is no guard")
	return guard
}

// A guard that is stopped goes on when the root dies, even if the root dies while not all of the guard's threads have stopped.
func TestStoppedGuardEndsWithTheRoot(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			x := fibertest.Start(t, "stubborn")
			x.Says("started")
			guard := guardOf(t, x.Cmd.Process.Pid)
			require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
			x.SignalRoot(syscall.SIGKILL)
			x.NobodyLeft()
			fibertest.Eventually(t, fibertest.Patience, func() bool { return !fibertest.Running(guard) }, "the guard lives on")
		})
	}
}

// A command does not end with the thread that started it.
func TestCommandOutlivesItsThread(t *testing.T) {
	t.Parallel()
	cmd := fiber.Command(t.Context(), "sh", "-c", "echo up; read line; echo $line")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	thread := make(chan int)
	var begin func()
	begin = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == syscall.Getpid() {
			defer runtime.UnlockOSThread() // but the main thread does not: it is held while another one starts the command
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				begin()
			}()
			<-ended
			return
		}
		if err := cmd.Start(); err != nil {
			t.Error(err)
		}
		thread <- syscall.Gettid()
	}
	go begin()
	task := fmt.Sprintf("/proc/self/task/%d", <-thread)
	fibertest.Eventually(t, fibertest.Patience, func() bool { _, err := os.Stat(task); return err != nil }, "the thread has ended")
	fmt.Fprintln(in, "done")
	require.NoError(t, cmd.Wait())
	require.Equal(t, "up\ndone\n", out.String())
}

func TestCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := fiber.Command(ctx, "sleep", "1000")
	require.NoError(t, cmd.Start())
	cancel()
	require.Error(t, cmd.Wait())
	require.ErrorIs(t, fiber.Command(t.Context(), "there is no such program").Run(), exec.ErrNotFound)
}

var _ = fibertest.Program("uninitialised command", func() {
	fmt.Println(fiber.Command(context.Background(), "true").Run())
	if err := fiber.Init(); err != nil {
		panic(err)
	}
	fmt.Println(fiber.Command(context.Background(), "true").Run())
	fmt.Println(fiber.Shutdown(context.Background()), len(fibertest.ChildrenOf(os.Getpid())))
	fmt.Println(fiber.Command(context.Background(), "true").Run())
})

func TestCommandBeforeInitAndAfterShutdown(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "uninitialised command")
	require.Equal(t, 0, x.Wait(fibertest.Patience))
	refused := fiber.ErrNotInitialized.Error() + "\n"
	require.Equal(t, refused+"<nil>\n<nil> 0\n"+refused, x.Out.String())
}
