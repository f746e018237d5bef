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

// own is a value that a worker has made.
type own struct {
	Worker string
	Value  *fiber.Shared[[]byte]
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
			o.Worker = worker(ctx)
			o.Value, err = fiber.Share(ctx, make([]byte, in.Bytes))
		}
		return o, err
	})

	// where returns its worker.
	where = fiber.Register("where", func(ctx context.Context, n near) (string, error) {
		if n.Until != nil {
			if err := n.Began.Set(ctx); err != nil {
				return "", err
			}
			if err := n.Until.Wait(ctx); err != nil {
				return "", err
			}
		}
		for _, v := range n.Values {
			if !n.Get {
				break
			}
			if _, err := v.Get(ctx); err != nil {
				return "", err
			}
		}
		return worker(ctx), nil
	})

	whereOne = fiber.Register("whereOne", func(ctx context.Context, _ *fiber.Shared[[]byte]) (string, error) { return worker(ctx), nil })

	// whereSecond kills its worker at the first attempt.
	whereSecond = fiber.Register("whereSecond", func(ctx context.Context, at own) (string, error) {
		if worker(ctx) == at.Worker {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			<-ctx.Done()
		}
		return worker(ctx), nil
	})
)

// worker returns the worker that runs a task.
func worker(ctx context.Context) string {
	task, _ := fiber.TaskFromContext(ctx)
	return task.Worker
}

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
			runs := func(n near) string { return fibertest.Sure(fiber.Apply(fibertest.Soon(t), pool, where, n))(t) }
			var fetched []*fiber.Shared[[]byte]
			for range 3 {
				for _, m := range made {
					require.Equal(t, m.Worker, runs(near{Values: []*fiber.Shared[[]byte]{m.Value}}))
				}
			}
			for _, m := range made { // it brings another one there
				v := share(t, make([]byte, bytes))
				fetched = append(fetched, v)
				require.Equal(t, m.Worker, runs(near{Values: []*fiber.Shared[[]byte]{v, m.Value}, Get: true}))
			}
			for i, m := range made {
				v, next := fetched[i], made[(i+1)%workers]
				require.Equal(t, m.Worker, runs(near{Values: []*fiber.Shared[[]byte]{v}}))
				require.Equal(t, m.Worker, runs(near{Numbers: make([][]float64, 100), Values: []*fiber.Shared[[]byte]{next.Value, v, m.Value}}),
					"it has two of the three")
			}
			for i, m := range made {
				workers, err := fiber.Map(fibertest.Soon(t), pool, whereOne, fetched[i:i+1])
				require.NoError(t, err)
				require.Equal(t, []string{m.Worker}, workers)
				for worker, err := range fiber.IMap(fibertest.Soon(t), pool, where, only(near{Values: fetched[i : i+1]})) {
					require.NoError(t, err)
					require.Equal(t, m.Worker, worker)
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
	runs := func(n near) string { return fibertest.Sure(fiber.Apply(ctx, pool, where, n))(t) }

	busy := of(0)
	busy.Began, busy.Until = fibertest.Sure(fiber.NewEvent(ctx, m))(t), fibertest.Sure(fiber.NewEvent(ctx, m))(t)
	long := fiber.ApplyAsync(ctx, pool, where, busy)
	require.NoError(t, busy.Began.Wait(ctx))
	for range workers {
		require.NotEqual(t, made[0].Worker, runs(of(0)))
		require.Equal(t, made[1].Worker, runs(of(1)))
	}
	require.NoError(t, busy.Until.Set(ctx))
	require.Equal(t, made[0].Worker, fibertest.Sure(long.Get(ctx))(t))
	require.Equal(t, made[0].Worker, runs(of(0)))

	made[1].Value.Close()
	runs(of(1))

	require.NotEqual(t, made[2].Worker, fibertest.Sure(fiber.Apply(ctx, pool, whereSecond, made[2]))(t))
	require.Equal(t, 1, pool.Stats().WorkersLost, "it has run there first")
	require.NotEqual(t, made[2].Worker, runs(of(2)))
	require.Equal(t, made[0].Worker, runs(of(0)))
}
