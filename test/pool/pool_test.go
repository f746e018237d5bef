//go:build unix

package pool_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestApply(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	for i := range 10 {
		out, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, i)
		require.NoError(t, err)
		require.Equal(t, i*i, out)
	}
	pid, err := fiber.Apply(fibertest.Soon(t), pool, fibertest.Getpid, fibertest.None{})
	require.NoError(t, err)
	require.NotEqual(t, fibertest.Self(), pid, "it ran in this process")
}

func TestMapKeepsOrder(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 4)
	for _, n := range []int{1, 2, 3, 7, 100, 10_000} {
		for _, chunk := range []int{0, 1, 3, 1000} {
			outs, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(n), fibertest.Chunks(chunk)...)
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
	pool := fibertest.NewPool(t, 2)
	for _, ins := range [][]int{nil, {}} {
		outs, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, ins)
		require.NoError(t, err)
		require.NotNil(t, outs)
		require.Empty(t, outs)
		outs, err = fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, ins).Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Empty(t, outs)
	}
	require.Zero(t, pool.Stats().WorkersStarted, "nothing to do, and workers were started")
}

func TestAsyncAnswersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 4)
	var futures []*fiber.Future[int]
	for i := range 500 {
		futures = append(futures, fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Square, i))
	}
	maps := []*fiber.Future[[]int]{fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(10)), fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(20))}
	for i, f := range futures {
		out, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Equal(t, i*i, out)
	}
	for i, f := range maps {
		outs, err := f.Get(fibertest.Soon(t))
		require.NoError(t, err)
		require.Len(t, outs, 10*(i+1))
		require.Equal(t, 81, outs[9])
	}
}

// gathering is a meeting: who comes writes a line into a file, and waits until as
// many as are expected have done so.
type gathering struct {
	File     string
	Expected int // 0 for a task that is over at once
}

var gather = fiber.Register("gather", func(ctx context.Context, g gathering) (int, error) {
	if g.Expected == 0 {
		return fibertest.Self(), nil
	}
	if err := (fibertest.Marking{File: g.File, Line: "here"}).Append(); err != nil {
		return 0, err
	}
	for {
		b, err := os.ReadFile(g.File)
		if err != nil || strings.Count(string(b), "\n") >= g.Expected {
			return fibertest.Self(), err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
})

// Four tasks never share a worker while another is idle: tasks that wait for one
// another meet.
func TestSpread(t *testing.T) {
	t.Parallel()
	four := func(t *testing.T) []gathering { return fibertest.SlicesOf(gathering{fibertest.TempFile(t), 4}, 4) }
	spread := func(t *testing.T, pool *fiber.Pool, opts ...fiber.CallOption) {
		t.Helper()
		pids, err := fiber.Map(fibertest.Soon(t), pool, gather, four(t), opts...)
		require.NoError(t, err)
		require.Equal(t, 4, fibertest.Distinct(pids), "tasks shared a worker: %v", pids)
	}
	t.Run("cold", func(t *testing.T) {
		t.Parallel()
		spread(t, fibertest.NewPool(t, 4))
	})
	t.Run("cold, chunk size 1", func(t *testing.T) {
		t.Parallel()
		spread(t, fibertest.NewPool(t, 4), fiber.ChunkSize(1))
	})
	t.Run("cold, async", func(t *testing.T) {
		t.Parallel()
		pool := fibertest.NewPool(t, 4)
		var fs []*fiber.Future[int]
		for _, g := range four(t) {
			fs = append(fs, fiber.ApplyAsync(fibertest.Soon(t), pool, gather, g))
		}
		var pids []int
		for _, f := range fs {
			pid, err := f.Get(fibertest.Soon(t))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		require.Equal(t, 4, fibertest.Distinct(pids))
	})
	for _, chunk := range []int{0, 1} {
		t.Run(fmt.Sprintf("warm, chunk size %d", chunk), func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, 4)
			fibertest.Warm(t, pool)
			for range 3 {
				spread(t, pool, fibertest.Chunks(chunk)...)
			}
		})
		t.Run(fmt.Sprintf("known as short, chunk size %d", chunk), func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, 4)
			fibertest.Warm(t, pool)
			for range 3 {
				_, err := fiber.Map(fibertest.Soon(t), pool, gather, make([]gathering, 5000))
				require.NoError(t, err)
				spread(t, pool, fibertest.Chunks(chunk)...)
			}
		})
		t.Run(fmt.Sprintf("known as short, many, chunk size %d", chunk), func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, 4)
			fibertest.Warm(t, pool)
			_, err := fiber.Map(fibertest.Soon(t), pool, gather, make([]gathering, 5000))
			require.NoError(t, err)
			// Those that wait where it is hardest: at the end, in one chunk.
			_, err = fiber.Map(fibertest.Soon(t), pool, gather, append(make([]gathering, 996), four(t)...), fibertest.Chunks(chunk)...)
			require.NoError(t, err)
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
	nobody = fiber.Register("nobody", func(context.Context, fibertest.None) (any, error) { return nil, nil })
	empty  = fiber.Register("empty", func(context.Context, fibertest.None) (fibertest.None, error) { return fibertest.None{}, nil })
)

func TestNilIsAResult(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	outs, err := fiber.Map(fibertest.Soon(t), pool, nothing, fibertest.Numbers(101))
	require.NoError(t, err)
	for i, out := range outs {
		if i%2 == 0 {
			require.Nil(t, out)
		} else {
			require.Equal(t, i, *out)
		}
	}
	out, err := fiber.Apply(fibertest.Soon(t), pool, nobody, fibertest.None{})
	require.NoError(t, err)
	require.Nil(t, out)
	_, err = fiber.Apply(fibertest.Soon(t), pool, empty, fibertest.None{})
	require.NoError(t, err)
	_, err = fiber.Map(fibertest.Soon(t), pool, empty, make([]fibertest.None, 1000))
	require.NoError(t, err)
}

func TestOnProgress(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 3)
	var last atomic.Int64
	var over atomic.Bool
	began := time.Now()
	outs, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(5000), fiber.OnProgress(func(p fiber.Progress) {
		if int64(p.Done) < last.Load() || p.Total != 5000 || p.Began.Before(began) || over.Load() {
			t.Errorf("%+v after %d", p, last.Load())
		}
		last.Store(int64(p.Done))
		over.Store(p.Over)
	}))
	require.NoError(t, err)
	require.True(t, over.Load())
	require.Len(t, outs, 5000)
	require.EqualValues(t, 5000, last.Load())
	var seen []fiber.Progress
	see := fiber.OnProgress(func(p fiber.Progress) {
		seen = append(seen, fiber.Progress{Done: p.Done, Failed: p.Failed, Retried: p.Retried, Total: p.Total, Lost: p.Lost, Over: p.Over})
	})
	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 3, see)
	require.NoError(t, err)
	require.Equal(t, fiber.Progress{Done: 1, Total: 1, Over: true}, seen[len(seen)-1])
	for range fiber.IMap(fibertest.Soon(t), pool, fibertest.Fail, slices.Values([]string{"error", ""}), see) {
	}
	require.Equal(t, fiber.Progress{Done: 2, Failed: 1, Total: 2, Over: true}, seen[len(seen)-1])
	gate := fibertest.TempFile(t)
	f := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Mark, fibertest.Marking{File: gate + ".begun", Line: "x", Gate: gate}, see)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, gate+".begun")) == 1 }, "it begins")
	killBusy(t, pool)
	fibertest.OpenGate(t, gate)
	_, err = f.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, fiber.Progress{Done: 1, Retried: 1, Total: 1, Lost: 1, Over: true}, seen[len(seen)-1])
}

// killBusy kills the only worker that has something to do.
func killBusy(t *testing.T, pool *fiber.Pool) {
	for _, w := range pool.Stats().Processes {
		for _, c := range fiber.ActiveChildren() {
			if w.Tasks > 0 && c.Name() == w.Name {
				require.NoError(t, c.Kill())
			}
		}
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().WorkersLost == 1 }, "it is lost")
}

func TestClose(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Nap, fibertest.SlicesOf(30*time.Millisecond, 20))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(pool.Close)
	}
	wg.Wait()
	require.True(t, f.Ready(), "Close did not wait for what was running")
	outs, err := f.Get(fibertest.Soon(t))
	require.NoError(t, err, "Close did not finish what was running")
	require.Len(t, outs, 20)
	for _, pid := range outs {
		require.False(t, fibertest.Running(pid), "a worker is left")
	}
	pool.Close()

	_, err = fiber.Apply(fibertest.Soon(t), pool, fibertest.Square, 1)
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(3))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Square, 1).Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(3)).Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	n := 0
	for _, err := range fiber.IMap(fibertest.Soon(t), pool, fibertest.Square, func(yield func(int) bool) { yield(1) }) {
		require.ErrorIs(t, err, fiber.ErrClosed)
		n++
	}
	require.Equal(t, 1, n)
	require.ErrorIs(t, pool.Resize(fibertest.Soon(t), 2), fiber.ErrClosed)
	require.ErrorIs(t, pool.WaitUntilWorkersUp(fibertest.Soon(t)), fiber.ErrClosed)
	pool.Terminate()
}

func TestCloseFromACallback(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	closed := make(chan struct{})
	fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Square, 2).OnDone(func(int, error) { pool.Close(); close(closed) })
	select {
	case <-closed:
	case <-time.After(fibertest.Patience):
		t.Fatal("Close hangs")
	}
}

func TestTerminate(t *testing.T) {
	t.Parallel()
	unused := fibertest.NewPool(t, 2)
	unused.Terminate()
	unused.Terminate()
	unused.Close()
	_, err := fiber.Apply(fibertest.Soon(t), unused, fibertest.Square, 1)
	require.ErrorIs(t, err, fiber.ErrClosed)

	pool := fibertest.NewPool(t, 3)
	fibertest.Warm(t, pool)
	pids, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Nap, fibertest.SlicesOf(100*time.Millisecond, 3))
	require.NoError(t, err)
	f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Nap, fibertest.SlicesOf(time.Hour, 5))
	a := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Rest, time.Hour)
	pool.Terminate()
	_, err = f.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	_, err = a.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
	for _, pid := range pids {
		require.False(t, fibertest.Running(pid))
	}

	// While its workers start.
	pool = fibertest.NewPool(t, 3, fiber.WithInitializer(initialize, "slow"))
	f2 := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Square, 2)
	pool.Terminate()
	_, err = f2.Get(fibertest.Soon(t))
	require.ErrorIs(t, err, fiber.ErrClosed)
}

func TestManyGoroutinesWaitForOneFuture(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2)
	f, g := fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Rest, 100*time.Millisecond), fiber.ApplyAsync(fibertest.Soon(t), pool, fibertest.Square, 7)
	var wg sync.WaitGroup
	var calls atomic.Int64
	for range 20 {
		f.OnDone(func(int, error) { calls.Add(1) })
	}
	for range 50 {
		wg.Go(func() {
			pid, err := f.Get(fibertest.Soon(t))
			if err != nil || pid == 0 {
				t.Error(pid, err)
			}
			<-f.Done()
			if out, err := g.Get(fibertest.Soon(t)); err != nil || out != 49 || !g.Ready() {
				t.Error(out, err)
			}
		})
	}
	short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := f.Get(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	wg.Wait()
	fibertest.Eventually(t, fibertest.Patience, func() bool { return calls.Load() == 20 }, "every callback is called once")
	done := make(chan int, 1)
	g.OnDone(func(out int, _ error) { done <- out })
	require.Equal(t, 49, <-done)
}

func TestManyRounds(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 5)
	for round := range 1000 {
		var fs [5]*fiber.Future[int]
		for i := range fs {
			fs[i] = fiber.ApplyAsync(context.Background(), pool, fibertest.Square, round*5+i)
		}
		for i, f := range fs {
			out, err := f.Get(fibertest.Soon(t))
			require.NoError(t, err)
			require.Equal(t, (round*5+i)*(round*5+i), out)
		}
	}
	require.Equal(t, 5000, pool.Stats().Done)
}

func TestManyGoroutinesUseAPool(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 4)
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for round := range 10 {
				outs, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Square, fibertest.Numbers(g*10+round))
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
	pool := fibertest.NewPool(t, 2)
	fibertest.Warm(t, pool)
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	defer cancel()
	const tasks = 100_000
	long := fiber.MapAsync(ctx, pool, fibertest.Rest, fibertest.SlicesOf(10*time.Millisecond, tasks))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().Done > 10 }, "the long one runs")
	_, err := fiber.Map(fibertest.Soon(t), pool, fibertest.Rest, fibertest.SlicesOf(10*time.Millisecond, 4))
	require.NoError(t, err)
	require.Less(t, pool.Stats().Done, tasks/2, "the long one came first")
	require.False(t, long.Ready())
}

func TestIdlePoolAnswers(t *testing.T) {
	t.Parallel()
	if fibertest.Alone(t) { // with the heartbeats of every program
		return
	}
	pool := fibertest.NewPool(t, 2)
	fibertest.Warm(t, pool)
	workers := func() (ids []string) {
		for _, w := range pool.Stats().Processes {
			ids = append(ids, w.ID)
		}
		return ids
	}
	before := workers()
	d := 75 * time.Second
	if testing.Short() {
		d = 12 * time.Second
	}
	time.Sleep(d)
	fibertest.Together(t, pool, 2)
	require.Equal(t, before, workers(), "workers were replaced")
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	var n int
	_, err := fmt.Sscan(s, &n)
	require.NoError(t, err)
	return n
}
