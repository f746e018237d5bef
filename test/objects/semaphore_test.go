//go:build unix

package objects_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

func TestSemaphore(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	s := fibertest.Sure(fiber.NewSemaphore(ctx, m, 2))(t)
	require.NoError(t, s.Acquire(ctx))
	require.True(t, fibertest.Sure(s.TryAcquire(ctx))(t))
	require.False(t, fibertest.Sure(s.TryAcquire(ctx))(t))
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Acquire(brief), context.DeadlineExceeded)
	next := make(chan error)
	go func() { next <- s.Acquire(ctx) }()
	require.NoError(t, s.Release(brief), "a context that has ended")
	require.NoError(t, <-next)
	require.Zero(t, fibertest.Sure(s.Permits(ctx))(t))
	for range 5 {
		require.NoError(t, s.Release(ctx))
	}
	require.Equal(t, 5, fibertest.Sure(s.Permits(ctx))(t), "it has no bound")

	b := fibertest.Sure(fiber.NewBoundedSemaphore(ctx, m, 2))(t)
	require.EqualError(t, b.Release(ctx), "fiber: the semaphore has all its permits; call Release once for each Acquire")
	require.NoError(t, b.Acquire(ctx))
	require.NoError(t, b.Release(ctx))
	require.Error(t, b.Release(ctx))
	require.Equal(t, 2, fibertest.Sure(b.Permits(ctx))(t))
	require.Equal(t, errShut, b.With(ctx, func(context.Context) error {
		require.Equal(t, 1, fibertest.Sure(b.Permits(ctx))(t))
		return errShut
	}))
	require.Equal(t, 2, fibertest.Sure(b.Permits(ctx))(t))
}

// gate is what holders of permits share.
type gate struct {
	Permits *fiber.BoundedSemaphore
	Inside  *fiber.Value[int]
	Most    *fiber.Value[int]
	Times   int
	Keep    bool
}

// pass goes in and out so often, or stays.
var pass = fiber.Register("pass", func(ctx context.Context, g gate) (int, error) {
	if g.Keep {
		err := errors.Join(g.Permits.Acquire(ctx), g.Permits.Acquire(ctx))
		if err == nil {
			_, err = g.Inside.Update(ctx, func(n int) (int, error) { return n + 2, nil })
		}
		<-ctx.Done()
		runtime.KeepAlive(g)
		return 0, err
	}
	for range g.Times {
		err := g.Permits.With(ctx, func(ctx context.Context) error {
			n, err := g.Inside.Update(ctx, func(n int) (int, error) { return n + 1, nil })
			if err != nil {
				return err
			}
			_, err1 := g.Most.Update(ctx, func(most int) (int, error) { return max(most, n), nil })
			_, err2 := g.Inside.Update(ctx, func(n int) (int, error) { return n - 1, nil })
			return errors.Join(err1, err2)
		})
		if err != nil {
			return 0, err
		}
	}
	return os.Getpid(), nil
})

func newGate(t testing.TB, m *fiber.Manager, permits int) gate {
	t.Helper()
	ctx := fibertest.Soon(t)
	return gate{fibertest.Sure(fiber.NewBoundedSemaphore(ctx, m, permits))(t), fibertest.Sure(fiber.NewValue(ctx, m, 0))(t), fibertest.Sure(fiber.NewValue(ctx, m, 0))(t), 30, false}
}

func TestSemaphoreBetweenProcesses(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	g := newGate(t, m, 2)
	pool := fibertest.NewPool(t, 4)
	fibertest.Warm(t, pool)
	pids := fibertest.Sure(fiber.Map(ctx, pool, pass, slices.Repeat([]gate{g}, 4), fiber.ChunkSize(1)))(t)
	require.Equal(t, 4, fibertest.Distinct(pids))
	require.LessOrEqual(t, fibertest.Sure(g.Most.Get(ctx))(t), 2)
	require.Equal(t, 2, fibertest.Sure(g.Permits.Permits(ctx))(t))
}

func TestPermitsOfADeadProcess(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	g := newGate(t, m, 3)
	g.Keep = true
	p := fiber.NewProcess(pass, g)
	require.NoError(t, p.Start(ctx))
	fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Sure(g.Inside.Get(ctx))(t) == 2 }, "it has two")
	require.NoError(t, g.Permits.Acquire(ctx))
	next := make(chan error)
	go func() { next <- g.Permits.Acquire(ctx) }()
	p.Kill()
	require.NoError(t, <-next)
	require.Equal(t, 1, fibertest.Sure(g.Permits.Permits(ctx))(t))
	require.NoError(t, errors.Join(g.Permits.Release(ctx), g.Permits.Release(ctx)))
	require.Error(t, g.Permits.Release(ctx))
}

func TestPermitGrantedTooLate(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	s := fibertest.Sure(fiber.NewSemaphore(ctx, m, 1))(t)
	for range 300 {
		require.NoError(t, s.Acquire(ctx))
		brief, cancel := context.WithCancel(ctx)
		waited := make(chan error)
		go func() { waited <- s.Acquire(brief) }()
		go cancel()
		require.NoError(t, s.Release(ctx))
		if <-waited == nil {
			require.NoError(t, s.Release(ctx))
		}
	}
	require.NoError(t, s.Acquire(ctx))
	require.Zero(t, fibertest.Sure(s.Permits(ctx))(t))
}
