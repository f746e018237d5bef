//go:build unix

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// choosy fails for 3, and its worker dies of 4. It fails for 5 at its second attempt,
// and its worker dies at the first. For 6 it passes on the error of a call of its own.
var choosy = fiber.Register("choosy", func(ctx context.Context, in pick) (int, error) {
	switch in.N {
	case 3:
		return 0, errors.New("no three")
	case 4:
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case 5:
		if os.Mkdir(in.File, 0o755) == nil {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return 0, errors.New("no five")
	case 6:
		pool, err := fiber.NewPool(1)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		_, err = fiber.Map(ctx, pool, innerPick, []int{0, 1, 3})
		return 0, fmt.Errorf("inside: %w", err)
	}
	return in.N * in.N, nil
})

var innerPick = fiber.Register("innerPick", func(_ context.Context, n int) (int, error) {
	if n == 3 {
		return 0, fibertest.ErrDiverged
	}
	return n, nil
})

// waitsOrFails fails if it has a line, and else waits for its end.
var waitsOrFails = fiber.Register("waitsOrFails", func(ctx context.Context, m fibertest.Marking) (int, error) {
	if m.Line != "" {
		return 0, errors.New("it fails")
	}
	<-ctx.Done()
	return 1, nil
})

type pick struct {
	N    int
	File string // made by the first attempt
}

// Each failure says which input it was, and of which attempt.
func TestTaskError(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 2, fiber.WithName("picking"))
	ins := make([]pick, 9)
	for i := range ins {
		ins[i].N = 10 + i
	}
	with := func(n int) []pick {
		mine := slices.Clone(ins)
		mine[7] = pick{n, fibertest.TempFile(t)}
		return mine
	}
	for n, attempt := range map[int]int{3: 1, 4: 3, 5: 2, 6: 1} {
		check := func(err error, index int) {
			var task *fiber.TaskError
			require.ErrorAs(t, err, &task)
			require.Equal(t, "choosy", task.Func)
			require.Equal(t, index, task.Index)
			if n == 4 { // a loss beside other tasks is no attempt, and the task may have run
				require.Contains(t, []int{attempt, attempt + 1}, task.Attempt)
			} else {
				require.Equal(t, attempt, task.Attempt, n)
			}
			require.Contains(t, task.Worker, "picking-")
			if n == 4 {
				require.IsType(t, new(fiber.WorkerLostError), task.Err)
			} else {
				require.IsType(t, new(fiber.RemoteError), task.Err)
			}
			require.NotContains(t, err.Error(), "\n")
			if n != 6 {
				return
			}
			require.ErrorIs(t, err, fibertest.ErrDiverged)
			var inner *fiber.TaskError // that the function has returned
			require.ErrorAs(t, task.Err, &inner)
			require.Equal(t, "innerPick", inner.Func)
			require.Equal(t, 2, inner.Index)
		}
		outs, err := fiber.Map(fibertest.Soon(t), pool, choosy, with(n))
		check(err, 7)
		require.ErrorContains(t, err, "fiber: task 7: ")
		require.Equal(t, []int{100, 121, 144, 169, 196, 225, 256}, outs, "the results before it")
		_, err = fiber.MapAsync(fibertest.Soon(t), pool, choosy, with(n)).Get(fibertest.Soon(t))
		check(err, 7)
		_, err = fiber.Apply(fibertest.Soon(t), pool, choosy, with(n)[7])
		check(err, 0)
		require.NotContains(t, err.Error(), "task 0")
		for _, all := range []string{"IMap", "IMapUnordered"} {
			imap := fiber.IMap[pick, int]
			if all == "IMapUnordered" {
				imap = fiber.IMapUnordered[pick, int]
			}
			failed := 0
			for _, err := range imap(fibertest.Soon(t), pool, choosy, slices.Values(with(n))) {
				if err != nil {
					failed++
					check(err, 7)
				}
			}
			require.Equal(t, 1, failed, all)
		}
	}
	// If the call fails as a whole meanwhile, a task before the failed one may not have returned.
	file := fibertest.TempFile(t)
	short := fibertest.NewPool(t, 2)
	f := fiber.MapAsync(fibertest.Soon(t), short, waitsOrFails, []fibertest.Marking{{File: file}, {File: file, Line: "failed"}}, fiber.ChunkSize(1))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return short.Stats().Failed == 1 }, "it fails")
	short.Terminate()
	none, err := f.Get(fibertest.Soon(t))
	require.ErrorContains(t, err, "task 1: ")
	require.Nil(t, none)

	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	cancel()
	outs, err := fiber.Map(ctx, pool, choosy, ins)
	require.Equal(t, context.Canceled, err)
	require.Nil(t, outs)
}
