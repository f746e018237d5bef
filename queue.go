package fiber

import (
	"context"
	"fmt"
	"iter"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/object/queue"
)

// Queue is like a SimpleQueue, but lives in a manager. Create it with NewQueue.
// It travels as (part of) an argument, a result, or a value of another managed
// object; all copies are the same queue. Its methods may be called from many
// goroutines.
type Queue[T any] struct{ SimpleQueue[T] }

// NewQueue makes a queue in a manager.
func NewQueue[T any](ctx context.Context, m *Manager, opts ...QueueOption) (*Queue[T], error) {
	capacity, err := queueOf[T]("NewQueue", opts)
	if err != nil {
		return nil, err
	}
	q, err := newObject[Queue[T]](ctx, m, builtin.Making{Kind: builtin.KindQueue, N: capacity})
	if err != nil {
		return nil, err
	}
	q.attached(capacity > 0)
	return q, nil
}

// Put adds an item; see SimpleQueue.Put.
func (q *Queue[T]) Put(ctx context.Context, v T) error { return q.simple().Put(ctx, v) }

// PutMany adds items in their order; see SimpleQueue.PutMany.
func (q *Queue[T]) PutMany(ctx context.Context, vs []T) error { return q.simple().PutMany(ctx, vs) }

// Get waits for an item and takes it out of the queue; see SimpleQueue.Get.
func (q *Queue[T]) Get(ctx context.Context) (T, error) { return q.simple().Get(ctx) }

// GetMany waits for an item and takes it out of the queue, with those behind it;
// see SimpleQueue.GetMany.
func (q *Queue[T]) GetMany(ctx context.Context, max int) ([]T, error) {
	return q.simple().GetMany(ctx, max)
}

// TryPut adds an item if there is room for one now; see SimpleQueue.TryPut.
func (q *Queue[T]) TryPut(ctx context.Context, v T) (bool, error) { return q.simple().TryPut(ctx, v) }

// TryGet takes an item out of the queue if there is one now; see SimpleQueue.TryGet.
func (q *Queue[T]) TryGet(ctx context.Context) (T, bool, error) { return q.simple().TryGet(ctx) }

// Items returns the items of the queue, one after another, until it is closed; see
// SimpleQueue.Items.
func (q *Queue[T]) Items(ctx context.Context) iter.Seq2[T, error] { return q.simple().Items(ctx) }

// Len returns the number of items in the queue; see SimpleQueue.Len.
func (q *Queue[T]) Len(ctx context.Context) (int, error) { return q.simple().Len(ctx) }

// Close ends the queue for all processes; see SimpleQueue.Close.
func (q *Queue[T]) Close() error { return q.simple().Close() }

// MarshalBinary encodes a reference to the queue, which does not keep it alive; see
// Proxy.MarshalBinary.
func (q *Queue[T]) MarshalBinary() ([]byte, error) { return q.simple().marshalAs("Queue") }

// UnmarshalBinary attaches to the queue that a reference names.
func (q *Queue[T]) UnmarshalBinary(b []byte) error { return q.simple().unmarshalAs("Queue", b) }

func (q *Queue[T]) held() (*proxy, string) { return q.simple().held() }

// simple is the queue as a SimpleQueue, nil if it is nil.
func (q *Queue[T]) simple() *SimpleQueue[T] {
	if q == nil {
		return nil
	}
	return &q.SimpleQueue
}

// JoinableQueue is a Queue that knows when its items are finished, not just
// taken out. Create it with NewJoinableQueue.
//
// The items that a process has got and not finished are abandoned when the
// process ends, for whatever reason, or when nothing in it refers to the queue
// any more.
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
// returned, in this process or in another; a further call is an error.
func (q *JoinableQueue[T]) TaskDone(ctx context.Context) error {
	return do(ctx, q, queue.Done, 1)
}

// Join waits until all items that were put are finished. It does not wait for
// those that were abandoned; it then returns an error that is ErrAbandoned and
// says how many there were since a Join last returned.
func (q *JoinableQueue[T]) Join(ctx context.Context) error {
	lost, err := settle(ctx, q, queue.Join, object.None{})
	if err == nil && lost > 0 {
		return fmt.Errorf("fiber: the queue: %d of its items were not finished, since the processes that got them have ended: %w", lost, ErrAbandoned)
	}
	return err
}

// Put adds an item; see SimpleQueue.Put.
func (q *JoinableQueue[T]) Put(ctx context.Context, v T) error { return q.queue().Put(ctx, v) }

// PutMany adds items in their order; see SimpleQueue.PutMany.
func (q *JoinableQueue[T]) PutMany(ctx context.Context, vs []T) error {
	return q.queue().PutMany(ctx, vs)
}

// Get waits for an item and takes it out of the queue; see SimpleQueue.Get.
func (q *JoinableQueue[T]) Get(ctx context.Context) (T, error) { return q.queue().Get(ctx) }

// GetMany waits for an item and takes it out of the queue, with those behind it;
// see SimpleQueue.GetMany.
func (q *JoinableQueue[T]) GetMany(ctx context.Context, max int) ([]T, error) {
	return q.queue().GetMany(ctx, max)
}

// TryPut adds an item if there is room for one now; see SimpleQueue.TryPut.
func (q *JoinableQueue[T]) TryPut(ctx context.Context, v T) (bool, error) {
	return q.queue().TryPut(ctx, v)
}

// TryGet takes an item out of the queue if there is one now; see SimpleQueue.TryGet.
func (q *JoinableQueue[T]) TryGet(ctx context.Context) (T, bool, error) { return q.queue().TryGet(ctx) }

// Items returns the items of the queue, one after another, until it is closed; see
// SimpleQueue.Items.
func (q *JoinableQueue[T]) Items(ctx context.Context) iter.Seq2[T, error] {
	return q.queue().Items(ctx)
}

// Len returns the number of items in the queue; see SimpleQueue.Len.
func (q *JoinableQueue[T]) Len(ctx context.Context) (int, error) { return q.queue().Len(ctx) }

// Close ends the queue for all processes; see SimpleQueue.Close.
func (q *JoinableQueue[T]) Close() error { return q.queue().Close() }

// MarshalBinary encodes a reference to the queue, which does not keep it alive; see
// Proxy.MarshalBinary.
func (q *JoinableQueue[T]) MarshalBinary() ([]byte, error) {
	return q.queue().simple().marshalAs("JoinableQueue")
}

// UnmarshalBinary attaches to the queue that a reference names.
func (q *JoinableQueue[T]) UnmarshalBinary(b []byte) error {
	return q.queue().simple().unmarshalAs("JoinableQueue", b)
}

func (q *JoinableQueue[T]) held() (*proxy, string) { return q.queue().held() }

// queue is the queue as a Queue, nil if it is nil.
func (q *JoinableQueue[T]) queue() *Queue[T] {
	if q == nil {
		return nil
	}
	return &q.Queue
}
