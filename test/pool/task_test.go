//go:build unix

package pool_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

type seenTask struct {
	fiber.TaskInfo
	OK   bool
	Left time.Duration // until the context's deadline, 0 for none
	PID  int
}

// seesTask says which task it is. For a file, it does so at its second attempt, and its worker dies at the first.
var seesTask = fiber.Register("seesTask", func(ctx context.Context, file string) (s seenTask, err error) {
	if file != "" {
		if err := (fibertest.Marking{File: file, Line: "begun"}).Append(); err != nil {
			return s, err
		}
		if s.TaskInfo, _ = fiber.TaskFromContext(ctx); s.Attempt == 1 {
			<-ctx.Done()
		}
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, seenTask{}, 1)) // derived
	defer cancel()
	s.TaskInfo, s.OK = fiber.TaskFromContext(ctx)
	if until, ok := ctx.Deadline(); ok {
		s.Left = time.Until(until)
	}
	return s, nil
})

// saysWhy notes why its context has ended.
var saysWhy = fiber.Register("saysWhy", func(ctx context.Context, file string) (int, error) {
	if err := (fibertest.Marking{File: file, Line: "begun"}).Append(); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, fibertest.Marking{File: file, Line: fmt.Sprintf("%t", ctx.Err() == context.DeadlineExceeded)}.Append()
})

func TestTaskFromContext(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithName("seeing"))
	ctx := t.Context()
	outs := fibertest.Sure(fiber.Map(ctx, pool, seesTask, make([]string, 300)))(t)
	for i, s := range outs {
		require.True(t, s.OK)
		require.Contains(t, s.Worker, "seeing-")
		require.Equal(t, fiber.TaskInfo{Func: "seesTask", Index: i, Attempt: 1, Worker: s.Worker, Pool: "seeing"}, s.TaskInfo)
		require.Zero(t, s.Left)
	}
	i := 0
	for s, err := range fiber.IMap(ctx, pool, seesTask, slices.Values(make([]string, 50))) {
		require.NoError(t, err)
		require.Equal(t, i, s.Index)
		i++
	}

	// The deadline is the caller's or the Timeout's, whichever is first.
	hour, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	s := fibertest.Sure(fiber.Apply(hour, pool, seesTask, ""))(t)
	require.InDelta(t, time.Hour, s.Left, float64(10*time.Minute))
	s = fibertest.Sure(fiber.Apply(hour, pool, seesTask, "", fiber.Timeout(3*time.Hour)))(t)
	require.InDelta(t, time.Hour, s.Left, float64(10*time.Minute))
	s = fibertest.Sure(fiber.Apply(hour, pool, seesTask, "", fiber.Timeout(30*time.Minute)))(t)
	require.InDelta(t, 30*time.Minute, s.Left, float64(10*time.Minute))

	far, cancel := context.WithTimeout(ctx, math.MaxInt64)
	defer cancel()
	require.True(t, fibertest.Sure(fiber.Apply(far, pool, seesTask, "", fiber.Timeout(math.MaxInt64)))(t).OK)

	why := fibertest.TempFile(t)
	for d := 100 * time.Millisecond; len(fibertest.Lines(t, why)) == 0; d *= 2 { // until it has begun in time
		soon, cancel := context.WithTimeout(ctx, d)
		_, err := fiber.Apply(soon, pool, saysWhy, why)
		require.Equal(t, context.DeadlineExceeded, err)
		cancel()
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, why))%2 == 0 }, "the function returns")
	require.NotContains(t, fibertest.Lines(t, why), "false")

	file := fibertest.TempFile(t)
	f := fiber.ApplyAsync(ctx, pool, seesTask, file)
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "it begins")
	killBusy(t, pool)
	s = fibertest.Sure(f.Get(ctx))(t)
	require.Equal(t, 2, s.Attempt)

	_, ok := fiber.TaskFromContext(ctx)
	require.False(t, ok)
	s = fibertest.Sure(seesTask.Call(ctx, ""))(t)
	require.False(t, s.OK)
}
