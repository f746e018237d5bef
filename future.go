package fiber

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/fiber-go/fiber/internal/self"
)

// Future is a result that may not have arrived yet. Its methods may be called
// from many goroutines, any number of times.
type Future[T any] struct {
	done  chan struct{}
	value T
	err   error

	mu      sync.Mutex
	after   []*func()                 // what to call when the result is there
	cancel  func()                    // gives the work up, and resolves the future
	reading func(ctx context.Context) // lets a waiting goroutine read the result itself; nil once it is there
}

func newFuture[T any]() *Future[T] { return &Future[T]{done: make(chan struct{})} }

// Get waits for the result and returns it. When ctx ends first, Get returns
// ctx.Err(), and the work goes on.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	var zero T
	switch {
	case f.empty():
		return zero, errEmpty("Future")
	case ctx == nil:
		return zero, errNilContext
	case f.Ready():
		return f.value, f.err
	}
	f.mu.Lock()
	read := f.reading
	f.mu.Unlock()
	if read != nil {
		read(ctx)
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// Cancel gives the work up: the future resolves to an error that is context.Canceled,
// at once, unless an input is being encoded, which it waits for, for a second at most.
// Tasks that have not started do not run, and the contexts of running ones end. The
// error of a CallAsync is ErrUnknownOutcome, too. When the result is there, Cancel is
// a no-op.
func (f *Future[T]) Cancel() {
	if f.empty() {
		return
	}
	f.mu.Lock()
	cancel := f.cancel
	f.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Done returns a channel that is closed when the result is there.
func (f *Future[T]) Done() <-chan struct{} {
	if f.empty() {
		return noResult
	}
	return f.done
}

// empty says whether the future is nil or a zero value, whose result is an error.
func (f *Future[T]) empty() bool { return f == nil || f.done == nil }

// noResult is closed.
var noResult = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Ready reports whether the result is there.
func (f *Future[T]) Ready() bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

// OnDone calls fn once with the result, in a goroutine of its own: when the
// result arrives, or at once if it is there already. OnDone panics if fn is nil.
func (f *Future[T]) OnDone(fn func(T, error)) {
	if fn == nil {
		panic("fiber: OnDone: the function is nil")
	}
	if f.empty() {
		go fn(*new(T), errEmpty("Future"))
		return
	}
	f.then(func() { go fn(f.value, f.err) })
}

// then calls fn once when the result is there, in the goroutine that brings it.
// fn must not block. forget withdraws it.
func (f *Future[T]) then(fn func()) (forget func()) {
	if f.empty() {
		fn()
		return func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		fn()
		return func() {}
	}
	f.after = append(f.after, &fn)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.after = slices.DeleteFunc(f.after, func(a *func()) bool { return a == &fn })
	}
}

// cancels sets how the work is given up: abort is called with the error of ctx, on a
// goroutine of its own, if ctx ends before the result is there, and with
// context.Canceled by Cancel.
func (f *Future[T]) cancels(ctx context.Context, abort func(error)) {
	f.mu.Lock()
	if !f.Ready() {
		f.cancel = func() { abort(context.Canceled) }
	}
	f.mu.Unlock()
	if ctx.Done() != nil {
		stop := self.AfterEnd(ctx, func() { abort(ctx.Err()) })
		f.then(func() { stop() })
	}
}

// read lets goroutines that wait call read, which may bring the result.
func (f *Future[T]) read(read func(ctx context.Context)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.Ready() {
		f.reading = read
	}
}

// reject sets an error in place of the result.
func (f *Future[T]) reject(err error) {
	var zero T
	f.resolve(zero, err)
}

// resolve sets the result. Only the first call counts.
func (f *Future[T]) resolve(value T, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		return
	}
	f.value, f.err = value, err
	close(f.done)
	for _, fn := range f.after {
		(*fn)()
	}
	f.after, f.reading, f.cancel = nil, nil, nil
}

// Wait waits until n of the futures are done, and returns the positions of all that
// are, in ascending order. When ctx ends first, it returns those that are done by
// then, and ctx.Err(). A nil or zero future is done.
func Wait[T any](ctx context.Context, n int, fs ...*Future[T]) (done []int, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if n > len(fs) {
		return nil, fmt.Errorf("fiber: Wait: %d of %d futures cannot be done", n, len(fs))
	}
	if n > 0 {
		left := n
		for _, err = range AsCompleted(ctx, fs...) {
			if left--; left == 0 {
				break
			}
		}
	}
	for i, f := range fs {
		if f.Ready() {
			done = append(done, i)
		}
	}
	if len(done) >= n {
		err = nil
	}
	return done, err
}

// AsCompleted yields the positions of the futures, each as soon as it is done. When
// ctx ends first, -1 and ctx.Err() come last. A future that is given twice is
// yielded twice. A nil or zero future is done.
func AsCompleted[T any](ctx context.Context, fs ...*Future[T]) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		if ctx == nil {
			yield(-1, errNilContext)
			return
		}
		done := make(chan int, len(fs))
		for i, f := range fs {
			defer f.then(func() { done <- i })()
		}
		for range fs {
			var i int
			select {
			case i = <-done:
			case <-ctx.Done():
				select {
				case i = <-done: // what is done is not lost
				default:
					yield(-1, ctx.Err())
					return
				}
			}
			if !yield(i, nil) {
				return
			}
		}
	}
}
