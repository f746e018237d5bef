//go:build linux

package fiber_test

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

var littering = fiber.Register("littering", func(ctx context.Context, what string) (none, error) {
	if err := litter(exec.Command); err != nil {
		return none{}, err
	}
	fmt.Println(what, os.Getpid())
	return none{}, nil
})

var litteringBelow = fiber.Register("littering below", func(ctx context.Context, what string) (none, error) {
	if _, err := littering.Call(ctx, what); err != nil {
		return none{}, err
	}
	<-ctx.Done()
	return none{}, ctx.Err()
})

var litteringTwice = fiber.Register("littering twice", func(ctx context.Context, what string) (none, error) {
	if _, err := littering.Call(ctx, what); err != nil {
		return none{}, err
	}
	p := fiber.NewProcess(litteringBelow, "below")
	if err := p.Start(ctx); err != nil {
		return none{}, err
	}
	return none{}, p.Join(ctx)
})

var _ = mainProgram("litter", func(ctx context.Context) error {
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
	for _, err := os.Stat(os.Getenv(argKey)); err != nil; _, err = os.Stat(os.Getenv(argKey)) {
		time.Sleep(5 * time.Millisecond)
	}
	pool.Close()
	fmt.Println("closed")
	p.Join(ctx)
	<-ctx.Done()
	return nil
})

// litterOf lists what a process of the run has started that runs.
func (x *execution) litterOf(owner int) (all []int) {
	for _, pid := range x.processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if bytes.Contains(env, []byte(ownerKey+"="+strconv.Itoa(owner)+"\x00")) {
			all = append(all, pid)
		}
	}
	return all
}

func (x *execution) litters(owner, n int, why string) {
	x.t.Helper()
	eventually(x.t, patience, func() bool { return len(x.litterOf(owner)) == n }, why)
}

// littered starts that program and returns what has started something.
func littered(t *testing.T) (x *execution, file string, root, middle, below int, workers []int) {
	file = tempFile(t) + ".close"
	x = start(t, "litter", argKey+"="+file)
	eventually(t, patience, func() bool { return strings.Count(x.out.String(), "\n") == 4 }, "all are up")
	for line := range strings.Lines(x.out.String()) {
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
	root = x.cmd.Process.Pid
	for _, pid := range append(workers, root, middle, below) {
		x.litters(pid, litterEach, "its programs run")
	}
	return x, file, root, middle, below, workers
}

func TestWhatAProcessStartsEndsWithIt(t *testing.T) {
	t.Parallel()
	x, file, root, middle, below, workers := littered(t)
	require.NoError(t, syscall.Kill(workers[0], syscall.SIGKILL))
	x.litters(workers[0], 0, "a killed worker's programs live on")
	require.NoError(t, syscall.Kill(middle, syscall.SIGKILL))
	x.litters(middle, 0, "a killed process's programs live on")
	x.litters(below, 0, "the programs of a process live on whose parent was killed")
	require.Len(t, x.litterOf(workers[1]), litterEach, "a process that lives has lost its programs")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	x.says("closed")
	x.litters(workers[1], 0, "the programs of a closed pool's worker live on")
	eventually(t, patience, func() bool { return len(x.processes()) == 1+litterEach }, "the root, and its own programs")
	x.root(syscall.SIGTERM)
	require.Equal(t, 143, x.wait(patience))
	x.litters(root, 0, "the root's commands live on")
}

func TestWhatProcessesStartEndsWithTheRoot(t *testing.T) {
	t.Parallel()
	x, _, root, _, _, _ := littered(t)
	var guard int
	for _, pid := range childrenOf(root) {
		if strings.TrimSpace(commandOf(pid)) == "fiber-guard" {
			guard = pid
		}
	}
	require.NotZero(t, guard, "there is no guard")
	x.root(syscall.SIGKILL)
	x.nobodyLeft()
	eventually(t, patience, func() bool { return !running(guard) }, "the guard lives on")
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
	eventually(t, patience, func() bool { _, err := os.Stat(task); return err != nil }, "the thread has ended")
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

var _ = program("uninitialised command", func() {
	fmt.Println(fiber.Command(context.Background(), "true").Run())
	if err := fiber.Init(); err != nil {
		panic(err)
	}
	fmt.Println(fiber.Command(context.Background(), "true").Run())
	fmt.Println(fiber.Shutdown(context.Background()), len(childrenOf(os.Getpid())))
	fmt.Println(fiber.Command(context.Background(), "true").Run())
})

func TestCommandBeforeInitAndAfterShutdown(t *testing.T) {
	t.Parallel()
	x := start(t, "uninitialised command")
	require.Equal(t, 0, x.wait(patience))
	refused := fiber.ErrNotInitialized.Error() + "\n"
	require.Equal(t, refused+"<nil>\n<nil> 0\n"+refused, x.out.String())
}
