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
// processes. It lives in the process that made it, and travels as (part of) an
// argument, a result, or an item of another queue; all copies are the same
// queue. Its methods may be called from many goroutines.
//
// Items come out in the order in which they went in, for each producer. An
// item is handed out when somebody asks for it and to nobody else, so an idle
// process that has the queue holds nothing back. A consumer that dies before
// its Get has returned leaves its item to others, at the front of the queue.
//
// When the process that made the queue has ended, however it ended, its methods
// return a *WorkerLostError: ErrClosed is returned only after Close. A queue ends
// when no process has it any more.
type SimpleQueue[T any] struct {
	builtinObject[simpleQueueType]
	c *queueClient
}

type simpleQueueType struct{}

func (simpleQueueType) objectType() (string, string, byte) { return "queue", "queue", 'U' }

// QueueOption is an option of NewSimpleQueue.
type QueueOption interface{ applyQueue(*queueOptions) error }

type queueOptions struct{ capacity int }

type queueOption func(*queueOptions) error

func (f queueOption) applyQueue(o *queueOptions) error { return f(o) }

// WithCapacity bounds a queue: Put waits while n items are in it.
func WithCapacity(n int) QueueOption {
	return queueOption(func(o *queueOptions) error {
		if n < 1 {
			return fmt.Errorf("fiber: WithCapacity(%d): a queue has room for one item at least; leave the option out for any number", n)
		}
		o.capacity = n
		return nil
	})
}

// NewSimpleQueue makes a queue in this process. The error is
// ErrNotInitialized, or a T that cannot travel.
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

// queueOf checks what a queue's constructor was called with.
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

// Put adds an item and returns when it is safe in the queue's home. It blocks
// while a queue with a capacity is full. When ctx ends the item is not in the
// queue, unless its home does not answer within a second.
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

// PutMany adds items in their order and returns when all of them are safe in
// the queue's home. It costs much less than as many calls of Put. After an
// error, which says how many, the first of them may be in the queue.
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

// fits checks that the queue is one, and the items' sizes.
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

// Get waits for an item and takes it out of the queue. It returns when the
// queue's home has been told that it has arrived.
func (q *SimpleQueue[T]) Get(ctx context.Context) (v T, err error) {
	vs, err := q.GetMany(ctx, 1)
	if err != nil {
		return v, err
	}
	return vs[0], nil
}

// GetMany waits for an item and takes it and those behind it that are there,
// at most max, out of the queue.
func (q *SimpleQueue[T]) GetMany(ctx context.Context, max int) ([]T, error) {
	if max < 1 {
		return nil, fmt.Errorf("fiber: GetMany(%d): ask for one item at least", max)
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
			return nil, &MismatchError{Reason: fmt.Sprintf("an item of the queue is no %v: %v", reflect.TypeFor[T](), err)}
		}
		came.add(p)
	}
	// Taken only now: what is in the items is held here by now.
	return vs, came.then(ctx, func() error { return tell(q, queue.Taken, d.ID) })
}

// Len is the number of items in the queue. It blocks until the queue's home
// has answered.
func (q *SimpleQueue[T]) Len(ctx context.Context) (int, error) {
	return ask(ctx, q, queue.Len, object.None{}, nil)
}

// Close says, for all processes, that no more items come: whoever waits to put
// one, or puts one later, gets ErrClosed. Those in the queue are still to be got;
// then whoever waits for one, or gets one later, has ErrClosed, too. A second
// call does nothing.
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

// MarshalBinary gives the queue's name.
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

// UnmarshalBinary attaches to the queue of a name.
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

// queueClient is a queue as it is used here, items encoded.
type queueClient struct {
	h       *handle
	bounded bool

	mu      sync.Mutex
	sending bool
	waiting []*putting // to leave with the next message
}

// putting is an item on its way.
type putting struct {
	item object.Value
	done chan error
}

// put puts one item. Those of many goroutines go together: while one message
// is on its way to a queue without a bound, what comes is gathered for the
// next one. (A bounded queue may take an item at once and the next one never,
// so each travels alone.)
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
	return <-p.done // it has left, and the queue has no bound
}

// next sends what was gathered, by a goroutine that goes on while there is
// more.
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
	runtime.KeepAlive(items) // the queue's home holds what they name only now
	return objectError("the queue", err)
}

func (c *queueClient) putMany(ctx context.Context, items []object.Value) error {
	for total := len(items); len(items) > 0; {
		n := c.h.proc.home.Fitting(items)
		if err := c.send(ctx, items[:n]); err != nil {
			if sent := total - len(items); sent > 0 {
				return errorf("fiber: %d of %d items were put: %w", sent, total, err)
			}
			return err
		}
		items = items[n:]
	}
	return nil
}
