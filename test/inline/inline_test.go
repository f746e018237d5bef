//go:build unix

// Package inline_test is about the backend inline: all processes are parts of one
// program.
package inline_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestMain(m *testing.M) {
	os.Setenv("FIBER_TEST_BACKEND", "")
	os.Setenv("FIBER_BACKEND", "inline")
	fibertest.Main(m)
}

// calls is a variable that all processes share here.
var calls atomic.Int64

var zero = fiber.Register("inlineZero", func(_ context.Context, numbers []int) (int, error) {
	calls.Add(1)
	clear(numbers)
	return fiber.CurrentProcess().PID(), nil
})

// Functions run in this program, each process has a number of its own, and values
// are copies.
func TestFunctionsRunHere(t *testing.T) {
	pool, err := fiber.NewPool(2)
	require.NoError(t, err)
	defer pool.Terminate()
	numbers, before := []int{1, 2, 3}, calls.Load()
	pid, err := fiber.Apply(t.Context(), pool, zero, numbers)
	require.NoError(t, err)
	require.NotEqual(t, os.Getpid(), pid)
	require.Equal(t, before+1, calls.Load())
	require.Equal(t, []int{1, 2, 3}, numbers)
}

var errOdd = fiber.RegisterError(errors.New("odd"))

var half = fiber.Register("inlineHalf", func(_ context.Context, n int) (int, error) {
	if n%2 > 0 {
		return 0, fmt.Errorf("%d: %w", n, errOdd)
	}
	return n / 2, nil
})

func TestOrderAndErrors(t *testing.T) {
	pool, err := fiber.NewPool(3)
	require.NoError(t, err)
	defer pool.Terminate()
	results, err := fiber.Map(t.Context(), pool, half, []int{0, 2, 4, 6, 8, 10})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, results)
	_, err = fiber.Map(t.Context(), pool, half, []int{0, 2, 5, 6})
	var failed *fiber.TaskError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 2, failed.Index)
	require.ErrorIs(t, err, errOdd)
}

// sums has its own processes add what comes through a queue into a dict.
var sums = fiber.Register("inlineSums", func(ctx context.Context, q *fiber.SimpleQueue[int]) (int, error) {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	total, err := fiber.NewValue(ctx, m, 0)
	if err != nil {
		return 0, err
	}
	pool, err := fiber.NewPool(2)
	if err != nil {
		return 0, err
	}
	defer pool.Terminate()
	if _, err := fiber.Map(ctx, pool, sum, []shares{{q, total}, {q, total}}); err != nil {
		return 0, err
	}
	return total.Get(ctx)
})

type shares struct {
	From *fiber.SimpleQueue[int]
	To   *fiber.Value[int]
}

var sum = fiber.Register("inlineSum", func(ctx context.Context, s shares) (fibertest.None, error) {
	for {
		n, err := s.From.Get(ctx)
		if err != nil || n == 0 {
			return fibertest.None{}, err
		}
		if _, err := s.To.Update(ctx, func(old int) (int, error) { return old + n, nil }); err != nil {
			return fibertest.None{}, err
		}
	}
})

// A process has processes, and all share what travels between them.
func TestSharedThings(t *testing.T) {
	q, err := fiber.NewSimpleQueue[int]()
	require.NoError(t, err)
	defer q.Close()
	future := fiber.Go(t.Context(), sums, q)
	for n := range 101 {
		require.NoError(t, q.Put(t.Context(), 100-n))
	}
	require.NoError(t, q.Put(t.Context(), 0)) // for the other one
	total, err := future.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5050, total)
}

var meet = fiber.RegisterRing("inlineMeet", nil, func(ctx context.Context, node *fiber.RingNode, _ int) error {
	x := []float64{float64(node.Rank())}
	if err := fiber.AllReduce(ctx, node, x, fiber.Sum); err != nil {
		return err
	}
	if x[0] != 3 {
		return fmt.Errorf("the sum is %v", x[0])
	}
	return nil
})

func TestRing(t *testing.T) { require.NoError(t, fiber.NewRing(3, meet).Run(t.Context(), 0)) }

var heeds = fiber.Register("inlineHeeds", func(ctx context.Context, begun string) (fibertest.None, error) {
	os.WriteFile(begun, nil, 0o600)
	<-ctx.Done()
	return fibertest.None{}, ctx.Err()
})

// The context of a process that is killed ends, and the program goes on.
func TestHeedfulFunctionIsKilled(t *testing.T) {
	begun := t.TempDir() + "/begun"
	p := fiber.NewProcess(heeds, begun)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, fibertest.Await(t.Context(), begun))
	require.NoError(t, p.Kill())
	<-p.Done()
	code, exited := p.ExitCode()
	require.True(t, exited)
	require.Equal(t, 137, code)
}

var _ = fibertest.MainProgram("heedless", func(ctx context.Context) error {
	p := fiber.NewProcess(sleeps, "begun")
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := fibertest.Await(ctx, "begun"); err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	select {} // nothing else ends it
})

var sleeps = fiber.Register("inlineSleeps", func(_ context.Context, begun string) (fibertest.None, error) {
	os.WriteFile(begun, nil, 0o600)
	time.Sleep(time.Hour)
	return fibertest.None{}, nil
})

func TestHeedlessFunctionIsKilled(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "heedless")
	require.Equal(t, 137, x.Wait(fibertest.Patience))
	require.Contains(t, x.Err.String(), "Process-1 was killed, and its function goes on")
}

// parents start processes of their own.
var parents = fiber.Register("inlineParents", func(ctx context.Context, begun string) (fibertest.None, error) {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return fibertest.None{}, err
	}
	defer pool.Close()
	_, err = fiber.Map(ctx, pool, heeds, []string{begun, begun})
	return fibertest.None{}, err
})

var _ = fibertest.MainProgram("killed parents", func(ctx context.Context) error {
	for i := range 12 {
		begun := fmt.Sprint("begun", i)
		p := fiber.NewProcess(parents, begun)
		if err := p.Start(ctx); err != nil {
			return err
		}
		if err := fibertest.Await(ctx, begun); err != nil {
			return err
		}
		if err := p.Kill(); err != nil {
			return err
		}
		<-p.Done()
	}
	time.Sleep(3 * time.Second) // which is longer than a function may go on
	return nil
})

// A process that is killed, and its function heeds that, leaves nothing behind of
// its own processes, either.
func TestParentIsKilled(t *testing.T) {
	t.Parallel()
	require.Zero(t, fibertest.Start(t, "killed parents").Wait(fibertest.Patience))
}

var profiled = fiber.Register("inlineProfiled", func(ctx context.Context, profile bool) (string, error) {
	if profile {
		pprof.Do(ctx, pprof.Labels("a", "b"), func(context.Context) {})
	}
	return fiber.CurrentProcess().Name(), nil
})

// What a function does behind a pprof.Do belongs to its process again.
func TestLabels(t *testing.T) {
	pool, err := fiber.NewPool(1)
	require.NoError(t, err)
	defer pool.Terminate()
	for _, profile := range []bool{false, true, false} {
		name, err := fiber.Apply(t.Context(), pool, profiled, profile)
		require.NoError(t, err)
		require.Contains(t, name, "Worker-")
	}
}

var _ = fibertest.MainProgram("exits", func(ctx context.Context) error {
	_, err := fiber.Go(ctx, exit, 3).Get(ctx)
	return err
})

var exit = fiber.Register("inlineExit", func(_ context.Context, code int) (fibertest.None, error) {
	os.Exit(code)
	return fibertest.None{}, nil
})

func TestFunctionExits(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, fibertest.Start(t, "exits").Wait(fibertest.Patience))
}

var _ = fibertest.MainProgram("stopped", func(ctx context.Context) error {
	pool, err := fiber.NewPool(2)
	if err != nil {
		return err
	}
	defer pool.Terminate()
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := fiber.Apply(ctx, pool, half, 2*i); err != nil {
			return err
		}
		if i == 0 {
			fmt.Println("works")
		}
		if _, err := os.Stat("enough"); err == nil {
			fmt.Println("worked on")
			break
		}
	}
	return nil
})

// A debugger stops all processes for longer than any heartbeat's timeout: none is
// taken for lost.
func TestStoppedForLong(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "stopped", "FIBER_HEARTBEAT_INTERVAL=50ms", "FIBER_HEARTBEAT_TIMEOUT=200ms")
	x.Says("works")
	x.SignalRoot(syscall.SIGSTOP)
	time.Sleep(2 * time.Second) // that is what is tested
	x.SignalRoot(syscall.SIGCONT)
	require.NoError(t, os.WriteFile(x.Cmd.Dir+"/enough", nil, 0o600))
	require.Equal(t, 0, x.Wait(fibertest.Patience))
	require.Equal(t, "works\nworked on\n", x.Out.String())
	require.Empty(t, x.Err.String())
}

var _ = fibertest.MainProgram("executable", func(ctx context.Context) error {
	return fiber.NewProcess(fibertest.Nap, 0).Start(ctx)
}, fiber.Config{Executable: "/bin/true"})

func TestAnotherExecutable(t *testing.T) {
	t.Parallel()
	x := fibertest.Start(t, "executable")
	require.Equal(t, 1, x.Wait(fibertest.Patience))
	require.Contains(t, x.Err.String(), "the setting executable can't name another one")
}
