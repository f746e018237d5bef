package fiber

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/queue"
	"github.com/fiber-go/fiber/internal/wire"
)

// SimpleQueue is a queue for any number of producers and consumers in any
// processes. It lives in the process that made it. It travels as (part of) an
// argument, a result, or an item of another queue; all copies are the same
// queue. Its methods may be called from many goroutines.
//
// Each producer's items come out in the order in which they went in. An item
// goes only to a consumer that asks for one, so an idle process holds nothing
// back. An item that was delivered but not yet returned by Get, because the
// consumer died, goes back to the front of the queue.
//
// When the process that made the queue has ended, for whatever reason, the
// methods return a *WorkerLostError; only Close makes them return ErrClosed.
// The queue ends when no process has it any more.
type SimpleQueue[T any] struct {
	builtinObject[simpleQueueType]
	c *queueClient
}

type simpleQueueType struct{}

func (simpleQueueType) objectType() (string, string, byte) { return "queue", "queue", 'U' }

// QueueOption configures NewSimpleQueue, NewQueue and NewJoinableQueue.
type QueueOption interface{ applyQueue(*queueOptions) error }

type queueOptions struct{ capacity int }

type queueOption func(*queueOptions) error

func (f queueOption) applyQueue(o *queueOptions) error { return f(o) }

// WithCapacity limits a queue to n items: Put blocks while it is full.
func WithCapacity(n int) QueueOption {
	return queueOption(func(o *queueOptions) error {
		if n < 1 {
			return fmt.Errorf("fiber: WithCapacity(%d): the capacity must be at least 1; leave the option out for no limit", n)
		}
		o.capacity = n
		return nil
	})
}

// NewSimpleQueue makes a queue in this process. It returns ErrNotInitialized
// before Init, and an error if T cannot travel.
func NewSimpleQueue[T any](opts ...QueueOption) (*SimpleQueue[T], error) {
	proc, err := running()
	if err != nil {
		return nil, err
	}
	capacity, err := queueOf[T]("NewSimpleQueue", opts)
	if err != nil {
		return nil, err
	}
	ref, err := proc.home.Make(queue.New(proc.home, capacity), false)
	if err != nil {
		return nil, err
	}
	return newQueueAt[T](proc.attach(ref), capacity > 0), nil
}

// queueOf checks the arguments of a queue's constructor.
func queueOf[T any](constructor string, opts []QueueOption) (capacity int, err error) {
	if err := travels[T](constructor, "its items"); err != nil {
		return 0, err
	}
	var o queueOptions
	for _, opt := range opts {
		if err := opt.applyQueue(&o); err != nil {
			return 0, err
		}
	}
	return o.capacity, nil
}

func newQueueAt[T any](h *handle, bounded bool) *SimpleQueue[T] {
	return &SimpleQueue[T]{builtinObjectOf[simpleQueueType](h), &queueClient{h: h, bounded: bounded}}
}

// Put adds an item and returns when the process in which the queue lives has
// it. It blocks while a queue with a capacity is full. When Put returns
// ctx.Err(), the item is not in the queue, unless that process has not answered
// within a second.
func (q *SimpleQueue[T]) Put(ctx context.Context, v T) error {
	item, err := encode("the item", v)
	if err == nil {
		err = q.fits(item)
	}
	if err != nil {
		return err
	}
	return q.c.put(ctx, item)
}

// PutMany adds items in their order and returns when the process in which the
// queue lives has all of them. It costs much less than as many calls of Put.
// After an error, the first few items may be in the queue; the error says how
// many.
func (q *SimpleQueue[T]) PutMany(ctx context.Context, vs []T) error {
	items, err := encodeAll("item", vs)
	if err == nil {
		err = q.fits(items...)
	}
	if err != nil {
		return err
	}
	return q.c.putMany(ctx, items)
}

// fits checks that the queue is initialised and that the items are not too
// large.
func (q *SimpleQueue[T]) fits(items ...object.Value) error {
	if q == nil || q.h == nil {
		return errEmpty("queue")
	}
	for _, item := range items {
		if err := q.h.proc.fitsSize(item.Size()); err != nil {
			return fmt.Errorf("fiber: the item: %w", err)
		}
	}
	return nil
}

// Get waits for an item and takes it out of the queue. It returns when it has
// acknowledged the item to the process in which the queue lives.
func (q *SimpleQueue[T]) Get(ctx context.Context) (v T, err error) {
	vs, err := q.GetMany(ctx, 1)
	if err != nil {
		return v, err
	}
	return vs[0], nil
}

// GetMany waits for an item and takes it out of the queue, with the items
// behind it that are there: max items at most.
func (q *SimpleQueue[T]) GetMany(ctx context.Context, max int) ([]T, error) {
	if max < 1 {
		return nil, fmt.Errorf("fiber: GetMany(%d): the number must be at least 1", max)
	}
	d, err := ask(ctx, q, queue.Get, max, func(late queue.Delivery) { tell(q, queue.Back, late.ID) })
	if err != nil {
		return nil, err
	}
	if len(d.Items) == 0 {
		return nil, errorf("fiber: the queue: %w", wire.ErrMalformed)
	}
	vs := make([]T, len(d.Items))
	var came parcel
	for i, item := range d.Items {
		p, err := unmarshal(item.Frames, &vs[i])
		if err != nil {
			tell(q, queue.Back, d.ID)
			return nil, mismatch("an item of the queue is not of type %v: %v", reflect.TypeFor[T](), err)
		}
		came.add(p)
	}
	// Only now, when this process holds what is in the items.
	return vs, came.then(ctx, func() error { return tell(q, queue.Taken, d.ID) })
}

// Len returns the number of items in the queue. It blocks until the process in
// which the queue lives has answered.
func (q *SimpleQueue[T]) Len(ctx context.Context) (int, error) {
	return ask(ctx, q, queue.Len, object.None{}, nil)
}

// Close ends the queue for all processes. From then on Put returns ErrClosed,
// also where it is waiting. Get still returns the items in the queue, and then
// ErrClosed. Closing twice is a no-op.
func (q *SimpleQueue[T]) Close() error {
	_, err := ask(context.Background(), q, queue.Close, object.None{}, nil)
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

func (q *SimpleQueue[T]) used() (h *handle, name, typ string) {
	if q != nil {
		h = q.h
	}
	return h, "queue", "queue"
}

// MarshalBinary encodes a reference to the queue.
func (q *SimpleQueue[T]) MarshalBinary() ([]byte, error) { return q.marshalAs('U') }

func (q *SimpleQueue[T]) marshalAs(mark byte) ([]byte, error) {
	if q.h == nil {
		return nil, errEmpty("queue")
	}
	bounded := byte(0)
	if q.c.bounded {
		bounded = 1
	}
	return q.marshal(mark, bounded)
}

// UnmarshalBinary attaches to the queue that a reference names.
func (q *SimpleQueue[T]) UnmarshalBinary(b []byte) error {
	return q.unmarshalAs('U', "simple queue", b)
}

func (q *SimpleQueue[T]) unmarshalAs(mark byte, name string, b []byte) error {
	more, err := q.unmarshal(mark, name, b)
	if err != nil {
		return err
	}
	if len(more) != 1 {
		return wire.ErrMalformed
	}
	q.c = &queueClient{h: q.h, bounded: more[0] == 1}
	return nil
}

// queueClient puts encoded items into a queue.
type queueClient struct {
	h       *handle
	bounded bool

	mu      sync.Mutex
	sending bool
	waiting []*putting // for the next message
}

// putting is an item on its way.
type putting struct {
	item object.Value
	done chan error
}

// put puts one item. Items of many goroutines travel together: while one
// message is on its way to a queue without a capacity, items gather for the
// next one. (A queue with a capacity may take one item at once and the next one
// never, so each travels alone.)
func (c *queueClient) put(ctx context.Context, item object.Value) error {
	if c.bounded {
		return c.putMany(ctx, []object.Value{item})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.sending {
		c.sending = true
		c.mu.Unlock()
		err := c.send(ctx, []object.Value{item})
		c.next()
		return err
	}
	p := &putting{item, make(chan error, 1)}
	c.waiting = append(c.waiting, p)
	c.mu.Unlock()
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	for i, w := range c.waiting {
		if w == p {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			c.mu.Unlock()
			return ctx.Err()
		}
	}
	c.mu.Unlock()
	return <-p.done // the item has left, and the queue is never full
}

// next starts a goroutine that sends gathered items until none are left.
func (c *queueClient) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		c.sending = false
		return
	}
	go c.drain()
}

func (c *queueClient) drain() {
	for {
		c.mu.Lock()
		batch := c.waiting
		c.waiting = nil
		if len(batch) == 0 {
			c.sending = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		items := make([]object.Value, len(batch))
		for i, p := range batch {
			items[i] = p.item
		}
		for len(items) > 0 {
			n := c.h.proc.home.Fitting(items)
			err := c.send(context.Background(), items[:n])
			for _, p := range batch[:n] {
				p.done <- err
			}
			items, batch = items[n:], batch[n:]
		}
	}
}

func (c *queueClient) send(ctx context.Context, items []object.Value) error {
	_, err := object.AskAndSettle(ctx, c.h.proc.home, c.h.ref, queue.Put, items)
	runtime.KeepAlive(c.h)
	runtime.KeepAlive(items) // only now does the queue hold what they name
	return objectError("the queue", err)
}

func (c *queueClient) putMany(ctx context.Context, items []object.Value) error {
	for total := len(items); len(items) > 0; {
		n := c.h.proc.home.Fitting(items)
		if err := c.send(ctx, items[:n]); err != nil {
			if sent := total - len(items); sent > 0 {
				return errorf("fiber: only %d of %d items were put: %w", sent, total, err)
			}
			return err
		}
		items = items[n:]
	}
	return nil
}
