//go:build unix

package fiber_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

type signals struct{ Ready, Go *fiber.Event }

var awaitEvent = fiber.Register("awaitEvent", func(ctx context.Context, s signals) (none, error) {
	if err := s.Ready.Set(ctx); err != nil {
		return none{}, err
	}
	return none{}, s.Go.Wait(ctx)
})

func TestEvent(t *testing.T) {
	t.Parallel()
	m, ctx := newManager(t), soon(t)
	s := signals{sure(fiber.NewEvent(ctx, m))(t), sure(fiber.NewEvent(ctx, m))(t)}
	require.False(t, sure(s.Go.IsSet(ctx))(t))
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Go.Wait(brief), context.DeadlineExceeded)

	pool := newPool(t, 1)
	f := fiber.ApplyAsync(ctx, pool, awaitEvent, s)
	require.NoError(t, s.Ready.Wait(ctx))
	require.False(t, f.Ready())
	require.NoError(t, s.Go.Set(ctx))
	_, err := f.Get(ctx)
	require.NoError(t, err)

	require.True(t, sure(s.Go.IsSet(ctx))(t))
	require.NoError(t, s.Go.Wait(ctx))
	require.NoError(t, s.Go.Clear(ctx))
	require.False(t, sure(s.Go.IsSet(ctx))(t))
	require.NoError(t, s.Go.Set(ctx))

	// What a process said stays said.
	p := fiber.NewProcess(die, 9)
	require.NoError(t, p.Start(ctx))
	require.Error(t, p.Join(ctx))
	require.True(t, sure(s.Ready.IsSet(ctx))(t))
}
