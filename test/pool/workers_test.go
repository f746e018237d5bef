//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

var initialized string

var (
	initialize = fiber.Register("initialize", func(_ context.Context, how string) (fibertest.None, error) {
		switch {
		case how == "error":
			return fibertest.None{}, fmt.Errorf("no data: %w", fibertest.ErrDiverged)
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
				return fibertest.None{}, err
			}
			fmt.Fprint(f, "x")
			if info, _ := f.Stat(); info.Size() <= 2 {
				return fibertest.None{}, errors.New("not yet")
			}
		}
		initialized = how
		return fibertest.None{}, nil
	})
	howInitialized = fiber.Register("howInitialized", func(context.Context, fibertest.None) (string, error) { return initialized, nil })
)

func TestInitializer(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3, fiber.WithInitializer(initialize, "well"))
	hows, err := fiber.Map(fibertest.Soon(t), pool, howInitialized, make([]fibertest.None, 100))
	require.NoError(t, err)
	for _, how := range hows {
		require.Equal(t, "well", how)
	}

	pool = fibertest.NewPool(t, 1, fiber.WithInitializer(initialize, "once "+fibertest.TempFile(t)))
	how, err := fiber.Apply(fibertest.Soon(t), pool, howInitialized, fibertest.None{})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(how, "once "))
}

func TestInitializerThatFailsEveryTime(t *testing.T) {
	t.Parallel()
	for how, words := range map[string][]string{
		"error": {"initializer", "no data: diverged"},
		"panic": {"initializer", "panicked", "no data at all", "workers_test.go"},
		"exit":  {"ended before it was ready", "exit code 4", "cannot go on"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, 3, fiber.WithInitializer(initialize, how))
			check := func(err error) {
				t.Helper()
				var launch *fiber.LaunchError
				require.ErrorAs(t, err, &launch)
				require.NotContains(t, err.Error(), "\n")
				for _, w := range words {
					require.Contains(t, fmt.Sprintf("%+v", err), w)
				}
				if how == "error" {
					require.ErrorIs(t, err, fibertest.ErrDiverged)
				}
			}
			for range 2 { // later calls, too
				_, err := fiber.Apply(fibertest.Soon(t), pool, howInitialized, fibertest.None{})
				check(err)
				_, err = fiber.Map(fibertest.Soon(t), pool, howInitialized, make([]fibertest.None, 50))
				check(err)
				check(pool.WaitUntilWorkersUp(fibertest.Soon(t)))
			}
			require.Error(t, pool.Stats().LastStartError)
		})
	}
}

func TestMaxTasksPerChild(t *testing.T) {
	t.Parallel()
	for _, concurrency := range []int{1, 2} {
		pool := fibertest.NewPool(t, 2, fiber.WithMaxTasksPerChild(3), fiber.WithConcurrency(concurrency))
		pids, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Getpid, make([]fibertest.None, 30))
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
	pool := fibertest.NewPool(t, 1, fiber.WithMaxTasksPerChild(2))
	var pids []int
	for range 6 {
		pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.Equal(t, 3, fibertest.Distinct(pids))
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
	return [2]int{fibertest.Self(), int(concurrent.most.Load())}, nil
})

func TestConcurrency(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithConcurrency(4))
	fibertest.Warm(t, pool)
	fibertest.Together(t, pool, 4)
	outs, err := fiber.Map(fibertest.Soon(t), pool, crowd, fibertest.SlicesOf(20*time.Millisecond, 40))
	require.NoError(t, err)
	for _, out := range outs {
		require.Equal(t, outs[0][0], out[0])
		require.LessOrEqual(t, out[1], 4)
	}

	// As many as there is room for in all, however much later one worker is up
	// than the other: cold, one has not all the work.
	fibertest.Together(t, fibertest.NewPool(t, 2, fiber.WithConcurrency(2)), 4)
}

func TestAutoscale(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 7, fiber.WithAutoscale(0, 3), fiber.WithIdleTimeout(fibertest.Paced(300*time.Millisecond)))
	require.Zero(t, pool.Stats().Workers)
	_, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1)
	require.NoError(t, err)
	require.Equal(t, 1, pool.Stats().WorkersStarted)
	fibertest.Together(t, pool, 3) // it grows to its maximum

	// A busy worker stays, idle ones go.
	gate := fibertest.TempFile(t)
	busy := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Mark, fibertest.Marking{File: fibertest.TempFile(t), Line: "begun", Gate: gate})
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Ready == 1 }, "it shrinks to the busy one")
	require.False(t, busy.Ready())
	fibertest.OpenGate(t, gate)
	_, err = busy.Get(fibertest.Soon(t))
	require.NoError(t, err)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(pool.Stats().Processes) == 0 }, "it shrinks to 0")
	s := pool.Stats()
	require.Zero(t, s.WorkersLost)
	require.Zero(t, s.Retried)
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1)
	require.NoError(t, err)

	pool = fibertest.NewPool(t, 1, fiber.WithAutoscale(1, 4), fiber.WithIdleTimeout(fibertest.Paced(200*time.Millisecond)))
	fibertest.Warm(t, pool)
	require.Equal(t, 1, pool.Stats().Ready)
	fibertest.Together(t, pool, 4)
	fibertest.Eventually(t, fibertest.Patience, func() bool { s := pool.Stats(); return s.Ready == 1 && len(s.Processes) == 1 }, "it shrinks to 1")
}

func TestResize(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	require.NoError(t, pool.Resize(fibertest.Soon(t), 2), "before the start")
	fibertest.Warm(t, pool)
	require.Equal(t, 2, pool.Stats().Ready)
	require.NoError(t, pool.Resize(fibertest.Soon(t), 4))
	s := pool.Stats()
	require.Equal(t, 4, s.Ready)
	require.Equal(t, 4, s.Workers)
	fibertest.Together(t, pool, 4)

	// Down while it works: nothing is lost or run twice.
	file := fibertest.TempFile(t)
	ins := make([]fibertest.Marking, 60)
	for i := range ins {
		ins[i] = fibertest.Marking{File: file, Line: fmt.Sprint(i), Nap: 20 * time.Millisecond}
	}
	f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Mark, ins)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) > 5 }, "it works")
	require.NoError(t, pool.Resize(fibertest.Soon(t), 1))
	s = pool.Stats()
	require.Equal(t, 1, s.Ready)
	require.Len(t, s.Processes, 1)
	require.NoError(t, pool.Resize(fibertest.Soon(t), 3))
	pids, err := f.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Len(t, pids, 60)
	require.Len(t, fibertest.Lines(t, file), 60)
	s = pool.Stats()
	require.Zero(t, s.WorkersLost)
	require.Zero(t, s.Retried)
	require.Error(t, pool.Resize(fibertest.Soon(t), 0))
	require.Error(t, pool.Resize(fibertest.Soon(t), -1))
}

func TestStats(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithName("Counted"))
	require.Equal(t, fiber.PoolStats{Workers: 2}, pool.Stats())
	fibertest.Warm(t, pool)
	s := pool.Stats()
	require.Equal(t, 2, s.Ready)
	require.Equal(t, 2, s.Idle)
	require.Len(t, s.Processes, 2)
	for i, w := range s.Processes {
		require.Regexp(t, `^Counted-\d+$`, w.Name)
		require.True(t, i == 0 || len(w.Name) > len(s.Processes[i-1].Name) || w.Name > s.Processes[i-1].Name, "not by name")
		require.Equal(t, "ready", w.State)
		require.True(t, fibertest.Running(atoi(t, w.ID)))
	}
	gate := fibertest.TempFile(t)
	f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Mark, fibertest.SlicesOf(fibertest.Marking{File: fibertest.TempFile(t), Line: "begun", Gate: gate}, 5))
	fibertest.Eventually(t, fibertest.Patience, func() bool { s := pool.Stats(); return s.Running >= 2 && s.Idle == 0 }, "both run")
	s = pool.Stats()
	require.Equal(t, 5, s.Queued+s.Running+s.Done)
	fibertest.OpenGate(t, gate)
	_, err := f.Get(fibertest.Soon(t))
	require.NoError(t, err)
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Fail, "error")
	require.Error(t, err)
	s = pool.Stats()
	require.Equal(t, 5, s.Done)
	require.Equal(t, 1, s.Failed)
	require.Zero(t, s.Queued)
	require.Zero(t, s.Running)
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		for _, w := range pool.Stats().Processes {
			if w.Resident < 1<<20 {
				return false
			}
		}
		return true
	}, "their memory is known")
}
