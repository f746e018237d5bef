package fiber

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
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
	p       proxy
	c       *queueClient
	bounded bool // has a capacity
}

type queueOptions struct{ capacity int }

// WithCapacity limits a queue to n items: Put blocks while it is full.
func WithCapacity(n int) QueueOption {
	return queueOption(func(q *queueOptions) error {
		if n < 1 {
			return fmt.Errorf("fiber: WithCapacity(%d): the capacity must be at least 1; leave the option out for no limit", n)
		}
		q.capacity = n
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
	ref, err := proc.objects.Make(queue.New(proc.objects, capacity), false)
	if err != nil {
		return nil, err
	}
	q := new(SimpleQueue[T])
	q.p.attach(proc.attach(ref))
	q.attached(capacity > 0)
	return q, nil
}

// queueOf checks the arguments of a queue's constructor.
func queueOf[T any](constructor string, opts []QueueOption) (capacity int, err error) {
	if err := travels[T](constructor, "its items"); err != nil {
		return 0, err
	}
	var o queueOptions
	err = configured(constructor, &o, opts, QueueOption.queue)
	return o.capacity, err
}

// attached completes a queue whose proxy is attached to it.
func (q *SimpleQueue[T]) attached(bounded bool) {
	q.c, q.bounded = &queueClient{h: q.p.h}, bounded
}

// Put adds an item and returns when the process in which the queue lives has
// it. It blocks while a queue with a capacity is full. When ctx ends, the item
// stays out of the queue for good. If that process is silent for a second then, the
// item may be in the queue, and the error is also ErrUnknownOutcome.
func (q *SimpleQueue[T]) Put(ctx context.Context, v T) error {
	if used(q) == nil {
		return errEmpty("queue")
	}
	item, err := encode(ctx, "the item", v)
	if err != nil {
		return err
	}
	return q.c.put(ctx, item, q.bounded)
}

// PutMany adds items in their order and returns when the process in which the
// queue lives has all of them. It costs much less than as many calls of Put.
// After an error, the first few items may be in the queue; the error says how
// many, and is also ErrUnknownOutcome if there may be more.
func (q *SimpleQueue[T]) PutMany(ctx context.Context, vs []T) error {
	if used(q) == nil {
		return errEmpty("queue")
	}
	if ctx == nil {
		return errNilContext
	}
	items, err := encodeAll(ctx, "the item", vs)
	if err != nil {
		return err
	}
	put, err := q.c.send(ctx, items)
	if err != nil && put > 0 {
		return errorf("fiber: only %d of %d items were put: %w", put, len(vs), err)
	}
	return err
}

// Get waits for an item and takes it out of the queue. It returns when it has
// acknowledged the item to the process in which the queue lives. An item that its
// type's own decoder rejects is taken out as well, and counts as done; one that is
// of another type stays. For both, Get returns a *MismatchError. The other errors
// are ErrClosed when the queue was closed and is empty, a *WorkerLostError when
// that process has ended, or ctx.Err().
func (q *SimpleQueue[T]) Get(ctx context.Context) (v T, err error) {
	vs, err := q.GetMany(ctx, 1)
	if err != nil {
		return v, err
	}
	return vs[0], nil
}

// TryPut adds an item if there is room for one now, and reports whether there was.
// For the rest see Put.
func (q *SimpleQueue[T]) TryPut(ctx context.Context, v T) (bool, error) {
	if used(q) == nil {
		return false, errEmpty("queue")
	}
	item, err := encode(ctx, "the item", v)
	if err != nil {
		return false, err
	}
	return settle(ctx, q, queue.TryPut, item)
}

// TryGet takes an item out of the queue if there is one now, and reports whether
// there was. It blocks only until the process in which the queue lives has answered.
// The errors are Get's.
func (q *SimpleQueue[T]) TryGet(ctx context.Context) (v T, ok bool, err error) {
	vs, err := take(ctx, q, queue.TryGet, object.None{})
	if err != nil || len(vs) == 0 {
		return v, false, err
	}
	return vs[0], true, nil
}

// Items returns the items of the queue as Get does, one after another, and ends when
// the queue is closed and empty. Another error comes last. A loop that is left has
// taken the items that it has seen, and no other.
func (q *SimpleQueue[T]) Items(ctx context.Context) iter.Seq2[T, error] {
	return until(ErrClosed, func() (T, error) { return q.Get(ctx) })
}

// until repeats next until its error is the end, or any error.
func until[T any](end error, next func() (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			v, err := next()
			if errors.Is(err, end) || !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// GetMany waits for an item and takes it out of the queue, with the items
// behind it that are there: max items at most. If one of them cannot be decoded,
// GetMany takes only the first, as Get does.
func (q *SimpleQueue[T]) GetMany(ctx context.Context, max int) ([]T, error) {
	if used(q) == nil {
		return nil, errEmpty("queue")
	}
	if max < 1 {
		return nil, fmt.Errorf("fiber: GetMany(%d): the number must be at least 1", max)
	}
	vs, err := take(ctx, q, queue.Get, max)
	if err == errUnreadable {
		vs, err = take(ctx, q, queue.Get, 1)
	}
	return vs, err
}

// errUnreadable says that one of several items cannot be decoded, and that all are
// back in the queue.
var errUnreadable = errors.New("an item cannot be decoded")

// take asks for items.
func take[T, Q any](ctx context.Context, q *SimpleQueue[T], op object.Op[Q, queue.Delivery], what Q) ([]T, error) {
	d, err := ask(ctx, q, op, what, func(queue.Delivery) {}) // a late answer is back already
	if err != nil || len(d.Items) == 0 {
		return nil, err
	}
	vs := make([]T, len(d.Items))
	var came parcel
	var unreadable error
	var frames [][]byte
	for i, item := range d.Items {
		frames = item.AppendFrames(frames[:0])
		p, err := unmarshal(frames, &vs[i])
		if err != nil {
			unreadable = mismatch("an item of the queue cannot be decoded as a %v: %v", reflect.TypeFor[T](), err)
			if own := (*codec.Error)(nil); len(vs) > 1 || !errors.As(err, &own) || own.Err == nil {
				post(q, queue.Back, d.ID)
				if len(vs) > 1 {
					unreadable = errUnreadable
				}
				return nil, unreadable
			}
		}
		came.add(p)
	}
	// Only now, when this process holds what is in the items.
	err = came.then(ctx, func(ctx context.Context) error { return tell(ctx, q, queue.Taken, d.ID) })
	switch {
	case err == nil:
	case errors.Is(err, ErrUnknownOutcome): // it is on its way
	case err == ctx.Err() && post(q, queue.Taken, d.ID): // ends of pipes that came with the items are here already
	default: // the home is gone, or hands the items to others
		return nil, err
	}
	if unreadable != nil {
		post(q, queue.Done, 1) // the caller never gets it
		return nil, unreadable
	}
	return vs, nil
}

// Len returns the number of items in the queue. It blocks until the process in
// which the queue lives has answered.
func (q *SimpleQueue[T]) Len(ctx context.Context) (int, error) {
	return read(ctx, q, queue.Len, object.None{})
}

// Close ends the queue for all processes. From then on Put returns ErrClosed,
// also where it is waiting. Get still returns the items in the queue, and then
// ErrClosed. Closing twice is a no-op.
//
// Close waits until the process in which the queue lives has closed it, or is
// lost. If it does not answer within 5 s, the error is ErrUnknownOutcome, and the
// queue is closed when that process goes on.
func (q *SimpleQueue[T]) Close() error {
	h := used(q)
	if h == nil {
		return errEmpty("queue")
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime-object.SettleTime)
	defer cancel()
	_, err := object.Insist(ctx, h.proc.objects, h.ref, queue.Close, object.None{})
	runtime.KeepAlive(q)
	switch err = objectError(ctx, q, err); {
	case errors.Is(err, ErrClosed):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return errorf("fiber: Close: the process in which the queue lives does not answer: %w", err)
	}
	return err
}

const closeTime = 5 * time.Second

func (q *SimpleQueue[T]) held() (*proxy, string) {
	if q == nil {
		return nil, "queue"
	}
	return &q.p, "queue"
}

// MarshalBinary encodes a reference to the queue, which does not keep it alive; see
// Proxy.MarshalBinary.
func (q *SimpleQueue[T]) MarshalBinary() ([]byte, error) { return q.marshalAs("SimpleQueue") }

func (q *SimpleQueue[T]) marshalAs(typ string) ([]byte, error) {
	more := byte(0)
	if q != nil && q.bounded {
		more = 1
	}
	return used(q).marshal(typ, more)
}

// UnmarshalBinary attaches to the queue that a reference names.
func (q *SimpleQueue[T]) UnmarshalBinary(b []byte) error { return q.unmarshalAs("SimpleQueue", b) }

func (q *SimpleQueue[T]) unmarshalAs(typ string, b []byte) error {
	if q == nil {
		return errEmpty(typ)
	}
	h, more, err := unmarshalHandle(typ, b)
	if err != nil {
		return err
	}
	q.p.attach(h)
	in := wire.Reader{B: more}
	q.attached(in.Uvarint() > 0)
	return in.Err
}

// queueClient puts encoded items into a queue.
type queueClient struct {
	h *handle

	mu        sync.Mutex
	sending   bool
	gathering *gathered // for the next message
}

// gathered is items of many goroutines that travel together.
type gathered struct {
	items   []object.Value
	gone    []int // the indices of items whose Put has returned before they left; sorted when the others leave
	waiting int   // Puts that have not returned early
	ctx     context.Context
	cancel  context.CancelFunc // called when waiting is 0

	done chan struct{} // closed when the rest is set
	put  int           // how many of the items that left are in the queue
	err  error         // why the others are not
}

// outcome returns the error of item i's Put.
func (g *gathered) outcome(i int) error {
	before, _ := slices.BinarySearch(g.gone, i)
	if i-before < g.put {
		return nil
	}
	return g.err
}

// put puts one item. While one message is on its way, items gather for the next
// one, unless they travel alone: a queue with a capacity may take one item at
// once and the next one never.
func (c *queueClient) put(ctx context.Context, item object.Value, alone bool) error {
	if err := ended(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.sending || alone {
		c.sending = true
		c.mu.Unlock()
		_, err := c.send(ctx, []object.Value{item})
		if g := c.next(); g != nil {
			go c.drain(g)
		}
		return err
	}
	if c.gathering == nil {
		c.gathering = &gathered{done: make(chan struct{})}
		c.gathering.ctx, c.gathering.cancel = context.WithCancel(context.Background())
	}
	g := c.gathering
	i := len(g.items)
	g.items = append(g.items, item)
	g.waiting++
	c.mu.Unlock()
	select {
	case <-g.done:
		return g.outcome(i)
	case <-ctx.Done():
	}
	if !c.leave(g, i) {
		return ctx.Err()
	}
	select {
	case <-g.done:
		switch err := g.outcome(i); {
		case errors.Is(err, ErrUnknownOutcome):
			return object.UnknownOutcome(ctx.Err())
		case errors.Is(err, context.Canceled): // g's
			return ctx.Err()
		default:
			return err
		}
	case <-time.After(object.SettleTime):
		return object.UnknownOutcome(ctx.Err())
	}
}

// leave withdraws item i of g, whose Put returns early. It returns true if the item
// has left already.
func (c *queueClient) leave(g *gathered, i int) (left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.waiting--; g.waiting == 0 {
		g.cancel()
	}
	if g != c.gathering {
		return true
	}
	g.gone = append(g.gone, i)
	if g.waiting == 0 {
		c.gathering = nil
	}
	return false
}

// next returns what has gathered, nil when nothing has.
func (c *queueClient) next() *gathered {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.gathering
	c.gathering, c.sending = nil, g != nil
	if g != nil && len(g.gone) > 0 {
		slices.Sort(g.gone)
		left, gone := g.items[:0], g.gone
		for i, item := range g.items {
			if len(gone) > 0 && gone[0] == i {
				gone = gone[1:]
			} else {
				left = append(left, item)
			}
		}
		g.items = left
	}
	return g
}

// drain sends gathered items until none are left.
func (c *queueClient) drain(g *gathered) {
	for ; g != nil; g = c.next() {
		g.put, g.err = c.send(g.ctx, g.items)
		g.cancel()
		close(g.done)
	}
}

// send puts items, and returns how many are in the queue.
func (c *queueClient) send(ctx context.Context, items []object.Value) (put int, err error) {
	for put < len(items) && err == nil {
		n := c.h.proc.objects.Fitting(items[put:])
		_, err = object.Ask(ctx, c.h.proc.objects, c.h.ref, queue.Put, items[put:put+n], nil)
		if refusal := (*object.Refusal)(nil); errors.As(err, &refusal) {
			if n = min(n, queue.PutBefore(refusal)); refusal.Code == queue.Partly {
				<-ctx.Done() // about now
				err = ctx.Err()
			}
		} else if err != nil {
			n = 0
		}
		put += n
	}
	runtime.KeepAlive(c.h)
	runtime.KeepAlive(items) // only now does the queue hold what they name
	return put, errorOf(ctx, "the queue", err)
}
