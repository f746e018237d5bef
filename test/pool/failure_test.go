//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestErrorsOfFunctions(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithName("Errors"))
	failure := func(how string) *fiber.RemoteError {
		t.Helper()
		out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Fail, how)
		require.Error(t, err)
		require.Empty(t, out)
		var remote *fiber.RemoteError
		require.ErrorAs(t, err, &remote)
		require.Equal(t, "fail", remote.Func)
		require.Equal(t, pool.Stats().Processes[0].Name, remote.Worker)
		return remote
	}
	require.Equal(t, "it is broken", failure("error").Message)
	require.Empty(t, failure("error").Stack)
	require.ErrorIs(t, failure("sentinel"), fibertest.ErrDiverged)
	require.Contains(t, failure("sentinel").Error(), "at step 7: diverged")
	require.ErrorIs(t, failure("context"), context.Canceled)
	require.ErrorIs(t, failure("deadline"), context.DeadlineExceeded)
	require.ErrorIs(t, failure("closed"), fiber.ErrClosed)
	e := failure("panic")
	require.Equal(t, "help", e.Message)
	require.Contains(t, e.Stack, "functions.go", "the stack does not show where")
	require.Contains(t, e.Error(), "panicked: help")
	require.ErrorIs(t, failure("panic with an error"), fibertest.ErrDiverged)
	require.Contains(t, failure("nil pointer").Message, "nil pointer")
	require.Contains(t, failure("goexit").Message, "Goexit")

	out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Fail, "fine")
	require.NoError(t, err)
	require.Equal(t, "fine", out)
	s := pool.Stats()
	require.Equal(t, 1, s.WorkersStarted, "an error cost a worker")
	require.Zero(t, s.WorkersLost)
	require.Zero(t, s.Retried, "an error was retried")
	require.Equal(t, 11+1, s.Failed+1)
}

// Failures among many: the others are right, whatever ends the goroutine.
func TestFailuresWithinAChunk(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	hows := []string{"fine", "error", "fine", "panic", "goexit", "fine", "sentinel"}
	for _, chunk := range []int{0, 1, 50} {
		var futures []*fiber.Future[string]
		for i := range 300 {
			futures = append(futures, fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Fail, hows[i%len(hows)], fibertest.Chunks(chunk)...))
		}
		i := 0
		for out, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Fail, func(yield func(string) bool) {
			for i := range 300 {
				if !yield(hows[i%len(hows)]) {
					return
				}
			}
		}, fibertest.Chunks(chunk)...) {
			out2, err2 := futures[i].Get(fibertest.Soon(t))
			require.Equal(t, out, out2)
			if how := hows[i%len(hows)]; how == "fine" {
				require.NoError(t, err)
				require.NoError(t, err2)
				require.Equal(t, "fine", out)
			} else {
				require.Error(t, err)
				require.Error(t, err2)
			}
			i++
		}
		require.Equal(t, 300, i)
	}
}

type step struct {
	Index int
	Fail  bool
	Panic bool
	Nap   time.Duration
	File  string
}

var walk = fiber.Register("walk", func(ctx context.Context, s step) (int, error) {
	if s.File != "" {
		if err := (fibertest.Marking{File: s.File, Line: fmt.Sprint(s.Index)}).Append(); err != nil {
			return 0, err
		}
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(s.Nap):
	}
	switch {
	case s.Panic:
		panic("stumbled")
	case s.Fail:
		return 0, fmt.Errorf("fell at %d", s.Index)
	}
	return s.Index, nil
})

func TestMapReturnsTheLowestError(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 4)
	fibertest.Warm(t, pool)
	for _, chunk := range []int{0, 1, 5} {
		// The later one fails first.
		ins := make([]step, 40)
		for i := range ins {
			ins[i] = step{Index: i, Nap: 5 * time.Millisecond}
		}
		ins[30].Fail, ins[30].Nap = true, 0
		ins[20].Fail, ins[20].Nap = true, 0
		ins[3].Panic, ins[3].Nap = true, 300*time.Millisecond
		_, err := fiber.Map(fibertest.Soon(t), pool, walk, ins, fibertest.Chunks(chunk)...)
		require.ErrorContains(t, err, "stumbled")
		require.ErrorContains(t, err, "task 3")
	}
}

// Those that run already are cancelled, and leave their workers; the others
// never begin.
func TestAFailureCancelsTasksBehindIt(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_CANCEL_GRACE=1h") {
		return
	}
	pool := fibertest.NewPool(t, 4)
	fibertest.Warm(t, pool)
	file := fibertest.TempFile(t)
	ins := make([]step, 2000)
	for i := range ins {
		ins[i] = step{Index: i, File: file, Nap: time.Hour}
	}
	ins[0].Nap, ins[1].Nap, ins[2].Nap = 0, 0, 0
	ins[2].Fail = true
	_, err := fiber.Map(fibertest.Soon(t), pool, walk, ins)
	require.ErrorContains(t, err, "fell at 2")
	fibertest.Together(t, pool, 4)
	ran := len(fibertest.Lines(t, file))
	require.Less(t, ran, 100, "tasks behind the failed one were run")
	fibertest.Together(t, pool, 4)
	require.Equal(t, ran, len(fibertest.Lines(t, file)), "tasks behind the failed one ran on")
	require.Zero(t, pool.Stats().WorkersLost)
	require.Equal(t, 4, pool.Stats().WorkersStarted)
}

func TestAPoisonTaskIsGivenUp(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithName("Poisoned"))
	_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Die, int(syscall.SIGKILL))
	var lost *fiber.WorkerLostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, "die", lost.Func)
	require.Equal(t, 3, lost.Attempt)
	require.Equal(t, 3, lost.Attempts)
	require.Equal(t, "killed", lost.Signal)
	require.Equal(t, 137, lost.ExitCode)
	require.True(t, strings.HasPrefix(lost.Worker, "Poisoned-"), lost.Worker)
	require.Equal(t, []string{"last words"}, lost.Stderr)
	require.ErrorContains(t, err, "attempt 3 of 3")
	require.NotContains(t, err.Error(), "\n")
	require.Contains(t, fmt.Sprintf("%+v", err), err.Error()+"\n\tlast words")

	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Exit, 7)
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 7, lost.ExitCode)
	require.Empty(t, lost.Signal)

	// A Map returns it, too, and the pool goes on.
	_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Exit, []int{3, 4})
	require.ErrorAs(t, err, &lost)
	require.ErrorContains(t, err, "task 0")
	out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 5)
	require.NoError(t, err)
	require.Equal(t, 25, out)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Ready == 2 }, "two workers again")
}

func TestMaxAttemptsOneNeverRunsATaskAgain(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithMaxAttempts(1))
	file, gate := fibertest.TempFile(t), fibertest.TempFile(t)
	const n = 60
	var futures []*fiber.Future[int]
	for i := range n {
		futures = append(futures, fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Mark, fibertest.Marking{File: file, Line: fmt.Sprint(i), Gate: gate}))
	}
	kills := 0
	for kills < 4 {
		for _, w := range pool.Stats().Processes {
			if w.Tasks > 0 && kills < 4 {
				pid := atoi(t, w.ID)
				syscall.Kill(pid, syscall.SIGKILL)
				fibertest.Eventually(t, fibertest.Patience, func() bool { return !fibertest.Running(pid) }, "it dies")
				kills++
			}
		}
	}
	fibertest.OpenGate(t, gate)
	lost := 0
	for _, f := range futures {
		if _, err := f.Get(fibertest.Soon(t)); err != nil {
			var e *fiber.WorkerLostError
			require.ErrorAs(t, err, &e)
			require.Equal(t, 1, e.Attempt)
			require.Equal(t, 1, e.Attempts)
			lost++
		}
	}
	ran := fibertest.Lines(t, file)
	require.Equal(t, len(ran), fibertest.Distinct(ran), "a task ran twice")
	require.LessOrEqual(t, lost, kills, "tasks that were not started were given up")
	require.GreaterOrEqual(t, len(ran), n-lost)
	require.Zero(t, pool.Stats().Retried, "what a lost worker had not started was counted")
}

// tiring says what it thinks of the end of its context.
var tiring = fiber.Register("tiring", func(ctx context.Context, _ time.Duration) (int, error) {
	<-ctx.Done()
	return 0, errors.New("tired")
})

// overrunning returns a result when its time is up.
var overrunning = fiber.Register("overrunning", func(ctx context.Context, _ time.Duration) (int, error) {
	<-ctx.Done()
	return 1, nil
})

func TestTimeout(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	fibertest.Warm(t, pool)
	for fn, heeds := range map[*fiber.Func[time.Duration, int]]string{fibertest.Rest: "and its function returned: ", fibertest.Nap: "and its function goes on: ",
		tiring: "and its function returned: ", overrunning: "before its function returned: "} {
		_, err := fiber.Apply(fibertest.Soon(t), pool, fn, time.Hour, fiber.Timeout(200*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "timed out after 200ms, "+heeds)
		require.ErrorAs(t, err, new(*fiber.TaskError))
	}

	// Each task has its own time, which is long enough for one that takes none:
	// while a task waits for a worker, as all behind the first two do, it is not
	// running.
	const limit = 5 * time.Second
	var futures []*fiber.Future[int]
	for i := range 20 {
		var d time.Duration
		if i < 2 {
			d = time.Hour
		}
		futures = append(futures, fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Nap, d, fiber.Timeout(limit)))
	}
	for i, f := range futures {
		_, err := f.Get(fibertest.Soon(t))
		if i < 2 {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		} else {
			require.NoError(t, err, "task %d", i)
		}
	}
	fibertest.Together(t, pool, 2)
}

// A function that heeds its context keeps its worker.
func TestHeedfulFunctionsKeepTheirWorkers(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_CANCEL_GRACE=1h") {
		return
	}
	pool := fibertest.NewPool(t, 1)
	first, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	file := fibertest.TempFile(t)
	cancelled(t, pool, fibertest.Heeding, file, file)
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Rest, time.Hour, fiber.Timeout(100*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	require.Equal(t, first, pid)
	require.Equal(t, 1, pool.Stats().WorkersStarted)
}

// cancelled cancels a call of a function that would take an hour, and adds a
// line to a file when it begins.
func cancelled[In, Out any](t *testing.T, pool *fiber.Pool, fn *fiber.Func[In, Out], in In, file string) {
	t.Helper()
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	begun := len(fibertest.Lines(t, file)) + 1
	f := fiber.ApplyAsync(ctx, pool, fn, in)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == begun }, "it runs")
	cancel()
	_, err := f.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	first, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	file := fibertest.TempFile(t)
	heedless := fibertest.Marking{File: file, Line: "begun", Nap: time.Hour}

	// One that does not heed its context keeps its worker until somebody else
	// waits for it.
	cancelled(t, pool, fibertest.Mark, heedless, file)
	time.Sleep(3 * fibertest.Grace)
	require.True(t, fibertest.Running(first), "the worker was replaced although nobody waits for it")
	begun := time.Now()
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	require.NotEqual(t, first, pid)
	require.Greater(t, time.Since(begun), fibertest.Grace/2)

	// Close ends one that nobody waits for.
	cancelled(t, pool, fibertest.Mark, heedless, file)
	pool.Close()

	// ApplyAsync and MapAsync.
	pool = fibertest.NewPool(t, 2)
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	a, m := fiber.ApplyAsync(ctx, pool, fibertest.Rest, time.Hour), fiber.MapAsync(ctx, pool, fibertest.Rest, []time.Duration{time.Hour, time.Hour})
	fibertest.Warm(t, pool)
	cancel()
	_, err = a.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)
	_, err = fiber.Apply(ctx, pool, fibertest.Square, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// Cancelling one call leaves the others alone.
func TestCancelIsOneCalls(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t, "FIBER_CANCEL_GRACE=1h") {
		return
	}
	pool := fibertest.NewPool(t, 3)
	fibertest.Warm(t, pool)
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	doomed := fiber.MapAsync(ctx, pool, fibertest.Rest, fibertest.SlicesOf(20*time.Millisecond, 300))
	kept := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Rest, fibertest.SlicesOf(5*time.Millisecond, 300))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Done > 50 }, "both run")
	cancel()
	_, err := doomed.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, context.Canceled)
	outs, err := kept.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Len(t, outs, 300)
	require.Equal(t, 3, pool.Stats().WorkersStarted)
}
