package fiber

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/custom"
	"github.com/fiber-go/fiber/internal/object/queue"
)

// Queue is like a SimpleQueue, but lives in a manager. Create it with NewQueue.
// It travels as (part of) an argument, a result, or a value of another managed
// object; all copies are the same queue. Its methods may be called from many
// goroutines.
type Queue[T any] struct{ q SimpleQueue[T] }

// NewQueue makes a queue in a manager.
func NewQueue[T any](ctx context.Context, m *Manager, opts ...QueueOption) (*Queue[T], error) {
	capacity, err := queueOf[T]("NewQueue", opts)
	if err != nil {
		return nil, err
	}
	h, err := create(ctx, m, custom.Make, builtin.Making{Kind: builtin.KindQueue, N: capacity})
	if err != nil {
		return nil, err
	}
	return &Queue[T]{*newQueueAt[T](h, capacity > 0)}, nil
}

// Put adds an item; see SimpleQueue.Put.
func (q *Queue[T]) Put(ctx context.Context, v T) error { return q.q.Put(ctx, v) }

// PutMany adds items in their order; see SimpleQueue.PutMany.
func (q *Queue[T]) PutMany(ctx context.Context, vs []T) error { return q.q.PutMany(ctx, vs) }

// Get waits for an item and takes it out of the queue; see SimpleQueue.Get.
func (q *Queue[T]) Get(ctx context.Context) (T, error) { return q.q.Get(ctx) }

// GetMany waits for an item and takes out at most max items; see
// SimpleQueue.GetMany.
func (q *Queue[T]) GetMany(ctx context.Context, max int) ([]T, error) { return q.q.GetMany(ctx, max) }

// Len returns the number of items in the queue.
func (q *Queue[T]) Len(ctx context.Context) (int, error) { return q.q.Len(ctx) }

// Close ends the queue for all processes; see SimpleQueue.Close.
func (q *Queue[T]) Close() error { return q.q.Close() }

// MarshalBinary encodes a reference to the queue.
func (q *Queue[T]) MarshalBinary() ([]byte, error) { return q.q.marshalAs('Q') }

// UnmarshalBinary attaches to the queue that a reference names.
func (q *Queue[T]) UnmarshalBinary(b []byte) error { return q.q.unmarshalAs('Q', "queue", b) }

func (q *Queue[T]) used() (h *handle, name, typ string) { return q.q.used() }

// JoinableQueue is a Queue that knows when its items are finished, not just
// taken out. Create it with NewJoinableQueue.
type JoinableQueue[T any] struct{ Queue[T] }

// NewJoinableQueue makes a joinable queue in a manager.
func NewJoinableQueue[T any](ctx context.Context, m *Manager, opts ...QueueOption) (*JoinableQueue[T], error) {
	q, err := NewQueue[T](ctx, m, opts...)
	if err != nil {
		return nil, err
	}
	return &JoinableQueue[T]{*q}, nil
}

// TaskDone says that an item is finished. Call it once for each item that Get
// returned; a further call is an error.
func (q *JoinableQueue[T]) TaskDone(ctx context.Context) error {
	_, err := ask(ctx, q, queue.Done, 1, nil)
	return err
}

// Join waits until all items that were put are finished. It does not wait for
// the items of a process that died before its TaskDone; it then returns an
// error that is ErrAbandoned and says how many items there were.
func (q *JoinableQueue[T]) Join(ctx context.Context) error {
	lost, err := ask(ctx, q, queue.Join, object.None{}, nil)
	if err == nil && lost > 0 {
		return fmt.Errorf("fiber: the queue: %d of its items were not finished, since the processes that got them died: %w", lost, ErrAbandoned)
	}
	return err
}

// MarshalBinary encodes a reference to the queue.
func (q *JoinableQueue[T]) MarshalBinary() ([]byte, error) { return q.q.marshalAs('J') }

// UnmarshalBinary attaches to the queue that a reference names.
func (q *JoinableQueue[T]) UnmarshalBinary(b []byte) error {
	return q.q.unmarshalAs('J', "joinable queue", b)
}
