package fiber

import (
	"context"
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
	after   []func()
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
	case f.Ready():
		return f.value, f.err
	case ctx == nil:
		return zero, errNilContext
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
// fn must not block.
func (f *Future[T]) then(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		fn()
		return
	}
	f.after = append(f.after, fn)
}

// until calls fn, on a goroutine of its own, if ctx ends before the result is
// there.
func (f *Future[T]) until(ctx context.Context, fn func()) {
	if ctx.Done() != nil {
		stop := self.AfterEnd(ctx, fn)
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
		fn()
	}
	f.after, f.reading = nil, nil
}
