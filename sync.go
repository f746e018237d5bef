package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fiber-go/fiber/internal/home"
	"github.com/fiber-go/fiber/internal/managed"
	"github.com/fiber-go/fiber/internal/wire"
)

// ErrAbandoned is what acquiring a lock gives when its last holder has ended,
// died perhaps, without releasing it. The lock is then held by whoever has got
// the error, who has to release it, and what it guards may be half changed. It
// is also what JoinableQueue.Join gives when somebody has ended with items that
// were not done.
var ErrAbandoned = RegisterError(errors.New("abandoned: who had it last ended without giving it back"))

// ErrBrokenBarrier is what waiting at a broken barrier gives.
var ErrBrokenBarrier = RegisterError(errors.New("the barrier is broken"))

// owner makes arguments of this proxy and more. From now on the object is told
// by forget when nobody has the proxy any more.
func (o *object[N]) owner(forget byte, more ...uint64) []byte {
	if o.h == nil {
		return nil // the request tells
	}
	me := uvarints(o.me.id)
	o.me.once.Do(func() {
		proc, ref := o.h.proc, o.h.ref
		runtime.AddCleanup(o.me, func(args []byte) {
			go proc.home.Tell(ref, forget, args) // reaching a home may take time
		}, me)
	})
	return append(me[:len(me):len(me)], uvarints(more...)...)
}

// giveBack sends a request that has no answer, of what came too late.
func (o *object[N]) giveBack(op byte, args []byte) {
	o.h.proc.home.Tell(o.h.ref, op, args)
	runtime.KeepAlive(o.h)
}

// release sends a request that gives something back, also when ctx has ended:
// then it waits for the answer for a moment only.
func (o *object[N]) release(ctx context.Context, op byte, args []byte) error {
	if ctx.Done() == nil {
		return o.do(ctx, op, args)
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
	return o.do(longer, op, args)
}

const releaseTime = time.Second

// abandoned reads whether what was got was abandoned.
func abandoned(what string, in *wire.Reader) error {
	if in.Uvarint() == 1 {
		return fmt.Errorf("fiber: %s: %w", what, ErrAbandoned)
	}
	return in.Err
}

// mutex is what locks have in common.
type mutex[N noun] struct{ object[N] }

// Acquire waits until the lock is free, and takes it. With ErrAbandoned, too,
// the lock is held; with any other error it is not. Who waits longer comes
// first. A lock that comes when ctx has ended is given back.
func (m *mutex[N]) Acquire(ctx context.Context) error {
	a, err := m.wait(ctx, managed.LockAcquire, m.owner(managed.LockForget), func(late home.Answer) {
		in := wire.Reader{B: late.Args}
		m.giveBack(managed.LockReturn, m.owner(managed.LockForget, in.Uvarint(), 0))
	})
	if err != nil {
		return err
	}
	return abandoned(m.what(), &wire.Reader{B: a.Args})
}

// TryAcquire takes the lock if it is free, and says whether it has. The error
// ErrAbandoned goes with true.
func (m *mutex[N]) TryAcquire(ctx context.Context) (bool, error) {
	a, err := m.wait(ctx, managed.LockTry, m.owner(managed.LockForget), func(late home.Answer) {
		if in := (wire.Reader{B: late.Args}); in.Uvarint() == 1 {
			m.giveBack(managed.LockReturn, m.owner(managed.LockForget, in.Uvarint(), 0))
		}
	})
	if err != nil {
		return false, err
	}
	in := wire.Reader{B: a.Args}
	if in.Uvarint() != 1 {
		return false, in.Err
	}
	return true, abandoned(m.what(), &in)
}

// Release gives the lock to the next who waits. It does so also when ctx has
// ended. That another proxy, or nobody, holds the lock is an error.
func (m *mutex[N]) Release(ctx context.Context) error {
	return m.release(ctx, managed.LockRelease, m.owner(managed.LockForget))
}

// With runs fn with the lock held, and gives fn's error. An abandoned lock it
// gives back as such, without running fn: it gives ErrAbandoned, as does every
// further call, until somebody has acquired the lock, looked after what it
// guards, and released it.
func (m *mutex[N]) With(ctx context.Context, fn func(context.Context) error) (err error) {
	if err := m.Acquire(ctx); err != nil {
		if errors.Is(err, ErrAbandoned) {
			err = both(err, m.release(ctx, managed.LockReturn, m.owner(managed.LockForget, 1, 0)))
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
