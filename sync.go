package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/managed"
)

// ErrAbandoned is what acquiring a lock gives when its last holder has ended,
// died perhaps, without releasing it. The lock is then held by whoever has got
// the error, who has to release it, and what it guards may be half changed. It
// is also what JoinableQueue.Join gives when somebody has ended with items that
// were not done.
var ErrAbandoned = RegisterError(errors.New("abandoned: who had it last ended without giving it back"))

// ErrBrokenBarrier is what waiting at a broken barrier gives.
var ErrBrokenBarrier = RegisterError(errors.New("the barrier is broken"))

// owner is this proxy's number. From now on the object is told by forget when
// nobody has the proxy any more.
func (o *object[N]) owner(forget home.Op[uint64, home.None]) uint64 {
	if o.h == nil {
		return 0 // the request tells
	}
	o.me.once.Do(func() {
		proc, ref := o.h.proc, o.h.ref
		runtime.AddCleanup(o.me, func(id uint64) {
			go home.Tell(context.Background(), proc.home, ref, forget, id) // reaching a home may take time
		}, o.me.id)
	})
	return o.me.id
}

// release sends a request that gives something back, also when ctx has ended:
// then it waits for the answer for a moment only.
func release[Q any](ctx context.Context, u user, op home.Op[Q, home.None], q Q) error {
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
type mutex[N noun] struct{ object[N] }

// Acquire waits until the lock is free, and takes it. With ErrAbandoned, too,
// the lock is held; with any other error it is not. Who waits longer comes
// first. A lock that comes when ctx has ended is given back.
func (m *mutex[N]) Acquire(ctx context.Context) error {
	me := m.owner(managed.LockForget)
	abandoned, err := ask(ctx, m, managed.LockAcquire, me, func(abandoned bool) {
		tell(m, managed.LockReturn, managed.LockBack{Owner: me, Abandoned: abandoned})
	})
	if err != nil {
		return err
	}
	return whenAbandoned(m.what(), abandoned)
}

// TryAcquire takes the lock if it is free, and says whether it has. The error
// ErrAbandoned goes with true.
func (m *mutex[N]) TryAcquire(ctx context.Context) (bool, error) {
	me := m.owner(managed.LockForget)
	got, err := ask(ctx, m, managed.LockTry, me, func(late managed.LockTried) {
		if late.Free {
			tell(m, managed.LockReturn, managed.LockBack{Owner: me, Abandoned: late.Abandoned})
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
	return release(ctx, m, managed.LockRelease, m.owner(managed.LockForget))
}

// With runs fn with the lock held, and gives fn's error. An abandoned lock it
// gives back as such, without running fn: it gives ErrAbandoned, as does every
// further call, until somebody has acquired the lock, looked after what it
// guards, and released it.
func (m *mutex[N]) With(ctx context.Context, fn func(context.Context) error) (err error) {
	if err := m.Acquire(ctx); err != nil {
		if errors.Is(err, ErrAbandoned) {
			err = both(err, release(ctx, m, managed.LockReturn, managed.LockBack{Owner: m.owner(managed.LockForget), Abandoned: true}))
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
