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
// When a process dies or ends, or drops a proxy, the permits that it holds come
// back, but never so many that there are more than at first. So none come back
// with NewSemaphore(ctx, m, 0), whose permits are signals that are used up.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Semaphore struct{ permits[semaphoreType] }

type semaphoreType struct{}

func (semaphoreType) objectType() (string, string, byte) { return "semaphore", "Semaphore", 'S' }

// NewSemaphore makes a semaphore in a manager, with n permits; n may be 0.
func NewSemaphore(ctx context.Context, m *Manager, n int) (*Semaphore, error) {
	p, err := newPermits[semaphoreType](ctx, m, "NewSemaphore", n, false)
	if err != nil {
		return nil, err
	}
	return &Semaphore{p}, nil
}

// BoundedSemaphore is a Semaphore that never has more permits than at first: a
// Release that would add one is an error.
type BoundedSemaphore struct{ permits[boundedType] }

type boundedType struct{}

func (boundedType) objectType() (string, string, byte) { return "semaphore", "BoundedSemaphore", 'B' }

// NewBoundedSemaphore makes a bounded semaphore in a manager, with n permits; n
// must be at least 1.
func NewBoundedSemaphore(ctx context.Context, m *Manager, n int) (*BoundedSemaphore, error) {
	if n == 0 {
		return nil, errors.New("fiber: NewBoundedSemaphore(0): without permits it could never be acquired")
	}
	p, err := newPermits[boundedType](ctx, m, "NewBoundedSemaphore", n, true)
	if err != nil {
		return nil, err
	}
	return &BoundedSemaphore{p}, nil
}

// permits is the common part of semaphores.
type permits[N objectType] struct{ builtinObject[N] }

func newPermits[N objectType](ctx context.Context, m *Manager, constructor string, n int, bounded bool) (permits[N], error) {
	if n < 0 || n > math.MaxInt32 {
		return permits[N]{}, fmt.Errorf("fiber: %s(%d): the number must be from 0 to %d", constructor, n, math.MaxInt32)
	}
	o, err := makeObject[N](ctx, m, builtin.Making{Kind: builtin.KindSemaphore, N: n, Bounded: bounded})
	return permits[N]{o}, err
}

// Acquire waits for a permit and takes it. The longest waiting caller comes
// first. A permit that arrives after ctx has ended is given back.
func (p *permits[N]) Acquire(ctx context.Context) error {
	me := p.owner(builtin.SemaphoreForget)
	_, err := ask(ctx, p, builtin.SemaphoreAcquire, me, func(object.None) { tell(p, builtin.SemaphoreRelease, me) })
	return err
}

// TryAcquire takes a permit if there is one, and reports whether it did.
func (p *permits[N]) TryAcquire(ctx context.Context) (bool, error) {
	me := p.owner(builtin.SemaphoreForget)
	return ask(ctx, p, builtin.SemaphoreTry, me, func(got bool) {
		if got {
			tell(p, builtin.SemaphoreRelease, me)
		}
	})
}

// Release gives a permit back, or adds one, even if ctx has ended. It is an
// error if a bounded semaphore has all its permits.
func (p *permits[N]) Release(ctx context.Context) error {
	return release(ctx, p, builtin.SemaphoreRelease, p.owner(builtin.SemaphoreForget))
}

// Permits returns how many permits can be acquired now.
func (p *permits[N]) Permits(ctx context.Context) (int, error) {
	return settle(ctx, p, builtin.SemaphoreValue, object.None{})
}

// With acquires a permit, runs fn, releases the permit, and returns fn's error.
func (p *permits[N]) With(ctx context.Context, fn func(context.Context) error) (err error) {
	if err := p.Acquire(ctx); err != nil {
		return err
	}
	defer func() { err = both(err, p.Release(ctx)) }()
	return fn(ctx)
}
