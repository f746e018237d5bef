//go:build unix

package objects_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestBarrier(t *testing.T) {
	t.Parallel()
	const parties, times = 3, 20
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	in := fibertest.Meeting{Barrier: fibertest.Sure(fiber.NewBarrier(ctx, m, parties))(t), File: fibertest.TempFile(t), Times: times}
	require.Equal(t, parties, fibertest.Sure(in.Barrier.Parties(ctx))(t))
	pool := fibertest.NewPool(t, parties)
	indices := fibertest.Sure(fiber.Map(ctx, pool, fibertest.Meet, slices.Repeat([]fibertest.Meeting{in}, parties), fiber.ChunkSize(1)))(t)
	for i, line := range fibertest.Lines(t, in.File) {
		require.Equal(t, strconv.Itoa(i/parties), line, "somebody went on alone")
	}
	for round := range times {
		require.Equal(t, parties, fibertest.Distinct([]int{indices[0][round], indices[1][round], indices[2][round]}))
	}
	require.Zero(t, fibertest.Sure(in.Barrier.Waiting(ctx))(t))
	require.False(t, fibertest.Sure(in.Barrier.Broken(ctx))(t))
}

// waitingAt has so many goroutines wait at a barrier, and gives what they get.
func waitingAt(t testing.TB, ctx context.Context, b *fiber.Barrier, n int) chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		go func() { _, err := b.Wait(ctx); ended <- err }()
	}
	fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Sure(b.Waiting(fibertest.Soon(t)))(t) == n }, "they wait")
	return ended
}

func TestBrokenBarrier(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	b := fibertest.Sure(fiber.NewBarrier(ctx, m, 3))(t)
	check := func(ended chan error, why string) {
		t.Helper()
		for range cap(ended) {
			err := <-ended
			require.ErrorIs(t, err, fiber.ErrBrokenBarrier)
			require.ErrorContains(t, err, why)
		}
	}
	later := func(why string) {
		t.Helper()
		_, err := b.Wait(ctx)
		require.ErrorIs(t, err, fiber.ErrBrokenBarrier)
		require.ErrorContains(t, err, why)
		require.True(t, fibertest.Sure(b.Broken(ctx))(t))
		require.NoError(t, b.Reset(ctx))
		require.False(t, fibertest.Sure(b.Broken(ctx))(t))
	}

	ended := waitingAt(t, ctx, b, 2)
	require.NoError(t, b.Abort(ctx))
	check(ended, "MainProcess has aborted it")
	later("MainProcess has aborted it")

	ended = waitingAt(t, ctx, b, 2)
	require.NoError(t, b.Reset(ctx))
	check(ended, "it was reset")
	require.False(t, fibertest.Sure(b.Broken(ctx))(t))

	ended = waitingAt(t, ctx, b, 1)
	brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := b.Wait(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	check(ended, "the context of a Wait in MainProcess has ended")
	later("the context of a Wait in MainProcess has ended")

	ended = waitingAt(t, ctx, b, 1)
	_, err = b.Wait(brief) // its context has ended before
	require.ErrorIs(t, err, context.DeadlineExceeded)
	check(ended, "the context of a Wait in MainProcess has ended")
	later("the context of a Wait in MainProcess has ended")

	in := fibertest.Meeting{Barrier: b, File: fibertest.TempFile(t), Stay: true}
	p := fiber.NewProcess(fibertest.Meet, in, fiber.WithName("Victim"))
	require.NoError(t, p.Start(ctx))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return len(fibertest.Lines(t, in.File)) == 1 }, "it has the barrier")
	ended = waitingAt(t, ctx, b, 2)
	p.Kill()
	check(ended, "Victim died")
	later("Victim died")

	// It is as good as new.
	ended = waitingAt(t, ctx, b, 2)
	_, err = b.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

// The error is the same in all processes, and an orderly end breaks nothing.
func TestBarrierOfProcesses(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	in := fibertest.Meeting{Barrier: fibertest.Sure(fiber.NewBarrier(ctx, m, 2))(t), File: fibertest.TempFile(t), Times: 1}
	p := fiber.NewProcess(fibertest.Meet, in)
	require.NoError(t, p.Start(ctx))
	_, err := in.Barrier.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, p.Join(ctx))
	require.False(t, fibertest.Sure(in.Barrier.Broken(ctx))(t))

	require.NoError(t, in.Barrier.Abort(ctx))
	_, err = fiber.Apply(ctx, fibertest.NewPool(t, 1), fibertest.Meet, in)
	require.ErrorIs(t, err, fiber.ErrBrokenBarrier)
}
