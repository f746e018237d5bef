//go:build unix

package fiber_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// job is queues, and how many items to take from the first to the second.
type job struct {
	From  *fiber.JoinableQueue[int]
	To    *fiber.Queue[int]
	Count int
	Done  bool
}

var work = fiber.Register("work", func(ctx context.Context, j job) (none, error) {
	for range j.Count {
		n, err := j.From.Get(ctx)
		if err != nil {
			return none{}, err
		}
		if err := j.To.Put(ctx, n*n); err != nil {
			return none{}, err
		}
		if !j.Done {
			continue
		}
		if err := j.From.TaskDone(ctx); err != nil {
			return none{}, err
		}
	}
	if !j.Done {
		<-ctx.Done()
	}
	return none{}, nil
})

func TestManagedQueues(t *testing.T) {
	t.Parallel()
	m, ctx := newManager(t), soon(t)
	j := job{sure(fiber.NewJoinableQueue[int](ctx, m))(t), sure(fiber.NewQueue[int](ctx, m))(t), 10, true}
	require.NoError(t, j.From.PutMany(ctx, numbers(20)))
	require.Equal(t, 20, sure(j.From.Len(ctx))(t))
	joined := make(chan error, 1)
	go func() { joined <- j.From.Join(ctx) }()
	require.Empty(t, joined)
	pool := newPool(t, 2)
	sure(fiber.Map(ctx, pool, work, []job{j, j}, fiber.ChunkSize(1)))(t)
	require.NoError(t, <-joined)
	squares := sure(j.To.GetMany(ctx, 100))(t)
	slices.Sort(squares)
	require.Len(t, squares, 20)
	require.Equal(t, 361, squares[19])
	require.ErrorContains(t, j.From.TaskDone(ctx), "TaskDone was called more often")
	require.NoError(t, j.From.Join(ctx))

	_, err := fiber.NewQueue[int](ctx, m, fiber.WithCapacity(0))
	require.ErrorContains(t, err, "WithCapacity(0)")
	q := sure(fiber.NewQueue[int](ctx, m, fiber.WithCapacity(1)))(t)
	require.NoError(t, q.Put(ctx, 1))
	brief, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	require.ErrorIs(t, q.Put(brief, 2), context.DeadlineExceeded)
	require.Equal(t, 1, sure(q.Get(ctx))(t))
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Put(ctx, 1), fiber.ErrClosed)
	require.NoError(t, q.Close())
}

// A joinable queue can be handed out as a queue to those who only put.
func TestJoinableQueueAsAQueue(t *testing.T) {
	t.Parallel()
	m, ctx := newManager(t), soon(t)
	q := sure(fiber.NewJoinableQueue[int](ctx, m))(t)
	pool := newPool(t, 1)
	sure(fiber.Apply(ctx, pool, putOne, &q.Queue))(t)
	require.Equal(t, 1, sure(q.Get(ctx))(t))
	require.NoError(t, errors.Join(q.TaskDone(ctx), q.Join(ctx)))
}

var putOne = fiber.Register("putOne", func(ctx context.Context, q *fiber.Queue[int]) (none, error) { return none{}, q.Put(ctx, 1) })

// What a dead process has got nobody deals with, and Join says so.
func TestJoinAfterADeath(t *testing.T) {
	t.Parallel()
	m, ctx := newManager(t), soon(t)
	j := job{sure(fiber.NewJoinableQueue[int](ctx, m))(t), sure(fiber.NewQueue[int](ctx, m))(t), 3, false}
	require.NoError(t, j.From.PutMany(ctx, numbers(4)))
	p := fiber.NewProcess(work, j)
	require.NoError(t, p.Start(ctx))
	for range 3 {
		sure(j.To.Get(ctx))(t)
	}
	joined := make(chan error, 1)
	go func() { joined <- j.From.Join(ctx) }()
	p.Kill()
	sure(j.From.Get(ctx))(t)
	require.NoError(t, j.From.TaskDone(ctx))
	err := <-joined
	require.ErrorIs(t, err, fiber.ErrAbandoned)
	require.ErrorContains(t, err, "3 of its items")
	require.NoError(t, j.From.Join(ctx), "it is said once")
}
