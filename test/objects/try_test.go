//go:build unix

package objects_test

import (
	"context"
	"io"
	"iter"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// intQueue is a queue of either sort.
type intQueue interface {
	Put(ctx context.Context, v int) error
	TryPut(ctx context.Context, v int) (bool, error)
	Get(ctx context.Context) (int, error)
	TryGet(ctx context.Context) (int, bool, error)
	Items(ctx context.Context) iter.Seq2[int, error]
	Close() error
}

func queuesOfTwo(t *testing.T) map[string]intQueue {
	m := fibertest.NewManager(t)
	return map[string]intQueue{
		"here":         fibertest.Sure(fiber.NewSimpleQueue[int](fiber.WithCapacity(2)))(t),
		"in a manager": fibertest.Sure(fiber.NewQueue[int](fibertest.Soon(t), m, fiber.WithCapacity(2)))(t),
		"joinable":     fibertest.Sure(fiber.NewJoinableQueue[int](fibertest.Soon(t), m, fiber.WithCapacity(2)))(t),
	}
}

// TryPut and TryGet say whether there was room, or an item.
func TestTry(t *testing.T) {
	t.Parallel()
	for where, q := range queuesOfTwo(t) {
		t.Run(where, func(t *testing.T) {
			ctx := fibertest.Soon(t)
			_, ok, err := q.TryGet(ctx)
			require.NoError(t, err)
			require.False(t, ok)
			for i, want := range []bool{true, true, false} {
				ok, err := q.TryPut(ctx, i)
				require.NoError(t, err)
				require.Equal(t, want, ok, i)
			}
			for i := range 2 {
				v, ok, err := q.TryGet(ctx)
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, i, v)
			}
			// A Get that waits comes before a TryGet.
			got := make(chan int)
			go func() { got <- fibertest.Sure(q.Get(ctx))(t) }()
			require.Equal(t, 7, func() int {
				for i := 7; ; runtime.Gosched() {
					fibertest.Sure(q.TryPut(ctx, i))(t)
					select {
					case v := <-got:
						return v
					default:
					}
				}
			}())
			for ok := true; ok; {
				_, ok, err = q.TryGet(ctx)
				require.NoError(t, err)
			}
			require.NoError(t, q.Put(ctx, 8))
			require.NoError(t, q.Close())
			_, err = q.TryPut(ctx, 9)
			require.ErrorIs(t, err, fiber.ErrClosed)
			v, ok, err := q.TryGet(ctx)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, 8, v)
			_, _, err = q.TryGet(ctx)
			require.ErrorIs(t, err, fiber.ErrClosed)
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, _, err = q.TryGet(ended)
			require.Equal(t, context.Canceled, err)
		})
	}
}

// Items goes through a queue until it is closed. What it has not returned stays there.
func TestItems(t *testing.T) {
	t.Parallel()
	for where, q := range queuesOfTwo(t) {
		t.Run(where, func(t *testing.T) {
			ctx := fibertest.Soon(t)
			go func() {
				for i := range 10 {
					_ = q.Put(ctx, i)
				}
				_ = q.Close()
			}()
			next := 0
			for range 2 { // the second time from where the first one was left
				for i, err := range q.Items(ctx) {
					require.NoError(t, err)
					require.Equal(t, next, i)
					if next++; next == 5 {
						break
					}
				}
			}
			require.Equal(t, 10, next)
			for range q.Items(ctx) {
				t.Fatal("an item of a queue that is closed and empty")
			}
		})
	}
	ctx, cancel := context.WithCancel(fibertest.Soon(t))
	cancel()
	var errs []error
	for _, err := range fibertest.Sure(fiber.NewSimpleQueue[int]())(t).Items(ctx) {
		errs = append(errs, err)
	}
	require.Equal(t, []error{context.Canceled}, errs)
}

func TestTryRecv(t *testing.T) {
	t.Parallel()
	ctx := fibertest.Soon(t)
	a, b, err := fiber.Pipe[int]()
	require.NoError(t, err)
	r, s, err := fiber.PipeOneWay[int]()
	require.NoError(t, err)
	for name, pipe := range map[string]struct {
		in interface {
			Send(context.Context, int) error
			Close() error
		}
		out interface {
			TryRecv(context.Context) (int, bool, error)
			Items(context.Context) iter.Seq2[int, error]
		}
	}{"two-way": {a, b}, "one-way": {s, r}} {
		_, ok, err := pipe.out.TryRecv(ctx)
		require.NoError(t, err, name)
		require.False(t, ok, name)
		for i := range 3 {
			require.NoError(t, pipe.in.Send(ctx, i))
		}
		for ok := false; !ok; runtime.Gosched() {
			var v int
			v, ok, err = pipe.out.TryRecv(ctx)
			require.NoError(t, err, name)
			require.Zero(t, v, name)
		}
		require.NoError(t, pipe.in.Close())
		next := 1
		for i, err := range pipe.out.Items(ctx) {
			require.NoError(t, err, name)
			require.Equal(t, next, i, name)
			next++
		}
		require.Equal(t, 3, next, name)
		_, _, err = pipe.out.TryRecv(ctx)
		require.Equal(t, io.EOF, err, name)
	}
}
