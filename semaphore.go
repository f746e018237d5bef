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
// share. It is made by NewSemaphore and travels as (part of) an argument, a
// result, or a value of another managed object. Any goroutine may use it.
//
// A release without an acquire before adds a permit. What a process holds that
// dies or ends, or through a proxy that it drops, comes back, as far as there
// are then no more permits than at first: with NewSemaphore(ctx, m, 0), whose
// permits are signals that are used up, none does. A permit may be released by
// another process than the one that acquired it.
//
// Methods give ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Semaphore struct{ permits[semaphoreType] }

type semaphoreType struct{}

func (semaphoreType) objectType() (string, string, byte) { return "semaphore", "Semaphore", 'S' }

// NewSemaphore makes a semaphore in a manager, with n permits, which may be 0.
func NewSemaphore(ctx context.Context, m *Manager, n int) (*Semaphore, error) {
	p, err := newPermits[semaphoreType](ctx, m, "NewSemaphore", n, false)
	if err != nil {
		return nil, err
	}
	return &Semaphore{p}, nil
}

// BoundedSemaphore is a Semaphore that never has more permits than at first:
// a release that would add one is an error.
type BoundedSemaphore struct{ permits[boundedType] }

type boundedType struct{}

func (boundedType) objectType() (string, string, byte) { return "semaphore", "BoundedSemaphore", 'B' }

// NewBoundedSemaphore makes a bounded semaphore in a manager, with n permits,
// one at least.
func NewBoundedSemaphore(ctx context.Context, m *Manager, n int) (*BoundedSemaphore, error) {
	if n == 0 {
		return nil, errors.New("fiber: NewBoundedSemaphore(0): nobody could ever acquire it")
	}
	p, err := newPermits[boundedType](ctx, m, "NewBoundedSemaphore", n, true)
	if err != nil {
		return nil, err
	}
	return &BoundedSemaphore{p}, nil
}

// permits is what semaphores have in common.
type permits[N objectType] struct{ builtinObject[N] }

func newPermits[N objectType](ctx context.Context, m *Manager, constructor string, n int, bounded bool) (permits[N], error) {
	if n < 0 || n > math.MaxInt32 {
		return permits[N]{}, fmt.Errorf("fiber: %s(%d): it must be from 0 to %d", constructor, n, math.MaxInt32)
	}
	o, err := makeObject[N](ctx, m, builtin.Making{Kind: builtin.KindSemaphore, N: n, Bounded: bounded})
	return permits[N]{o}, err
}

// Acquire waits for a permit and takes it. Who waits longer comes first. A
// permit that comes when ctx has ended is given back.
func (p *permits[N]) Acquire(ctx context.Context) error {
	me := p.owner(builtin.SemaphoreForget)
	_, err := ask(ctx, p, builtin.SemaphoreAcquire, me, func(object.None) { tell(p, builtin.SemaphoreRelease, me) })
	return err
}

// TryAcquire takes a permit if there is one, and says whether it has.
func (p *permits[N]) TryAcquire(ctx context.Context) (bool, error) {
	me := p.owner(builtin.SemaphoreForget)
	return ask(ctx, p, builtin.SemaphoreTry, me, func(got bool) {
		if got {
			tell(p, builtin.SemaphoreRelease, me)
		}
	})
}

// Release gives a permit back, or adds one. It does so also when ctx has
// ended. An error of a bounded semaphore says that it has all its permits.
func (p *permits[N]) Release(ctx context.Context) error {
	return release(ctx, p, builtin.SemaphoreRelease, p.owner(builtin.SemaphoreForget))
}

// Permits is how many can be acquired now.
func (p *permits[N]) Permits(ctx context.Context) (int, error) {
	return settle(ctx, p, builtin.SemaphoreValue, object.None{})
}

// With runs fn with a permit, and gives fn's error.
func (p *permits[N]) With(ctx context.Context, fn func(context.Context) error) (err error) {
	if err := p.Acquire(ctx); err != nil {
		return err
	}
	defer func() { err = both(err, p.Release(ctx)) }()
	return fn(ctx)
}
