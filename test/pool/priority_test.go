//go:build unix

package pool_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// A worker that becomes free goes to the call of the highest priority; equal ones take turns.
func TestPriority(t *testing.T) {
	t.Parallel()
	pool, file, gate := fibertest.NewPool(t, 1), fibertest.TempFile(t), fibertest.TempFile(t)
	call := func(name string, n, priority int, gate string) *fiber.Future[[]int] {
		ins := fibertest.SlicesOf(fibertest.Marking{File: file, Line: name, Nap: 12 * time.Millisecond}, n)
		ins[0].Gate = gate
		return fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Mark, ins, fiber.Priority(priority))
	}
	futures := []*fiber.Future[[]int]{call("low", 8, -1, gate)}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, file)) == 1 }, "the first has not begun")
	futures = append(futures, call("middle", 6, 0, ""), call("equal", 6, 0, ""), call("high", 7, 3, ""))
	fibertest.OpenGate(t, gate)
	for _, f := range futures {
		fibertest.Sure(f.Get(fibertest.Soon(t)))(t)
	}
	lines := fibertest.Lines(t, file)
	require.Equal(t, slices.Concat([]string{"low"}, fibertest.SlicesOf("high", 7)), lines[:8])
	require.Equal(t, fibertest.SlicesOf("low", 7), lines[20:])
	middle := lines[8:20]
	require.Contains(t, middle[:4], "middle")
	require.Contains(t, middle[:4], "equal")
}

// Stats says what workers run.
func TestRunning(t *testing.T) {
	t.Parallel()
	pool, file, gate := fibertest.NewPool(t, 2), fibertest.TempFile(t), fibertest.TempFile(t)
	ins := make([]fibertest.Marking, 4)
	for i := range ins {
		ins[i] = fibertest.Marking{File: file, Line: fmt.Sprint(i), Gate: gate}
	}
	begun := time.Now()
	f := fiber.MapAsync(fibertest.Soon(t), pool, fibertest.Mark, ins)
	var running []fiber.RunningTask
	fibertest.Eventually(t, fibertest.Patience, func() bool {
		running = nil
		for _, w := range pool.Stats().Processes {
			running = append(running, w.Running...)
		}
		return len(running) == 2
	}, "two tasks run")
	slices.SortFunc(running, func(a, b fiber.RunningTask) int { return a.Index - b.Index })
	for i, r := range running {
		require.Equal(t, []any{"mark", i, 1, false}, []any{r.Func, r.Index, r.Tasks, r.Unwanted})
		require.WithinRange(t, r.Since, begun, time.Now())
	}
	fibertest.OpenGate(t, gate)
	fibertest.Sure(f.Get(fibertest.Soon(t)))(t)
	for _, w := range pool.Stats().Processes {
		require.Empty(t, w.Running)
	}
}
