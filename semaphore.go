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
type Semaphore struct{ semaphore[Semaphore] }

// NewSemaphore makes a semaphore in a manager, with n permits; n may be 0.
func NewSemaphore(ctx context.Context, m *Manager, n int) (*Semaphore, error) {
	return newSemaphore[Semaphore](ctx, m, "NewSemaphore", n, false)
}

// BoundedSemaphore is a Semaphore that never has more permits than at first: a
// Release that would add one is an error.
type BoundedSemaphore struct{ semaphore[BoundedSemaphore] }

// NewBoundedSemaphore makes a bounded semaphore in a manager, with n permits; n
// must be at least 1.
func NewBoundedSemaphore(ctx context.Context, m *Manager, n int) (*BoundedSemaphore, error) {
	if n == 0 {
		return nil, errors.New("fiber: NewBoundedSemaphore(0): without permits it could never be acquired")
	}
	return newSemaphore[BoundedSemaphore](ctx, m, "NewBoundedSemaphore", n, true)
}

func newSemaphore[S any, P proxyOf[S]](ctx context.Context, m *Manager, constructor string, n int, bounded bool) (*S, error) {
	if n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("fiber: %s(%d): the number must be from 0 to %d", constructor, n, math.MaxInt32)
	}
	return newObject[S, P](ctx, m, builtin.Making{Kind: builtin.KindSemaphore, N: n, Bounded: bounded})
}

// semaphore is the common part of semaphores.
type semaphore[N any] struct{ permits[N] }

// Permits returns how many permits can be acquired now.
func (s *semaphore[N]) Permits(ctx context.Context) (int, error) {
	return read(ctx, s, builtin.LockFree, object.None{})
}
