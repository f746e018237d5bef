// Package lock has a lock that may be held for long: whoever waits for it stops waiting when a context ends.
package lock

import (
	"context"
	"sync"
)

// Lock is held by one goroutine at a time. Those that wait get it in the order in which they came. The zero value is free.
type Lock struct {
	once sync.Once
	held chan struct{} // has an element while the lock is held
}

func (l *Lock) made() chan struct{} {
	l.once.Do(func() { l.held = make(chan struct{}, 1) })
	return l.held
}

// Lock blocks until the lock is free, and takes it. If ctx ends before, or has ended, Lock returns its error.
func (l *Lock) Lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.made() <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock frees the lock, which the caller, or whoever has left it to the caller, holds.
func (l *Lock) Unlock() { <-l.held }
