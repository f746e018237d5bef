package fiber

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Semaphore is a number of permits that live in a manager and that processes
// share. Create it with NewSemaphore. It travels as (part of) an argument, a
// result, or a value of another managed object. Any goroutine may use it.
//
// A permit may be released by another process than the one that acquired it. A
// Release without an Acquire adds a permit.
//
// When a process dies or ends, the permits that it holds come back, but never so
// many that there are more than at first. So none come back with
// NewSemaphore(ctx, m, 0), whose permits are signals that are used up. The permits
// of a proxy that was dropped come back when the garbage collector finds it, which
// takes minutes in an idle process.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Semaphore struct{ p proxy }

// NewSemaphore makes a semaphore in a manager, with n permits; n may be 0.
func NewSemaphore(ctx context.Context, m *Manager, n int) (*Semaphore, error) {
	return newSemaphore[Semaphore](ctx, m, "NewSemaphore", n, false)
}

// Acquire waits until there is a permit, and takes it. The longest waiting caller
// comes first. With an error, the caller has no permit: one that arrives after ctx
// has ended is given back.
func (s *Semaphore) Acquire(ctx context.Context) error { return acquire(ctx, s) }

// TryAcquire takes a permit if there is one, and reports whether it did.
func (s *Semaphore) TryAcquire(ctx context.Context) (bool, error) { return tryAcquire(ctx, s) }

// Release gives a permit back, even if ctx has ended, and the longest waiting caller
// gets it. If the manager does not answer within a second of the end of ctx, the
// error is ErrUnknownOutcome, too, and the manager learns of the release when it
// goes on.
func (s *Semaphore) Release(ctx context.Context) error { return giveBack(ctx, s) }

// With calls Acquire, runs fn, calls Release, and returns fn's error.
func (s *Semaphore) With(ctx context.Context, fn func(context.Context) error) error {
	return with(ctx, s, fn)
}

// Permits returns how many permits can be acquired now.
func (s *Semaphore) Permits(ctx context.Context) (int, error) {
	return read(ctx, s, builtin.LockFree, object.None{})
}

// MarshalBinary encodes a reference to the semaphore, which does not keep it alive; see
// Proxy.MarshalBinary.
func (s *Semaphore) MarshalBinary() ([]byte, error) { return marshalProxy(s) }

// UnmarshalBinary attaches to the semaphore that a reference names.
func (s *Semaphore) UnmarshalBinary(b []byte) error { return unmarshalProxy(s, b) }

func (s *Semaphore) held() (*proxy, string) {
	if s == nil {
		return nil, "Semaphore"
	}
	return &s.p, "Semaphore"
}

// BoundedSemaphore is a Semaphore that never has more permits than at first: a
// Release that would add one is an error.
type BoundedSemaphore struct{ p proxy }

// NewBoundedSemaphore makes a bounded semaphore in a manager, with n permits; n
// must be at least 1.
func NewBoundedSemaphore(ctx context.Context, m *Manager, n int) (*BoundedSemaphore, error) {
	if n == 0 {
		return nil, errors.New("fiber: NewBoundedSemaphore(0): without permits it could never be acquired")
	}
	return newSemaphore[BoundedSemaphore](ctx, m, "NewBoundedSemaphore", n, true)
}

// Acquire waits until there is a permit, and takes it. The longest waiting caller
// comes first. With an error, the caller has no permit: one that arrives after ctx
// has ended is given back.
func (s *BoundedSemaphore) Acquire(ctx context.Context) error { return acquire(ctx, s) }

// TryAcquire takes a permit if there is one, and reports whether it did.
func (s *BoundedSemaphore) TryAcquire(ctx context.Context) (bool, error) { return tryAcquire(ctx, s) }

// Release gives a permit back, even if ctx has ended, and the longest waiting caller
// gets it. It is an error if the semaphore has all its permits. If the manager does not answer within a second of the end of ctx, the
// error is ErrUnknownOutcome, too, and the manager learns of the release when it
// goes on.
func (s *BoundedSemaphore) Release(ctx context.Context) error { return giveBack(ctx, s) }

// With calls Acquire, runs fn, calls Release, and returns fn's error.
func (s *BoundedSemaphore) With(ctx context.Context, fn func(context.Context) error) error {
	return with(ctx, s, fn)
}

// Permits returns how many permits can be acquired now.
func (s *BoundedSemaphore) Permits(ctx context.Context) (int, error) {
	return read(ctx, s, builtin.LockFree, object.None{})
}

// MarshalBinary encodes a reference to the semaphore, which does not keep it alive; see
// Proxy.MarshalBinary.
func (s *BoundedSemaphore) MarshalBinary() ([]byte, error) { return marshalProxy(s) }

// UnmarshalBinary attaches to the semaphore that a reference names.
func (s *BoundedSemaphore) UnmarshalBinary(b []byte) error { return unmarshalProxy(s, b) }

func (s *BoundedSemaphore) held() (*proxy, string) {
	if s == nil {
		return nil, "BoundedSemaphore"
	}
	return &s.p, "BoundedSemaphore"
}

func newSemaphore[S any, P proxyOf[S]](ctx context.Context, m *Manager, constructor string, n int, bounded bool) (*S, error) {
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("fiber: %s(%d): the number must be from 0 to %d", constructor, n, math.MaxInt32)
	}
	return newObject[S, P](ctx, m, builtin.Making{Kind: builtin.KindSemaphore, N: n, Bounded: bounded})
}
