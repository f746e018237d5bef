package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

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
// If the holder's process dies or ends, or drops the proxy, without releasing
// the lock, the lock goes to the next caller of Acquire, which returns
// ErrAbandoned with the lock held.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Lock struct{ mutex[lockType] }

type lockType struct{}

func (lockType) objectType() (string, string, byte) { return "lock", "Lock", 'X' }

// NewLock makes a lock in a manager.
func NewLock(ctx context.Context, m *Manager) (*Lock, error) {
	o, err := makeObject[lockType](ctx, m, builtin.Making{Kind: builtin.KindLock})
	if err != nil {
		return nil, err
	}
	return &Lock{mutex[lockType]{o}}, nil
}

// RLock is a Lock that its holder may acquire again, and must release as often
// as it has acquired it. Since the holder is a proxy, goroutines that share one
// do not exclude each other: each needs a proxy of its own, for example from an
// argument.
type RLock struct{ mutex[rlockType] }

type rlockType struct{}

func (rlockType) objectType() (string, string, byte) { return "lock", "RLock", 'R' }

// NewRLock makes a reentrant lock in a manager.
func NewRLock(ctx context.Context, m *Manager) (*RLock, error) {
	o, err := makeObject[rlockType](ctx, m, builtin.Making{Kind: builtin.KindRLock})
	if err != nil {
		return nil, err
	}
	return &RLock{mutex[rlockType]{o}}, nil
}

// owner returns this proxy's number. From now on, forget tells the object when
// the proxy has become unreachable.
func (o *builtinObject[N]) owner(forget object.Op[uint64, object.None]) uint64 {
	if o.h == nil {
		return 0 // the request will fail
	}
	o.me.once.Do(func() {
		proc, ref := o.h.proc, o.h.ref
		runtime.AddCleanup(o.me, func(id uint64) {
			go object.Tell(context.Background(), proc.home, ref, forget, id) // reaching a home may take time
		}, o.me.id)
	})
	return o.me.id
}

// release sends a request that gives something back, even if ctx has ended; it
// then waits only a moment for the answer.
func release[Q any](ctx context.Context, u user, op object.Op[Q, object.None], q Q) error {
	if ctx.Done() == nil {
		return do(ctx, u, op, q)
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(releaseTime):
			cancel()
		case <-longer.Done():
		}
	})
	defer stop()
	return do(longer, u, op, q)
}

const releaseTime = time.Second

// whenAbandoned returns ErrAbandoned if what was acquired had been abandoned.
func whenAbandoned(what string, is bool) error {
	if is {
		return fmt.Errorf("fiber: %s: %w", what, ErrAbandoned)
	}
	return nil
}

// mutex is the common part of locks.
type mutex[N objectType] struct{ builtinObject[N] }

// Acquire waits until the lock is free, and takes it. The longest waiting
// caller comes first. If the error is nil or ErrAbandoned, the lock is held;
// with any other error it is not. A lock that arrives after ctx has ended is
// given back.
func (m *mutex[N]) Acquire(ctx context.Context) error {
	me := m.owner(builtin.LockForget)
	abandoned, err := ask(ctx, m, builtin.LockAcquire, me, func(abandoned bool) {
		tell(m, builtin.LockReturn, builtin.LockBack{Owner: me, Abandoned: abandoned})
	})
	if err != nil {
		return err
	}
	return whenAbandoned(m.what(), abandoned)
}

// TryAcquire takes the lock if it is free, and reports whether it did. With
// ErrAbandoned, it returns true.
func (m *mutex[N]) TryAcquire(ctx context.Context) (bool, error) {
	me := m.owner(builtin.LockForget)
	got, err := ask(ctx, m, builtin.LockTry, me, func(late builtin.LockTried) {
		if late.Free {
			tell(m, builtin.LockReturn, builtin.LockBack{Owner: me, Abandoned: late.Abandoned})
		}
	})
	if err != nil {
		return false, err
	}
	return got.Free, whenAbandoned(m.what(), got.Abandoned)
}

// Release releases the lock, even if ctx has ended, and the longest waiting
// caller gets it. It is an error if this proxy does not hold the lock.
func (m *mutex[N]) Release(ctx context.Context) error {
	return release(ctx, m, builtin.LockRelease, m.owner(builtin.LockForget))
}

// With acquires the lock, runs fn, releases the lock, and returns fn's error.
// If the lock is abandoned, With does not run fn: it leaves the lock abandoned
// and returns ErrAbandoned. To end that state, call Acquire, repair what the
// lock guards, and call Release.
func (m *mutex[N]) With(ctx context.Context, fn func(context.Context) error) (err error) {
	if err := m.Acquire(ctx); err != nil {
		if errors.Is(err, ErrAbandoned) {
			err = both(err, release(ctx, m, builtin.LockReturn, builtin.LockBack{Owner: m.owner(builtin.LockForget), Abandoned: true}))
		}
		return err
	}
	defer func() { err = both(err, m.Release(ctx)) }()
	return fn(ctx)
}

// both joins two errors, of which the second is most often nil.
func both(err, another error) error {
	if another == nil {
		return err
	}
	return errors.Join(err, another)
}
