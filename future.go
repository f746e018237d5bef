package fiber

import (
	"context"
	"sync"
)

// Future is a result that is on its way. All its methods may be called from
// many goroutines, any number of times.
type Future[T any] struct {
	done  chan struct{}
	value T
	err   error

	mu      sync.Mutex
	waiting []func(T, error)
	after   func()
	reading func() // who waits may read the result himself; nil when it is there
}

func newFuture[T any]() *Future[T] { return &Future[T]{done: make(chan struct{})} }

// Get waits for the result, or until ctx ends. That ends the waiting, not the
// work.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	default:
	}
	f.mu.Lock()
	read := f.reading
	f.mu.Unlock()
	if read != nil {
		read()
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// Done is closed when the result is there.
func (f *Future[T]) Done() <-chan struct{} { return f.done }

// Ready says whether the result is there.
func (f *Future[T]) Ready() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// OnDone has fn called with the result, once, in a goroutine of its own:
// when the result comes, or now if it is there.
func (f *Future[T]) OnDone(fn func(T, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		go fn(f.value, f.err)
		return
	}
	f.waiting = append(f.waiting, fn)
}

// then has fn called once when the result is there, by whoever brings it. It
// must not block.
func (f *Future[T]) then(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		fn()
		return
	}
	f.after = fn
}

// read has those who wait call read, which may bring the result.
func (f *Future[T]) read(read func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.Ready() {
		f.reading = read
	}
}

// resolve sets the result; only the first one counts.
func (f *Future[T]) resolve(value T, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		return
	}
	f.value, f.err = value, err
	close(f.done)
	for _, fn := range f.waiting {
		go fn(value, err)
	}
	f.waiting, f.reading = nil, nil
	if f.after != nil {
		f.after()
		f.after = nil
	}
}
