//go:build unix

package objects_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

type signals struct{ Ready, Go *fiber.Event }

var awaitEvent = fiber.Register("awaitEvent", func(ctx context.Context, s signals) (fibertest.None, error) {
	if err := s.Ready.Set(ctx); err != nil {
		return fibertest.None{}, err
	}
	return fibertest.None{}, s.Go.Wait(ctx)
})

func TestEvent(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	s := signals{fibertest.Sure(fiber.NewEvent(ctx, m))(t), fibertest.Sure(fiber.NewEvent(ctx, m))(t)}
	require.False(t, fibertest.Sure(s.Go.IsSet(ctx))(t))
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Go.Wait(brief), context.DeadlineExceeded)

	pool := fibertest.NewPool(t, 1)
	f := fiber.ApplyAsync(ctx, pool, awaitEvent, s)
	require.NoError(t, s.Ready.Wait(ctx))
	require.False(t, f.Ready())
	require.NoError(t, s.Go.Set(ctx))
	_, err := f.Get(ctx)
	require.NoError(t, err)

	require.True(t, fibertest.Sure(s.Go.IsSet(ctx))(t))
	require.NoError(t, s.Go.Wait(ctx))
	require.NoError(t, s.Go.Clear(ctx))
	require.False(t, fibertest.Sure(s.Go.IsSet(ctx))(t))
	require.NoError(t, s.Go.Set(ctx))

	// What a process said stays said.
	p := fiber.NewProcess(fibertest.Die, 9)
	require.NoError(t, p.Start(ctx))
	require.Error(t, p.Join(ctx))
	require.True(t, fibertest.Sure(s.Ready.IsSet(ctx))(t))
}
