//go:build linux

package objects_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

type returning struct {
	Ready *fiber.SimpleQueue[int] // a process id, when a queue is about to be returned
	Go    *fiber.SimpleQueue[int] // one for each that may be
}

// returnQueue returns a queue of its process's when it may.
var returnQueue = fiber.Register("returnQueue", func(ctx context.Context, r returning) (*fiber.SimpleQueue[string], error) {
	forgetful()
	q, err := fiber.NewSimpleQueue[string]()
	if err != nil {
		return nil, err
	}
	if err := r.Ready.Put(ctx, os.Getppid()); err != nil {
		return nil, err
	}
	_, err = r.Go.Get(ctx)
	return q, err
})

// useReturned has a worker of its own return a queue, and uses it.
var useReturned = fiber.Register("useReturned", func(ctx context.Context, r returning) (string, error) {
	pool, err := fiber.NewPool(1)
	if err != nil {
		return "", err
	}
	defer pool.Terminate()
	q, err := fiber.Apply(ctx, pool, returnQueue, r)
	if err != nil {
		return "", err
	}
	if err := q.Put(ctx, "it lives"); err != nil {
		return "", err
	}
	return q.Get(ctx)
})

type maker struct{}

var makers = fiber.RegisterType("underway.maker", func(context.Context, fibertest.None) (*maker, error) { return new(maker), nil })

var makeAndReturn = fiber.RegisterMethod("makeAndReturn", func(_ *maker, ctx context.Context, r returning) (*fiber.SimpleQueue[string], error) {
	return returnQueue.Call(ctx, r)
})

// useMade has a manager of its own make a queue, and uses it.
var useMade = fiber.Register("useMade", func(ctx context.Context, r returning) (string, error) {
	m, err := fiber.NewManager(ctx)
	if err != nil {
		return "", err
	}
	defer m.Close()
	o, err := fiber.NewObject(ctx, m, makers, fibertest.None{})
	if err != nil {
		return "", err
	}
	q, err := fiber.Call(ctx, o, makeAndReturn, r)
	if err != nil {
		return "", err
	}
	if err := q.Put(ctx, "it lives"); err != nil {
		return "", err
	}
	return q.Get(ctx)
})

// A queue that is being returned lives however long whoever gets it does not move.
func TestReturnedToAStoppedProcess(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]*fiber.Func[returning, string]{"by a worker": useReturned, "by a method": useMade} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := returning{fibertest.NewQueue[int](t), fibertest.NewQueue[int](t)}
			result := fiber.ApplyAsync(fibertest.Soon(t), fibertest.NewPool(t, 1), use, r)
			root, err := r.Ready.Get(fibertest.Soon(t))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(root, syscall.SIGSTOP))
			fibertest.Eventually(t, fibertest.Patience, func() bool { return fibertest.Stat(root)[0] == "T" }, "it does not stop")
			require.NoError(t, r.Go.Put(fibertest.Soon(t), 1))
			time.Sleep(3 * fibertest.Lapse)
			require.NoError(t, syscall.Kill(root, syscall.SIGCONT))
			said, err := result.Get(fibertest.Soon(t))
			require.NoError(t, err)
			require.Equal(t, "it lives", said)
		})
	}
}

// A worker that is to end waits until what it has returned has arrived.
func TestReturnedByAWorkerThatEnds(t *testing.T) {
	t.Parallel()
	pool := fibertest.NewPool(t, 1, fiber.WithMaxTasksPerChild(1))
	r := returning{fibertest.NewQueue[int](t), fibertest.NewQueue[int](t)}
	for range 2 {
		require.NoError(t, r.Go.Put(fibertest.Soon(t), 1))
		_, err := fiber.Apply(fibertest.Soon(t), pool, returnQueue, r)
		require.NoError(t, err)
	}
}
