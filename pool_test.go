package fiber_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

func TestApply(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	for i := range 10 {
		out, err := fiber.Apply(soon(t), pool, square, i)
		require.NoError(t, err)
		require.Equal(t, i*i, out)
	}
	pid, err := fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)
	require.NotEqual(t, os.Getpid(), pid, "it ran in this process")
}

func TestMapKeepsOrder(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 4)
	for _, n := range []int{1, 2, 3, 7, 100, 10_000} {
		for _, chunk := range []int{0, 1, 3, 1000} {
			outs, err := fiber.Map(soon(t), pool, square, numbers(n), fiber.ChunkSize(chunk))
			require.NoError(t, err)
			require.Len(t, outs, n)
			for i, out := range outs {
				require.Equal(t, i*i, out)
			}
		}
	}
}

func TestMapOfNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	for _, ins := range [][]int{nil, {}} {
		outs, err := fiber.Map(soon(t), pool, square, ins)
		require.NoError(t, err)
		require.NotNil(t, outs)
		require.Empty(t, outs)
		outs, err = fiber.MapAsync(soon(t), pool, square, ins).Get(soon(t))
		require.NoError(t, err)
		require.Empty(t, outs)
	}
	require.Zero(t, pool.Stats().WorkersStarted, "nothing to do, and workers were started")
}

func TestAsyncAnswersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 4)
	var futures []*fiber.Future[int]
	for i := range 500 {
		futures = append(futures, fiber.ApplyAsync(soon(t), pool, square, i))
	}
	maps := []*fiber.Future[[]int]{fiber.MapAsync(soon(t), pool, square, numbers(10)), fiber.MapAsync(soon(t), pool, square, numbers(20))}
	for i, f := range futures {
		out, err := f.Get(soon(t))
		require.NoError(t, err)
		require.Equal(t, i*i, out)
	}
	for i, f := range maps {
		outs, err := f.Get(soon(t))
		require.NoError(t, err)
		require.Len(t, outs, 10*(i+1))
		require.Equal(t, 81, outs[9])
	}
}

// Four tasks of equal length never share a worker while another is idle.
func TestSpread(t *testing.T) {
	t.Parallel()
	const d = 300 * time.Millisecond
	spread := func(t *testing.T, pool *fiber.Pool, opts ...fiber.CallOption) {
		t.Helper()
		pids, err := fiber.Map(soon(t), pool, nap, []time.Duration{d, d, d, d}, opts...)
		require.NoError(t, err)
		require.Equal(t, 4, distinct(pids), "tasks shared a worker: %v", pids)
	}
	t.Run("cold", func(t *testing.T) {
		t.Parallel()
		spread(t, newPool(t, 4))
	})
	t.Run("cold, chunk size 1", func(t *testing.T) {
		t.Parallel()
		spread(t, newPool(t, 4), fiber.ChunkSize(1))
	})
	t.Run("cold, async", func(t *testing.T) {
		t.Parallel()
		pool := newPool(t, 4)
		var fs []*fiber.Future[int]
		for range 4 {
			fs = append(fs, fiber.ApplyAsync(soon(t), pool, nap, d))
		}
		var pids []int
		for _, f := range fs {
			pid, err := f.Get(soon(t))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		require.Equal(t, 4, distinct(pids))
	})
	for _, chunk := range []int{0, 1} {
		t.Run(fmt.Sprintf("warm, chunk size %d", chunk), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, 4)
			warm(t, pool)
			for range 3 {
				spread(t, pool, fiber.ChunkSize(chunk))
			}
		})
		t.Run(fmt.Sprintf("known as short, chunk size %d", chunk), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, 4)
			warm(t, pool)
			for range 3 {
				_, err := fiber.Map(soon(t), pool, nap, make([]time.Duration, 5000))
				require.NoError(t, err)
				begun := time.Now()
				spread(t, pool, fiber.ChunkSize(chunk))
				require.Less(t, time.Since(begun), 2*d)
			}
		})
		t.Run(fmt.Sprintf("known as short, many, chunk size %d", chunk), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, 4)
			warm(t, pool)
			_, err := fiber.Map(soon(t), pool, nap, make([]time.Duration, 5000))
			require.NoError(t, err)
			// Long ones where they hurt most: at the end, in one chunk.
			ins := make([]time.Duration, 1000)
			for i := range 4 {
				ins[996+i] = d
			}
			begun := time.Now()
			_, err = fiber.Map(soon(t), pool, nap, ins, fiber.ChunkSize(chunk))
			require.NoError(t, err)
			require.Less(t, time.Since(begun), 2*d)
		})
	}
}

var (
	nothing = fiber.Register("nothing", func(_ context.Context, n int) (*int, error) {
		if n%2 == 0 {
			return nil, nil
		}
		return &n, nil
	})
	nobody = fiber.Register("nobody", func(context.Context, none) (any, error) { return nil, nil })
	empty  = fiber.Register("empty", func(context.Context, none) (none, error) { return none{}, nil })
)

func TestNilIsAResult(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	outs, err := fiber.Map(soon(t), pool, nothing, numbers(101))
	require.NoError(t, err)
	for i, out := range outs {
		if i%2 == 0 {
			require.Nil(t, out)
		} else {
			require.Equal(t, i, *out)
		}
	}
	out, err := fiber.Apply(soon(t), pool, nobody, none{})
	require.NoError(t, err)
	require.Nil(t, out)
	_, err = fiber.Apply(soon(t), pool, empty, none{})
	require.NoError(t, err)
	_, err = fiber.Map(soon(t), pool, empty, make([]none, 1000))
	require.NoError(t, err)
}

var (
	errDiverged = fiber.RegisterError(errors.New("diverged"))

	fail = fiber.Register("fail", func(ctx context.Context, how string) (string, error) {
		switch how {
		case "error":
			return "ignored", errors.New("it is broken")
		case "sentinel":
			return "", fmt.Errorf("at step 7: %w", errDiverged)
		case "context":
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return "", fmt.Errorf("own: %w", ctx.Err())
		case "deadline":
			return "", fmt.Errorf("own: %w", context.DeadlineExceeded)
		case "panic":
			panic("help")
		case "panic with an error":
			panic(fmt.Errorf("help: %w", errDiverged))
		case "nil pointer":
			var p *marking
			return p.File, nil
		case "goexit":
			runtime.Goexit()
		case "closed":
			return "", fmt.Errorf("own: %w", fiber.ErrClosed)
		}
		return how, nil
	})
)

func TestErrorsOfFunctions(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1, fiber.WithName("Errors"))
	failure := func(how string) *fiber.RemoteError {
		t.Helper()
		out, err := fiber.Apply(soon(t), pool, fail, how)
		require.Error(t, err)
		require.Empty(t, out)
		var remote *fiber.RemoteError
		require.ErrorAs(t, err, &remote)
		require.Equal(t, "fail", remote.Func)
		require.Equal(t, "Errors-1", remote.Worker)
		return remote
	}
	require.Equal(t, "it is broken", failure("error").Message)
	require.Empty(t, failure("error").Stack)
	require.ErrorIs(t, failure("sentinel"), errDiverged)
	require.Contains(t, failure("sentinel").Error(), "at step 7: diverged")
	require.ErrorIs(t, failure("context"), context.Canceled)
	require.ErrorIs(t, failure("deadline"), context.DeadlineExceeded)
	require.ErrorIs(t, failure("closed"), fiber.ErrClosed)
	e := failure("panic")
	require.Equal(t, "help", e.Message)
	require.Contains(t, e.Stack, "pool_test.go", "the stack does not show where")
	require.Contains(t, e.Error(), "panicked: help")
	require.ErrorIs(t, failure("panic with an error"), errDiverged)
	require.Contains(t, failure("nil pointer").Message, "nil pointer")
	require.Contains(t, failure("goexit").Message, "Goexit")

	out, err := fiber.Apply(soon(t), pool, fail, "fine")
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
	pool := newPool(t, 2)
	hows := []string{"fine", "error", "fine", "panic", "goexit", "fine", "sentinel"}
	for _, chunk := range []int{0, 1, 50} {
		var futures []*fiber.Future[string]
		for i := range 300 {
			futures = append(futures, fiber.ApplyAsync(soon(t), pool, fail, hows[i%len(hows)], fiber.ChunkSize(chunk)))
		}
		i := 0
		for out, err := range fiber.IMap(soon(t), pool, fail, func(yield func(string) bool) {
			for i := range 300 {
				if !yield(hows[i%len(hows)]) {
					return
				}
			}
		}, fiber.ChunkSize(chunk)) {
			out2, err2 := futures[i].Get(soon(t))
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
		if err := (marking{File: s.File, Line: fmt.Sprint(s.Index)}).append(); err != nil {
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
	pool := newPool(t, 4)
	warm(t, pool)
	for _, chunk := range []int{0, 1, 5} {
		// The later one fails first.
		ins := make([]step, 40)
		for i := range ins {
			ins[i] = step{Index: i, Nap: 5 * time.Millisecond}
		}
		ins[30].Fail, ins[30].Nap = true, 0
		ins[20].Fail, ins[20].Nap = true, 0
		ins[3].Panic, ins[3].Nap = true, 300*time.Millisecond
		_, err := fiber.Map(soon(t), pool, walk, ins, fiber.ChunkSize(chunk))
		require.ErrorContains(t, err, "stumbled")
		require.ErrorContains(t, err, "task 3")
	}
}

func TestAFailureCancelsTasksBehindIt(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 4)
	warm(t, pool)
	file := tempFile(t)
	ins := make([]step, 2000)
	for i := range ins {
		ins[i] = step{Index: i, Nap: 10 * time.Millisecond, File: file}
	}
	ins[2].Fail = true
	for i := 4; i < 8; i++ {
		ins[i].Nap = time.Hour
	}
	begun := time.Now()
	_, err := fiber.Map(soon(t), pool, walk, ins)
	require.ErrorContains(t, err, "fell at 2")
	require.Less(t, time.Since(begun), 5*time.Second)
	// The hour-long ones were cancelled and left their workers.
	_, err = fiber.Map(soon(t), pool, nap, slicesOf(100*time.Millisecond, 4))
	require.NoError(t, err)
	ran := len(lines(t, file))
	require.Less(t, ran, 100, "tasks behind the failed one were run")
	_, err = fiber.Map(soon(t), pool, nap, slicesOf(100*time.Millisecond, 4))
	require.NoError(t, err)
	require.Zero(t, pool.Stats().WorkersLost)
	require.Equal(t, 4, pool.Stats().WorkersStarted)
	require.Equal(t, ran, len(lines(t, file)), "tasks behind the failed one ran on")
}

func TestAPoisonTaskIsGivenUp(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2, fiber.WithName("Poisoned"))
	_, err := fiber.Apply(soon(t), pool, die, int(syscall.SIGKILL))
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
	require.ErrorContains(t, err, "last words")

	_, err = fiber.Apply(soon(t), pool, exit, 7)
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 7, lost.ExitCode)
	require.Empty(t, lost.Signal)

	// A Map returns it, too, and the pool goes on.
	_, err = fiber.Map(soon(t), pool, exit, []int{3, 4})
	require.ErrorAs(t, err, &lost)
	require.ErrorContains(t, err, "task 0")
	out, err := fiber.Apply(soon(t), pool, square, 5)
	require.NoError(t, err)
	require.Equal(t, 25, out)
	eventually(t, patience, func() bool { return pool.Stats().Ready == 2 }, "two workers again")
}

func TestMaxAttemptsOneNeverRunsATaskAgain(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2, fiber.WithMaxAttempts(1))
	file := tempFile(t)
	const n = 60
	var futures []*fiber.Future[int]
	for i := range n {
		futures = append(futures, fiber.ApplyAsync(soon(t), pool, mark, marking{File: file, Line: fmt.Sprint(i), Nap: 20 * time.Millisecond}))
	}
	kills := 0
	for kills < 4 {
		for _, w := range pool.Stats().Processes {
			if w.Tasks > 0 && kills < 4 {
				pid := atoi(t, w.ID)
				syscall.Kill(pid, syscall.SIGKILL)
				eventually(t, patience, func() bool { return !running(pid) }, "it dies")
				kills++
			}
		}
	}
	lost := 0
	for _, f := range futures {
		if _, err := f.Get(soon(t)); err != nil {
			var e *fiber.WorkerLostError
			require.ErrorAs(t, err, &e)
			require.Equal(t, 1, e.Attempt)
			require.Equal(t, 1, e.Attempts)
			lost++
		}
	}
	ran := lines(t, file)
	require.Equal(t, len(ran), distinct(ran), "a task ran twice")
	require.LessOrEqual(t, lost, kills, "tasks that were not started were given up")
	require.GreaterOrEqual(t, len(ran), n-lost)
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	warm(t, pool)
	const limit = 200 * time.Millisecond
	begun := time.Now()
	_, err := fiber.Apply(soon(t), pool, rest, time.Hour, fiber.Timeout(limit))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begun), limit+time.Second)
	require.Equal(t, 2, pool.Stats().WorkersStarted)

	begun = time.Now()
	_, err = fiber.Apply(soon(t), pool, nap, time.Hour, fiber.Timeout(limit))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begun), limit+time.Second)

	// Each task has its own time; those within it succeed, and a task that
	// waits for a worker is not running.
	var futures []*fiber.Future[int]
	for i := range 20 {
		d := 50 * time.Millisecond
		if i%10 == 5 {
			d = time.Hour
		}
		futures = append(futures, fiber.ApplyAsync(soon(t), pool, nap, d, fiber.Timeout(limit)))
	}
	for i, f := range futures {
		_, err := f.Get(soon(t))
		if i%10 == 5 {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		} else {
			require.NoError(t, err, "task %d", i)
		}
	}
	pids, err := fiber.Map(soon(t), pool, nap, slicesOf(4*testGrace, 2))
	require.NoError(t, err)
	require.Equal(t, 2, distinct(pids), "the pool has not two workers again")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1)
	warm(t, pool)
	cancelled := func(fn *fiber.Func[time.Duration, int]) {
		t.Helper()
		ctx, cancel := context.WithCancel(soon(t))
		time.AfterFunc(100*time.Millisecond, cancel)
		begun := time.Now()
		_, err := fiber.Apply(ctx, pool, fn, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, time.Since(begun), time.Second, "it did not return at once")
	}
	first, err := fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)

	// A function that heeds its context is gone from the worker.
	cancelled(rest)
	pid, err := fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)
	require.Equal(t, first, pid, "the worker was replaced although its function heeds its context")

	// One that does not keeps it until somebody else waits for it.
	cancelled(nap)
	time.Sleep(3 * testGrace)
	require.True(t, running(first), "the worker was replaced although nobody waits for it")
	begun := time.Now()
	pid, err = fiber.Apply(soon(t), pool, getpid, none{})
	require.NoError(t, err)
	require.NotEqual(t, first, pid)
	require.Less(t, time.Since(begun), testGrace+2*time.Second)
	require.Greater(t, time.Since(begun), testGrace/2)

	// Close ends one that nobody waits for.
	cancelled(nap)
	begun = time.Now()
	pool.Close()
	require.Less(t, time.Since(begun), 10*time.Second)

	// ApplyAsync and MapAsync.
	pool = newPool(t, 2)
	ctx, cancel := context.WithCancel(soon(t))
	a, m := fiber.ApplyAsync(ctx, pool, rest, time.Hour), fiber.MapAsync(ctx, pool, rest, []time.Duration{time.Hour, time.Hour})
	warm(t, pool)
	cancel()
	_, err = a.Get(soon(t))
	require.ErrorIs(t, err, context.Canceled)
	_, err = m.Get(soon(t))
	require.ErrorIs(t, err, context.Canceled)
	_, err = fiber.Apply(ctx, pool, square, 1)
	require.ErrorIs(t, err, context.Canceled)
}

// Cancelling one call leaves the others alone.
func TestCancelIsOneCalls(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 3)
	warm(t, pool)
	ctx, cancel := context.WithCancel(soon(t))
	doomed := fiber.MapAsync(ctx, pool, rest, slicesOf(20*time.Millisecond, 300))
	kept := fiber.MapAsync(soon(t), pool, rest, slicesOf(5*time.Millisecond, 300))
	eventually(t, patience, func() bool { return pool.Stats().Done > 50 }, "both run")
	cancel()
	_, err := doomed.Get(soon(t))
	require.ErrorIs(t, err, context.Canceled)
	outs, err := kept.Get(soon(t))
	require.NoError(t, err)
	require.Len(t, outs, 300)
	require.Equal(t, 3, pool.Stats().WorkersStarted)
}

func TestOnProgress(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 3)
	var last, calls atomic.Int64
	outs, err := fiber.Map(soon(t), pool, square, numbers(5000), fiber.OnProgress(func(done, total int) {
		if int64(done) <= last.Load() || total != 5000 {
			t.Errorf("progress %d of %d after %d", done, total, last.Load())
		}
		last.Store(int64(done))
		calls.Add(1)
	}))
	require.NoError(t, err)
	require.Len(t, outs, 5000)
	require.EqualValues(t, 5000, last.Load())
	require.Greater(t, calls.Load(), int64(1))
	var seen [][2]int
	_, err = fiber.Apply(soon(t), pool, square, 3, fiber.OnProgress(func(done, total int) { seen = append(seen, [2]int{done, total}) }))
	require.NoError(t, err)
	require.Equal(t, [][2]int{{1, 1}}, seen)
}

var initialized string

var (
	initialize = fiber.Register("initialize", func(_ context.Context, how string) (none, error) {
		switch {
		case how == "error":
			return none{}, fmt.Errorf("no data: %w", errDiverged)
		case how == "panic":
			panic("no data at all")
		case how == "exit":
			fmt.Fprintln(os.Stderr, "cannot go on")
			os.Exit(4)
		case strings.HasPrefix(how, "slow"):
			time.Sleep(300 * time.Millisecond)
		case strings.HasPrefix(how, "once "): // fails in the first two workers
			f, err := os.OpenFile(how[5:], os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return none{}, err
			}
			fmt.Fprint(f, "x")
			if info, _ := f.Stat(); info.Size() <= 2 {
				return none{}, errors.New("not yet")
			}
		}
		initialized = how
		return none{}, nil
	})
	howInitialized = fiber.Register("howInitialized", func(context.Context, none) (string, error) { return initialized, nil })
)

func TestInitializer(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 3, fiber.WithInitializer(initialize, "well"))
	hows, err := fiber.Map(soon(t), pool, howInitialized, make([]none, 100))
	require.NoError(t, err)
	for _, how := range hows {
		require.Equal(t, "well", how)
	}

	pool = newPool(t, 1, fiber.WithInitializer(initialize, "once "+tempFile(t)))
	how, err := fiber.Apply(soon(t), pool, howInitialized, none{})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(how, "once "))
}

func TestInitializerThatFailsEveryTime(t *testing.T) {
	t.Parallel()
	for how, words := range map[string][]string{
		"error": {"initializer", "no data: diverged"},
		"panic": {"initializer", "panicked", "no data at all", "pool_test.go"},
		"exit":  {"ended before it was ready", "exit code 4", "cannot go on"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, 3, fiber.WithInitializer(initialize, how))
			check := func(err error) {
				t.Helper()
				var launch *fiber.LaunchError
				require.ErrorAs(t, err, &launch)
				for _, w := range words {
					require.ErrorContains(t, err, w)
				}
				if how == "error" {
					require.ErrorIs(t, err, errDiverged)
				}
			}
			for range 2 { // later calls, too
				_, err := fiber.Apply(soon(t), pool, howInitialized, none{})
				check(err)
				_, err = fiber.Map(soon(t), pool, howInitialized, make([]none, 50))
				check(err)
				check(pool.WaitUntilWorkersUp(soon(t)))
			}
			require.Error(t, pool.Stats().LastStartError)
		})
	}
}

func TestMaxTasksPerChild(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 2} {
		pool := newPool(t, 2, fiber.WithMaxTasksPerChild(3), fiber.WithConcurrency(concurrency))
		pids, err := fiber.Map(soon(t), pool, getpid, make([]none, 30))
		require.NoError(t, err)
		count := map[int]int{}
		for _, pid := range pids {
			count[pid]++
		}
		for pid, n := range count {
			require.LessOrEqual(t, n, 3, "process %d ran too many", pid)
		}
		require.GreaterOrEqual(t, len(count), 10)
		s := pool.Stats()
		require.Zero(t, s.WorkersLost, "an end that was wanted counts as a loss")
		require.Zero(t, s.Retried)
	}
	pool := newPool(t, 1, fiber.WithMaxTasksPerChild(2))
	var pids []int
	for range 6 {
		pid, err := fiber.Apply(soon(t), pool, getpid, none{})
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.Equal(t, 3, distinct(pids))
	require.Equal(t, pids[0], pids[1])
	require.Equal(t, pids[2], pids[3])
}

var concurrent struct{ now, most atomic.Int64 }

var crowd = fiber.Register("crowd", func(_ context.Context, d time.Duration) ([2]int, error) {
	n := concurrent.now.Add(1)
	defer concurrent.now.Add(-1)
	for most := concurrent.most.Load(); n > most && !concurrent.most.CompareAndSwap(most, n); most = concurrent.most.Load() {
	}
	time.Sleep(d)
	return [2]int{os.Getpid(), int(concurrent.most.Load())}, nil
})

func TestConcurrency(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1, fiber.WithConcurrency(4))
	warm(t, pool)
	begun := time.Now()
	outs, err := fiber.Map(soon(t), pool, crowd, slicesOf(200*time.Millisecond, 8))
	require.NoError(t, err)
	require.Less(t, time.Since(begun), 700*time.Millisecond, "not four at a time")
	most := 0
	for _, out := range outs {
		require.Equal(t, outs[0][0], out[0])
		most = max(most, out[1])
	}
	require.Equal(t, 4, most)

	pool = newPool(t, 2, fiber.WithConcurrency(2))
	outs, err = fiber.Map(soon(t), pool, crowd, slicesOf(300*time.Millisecond, 4))
	require.NoError(t, err)
	require.Equal(t, 2, distinct([]int{outs[0][0], outs[1][0], outs[2][0], outs[3][0]}), "cold: one worker has all the work")
}

func TestAutoscale(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 7, fiber.WithAutoscale(0, 3), fiber.WithIdleTimeout(300*time.Millisecond))
	require.Zero(t, pool.Stats().Workers)
	_, err := fiber.Apply(soon(t), pool, square, 1)
	require.NoError(t, err)
	require.Equal(t, 1, pool.Stats().WorkersStarted)

	pids, err := fiber.Map(soon(t), pool, nap, slicesOf(200*time.Millisecond, 9))
	require.NoError(t, err)
	require.Equal(t, 3, distinct(pids), "it did not grow to its maximum")

	// A busy worker stays, idle ones go.
	busy := fiber.ApplyAsync(soon(t), pool, nap, 1500*time.Millisecond)
	eventually(t, patience, func() bool { return pool.Stats().Ready == 1 }, "it shrinks to the busy one")
	require.False(t, busy.Ready())
	_, err = busy.Get(soon(t))
	require.NoError(t, err)
	eventually(t, patience, func() bool { return len(pool.Stats().Processes) == 0 }, "it shrinks to 0")
	s := pool.Stats()
	require.Zero(t, s.WorkersLost)
	require.Zero(t, s.Retried)
	_, err = fiber.Apply(soon(t), pool, square, 1)
	require.NoError(t, err)

	pool = newPool(t, 1, fiber.WithAutoscale(1, 4), fiber.WithIdleTimeout(200*time.Millisecond))
	warm(t, pool)
	require.Equal(t, 1, pool.Stats().Ready)
	_, err = fiber.Map(soon(t), pool, nap, slicesOf(300*time.Millisecond, 4))
	require.NoError(t, err)
	eventually(t, patience, func() bool { s := pool.Stats(); return s.Ready == 1 && len(s.Processes) == 1 }, "it shrinks to 1")
}

func TestResize(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1)
	require.NoError(t, pool.Resize(soon(t), 2), "before the start")
	warm(t, pool)
	require.Equal(t, 2, pool.Stats().Ready)
	// The workers are held long enough for every one to have a task.
	require.NoError(t, pool.Resize(soon(t), 4))
	s := pool.Stats()
	require.Equal(t, 4, s.Ready)
	require.Equal(t, 4, s.Workers)
	pids, err := fiber.Map(soon(t), pool, nap, slicesOf(200*time.Millisecond, 4))
	require.NoError(t, err)
	require.Equal(t, 4, distinct(pids))

	// Down while it works: nothing is lost or run twice.
	file := tempFile(t)
	ins := make([]marking, 60)
	for i := range ins {
		ins[i] = marking{File: file, Line: fmt.Sprint(i), Nap: 20 * time.Millisecond}
	}
	f := fiber.MapAsync(soon(t), pool, mark, ins)
	eventually(t, patience, func() bool { return len(lines(t, file)) > 5 }, "it works")
	require.NoError(t, pool.Resize(soon(t), 1))
	s = pool.Stats()
	require.Equal(t, 1, s.Ready)
	require.Len(t, s.Processes, 1)
	require.NoError(t, pool.Resize(soon(t), 3))
	pids, err = f.Get(soon(t))
	require.NoError(t, err)
	require.Len(t, pids, 60)
	require.Len(t, lines(t, file), 60)
	s = pool.Stats()
	require.Zero(t, s.WorkersLost)
	require.Zero(t, s.Retried)
	require.Error(t, pool.Resize(soon(t), 0))
	require.Error(t, pool.Resize(soon(t), -1))
}

func TestStats(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2, fiber.WithName("Counted"))
	require.Equal(t, fiber.PoolStats{Workers: 2}, pool.Stats())
	warm(t, pool)
	s := pool.Stats()
	require.Equal(t, 2, s.Ready)
	require.Equal(t, 2, s.Idle)
	require.Len(t, s.Processes, 2)
	for i, w := range s.Processes {
		require.Equal(t, fmt.Sprintf("Counted-%d", i+1), w.Name)
		require.Equal(t, "ready", w.State)
		require.True(t, running(atoi(t, w.ID)))
	}
	f := fiber.MapAsync(soon(t), pool, rest, slicesOf(300*time.Millisecond, 5))
	eventually(t, patience, func() bool { s := pool.Stats(); return s.Running >= 2 && s.Idle == 0 }, "both run")
	s = pool.Stats()
	require.Equal(t, 5, s.Queued+s.Running+s.Done)
	_, err := f.Get(soon(t))
	require.NoError(t, err)
	_, err = fiber.Apply(soon(t), pool, fail, "error")
	require.Error(t, err)
	s = pool.Stats()
	require.Equal(t, 5, s.Done)
	require.Equal(t, 1, s.Failed)
	require.Zero(t, s.Queued)
	require.Zero(t, s.Running)
	eventually(t, patience, func() bool {
		for _, w := range pool.Stats().Processes {
			if w.Resident < 1<<20 {
				return false
			}
		}
		return true
	}, "their memory is known")
}

func TestClose(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	f := fiber.MapAsync(soon(t), pool, nap, slicesOf(30*time.Millisecond, 20))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(pool.Close)
	}
	wg.Wait()
	require.True(t, f.Ready(), "Close did not wait for what was running")
	outs, err := f.Get(soon(t))
	require.NoError(t, err, "Close did not finish what was running")
	require.Len(t, outs, 20)
	for _, pid := range outs {
		require.False(t, running(pid), "a worker is left")
	}
	pool.Close()

	_, err = fiber.Apply(soon(t), pool, square, 1)
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.Map(soon(t), pool, square, numbers(3))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.ApplyAsync(soon(t), pool, square, 1).Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.MapAsync(soon(t), pool, square, numbers(3)).Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	n := 0
	for _, err := range fiber.IMap(soon(t), pool, square, func(yield func(int) bool) { yield(1) }) {
		require.ErrorIs(t, err, fiber.ErrClosed)
		n++
	}
	require.Equal(t, 1, n)
	require.ErrorIs(t, pool.Resize(soon(t), 2), fiber.ErrClosed)
	require.ErrorIs(t, pool.WaitUntilWorkersUp(soon(t)), fiber.ErrClosed)
	pool.Terminate()
}

func TestCloseFromACallback(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 1)
	closed := make(chan struct{})
	fiber.ApplyAsync(soon(t), pool, square, 2).OnDone(func(int, error) { pool.Close(); close(closed) })
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close hangs")
	}
}

func TestTerminate(t *testing.T) {
	t.Parallel()
	unused := newPool(t, 2)
	unused.Terminate()
	unused.Terminate()
	unused.Close()
	_, err := fiber.Apply(soon(t), unused, square, 1)
	require.ErrorIs(t, err, fiber.ErrClosed)

	pool := newPool(t, 3)
	warm(t, pool)
	pids, err := fiber.Map(soon(t), pool, nap, slicesOf(100*time.Millisecond, 3))
	require.NoError(t, err)
	f := fiber.MapAsync(soon(t), pool, nap, slicesOf(time.Hour, 5))
	a := fiber.ApplyAsync(soon(t), pool, rest, time.Hour)
	begun := time.Now()
	pool.Terminate()
	require.Less(t, time.Since(begun), 5*time.Second)
	_, err = f.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = a.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	for _, pid := range pids {
		require.False(t, running(pid))
	}

	// While its workers start.
	pool = newPool(t, 3, fiber.WithInitializer(initialize, "slow"))
	f2 := fiber.ApplyAsync(soon(t), pool, square, 2)
	pool.Terminate()
	_, err = f2.Get(soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

func TestManyGoroutinesWaitForOneFuture(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	f, g := fiber.ApplyAsync(soon(t), pool, rest, 100*time.Millisecond), fiber.ApplyAsync(soon(t), pool, square, 7)
	var wg sync.WaitGroup
	var calls atomic.Int64
	for range 20 {
		f.OnDone(func(int, error) { calls.Add(1) })
	}
	for range 50 {
		wg.Go(func() {
			pid, err := f.Get(soon(t))
			if err != nil || pid == 0 {
				t.Error(pid, err)
			}
			<-f.Done()
			if out, err := g.Get(soon(t)); err != nil || out != 49 || !g.Ready() {
				t.Error(out, err)
			}
		})
	}
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := f.Get(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	wg.Wait()
	eventually(t, patience, func() bool { return calls.Load() == 20 }, "every callback is called once")
	done := make(chan int, 1)
	g.OnDone(func(out int, _ error) { done <- out })
	require.Equal(t, 49, <-done)
}

func TestManyRounds(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 5)
	for round := range 1000 {
		var fs [5]*fiber.Future[int]
		for i := range fs {
			fs[i] = fiber.ApplyAsync(context.Background(), pool, square, round*5+i)
		}
		for i, f := range fs {
			out, err := f.Get(soon(t))
			require.NoError(t, err)
			require.Equal(t, (round*5+i)*(round*5+i), out)
		}
	}
	require.Equal(t, 5000, pool.Stats().Done)
}

func TestManyGoroutinesUseAPool(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 4)
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for round := range 10 {
				outs, err := fiber.Map(soon(t), pool, square, numbers(g*10+round))
				if err != nil {
					t.Error(err)
					return
				}
				for i, out := range outs {
					if out != i*i {
						t.Errorf("%d squared is %d", i, out)
					}
				}
			}
		})
	}
	wg.Wait()
}

// A long call does not hold up a short one.
func TestCallsShareFairly(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	warm(t, pool)
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	long := fiber.MapAsync(ctx, pool, rest, slicesOf(10*time.Millisecond, 2000))
	eventually(t, patience, func() bool { return pool.Stats().Done > 10 }, "the long one runs")
	begun := time.Now()
	_, err := fiber.Map(soon(t), pool, rest, slicesOf(10*time.Millisecond, 4))
	require.NoError(t, err)
	require.Less(t, time.Since(begun), time.Second)
	require.False(t, long.Ready())
}

func TestIdlePoolAnswers(t *testing.T) {
	t.Parallel()
	pool := newPool(t, 2)
	warm(t, pool)
	before, err := fiber.Map(soon(t), pool, nap, slicesOf(100*time.Millisecond, 2))
	require.NoError(t, err)
	d := 75 * time.Second
	if testing.Short() {
		d = 12 * time.Second
	}
	time.Sleep(d)
	begun := time.Now()
	after, err := fiber.Map(soon(t), pool, nap, slicesOf(100*time.Millisecond, 2))
	require.NoError(t, err)
	require.Less(t, time.Since(begun), 2*time.Second)
	require.ElementsMatch(t, before, after, "workers were replaced")
}

func slicesOf[T any](v T, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	var n int
	_, err := fmt.Sscan(s, &n)
	require.NoError(t, err)
	return n
}
