package fiber_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// echoing sends back what it receives until the other end is gone, and gives
// how many items that were.
var echoing = fiber.Register("echoing", func(ctx context.Context, c *fiber.Conn[[]byte]) (int, error) {
	for n := 0; ; n++ {
		b, err := c.Recv(ctx)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if err := c.Send(ctx, b); err != nil {
			return n, err
		}
	}
})

func newPipe[T any](t testing.TB) (a, b *fiber.Conn[T]) {
	t.Helper()
	a, b, err := fiber.Pipe[T]()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func begin(t testing.TB, p *fiber.Process) {
	t.Helper()
	require.NoError(t, p.Start(soon(t)))
	t.Cleanup(func() { p.Kill(); p.Join(soon(t)) })
}

func TestPipeInOneProcess(t *testing.T) {
	t.Parallel()
	a, b := newPipe[string](t)
	require.NoError(t, a.Send(soon(t), "ping"))
	v, err := b.Recv(soon(t))
	require.NoError(t, err)
	require.Equal(t, "ping", v)
	require.NoError(t, b.Send(soon(t), "pong"))
	v, err = a.Recv(soon(t))
	require.NoError(t, err)
	require.Equal(t, "pong", v)
}

func TestPipeToAChild(t *testing.T) {
	t.Parallel()
	a, b := newPipe[[]byte](t)
	p := fiber.NewProcess(echoing, b)
	begin(t, p)
	require.ErrorIs(t, b.Send(soon(t), nil), fiber.ErrClosed)
	for range 1000 {
		require.NoError(t, a.Send(soon(t), []byte("ping")))
		v, err := a.Recv(soon(t))
		require.NoError(t, err)
		require.Equal(t, "ping", string(v))
	}
	require.NoError(t, a.Close())
	require.NoError(t, p.Join(soon(t)))
}
