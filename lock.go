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

// Lock is a lock that lives in a manager and that processes share: one holds
// it at a time. It is made by NewLock and travels as (part of) an argument, a
// result, or a value of another managed object. Any goroutine may use it.
//
// Its holder is the proxy that it was acquired through, a Lock in one process:
// goroutines have no identity. A Lock that came as an argument is another proxy
// than the one that was sent. Only the holder can release the lock. Goroutines
// that share a proxy exclude each other, too.
//
// A lock whose holder's process dies, or ends, or drops the proxy without
// having released it, goes to the next, whose Acquire gives ErrAbandoned with
// the lock held.
//
// Methods give ErrClosed when the manager was closed, and a *WorkerLostError
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

// RLock is a Lock that its holder may acquire again, and releases as often as
// it has acquired it. Since the holder is a proxy, goroutines that share one do
// not exclude each other: each needs its own, from an argument say.
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

// owner is this proxy's number. From now on the object is told by forget when
// nobody has the proxy any more.
func (o *builtinObject[N]) owner(forget object.Op[uint64, object.None]) uint64 {
	if o.h == nil {
		return 0 // the request tells
	}
	o.me.once.Do(func() {
		proc, ref := o.h.proc, o.h.ref
		runtime.AddCleanup(o.me, func(id uint64) {
			go object.Tell(context.Background(), proc.home, ref, forget, id) // reaching a home may take time
		}, o.me.id)
	})
	return o.me.id
}

// release sends a request that gives something back, also when ctx has ended:
// then it waits for the answer for a moment only.
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

// whenAbandoned is the error of having got what was abandoned.
func whenAbandoned(what string, is bool) error {
	if is {
		return fmt.Errorf("fiber: %s: %w", what, ErrAbandoned)
	}
	return nil
}

// mutex is what locks have in common.
type mutex[N objectType] struct{ builtinObject[N] }

// Acquire waits until the lock is free, and takes it. With ErrAbandoned, too,
// the lock is held; with any other error it is not. Who waits longer comes
// first. A lock that comes when ctx has ended is given back.
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

// TryAcquire takes the lock if it is free, and says whether it has. The error
// ErrAbandoned goes with true.
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

// Release gives the lock to the next who waits. It does so also when ctx has
// ended. That another proxy, or nobody, holds the lock is an error.
func (m *mutex[N]) Release(ctx context.Context) error {
	return release(ctx, m, builtin.LockRelease, m.owner(builtin.LockForget))
}

// With runs fn with the lock held, and gives fn's error. An abandoned lock it
// gives back as such, without running fn: it gives ErrAbandoned, as does every
// further call, until somebody has acquired the lock, looked after what it
// guards, and released it.
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

// both is two errors, of which the second most often is none.
func both(err, another error) error {
	if another == nil {
		return err
	}
	return errors.Join(err, another)
}
