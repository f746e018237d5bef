package fiber

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/queue"
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
	h *handle
	c *queueClient
}

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
	if err := travels[T]("NewSimpleQueue", "its items"); err != nil {
		return nil, err
	}
	var o queueOptions
	for _, opt := range opts {
		if err := opt.applyQueue(&o); err != nil {
			return nil, err
		}
	}
	ref, err := proc.home.Make(queue.New(proc.home, o.capacity), false)
	if err != nil {
		return nil, err
	}
	return newSimpleQueue[T](proc.attach(ref), o.capacity > 0), nil
}

func newSimpleQueue[T any](h *handle, bounded bool) *SimpleQueue[T] {
	return &SimpleQueue[T]{h, &queueClient{h: h, bounded: bounded}}
}

// travels checks that values of a type can.
func travels[T any](constructor, what string) error {
	if err := codec.Check(reflect.TypeFor[T]()); err != nil {
		return fmt.Errorf("fiber: %s: %s: %w", constructor, what, err)
	}
	return nil
}

// Put adds an item and returns when it is safe in the queue's home. It blocks
// while a queue with a capacity is full. When ctx ends the item is not in the
// queue, unless its home does not answer within a second.
func (q *SimpleQueue[T]) Put(ctx context.Context, v T) error {
	item, err := encode("the item", v)
	if err != nil {
		return err
	}
	c, err := q.client(item)
	if err != nil {
		return err
	}
	err = c.put(ctx, item)
	runtime.KeepAlive(v) // the queue's home holds what is in it only now
	return err
}

// PutMany adds items in their order and returns when all of them are safe in
// the queue's home. It costs much less than as many calls of Put. After an
// error, which says how many, the first of them may be in the queue.
func (q *SimpleQueue[T]) PutMany(ctx context.Context, vs []T) error {
	items := make([]home.Value, len(vs))
	for i, v := range vs {
		var err error
		if items[i], err = encode(fmt.Sprintf("item %d", i), v); err != nil {
			return err
		}
	}
	c, err := q.client(items...)
	if err != nil {
		return err
	}
	err = c.putMany(ctx, items)
	runtime.KeepAlive(vs)
	return err
}

// Get waits for an item and takes it out of the queue. It returns when the
// queue's home has been told that it has arrived.
func (q *SimpleQueue[T]) Get(ctx context.Context) (T, error) {
	var v T
	c, err := q.client()
	if err != nil {
		return v, err
	}
	vs, err := getItems[T](ctx, c, 1)
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
	c, err := q.client()
	if err != nil {
		return nil, err
	}
	return getItems[T](ctx, c, max)
}

func getItems[T any](ctx context.Context, c *queueClient, max int) ([]T, error) {
	id, items, err := c.get(ctx, max)
	if err != nil {
		return nil, err
	}
	vs := make([]T, len(items))
	var ends arriving
	for i, item := range items {
		travellers, err := codec.UnmarshalTravellers(item.Frames, &vs[i])
		if err != nil {
			c.settle(queue.Back, id)
			return nil, &MismatchError{Reason: fmt.Sprintf("an item of the queue is no %v: %v", reflect.TypeFor[T](), err)}
		}
		ends = append(ends, arrivingIn(travellers)...)
	}
	// Taken only now: what is in the items is held here by now.
	return vs, ends.then(ctx, func() error { return c.settle(queue.Taken, id) })
}

// Len is the number of items in the queue. It blocks until the queue's home
// has answered.
func (q *SimpleQueue[T]) Len(ctx context.Context) (int, error) {
	c, err := q.client()
	if err != nil {
		return 0, err
	}
	return c.len(ctx)
}

// Close says, for all processes, that no more items come: whoever waits to put
// one, or puts one later, gets ErrClosed. Those in the queue are still to be got;
// then whoever waits for one, or gets one later, has ErrClosed, too. A second
// call does nothing.
func (q *SimpleQueue[T]) Close() error {
	c, err := q.client()
	if err != nil {
		return err
	}
	return c.close()
}

// client checks that the queue is one, and the items' sizes.
func (q *SimpleQueue[T]) client(items ...home.Value) (*queueClient, error) {
	if q == nil || q.h == nil {
		return nil, fmt.Errorf("fiber: the queue: %w", errEmptyHandle)
	}
	for _, item := range items {
		if err := q.h.proc.fitsValue(item); err != nil {
			return nil, fmt.Errorf("fiber: the item: %w", err)
		}
	}
	return q.c, nil
}

// MarshalBinary gives the queue's name.
func (q *SimpleQueue[T]) MarshalBinary() ([]byte, error) {
	if q.h == nil {
		return nil, fmt.Errorf("fiber: the queue: %w", errEmptyHandle)
	}
	return q.h.marshal(bit(q.c.bounded))
}

// UnmarshalBinary attaches to the queue of a name.
func (q *SimpleQueue[T]) UnmarshalBinary(b []byte) error {
	h, more, err := unmarshalHandle(b)
	if err != nil {
		return err
	}
	*q = *newSimpleQueue[T](h, len(more) > 0 && more[0] == 1)
	return nil
}

// Travels tells the codec what travels with the queue.
func (q *SimpleQueue[T]) Travels() []any { return q.h.Travels() }

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
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
	item home.Value
	done chan error
}

// put puts one item. Those of many goroutines go together: while one message
// is on its way to a queue without a bound, what comes is gathered for the
// next one. (A bounded queue may take an item at once and the next one never,
// so each travels alone.)
func (c *queueClient) put(ctx context.Context, item home.Value) error {
	if c.bounded {
		return c.putMany(ctx, []home.Value{item})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.sending {
		c.sending = true
		c.mu.Unlock()
		err := c.send(ctx, []home.Value{item})
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
		items := make([]home.Value, len(batch))
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

func (c *queueClient) send(ctx context.Context, items []home.Value) error {
	args, frames := home.PackValues(nil, items...)
	_, err := c.h.proc.home.Settle(ctx, c.h.ref, queue.Put, args, frames)
	runtime.KeepAlive(c.h)
	return queueError(err)
}

func (c *queueClient) putMany(ctx context.Context, items []home.Value) error {
	for total := len(items); len(items) > 0; {
		n := c.h.proc.home.Fitting(items)
		if err := c.send(ctx, items[:n]); err != nil {
			if sent := total - len(items); sent > 0 {
				return fmt.Errorf("fiber: %d of %d items were put: %w", sent, total, err)
			}
			return err
		}
		items = items[n:]
	}
	return nil
}

// get waits for items; settle is to be called for the delivery.
func (c *queueClient) get(ctx context.Context, max int) (delivery uint64, items []home.Value, err error) {
	late := func(a home.Answer) {
		args := wire.Reader{B: a.Args}
		c.settle(queue.Back, args.Uvarint())
	}
	a, err := c.h.proc.home.Call(ctx, c.h.ref, queue.Get, binary.AppendUvarint(nil, uint64(max)), nil, late)
	if err != nil {
		return 0, nil, queueError(err)
	}
	args := wire.Reader{B: a.Args}
	delivery = args.Uvarint()
	items, err = home.UnpackValues(&args, a.Value)
	if err != nil || len(items) == 0 {
		return 0, nil, fmt.Errorf("fiber: the queue: %w", errors.Join(err, wire.ErrMalformed))
	}
	return delivery, items, nil
}

// settle acknowledges a delivery, or gives it back.
func (c *queueClient) settle(op byte, delivery uint64) error {
	return queueError(c.h.proc.home.Tell(c.h.ref, op, binary.AppendUvarint(nil, delivery)))
}

func (c *queueClient) len(ctx context.Context) (int, error) {
	a, err := c.h.proc.home.Call(ctx, c.h.ref, queue.Len, nil, nil, nil)
	args := wire.Reader{B: a.Args}
	if err != nil {
		return 0, queueError(err)
	}
	return args.Int(), nil
}

func (c *queueClient) close() error {
	_, err := c.h.proc.home.Call(context.Background(), c.h.ref, queue.Close, nil, nil, nil)
	if err = queueError(err); errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// queueError is an error of a queue's home as a user sees it.
func queueError(err error) error {
	if err == nil {
		return nil
	}
	if refusal := (*home.Refusal)(nil); errors.As(err, &refusal) {
		switch refusal.Code {
		case queue.Closed:
			return fmt.Errorf("fiber: the queue: %w", ErrClosed)
		case queue.TooOften:
			return errors.New("fiber: TaskDone was called more often than there were items; call it once for each item that Get gave")
		}
	}
	return objectError("the queue", err)
}
