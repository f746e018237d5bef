// Package lock has a lock that may be held for long, and a value that is made once under it. A context ends the wait for either.
package lock

import (
	"context"
	"sync"
	"sync/atomic"
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

// Unlock frees the lock. The caller holds it, or has it from a goroutine that did.
func (l *Lock) Unlock() { <-l.held }

// Once is a value that is made once. The zero value is not made yet.
type Once[T any] struct {
	making Lock
	made   atomic.Pointer[T]
}

// Made returns the value, nil if it is not made yet.
func (o *Once[T]) Made() *T { return o.made.Load() }

// Make returns the value, which it makes if necessary. While one caller makes it, the others wait; if that caller fails, the next
// one makes it.
func (o *Once[T]) Make(ctx context.Context, make func() (*T, error)) (*T, error) {
	if v := o.Made(); v != nil {
		return v, nil
	}
	if err := o.making.Lock(ctx); err != nil {
		return nil, err
	}
	defer o.making.Unlock()
	if v := o.Made(); v != nil {
		return v, nil
	}
	v, err := make()
	if err == nil {
		o.made.Store(v)
	}
	return v, err
}

// Do calls do once. While one caller is in do, the others wait; if that caller's ctx ends in do, the next one calls do again.
func Do(ctx context.Context, once *Once[struct{}], do func(context.Context)) error {
	_, err := once.Make(ctx, func() (*struct{}, error) {
		do(ctx)
		return new(struct{}), ctx.Err()
	})
	return err
}
