//go:build unix

package pool_test

import (
	"context"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// heeds runs until its context ends, and notes when it begins and when it ends.
var heeds = fiber.Register("heeds", func(ctx context.Context, file string) (int, error) {
	if err := (fibertest.Marking{File: file, Line: "begun"}).Append(); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, fibertest.Marking{File: file, Line: "ended"}.Append()
})

func TestFutureCancel(t *testing.T) {
	t.Parallel()
	file, pool := fibertest.TempFile(t), fibertest.NewPool(t, 1) // which ends before its directory
	ctx := fibertest.Soon(t)
	f := fiber.ApplyAsync(ctx, pool, heeds, file)
	behind := fiber.MapAsync(ctx, pool, fibertest.Mark, []fibertest.Marking{{File: file, Line: "map"}})
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it begins")
	behind.Cancel()
	_, err := behind.Get(ctx)
	require.Equal(t, context.Canceled, err)
	f.Cancel()
	f.Cancel()
	_, err = f.Get(ctx)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, 9, fibertest.Sure(fiber.Apply(ctx, pool, fibertest.Square, 3))(t))
	require.Equal(t, []string{"begun", "ended"}, fibertest.Lines(t, file))

	done := fiber.ApplyAsync(ctx, pool, fibertest.Square, 2)
	require.Equal(t, 4, fibertest.Sure(done.Get(ctx))(t))
	done.Cancel()
	require.Equal(t, 4, fibertest.Sure(done.Get(ctx))(t), "a result is lost")
	new(fiber.Future[int]).Cancel()
	(*fiber.Future[int])(nil).Cancel()
}

func TestWaitAndAsCompleted(t *testing.T) {
	t.Parallel()
	file, pool := fibertest.TempFile(t), fibertest.NewPool(t, 2) // which ends before its directory
	ctx := fibertest.Soon(t)
	slow := fiber.ApplyAsync(ctx, pool, heeds, file)
	fs := []*fiber.Future[int]{slow, fiber.ApplyAsync(ctx, pool, fibertest.Square, 1), new(fiber.Future[int]), fiber.ApplyAsync(ctx, pool, fibertest.Square, 2)}
	require.Equal(t, []int{1, 2, 3}, fibertest.Sure(fiber.Wait(ctx, 3, fs...))(t))
	require.Equal(t, []int{1, 2, 3}, fibertest.Sure(fiber.Wait(ctx, 0, fs...))(t))
	over, cancel := context.WithCancel(ctx)
	cancel()
	done, err := fiber.Wait(over, 4, fs...)
	require.Equal(t, context.Canceled, err)
	require.Equal(t, []int{1, 2, 3}, done)
	require.Equal(t, []int{1, 2, 3}, fibertest.Sure(fiber.Wait(over, 3, fs...))(t), "as many are done")
	_, err = fiber.Wait(ctx, 5, fs...)
	require.ErrorContains(t, err, "5 of 4 futures")

	var order []int
	for i, err := range fiber.AsCompleted(ctx, fs...) {
		require.NoError(t, err)
		if order = append(order, i); len(order) == 3 {
			slow.Cancel()
		}
	}
	require.Equal(t, 0, order[3])
	require.ElementsMatch(t, []int{0, 1, 2, 3}, order)
	pending := fiber.ApplyAsync(ctx, pool, heeds, file)
	for i, err := range fiber.AsCompleted(over, pending) {
		require.Equal(t, -1, i)
		require.Equal(t, context.Canceled, err)
	}
	for range 20 {
		i := 0
		for at, err := range fiber.AsCompleted(over, fs[1], fs[2], fs[3]) {
			require.NoError(t, err, "a result that is there is lost")
			require.Equal(t, i, at)
			i++
		}
		require.Equal(t, 3, i)
	}
	for range fiber.AsCompleted[int](ctx) {
		t.Error("there is none")
	}
}

// Waiting for futures takes no goroutine for each.
func TestWaitingForManyFutures(t *testing.T) {
	t.Parallel()
	file, pool := fibertest.TempFile(t), fibertest.NewPool(t, 1) // which ends before its directory
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	before := runtime.NumGoroutine()
	const n = 5000
	fs := make([]*fiber.Future[int], n)
	for i := range fs {
		fs[i] = fiber.ApplyAsync(ctx, pool, heeds, file)
	}
	begun, most := make(chan struct{}), make(chan int)
	go func() {
		close(begun)
		var seen []int
		for i := range fiber.AsCompleted(context.Background(), fs...) {
			seen = append(seen, i)
		}
		most <- len(slices.Compact(slices.Sorted(slices.Values(seen))))
	}()
	<-begun
	_, err := fiber.Wait(done(), n, fs...)
	require.Equal(t, context.Canceled, err)
	require.Less(t, runtime.NumGoroutine()-before, n/2)
	cancel()
	require.Equal(t, n, <-most)
}

func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
