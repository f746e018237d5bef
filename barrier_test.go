//go:build unix

package fiber_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// meeting is a barrier for processes, and how often they meet.
type meeting struct {
	Barrier *fiber.CyclicBarrier
	File    string
	Times   int
	Stay    bool
}

// meet notes each time that it comes, and gives its indices.
var meet = fiber.Register("meet", func(ctx context.Context, m meeting) ([]int, error) {
	if m.Stay {
		_, err := m.Barrier.Waiting(ctx)
		if err == nil {
			err = (marking{File: m.File, Line: "here"}).append()
		}
		<-ctx.Done()
		runtime.KeepAlive(m)
		return nil, err
	}
	var indices []int
	for i := range m.Times {
		if err := (marking{File: m.File, Line: strconv.Itoa(i)}).append(); err != nil {
			return nil, err
		}
		index, err := m.Barrier.Wait(ctx)
		if err != nil {
			return nil, err
		}
		indices = append(indices, index)
	}
	return indices, nil
})

// together has n tasks of a pool meet, which they do only when all of them run
// at once.
func together(t testing.TB, pool *fiber.Pool, n int) {
	t.Helper()
	m, ctx := newManager(t), soon(t)
	in := meeting{Barrier: sure(fiber.NewBarrier(ctx, m, n))(t), File: tempFile(t), Times: 1}
	_, err := fiber.Map(ctx, pool, meet, slices.Repeat([]meeting{in}, n))
	require.NoError(t, err, "%d tasks never run at once: %+v", n, pool.Stats())
}

func TestBarrier(t *testing.T) {
	t.Parallel()
	const parties, times = 3, 20
	m, ctx := newManager(t), soon(t)
	in := meeting{Barrier: sure(fiber.NewBarrier(ctx, m, parties))(t), File: tempFile(t), Times: times}
	require.Equal(t, parties, sure(in.Barrier.Parties(ctx))(t))
	pool := newPool(t, parties)
	indices := sure(fiber.Map(ctx, pool, meet, slices.Repeat([]meeting{in}, parties), fiber.ChunkSize(1)))(t)
	for i, line := range lines(t, in.File) {
		require.Equal(t, strconv.Itoa(i/parties), line, "somebody went on alone")
	}
	for round := range times {
		require.Equal(t, parties, distinct([]int{indices[0][round], indices[1][round], indices[2][round]}))
	}
	require.Zero(t, sure(in.Barrier.Waiting(ctx))(t))
	require.False(t, sure(in.Barrier.Broken(ctx))(t))
}

// waitingAt has so many goroutines wait at a barrier, and gives what they get.
func waitingAt(t testing.TB, ctx context.Context, b *fiber.CyclicBarrier, n int) chan error {
	t.Helper()
	ended := make(chan error, n)
	for range n {
		go func() { _, err := b.Wait(ctx); ended <- err }()
	}
	eventually(t, patience, func() bool { return sure(b.Waiting(soon(t)))(t) == n }, "they wait")
	return ended
}

func TestBrokenBarrier(t *testing.T) {
	t.Parallel()
	m, ctx := newManager(t), soon(t)
	b := sure(fiber.NewBarrier(ctx, m, 3))(t)
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
		require.True(t, sure(b.Broken(ctx))(t))
		require.NoError(t, b.Reset(ctx))
		require.False(t, sure(b.Broken(ctx))(t))
	}

	ended := waitingAt(t, ctx, b, 2)
	require.NoError(t, b.Abort(ctx))
	check(ended, "MainProcess has aborted it")
	later("MainProcess has aborted it")

	ended = waitingAt(t, ctx, b, 2)
	require.NoError(t, b.Reset(ctx))
	check(ended, "it was reset")
	require.False(t, sure(b.Broken(ctx))(t))

	ended = waitingAt(t, ctx, b, 1)
	brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := b.Wait(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	check(ended, "MainProcess has stopped waiting")
	later("MainProcess has stopped waiting")

	ended = waitingAt(t, ctx, b, 1)
	_, err = b.Wait(brief) // its context has ended before
	require.ErrorIs(t, err, context.DeadlineExceeded)
	check(ended, "MainProcess has aborted it")
	later("")

	in := meeting{Barrier: b, File: tempFile(t), Stay: true}
	p := fiber.NewProcess(meet, in, fiber.ProcessName("Victim"))
	require.NoError(t, p.Start(ctx))
	eventually(t, patience, func() bool { return len(lines(t, in.File)) == 1 }, "it has the barrier")
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
	m, ctx := newManager(t), soon(t)
	in := meeting{Barrier: sure(fiber.NewBarrier(ctx, m, 2))(t), File: tempFile(t), Times: 1}
	p := fiber.NewProcess(meet, in)
	require.NoError(t, p.Start(ctx))
	_, err := in.Barrier.Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, p.Join(ctx))
	require.False(t, sure(in.Barrier.Broken(ctx))(t))

	require.NoError(t, in.Barrier.Abort(ctx))
	_, err = fiber.Apply(ctx, newPool(t, 1), meet, in)
	require.ErrorIs(t, err, fiber.ErrBrokenBarrier)
}
