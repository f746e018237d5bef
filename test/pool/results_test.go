//go:build unix

package pool_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// partly returns something beside its error: for odd numbers, 10 and more at once, others after a while.
var partly = fiber.Register("partly", func(ctx context.Context, n int) (part, error) {
	if n == 12 {
		panic("no dozen")
	}
	if n < 10 {
		time.Sleep(20 * time.Millisecond)
	}
	if n%2 == 1 {
		return part{N: -n}, errors.New("odd")
	}
	return part{N: n}, nil
})

// anything takes what it gets.
var anything = fiber.Register("anything", func(context.Context, any) (int, error) { return 1, nil })

type part struct{ N int }

func TestResults(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithName("partly"))
	seen := map[int]bool{}
	for r, err := range fiber.Results(fibertest.Soon(t), pool, partly, slices.Values(fibertest.Numbers(40)), fiber.ChunkSize(1)) { // so that each has a time of its own
		require.NoError(t, err)
		require.False(t, seen[r.Index])
		seen[r.Index] = true
		require.Equal(t, r.Index, r.In)
		require.Contains(t, r.Worker, "partly-")
		require.Equal(t, 1, r.Attempts)
		if r.In < 10 {
			require.GreaterOrEqual(t, r.Took, 20*time.Millisecond)
		}
		if failed := r.In%2 == 1 || r.In == 12; failed {
			var task *fiber.TaskError
			require.ErrorAs(t, r.Err, &task)
			require.Equal(t, r.Index, task.Index)
			require.Equal(t, r.Worker, task.Worker)
		} else {
			require.NoError(t, r.Err)
		}
		switch {
		case r.In == 12:
			require.Zero(t, r.Out)
		case r.In%2 == 1:
			require.Equal(t, part{-r.In}, r.Out, "what is returned beside an error")
		default:
			require.Equal(t, part{r.In}, r.Out)
		}
	}
	require.Len(t, seen, 40)
	for out, err := range fiber.IMap(fibertest.Soon(t), pool, partly, slices.Values([]int{11})) {
		require.Error(t, err)
		require.Zero(t, out)
	}

	// The error of the call comes last.
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	n := 0
	var last error
	for r, err := range fiber.Results(ctx, pool, partly, slices.Values(fibertest.Numbers(10_000))) {
		if last = err; err == nil {
			require.NotZero(t, r.Worker)
		}
		if n++; n == 5 {
			cancel()
		}
	}
	cancel()
	require.Equal(t, context.Canceled, last)
	for _, err := range fiber.Results(fibertest.Soon(t), pool, partly, nil) {
		require.EqualError(t, err, "fiber: Results: the input is nil")
	}
	for r, err := range fiber.Results(fibertest.Soon(t), fibertest.NewPool(t, 1, fiber.WithMaxAttempts(2)), fibertest.Exit, slices.Values([]int{7})) {
		require.NoError(t, err)
		require.ErrorAs(t, r.Err, new(*fiber.WorkerLostError))
		require.Equal(t, 2, r.Attempts)
		require.Equal(t, 7, r.In)
	}
}

// A task that cannot travel has an attempt of 0 and no worker; one whose output cannot has both.
func TestResultsThatCannotTravel(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1)
	for r, err := range fiber.Results(fibertest.Soon(t), pool, anything, slices.Values([]any{1, make(chan int)})) {
		require.NoError(t, err)
		if r.Index == 0 {
			require.NoError(t, r.Err)
			require.Equal(t, 1, r.Attempts)
			continue
		}
		require.ErrorAs(t, r.Err, new(*fiber.EncodeError))
		require.Zero(t, r.Attempts)
		require.Empty(t, r.Worker)
	}
}
