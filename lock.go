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
type Lock struct{ p proxy }

// NewLock makes a lock in a manager.
func NewLock(ctx context.Context, m *Manager) (*Lock, error) {
	return newObject[Lock](ctx, m, builtin.Making{Kind: builtin.KindLock})
}

// Acquire waits until the lock is free, and takes it. The longest waiting caller
// comes first. If the error is nil or ErrAbandoned, the caller holds the lock; with
// any other error it does not. A lock that arrives after ctx has ended is given back.
func (l *Lock) Acquire(ctx context.Context) error { return acquire(ctx, l) }

// TryAcquire takes the lock if it is free, and reports whether it did. With
// ErrAbandoned, it returns true.
func (l *Lock) TryAcquire(ctx context.Context) (bool, error) { return tryAcquire(ctx, l) }

// Release releases the lock, even if ctx has ended, and the longest waiting caller
// gets it. It is an error if this proxy does not hold the lock. If the manager does
// not answer within a second of the end of ctx, the error is ErrUnknownOutcome, too,
// and the manager learns of the release when it goes on.
func (l *Lock) Release(ctx context.Context) error { return giveBack(ctx, l) }

// With calls Acquire, runs fn, calls Release, and returns fn's error. If the lock
// is abandoned, With does not run fn: it leaves the lock abandoned and returns
// ErrAbandoned. To end that state, call Acquire, repair what the lock guards, and
// call Release.
func (l *Lock) With(ctx context.Context, fn func(context.Context) error) error {
	return with(ctx, l, fn)
}

// MarshalBinary encodes a reference to the lock, which does not keep it alive; see
// Proxy.MarshalBinary.
func (l *Lock) MarshalBinary() ([]byte, error) { return marshalProxy(l) }

// UnmarshalBinary attaches to the lock that a reference names.
func (l *Lock) UnmarshalBinary(b []byte) error { return unmarshalProxy(l, b) }

func (l *Lock) held() (*proxy, string) {
	if l == nil {
		return nil, "Lock"
	}
	return &l.p, "Lock"
}

// RLock is a Lock that its holder may acquire again, and must release as often
// as it has acquired it. Since the holder is a proxy, goroutines that share one
// do not exclude each other: each needs a proxy of its own, for example from an
// argument.
type RLock struct{ p proxy }

// NewRLock makes a reentrant lock in a manager.
func NewRLock(ctx context.Context, m *Manager) (*RLock, error) {
	return newObject[RLock](ctx, m, builtin.Making{Kind: builtin.KindRLock})
}

// Acquire waits until the lock is free, or held by this proxy, and takes it; see
// Lock.Acquire.
func (l *RLock) Acquire(ctx context.Context) error { return acquire(ctx, l) }

// TryAcquire takes the lock if it is free, or held by this proxy, and reports
// whether it did. With ErrAbandoned, it returns true.
func (l *RLock) TryAcquire(ctx context.Context) (bool, error) { return tryAcquire(ctx, l) }

// Release undoes one Acquire; see Lock.Release.
func (l *RLock) Release(ctx context.Context) error { return giveBack(ctx, l) }

// With runs fn while this proxy holds the lock; see Lock.With.
func (l *RLock) With(ctx context.Context, fn func(context.Context) error) error {
	return with(ctx, l, fn)
}

// MarshalBinary encodes a reference to the lock, which does not keep it alive; see
// Proxy.MarshalBinary.
func (l *RLock) MarshalBinary() ([]byte, error) { return marshalProxy(l) }

// UnmarshalBinary attaches to the lock that a reference names.
func (l *RLock) UnmarshalBinary(b []byte) error { return unmarshalProxy(l, b) }

func (l *RLock) held() (*proxy, string) {
	if l == nil {
		return nil, "RLock"
	}
	return &l.p, "RLock"
}

// owner returns a proxy's number. From now on, the object is told when the proxy
// has become unreachable.
func owner(u user) uint64 {
	p, _ := u.held()
	if p == nil || p.h == nil {
		return 0 // the request will fail
	}
	p.me.once.Do(func() {
		proc, ref := p.h.proc, p.h.ref
		garbage.Then(p.me, func(id uint64) {
			go object.Tell(context.Background(), proc.objects, ref, builtin.LockForget, id) // reaching a home may take time
		}, p.me.id)
	})
	return p.me.id
}

// release returns a permit, or leaves a barrier, even if ctx has ended; it then
// waits only a moment for the answer.
func release[Q any](ctx context.Context, u user, op object.Op[Q, object.None], q Q) error {
	h := used(u)
	if h == nil {
		return errEmpty(typeOf(u))
	}
	if ctx == nil {
		return errNilContext
	}
	_, err := object.Insist(ctx, h.proc.objects, h.ref, op, q)
	runtime.KeepAlive(u)
	return objectError(ctx, u, err)
}

// What locks and semaphores have in common.

func acquire(ctx context.Context, u user) error {
	_, err := acquireOr(ctx, u, false)
	return err
}

func tryAcquire(ctx context.Context, u user) (bool, error) { return acquireOr(ctx, u, true) }

// acquireOr waits for a permit, or does not if it is only to try.
func acquireOr(ctx context.Context, u user, try bool) (bool, error) {
	me := owner(u)
	got, err := ask(ctx, u, builtin.LockAcquire, builtin.LockWant{Owner: me, Try: try}, func(late builtin.LockGot) {
		if late.Got {
			post(u, builtin.LockReturn, builtin.LockBack{Owner: me, Abandoned: late.Abandoned})
		}
	})
	if err != nil {
		return false, err
	}
	return got.Got, whenAbandoned(u, got)
}

// whenAbandoned returns ErrAbandoned if what was acquired had been abandoned.
func whenAbandoned(u user, got builtin.LockGot) error {
	if got.Abandoned {
		return fmt.Errorf("fiber: the %s: %w", nounOf(typeOf(u)), ErrAbandoned)
	}
	return nil
}

func giveBack(ctx context.Context, u user) error {
	return release(ctx, u, builtin.LockRelease, owner(u))
}

func with(ctx context.Context, u user, fn func(context.Context) error) (err error) {
	if fn == nil {
		return errNilFunc(ctx, "With")
	}
	if err := acquire(ctx, u); err != nil {
		if errors.Is(err, ErrAbandoned) {
			err = both(err, release(ctx, u, builtin.LockReturn, builtin.LockBack{Owner: owner(u), Abandoned: true}))
		}
		return err
	}
	defer func() { err = both(err, giveBack(ctx, u)) }()
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
