package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/fiber-go/fiber/internal/garbage"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Lock is a lock that lives in a manager and that processes share. It has one
// holder at a time. Create it with NewLock. It travels as (part of) an
// argument, a result, or a value of another managed object. Any goroutine may
// use it.
//
// The holder is a proxy, that is, a Lock in one process, since goroutines have
// no identity. A Lock that arrives as an argument is another proxy than the one
// that was sent. Only the proxy that has acquired the lock can release it.
// Goroutines that share a proxy exclude each other, too.
//
// If the holder's process dies or ends without releasing the lock, the lock goes
// to the next caller of Acquire, which returns ErrAbandoned with the lock held.
// So it does when the holder's process has dropped the proxy, as soon as its
// garbage collector finds that: an idle process may take minutes. So release the
// lock in the function that has acquired it.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Lock struct{ permits[Lock] }

// NewLock makes a lock in a manager.
func NewLock(ctx context.Context, m *Manager) (*Lock, error) {
	return newObject[Lock](ctx, m, builtin.Making{Kind: builtin.KindLock})
}

// RLock is a Lock that its holder may acquire again, and must release as often
// as it has acquired it. Since the holder is a proxy, goroutines that share one
// do not exclude each other: each needs a proxy of its own, for example from an
// argument.
type RLock struct{ permits[RLock] }

// NewRLock makes a reentrant lock in a manager.
func NewRLock(ctx context.Context, m *Manager) (*RLock, error) {
	return newObject[RLock](ctx, m, builtin.Making{Kind: builtin.KindRLock})
}

// owner returns this proxy's number. From now on, the object is told when the
// proxy has become unreachable.
func (o *builtinObject[N]) owner() uint64 {
	if o.h == nil {
		return 0 // the request will fail
	}
	o.me.once.Do(func() {
		proc, ref := o.h.proc, o.h.ref
		garbage.Then(o.me, func(id uint64) {
			go object.Tell(context.Background(), proc.objects, ref, builtin.LockForget, id) // reaching a home may take time
		}, o.me.id)
	})
	return o.me.id
}

// release returns a permit, or leaves a barrier, even if ctx has ended; it then
// waits only a moment for the answer.
func release[Q any](ctx context.Context, u user, op object.Op[Q, object.None], q Q) error {
	h := u.used()
	if h == nil {
		return errEmpty(u.typ())
	}
	if ctx == nil {
		return errNilContext
	}
	_, err := object.Insist(ctx, h.proc.objects, h.ref, op, q)
	runtime.KeepAlive(u)
	return objectError(ctx, u, err)
}

// permits is the common part of locks and semaphores.
type permits[N any] struct{ builtinObject[N] }

// Acquire waits until the lock is free, or until the semaphore has a permit, and
// takes it. The longest waiting caller comes first. If the error is nil or
// ErrAbandoned, which only locks return, the caller holds it; with any other
// error it does not. What arrives after ctx has ended is given back.
func (p *permits[N]) Acquire(ctx context.Context) error {
	_, err := p.acquire(ctx, false)
	return err
}

// TryAcquire takes the lock if it is free, or a permit if there is one, and
// reports whether it did. With ErrAbandoned, it returns true.
func (p *permits[N]) TryAcquire(ctx context.Context) (bool, error) { return p.acquire(ctx, true) }

func (p *permits[N]) acquire(ctx context.Context, try bool) (bool, error) {
	me := p.owner()
	got, err := ask(ctx, p, builtin.LockAcquire, builtin.LockWant{Owner: me, Try: try}, func(late builtin.LockGot) {
		if late.Got {
			post(p, builtin.LockReturn, builtin.LockBack{Owner: me, Abandoned: late.Abandoned})
		}
	})
	if err != nil {
		return false, err
	}
	return got.Got, p.whenAbandoned(got)
}

// whenAbandoned returns ErrAbandoned if what was acquired had been abandoned.
func (p *permits[N]) whenAbandoned(got builtin.LockGot) error {
	if got.Abandoned {
		return fmt.Errorf("fiber: the %s: %w", nounOf(p.typ()), ErrAbandoned)
	}
	return nil
}

// Release releases the lock or a permit, even if ctx has ended, and the longest
// waiting caller gets it. It is an error if this proxy does not hold the lock, or
// if a bounded semaphore has all its permits. If the manager does not answer within
// a second of the end of ctx, the error is ErrUnknownOutcome, too, and the manager
// learns of the release when it goes on.
func (p *permits[N]) Release(ctx context.Context) error {
	return release(ctx, p, builtin.LockRelease, p.owner())
}

// With calls Acquire, runs fn, calls Release, and returns fn's error. If a lock
// is abandoned, With does not run fn: it leaves the lock abandoned and returns
// ErrAbandoned. To end that state, call Acquire, repair what the lock guards, and
// call Release.
func (p *permits[N]) With(ctx context.Context, fn func(context.Context) error) (err error) {
	if fn == nil {
		return errNilFunc(ctx, "With")
	}
	if err := p.Acquire(ctx); err != nil {
		if errors.Is(err, ErrAbandoned) {
			err = both(err, release(ctx, p, builtin.LockReturn, builtin.LockBack{Owner: p.owner(), Abandoned: true}))
		}
		return err
	}
	defer func() { err = both(err, p.Release(ctx)) }()
	return fn(ctx)
}

// both joins two errors, of which the second is most often nil.
func both(err, another error) error {
	switch {
	case another == nil:
		return err
	case err == nil:
		return another
	}
	return &prefixed{err.Error() + "; " + strings.TrimPrefix(another.Error(), "fiber: "), errors.Join(err, another)}
}
