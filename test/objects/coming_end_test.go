//go:build unix

package objects_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

type passed struct {
	End *fiber.Conn[int]
	To  *fiber.SimpleQueue[*fiber.Conn[int]]
	PID *fiber.SimpleQueue[int]
}

// passEnd puts an end into a queue and lives on.
var passEnd = fiber.Register("passEnd", func(ctx context.Context, p passed) (fibertest.None, error) {
	if err := p.To.Put(ctx, p.End); err != nil {
		return fibertest.None{}, err
	}
	if err := p.PID.Put(ctx, fibertest.Self()); err != nil {
		return fibertest.None{}, err
	}
	<-ctx.Done()
	return fibertest.None{}, ctx.Err()
})

// An end that has come here is on its way until its last owner has let go of it.
// While that process is stopped, whoever sends the end on waits, until its context
// ends.
func TestEndThatIsStillComing(t *testing.T) {
	t.Parallel()
	a, b := fibertest.NewPipe[int](t)
	to, pids := fibertest.NewQueue[*fiber.Conn[int]](t), fibertest.NewQueue[int](t)
	p := fiber.NewProcess(passEnd, passed{b, to, pids})
	fibertest.Begin(t, p)
	pid, err := pids.Get(fibertest.Soon(t))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	defer syscall.Kill(pid, syscall.SIGCONT)
	end, err := to.Get(fibertest.Soon(t))
	require.NoError(t, err)
	pool := fibertest.NewPool(t, 1)
	onward := fibertest.NewQueue[*fiber.Conn[int]](t)
	forward := fiber.NewProcess(receiveOne, end)
	for name, send := range map[string]func(context.Context) error{
		"Put":   func(ctx context.Context) error { return onward.Put(ctx, end) },
		"Apply": func(ctx context.Context) error { _, err := fiber.Apply(ctx, pool, receiveOne, end); return err },
		"Map": func(ctx context.Context) error {
			_, err := fiber.Map(ctx, pool, receiveOne, []*fiber.Conn[int]{end})
			return err
		},
		"Start": forward.Start,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		require.ErrorIs(t, send(ctx), context.DeadlineExceeded, name)
		cancel()
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	require.NoError(t, forward.Start(fibertest.Soon(t)))
	require.NoError(t, a.Send(fibertest.Soon(t), 7))
	require.NoError(t, forward.Join(fibertest.Soon(t)))
	require.ErrorIs(t, end.Send(fibertest.Soon(t), 1), fiber.ErrClosed)
}

var receiveOne = fiber.Register("receiveOne", func(ctx context.Context, end *fiber.Conn[int]) (int, error) {
	return end.Recv(ctx)
})

// ending ends a context when it is decoded.
type ending struct{}

var endNow atomic.Pointer[context.CancelFunc]

func (ending) MarshalBinary() ([]byte, error) { return nil, nil }
func (ending) UnmarshalBinary([]byte) error {
	(*endNow.Load())()
	return nil
}

// A Get whose context ends when the item is here returns the item: an end of a pipe
// that came with it could not go to anybody else any more.
func TestContextEndsWhenTheItemIsHere(t *testing.T) {
	t.Parallel()
	type item struct {
		End *fiber.Conn[int]

		Now ending
	}
	q, err := fiber.NewQueue[item](fibertest.Soon(t), fibertest.NewManager(t))
	require.NoError(t, err)
	a, b := fibertest.NewPipe[int](t)
	require.NoError(t, q.Put(fibertest.Soon(t), item{End: b}))
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	endNow.Store(&cancel)
	got, err := q.Get(ctx)
	require.NoError(t, err)
	require.Error(t, ctx.Err())
	require.NoError(t, a.Send(fibertest.Soon(t), 7))
	n, err := got.End.Recv(fibertest.Soon(t))
	require.NoError(t, err)
	require.Equal(t, 7, n)
	left, err := q.Len(fibertest.Soon(t))
	require.NoError(t, err)
	require.Zero(t, left)
}
