//go:build unix

package waits_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
	"github.com/fiber-go/fiber/test/fibertest"
)

// queue is what all queues have in common.
type queue interface {
	Get(context.Context) ([]byte, error)
	GetMany(context.Context, int) ([][]byte, error)
	Items(context.Context) iter.Seq2[[]byte, error]
	Len(context.Context) (int, error)
	Put(context.Context, []byte) error
	PutMany(context.Context, [][]byte) error
	TryGet(context.Context) ([]byte, bool, error)
	TryPut(context.Context, []byte) (bool, error)
}

// ofQueues are the rows that all queues have in common. newOne makes a queue with
// a capacity, which may be 0.
func ofQueues(typ string, at func(*testing.T) *stage, newOne func(*testing.T, *stage, ...fiber.QueueOption) queue) []row {
	of := func(method, how string, k kind, make func(*testing.T, *stage) queue, call func(context.Context, queue, []byte) error) row {
		return row{name: typ + "." + method, how: how, kind: k, at: at, make: func(t *testing.T, s *stage) trial {
			q := make(t, s)
			return trial{call: func(ctx context.Context) error { return call(ctx, q, s.value()) },
				state: func(ctx context.Context) (any, error) { return q.Len(ctx) }}
		}}
	}
	empty := func(t *testing.T, s *stage) queue { return newOne(t, s) }
	filled := func(t *testing.T, s *stage) queue {
		q := newOne(t, s)
		require.NoError(t, q.PutMany(fibertest.Soon(t), [][]byte{nil, nil}))
		return q
	}
	full := func(t *testing.T, s *stage) queue {
		q := newOne(t, s, fiber.WithCapacity(1))
		require.NoError(t, q.Put(fibertest.Soon(t), nil))
		return q
	}
	get := func(ctx context.Context, q queue, _ []byte) error { return only(q.Get(ctx)) }
	getMany := func(ctx context.Context, q queue, _ []byte) error { return only(q.GetMany(ctx, 2)) }
	put := func(ctx context.Context, q queue, v []byte) error { return q.Put(ctx, v) }
	putMany := func(ctx context.Context, q queue, v []byte) error { return q.PutMany(ctx, [][]byte{v, v}) }
	return []row{
		of("Get", "empty", waits, empty, get),
		of("Get", "filled", asks, filled, get),
		of("GetMany", "empty", waits, empty, getMany),
		of("GetMany", "filled", asks, filled, getMany),
		of("Items", "empty", waits, empty, func(ctx context.Context, q queue, _ []byte) error { return next(q.Items(ctx)) }),
		of("Len", "", asks, filled, func(ctx context.Context, q queue, _ []byte) error { return only(q.Len(ctx)) }),
		of("Put", "full", waitsWith, full, put),
		of("Put", "empty", carries, empty, put),
		of("PutMany", "full", waitsWith, full, putMany),
		of("PutMany", "empty", carries, empty, putMany),
		of("TryGet", "filled", asks, filled, func(ctx context.Context, q queue, _ []byte) error { return two(q.TryGet(ctx)) }),
		of("TryPut", "empty", carries, empty, func(ctx context.Context, q queue, v []byte) error { return only(q.TryPut(ctx, v)) }),
	}
}

type joinable = fiber.JoinableQueue[[]byte]

// ofJoinable is a row about a queue with one item, which has been taken out.
func ofJoinable(method string, k kind, call func(*joinable, context.Context) error) row {
	return object("JoinableQueue."+method, k, func(ctx context.Context, m *fiber.Manager) (*joinable, error) {
		q, err := fiber.NewJoinableQueue[[]byte](ctx, m)
		if err != nil {
			return nil, err
		}
		if err := q.Put(ctx, nil); err != nil {
			return nil, err
		}
		return q, only(q.Get(ctx))
	}, func(q *joinable, _ *stage) func(context.Context) error {
		return func(ctx context.Context) error { return call(q, ctx) }
	}, nil)
}

var queues = slices.Concat(
	ofQueues("Queue", onManager, func(t *testing.T, s *stage, opts ...fiber.QueueOption) queue {
		return fibertest.Sure(fiber.NewQueue[[]byte](fibertest.Soon(t), s.m, opts...))(t)
	}),
	ofQueues("JoinableQueue", onManager, func(t *testing.T, s *stage, opts ...fiber.QueueOption) queue {
		return fibertest.Sure(fiber.NewJoinableQueue[[]byte](fibertest.Soon(t), s.m, opts...))(t)
	}),
	[]row{
		ofJoinable("Join", waits, (*joinable).Join),
		ofJoinable("TaskDone", asks, (*joinable).TaskDone),
	})
