package engine

import (
	"context"
	"slices"
	"time"
)

// Up starts the workers and blocks until as many are ready as are wanted. It
// fails when ctx ends, the engine is closed, or no worker can be started.
func (e *Engine) Up(ctx context.Context) error {
	return e.settled(ctx, func() { e.started = true })
}

// Resize sets the number of workers. If the pool has started, Resize blocks
// until that many are ready.
func (e *Engine) Resize(ctx context.Context, n int) error {
	return e.settled(ctx, func() {
		e.target = n
		if e.opts.Max > 0 {
			e.opts.Min, e.opts.Max = min(e.opts.Min, n), max(e.opts.Max, n)
		}
	})
}

// settled calls change under the lock, and then blocks until as many workers
// are ready as are wanted and surplus ones have gone.
func (e *Engine) settled(ctx context.Context, change func()) error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return e.opts.Closed
	}
	change()
	if e.failures >= startTries {
		e.failures = 0
	}
	return e.wait(ctx, func() (bool, error) {
		up := e.in(ready)
		switch {
		case e.ended:
			return false, e.opts.Closed
		case e.hopeless():
			return false, e.failure
		}
		return !e.started || up >= e.target && len(e.workers) <= max(e.target, up), nil
	})
}

// Renew replaces every worker. The old ones finish what they hold and get no
// more tasks. The new ones are started from another goroutine.
func (e *Engine) Renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	for _, w := range e.workers {
		e.drain(w)
	}
	e.wake(time.Now())
}

// waiter is a caller that waits until met returns true or an error.
type waiter struct {
	met  func() (bool, error) // called under the lock, after each event
	over chan error
}

// told lets the caller go if what it waits for has happened, and reports whether it did.
func (w *waiter) told() bool {
	ok, err := w.met()
	if ok || err != nil {
		w.over <- err
		return true
	}
	return false
}

// tell lets all callers go for whom that has happened.
func (e *Engine) tell() { e.waiters = slices.DeleteFunc(e.waiters, (*waiter).told) }

// wait releases the lock, and blocks until met returns true or an error, or
// until ctx ends.
func (e *Engine) wait(ctx context.Context, met func() (bool, error)) error {
	w := &waiter{met, make(chan error, 1)}
	e.waiters = append(e.waiters, w)
	e.releaseFor(hurried)
	select {
	case err := <-w.over:
		return err
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case err := <-w.over: // it came first, or at the same time
		return err
	default:
	}
	e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
	return ctx.Err()
}
