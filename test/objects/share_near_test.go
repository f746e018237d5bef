//go:build unix

package objects_test

import (
	"context"
	"iter"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// own is a value that a process has made.
type own struct {
	PID   int
	Value *fiber.Shared[[]byte]
}

// near is an argument with values in it.
type near struct {
	Numbers [][]float64
	Values  []*fiber.Shared[[]byte]
	Get     bool
	Until   *fiber.Event // for which the task waits, once it has set Began
	Began   *fiber.Event
}

var (
	// makeOne makes a value of so many bytes, once all the others do so, too.
	makeOne = fiber.Register("makeOne", func(ctx context.Context, in struct {
		All   *fiber.Barrier
		Bytes int
	}) (o own, err error) {
		if _, err = in.All.Wait(ctx); err == nil {
			o.PID = os.Getpid()
			o.Value, err = fiber.Share(ctx, make([]byte, in.Bytes))
		}
		return o, err
	})

	// where returns its process.
	where = fiber.Register("where", func(ctx context.Context, n near) (int, error) {
		if n.Until != nil {
			if err := n.Began.Set(ctx); err != nil {
				return 0, err
			}
			if err := n.Until.Wait(ctx); err != nil {
				return 0, err
			}
		}
		for _, v := range n.Values {
			if !n.Get {
				break
			}
			if _, err := v.Get(ctx); err != nil {
				return 0, err
			}
		}
		return os.Getpid(), nil
	})

	whereOne = fiber.Register("whereOne", func(ctx context.Context, _ *fiber.Shared[[]byte]) (int, error) { return os.Getpid(), nil })
)

// eachOwn has each worker of a pool make a value.
func eachOwn(t *testing.T, pool *fiber.Pool, workers, bytes int) []own {
	t.Helper()
	in := struct {
		All   *fiber.Barrier
		Bytes int
	}{fibertest.Sure(fiber.NewBarrier(fibertest.Soon(t), fibertest.NewManager(t), workers))(t), bytes}
	made, err := fiber.Map(fibertest.Soon(t), pool, makeOne, slices.Repeat([]struct {
		All   *fiber.Barrier
		Bytes int
	}{in}, workers), fiber.ChunkSize(1))
	require.NoError(t, err)
	return made
}

// Of several idle workers, the one runs a task that has made or fetched a shared value to which the task refers.
func TestTaskRunsWhereItsValuesAre(t *testing.T) {
	t.Parallel()
	const workers = 4
	for what, bytes := range map[string]int{"small": 10, "large": 100 << 10} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pool := fibertest.NewPool(t, workers)
			fibertest.Warm(t, pool)
			made := eachOwn(t, pool, workers, bytes)
			runs := func(n near) int { return fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, where, n))(t) }
			var fetched []*fiber.Shared[[]byte]
			for range 3 {
				for _, m := range made {
					require.Equal(t, m.PID, runs(near{Values: []*fiber.Shared[[]byte]{m.Value}}))
				}
			}
			for _, m := range made { // it brings another one there
				v := share(t, make([]byte, bytes))
				fetched = append(fetched, v)
				require.Equal(t, m.PID, runs(near{Values: []*fiber.Shared[[]byte]{v, m.Value}, Get: true}))
			}
			for i, m := range made {
				v, next := fetched[i], made[(i+1)%workers]
				require.Equal(t, m.PID, runs(near{Values: []*fiber.Shared[[]byte]{v}}))
				require.Equal(t, m.PID, runs(near{Numbers: make([][]float64, 100), Values: []*fiber.Shared[[]byte]{next.Value, v, m.Value}}),
					"it has two of the three")
			}
			for i, m := range made {
				pids, err := fiber.Map(fibertest.Soon(t), pool, whereOne, fetched[i:i+1])
				require.NoError(t, err)
				require.Equal(t, []int{m.PID}, pids)
				for pid, err := range fiber.IMap(fibertest.Soon(t), pool, where, only(near{Values: fetched[i : i+1]})) {
					require.NoError(t, err)
					require.Equal(t, m.PID, pid)
				}
			}
		})
	}
}

func only[T any](x T) iter.Seq[T] { return slices.Values([]T{x}) }

// A task does not wait for a worker that has its value while another is idle, and runs where it can when that worker or the value
// has gone.
func TestTaskDoesNotWaitForItsValues(t *testing.T) {
	t.Parallel()
	const workers = 3
	pool := fibertest.NewPool(t, workers)
	fibertest.Warm(t, pool)
	made := eachOwn(t, pool, workers, 100<<10)
	m := fibertest.NewManager(t)
	ctx := fibertest.Soon(t)
	of := func(i int) near { return near{Values: []*fiber.Shared[[]byte]{made[i].Value}} }
	runs := func(n near) int { return fibertest.Sure(fiber.Apply(ctx, pool, where, n))(t) }

	busy := of(0)
	busy.Began, busy.Until = fibertest.Sure(fiber.NewEvent(ctx, m))(t), fibertest.Sure(fiber.NewEvent(ctx, m))(t)
	long := fiber.ApplyAsync(ctx, pool, where, busy)
	require.NoError(t, busy.Began.Wait(ctx))
	for range workers {
		require.NotEqual(t, made[0].PID, runs(of(0)))
		require.Equal(t, made[1].PID, runs(of(1)))
	}
	require.NoError(t, busy.Until.Set(ctx))
	require.Equal(t, made[0].PID, fibertest.Sure(long.Get(ctx))(t))
	require.Equal(t, made[0].PID, runs(of(0)))

	made[1].Value.Close()
	runs(of(1))

	require.NoError(t, syscall.Kill(made[2].PID, syscall.SIGKILL))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return pool.Stats().WorkersLost == 1 }, "the worker was killed")
	require.NotEqual(t, made[2].PID, runs(of(2)))
	require.Equal(t, made[0].PID, runs(of(0)))
}
