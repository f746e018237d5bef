package fiber

import (
	"context"
	"fmt"

	"github.com/fiber-go/fiber/internal/managed"
	"github.com/fiber-go/fiber/internal/queue"
	"github.com/fiber-go/fiber/internal/wire"
)

// Queue is a queue that lives in a manager; else it is like a SimpleQueue,
// which lives in the process that made it. It is made by NewQueue and travels
// as (part of) an argument, a result, or a value of another managed object; all
// copies are the same queue. Any goroutine may use it.
type Queue[T any] struct{ q SimpleQueue[T] }

// NewQueue makes a queue in a manager.
func NewQueue[T any](ctx context.Context, m *Manager, opts ...QueueOption) (*Queue[T], error) {
	if err := travels[T]("NewQueue", "its items"); err != nil {
		return nil, err
	}
	var o queueOptions
	for _, opt := range opts {
		if err := opt.applyQueue(&o); err != nil {
			return nil, err
		}
	}
	h, err := m.make(ctx, managed.KindQueue, uvarints(uint64(o.capacity)))
	if err != nil {
		return nil, err
	}
	return &Queue[T]{*newSimpleQueue[T](h, o.capacity > 0)}, nil
}

// Put adds an item; see SimpleQueue.Put.
func (q *Queue[T]) Put(ctx context.Context, v T) error { return q.q.Put(ctx, v) }

// PutMany adds items in their order; see SimpleQueue.PutMany.
func (q *Queue[T]) PutMany(ctx context.Context, vs []T) error { return q.q.PutMany(ctx, vs) }

// Get waits for an item and takes it out; see SimpleQueue.Get.
func (q *Queue[T]) Get(ctx context.Context) (T, error) { return q.q.Get(ctx) }

// GetMany waits for an item and takes it and those behind it out, at most max;
// see SimpleQueue.GetMany.
func (q *Queue[T]) GetMany(ctx context.Context, max int) ([]T, error) { return q.q.GetMany(ctx, max) }

// Len is the number of items in the queue.
func (q *Queue[T]) Len(ctx context.Context) (int, error) { return q.q.Len(ctx) }

// Close ends the queue for all processes; see SimpleQueue.Close.
func (q *Queue[T]) Close() error { return q.q.Close() }

// MarshalBinary gives the queue's name.
func (q *Queue[T]) MarshalBinary() ([]byte, error) { return q.marshal('Q') }

// UnmarshalBinary attaches to the queue of a name.
func (q *Queue[T]) UnmarshalBinary(b []byte) error { return q.unmarshal(b, 'Q', "queue") }

// Travels tells the codec what travels with the queue.
func (q *Queue[T]) Travels() []any { return q.q.Travels() }

func (q *Queue[T]) marshal(mark byte) ([]byte, error) {
	if q.q.h == nil {
		return nil, fmt.Errorf("fiber: the queue: %w", errEmptyHandle)
	}
	return q.q.h.marshal(mark, bit(q.q.c.bounded))
}

func (q *Queue[T]) unmarshal(b []byte, mark byte, name string) error {
	h, more, err := unmarshalHandle(b)
	if err != nil {
		return err
	}
	if len(more) != 2 || more[0] != mark {
		return &MismatchError{Reason: "what has come is the name of another object, not of a " + name}
	}
	q.q = *newSimpleQueue[T](h, more[1] == 1)
	return nil
}

// JoinableQueue is a Queue that knows when the items that were got from it are
// dealt with. It is made by NewJoinableQueue.
type JoinableQueue[T any] struct{ Queue[T] }

// NewJoinableQueue makes a joinable queue in a manager.
func NewJoinableQueue[T any](ctx context.Context, m *Manager, opts ...QueueOption) (*JoinableQueue[T], error) {
	q, err := NewQueue[T](ctx, m, opts...)
	if err != nil {
		return nil, err
	}
	return &JoinableQueue[T]{*q}, nil
}

// TaskDone says that an item that Get gave is dealt with. It is called once
// for each; once more is an error.
func (q *JoinableQueue[T]) TaskDone(ctx context.Context) error {
	c, err := q.q.client()
	if err != nil {
		return err
	}
	_, err = c.h.call(ctx, "the queue", queue.Done, uvarints(1), nil, nil)
	return queueError(err)
}

// Join waits until all items that were put are dealt with. Those that a process
// has got that died before its TaskDone nobody will deal with: Join does not
// wait for them, and gives an ErrAbandoned that says how many there were.
func (q *JoinableQueue[T]) Join(ctx context.Context) error {
	c, err := q.q.client()
	if err != nil {
		return err
	}
	a, err := c.h.call(ctx, "the queue", queue.Join, nil, nil, nil)
	if err != nil {
		return queueError(err)
	}
	in := wire.Reader{B: a.Args}
	if lost := in.Int(); lost > 0 {
		return fmt.Errorf("fiber: the queue: %d of its items were got by processes that died before they were done: %w", lost, ErrAbandoned)
	}
	return in.Err
}

// MarshalBinary gives the queue's name.
func (q *JoinableQueue[T]) MarshalBinary() ([]byte, error) { return q.marshal('J') }

// UnmarshalBinary attaches to the queue of a name.
func (q *JoinableQueue[T]) UnmarshalBinary(b []byte) error {
	return q.unmarshal(b, 'J', "joinable queue")
}
