//go:build unix

package objects_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// job is queues, and how many items to take from the first to the second.
type job struct {
	From  *fiber.JoinableQueue[int]
	To    *fiber.Queue[int]
	Count int
	Done  bool
}

var work = fiber.Register("work", func(ctx context.Context, j job) (fibertest.None, error) {
	for range j.Count {
		n, err := j.From.Get(ctx)
		if err != nil {
			return fibertest.None{}, err
		}
		if err := j.To.Put(ctx, n*n); err != nil {
			return fibertest.None{}, err
		}
		if !j.Done {
			continue
		}
		if err := j.From.TaskDone(ctx); err != nil {
			return fibertest.None{}, err
		}
	}
	if !j.Done {
		<-ctx.Done()
	}
	return fibertest.None{}, nil
})

func TestManagedQueues(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	j := job{fibertest.Sure(fiber.NewJoinableQueue[int](ctx, m))(t), fibertest.Sure(fiber.NewQueue[int](ctx, m))(t), 10, true}
	require.NoError(t, j.From.PutMany(ctx, fibertest.Numbers(20)))
	require.Equal(t, 20, fibertest.Sure(j.From.Len(ctx))(t))
	joined := make(chan error, 1)
	go func() { joined <- j.From.Join(ctx) }()
	require.Empty(t, joined)
	pool := fibertest.NewPool(t, 2)
	fibertest.Sure(fiber.Map(ctx, pool, work, []job{j, j}, fiber.ChunkSize(1)))(t)
	require.NoError(t, <-joined)
	squares := fibertest.Sure(j.To.GetMany(ctx, 100))(t)
	slices.Sort(squares)
	require.Len(t, squares, 20)
	require.Equal(t, 361, squares[19])
	require.ErrorContains(t, j.From.TaskDone(ctx), "TaskDone was called more often")
	require.NoError(t, j.From.Join(ctx))

	_, err := fiber.NewQueue[int](ctx, m, fiber.WithCapacity(0))
	require.ErrorContains(t, err, "WithCapacity(0)")
	q := fibertest.Sure(fiber.NewQueue[int](ctx, m, fiber.WithCapacity(1)))(t)
	require.NoError(t, q.Put(ctx, 1))
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Put(brief, 2), context.DeadlineExceeded)
	require.Equal(t, 1, fibertest.Sure(q.Get(ctx))(t))
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Put(ctx, 1), fiber.ErrClosed)
	require.NoError(t, q.Close())
}

// A joinable queue can be handed out as a queue to those who only put.
func TestJoinableQueueAsAQueue(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	q := fibertest.Sure(fiber.NewJoinableQueue[int](ctx, m))(t)
	pool := fibertest.NewPool(t, 1)
	fibertest.Sure(fiber.Apply(ctx, pool, putOne, &q.Queue))(t)
	require.Equal(t, 1, fibertest.Sure(q.Get(ctx))(t))
	require.NoError(t, errors.Join(q.TaskDone(ctx), q.Join(ctx)))
}

var putOne = fiber.Register("putOne", func(ctx context.Context, q *fiber.Queue[int]) (fibertest.None, error) {
	return fibertest.None{}, q.Put(ctx, 1)
})

// What a dead process has got nobody deals with, and Join says so.
func TestJoinAfterADeath(t *testing.T) {
	t.Parallel()
	m, ctx := fibertest.NewManager(t), fibertest.Soon(t)
	j := job{fibertest.Sure(fiber.NewJoinableQueue[int](ctx, m))(t), fibertest.Sure(fiber.NewQueue[int](ctx, m))(t), 3, false}
	require.NoError(t, j.From.PutMany(ctx, fibertest.Numbers(4)))
	p := fiber.NewProcess(work, j)
	require.NoError(t, p.Start(ctx))
	for range 3 {
		fibertest.Sure(j.To.Get(ctx))(t)
	}
	joined := make(chan error, 1)
	go func() { joined <- j.From.Join(ctx) }()
	p.Kill()
	fibertest.Sure(j.From.Get(ctx))(t)
	require.NoError(t, j.From.TaskDone(ctx))
	err := <-joined
	require.ErrorIs(t, err, fiber.ErrAbandoned)
	require.ErrorContains(t, err, "3 of its items")
	require.NoError(t, j.From.Join(ctx), "it is said once")
}
