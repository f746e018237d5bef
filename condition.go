package fiber

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
	"github.com/fiber-go/fiber/internal/wire"
)

// Condition is a lock with which processes wait until something that the lock
// guards changes, and notify each other of the change. Create it with
// NewCondition. It travels as (part of) an argument, a result, or a value of
// another managed object. It is acquired and released like an RLock, through a
// proxy of its own.
//
// When a process dies while it holds the lock, all waiting calls of Wait are
// woken, since the notice that they wait for might never come; the first
// returns ErrAbandoned, with the lock held. So the change may not have happened
// when Wait returns. WaitFor checks that it has.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Condition struct {
	p      proxy
	number uint64 // among the lock's conditions
}

// NewCondition makes a condition. If lock is nil, the condition has a lock of
// its own in the manager. Otherwise it is another condition of lock, lives
// where lock does, and shares its holder: in this process, what was acquired
// through one may be released through the other.
func NewCondition(ctx context.Context, m *Manager, lock *RLock) (*Condition, error) {
	if lock == nil {
		var err error
		if lock, err = NewRLock(ctx, m); err != nil {
			return nil, err
		}
	}
	c := new(Condition)
	c.p = lock.p
	var err error
	if c.number, err = settle(ctx, c, builtin.LockCondition, object.None{}); err != nil {
		return nil, err
	}
	return c, nil
}

var conditionWaits atomic.Uint64

// Wait releases the lock, however often it was acquired, waits for a notice,
// and acquires the lock as often again. It is an error if this proxy does not
// hold the lock.
//
// When ctx ends, Wait acquires the lock again before it returns ctx.Err(). If
// that takes more than 5 s, the error says so, and the lock is not held. With
// ErrAbandoned the lock is held.
func (c *Condition) Wait(ctx context.Context) error {
	if used(c) == nil {
		return errEmpty("Condition")
	}
	if err := ended(ctx); err != nil {
		return err
	}
	defer runtime.KeepAlive(c.p.h)
	defer runtime.KeepAlive(c.p.me)
	h, me, id := c.p.h.proc.objects, owner(c), conditionWaits.Add(1)
	type outcome struct {
		builtin.LockGot
		err error
	}
	answered := make(chan outcome, 1)
	w, err := object.Start(ctx, h, c.p.h.ref, builtin.LockWait, builtin.LockSleep{Owner: me, Condition: c.number, Wait: id},
		func(got builtin.LockGot, err error) { answered <- outcome{got, err} })
	if err != nil {
		return objectError(ctx, c, err)
	}
	var o outcome
	select {
	case o = <-answered:
	case <-ctx.Done():
		post(c, builtin.LockEndWait, id)
		again := time.NewTimer(reacquireTime)
		defer again.Stop()
		select {
		case o = <-answered:
		case <-again.C:
			w.GiveUp()
			go func() {
				if o := <-answered; o.err == nil {
					post(c, builtin.LockReturn, builtin.LockBack{Owner: me, Abandoned: o.Abandoned, Whole: true})
				}
			}()
			return fmt.Errorf("fiber: Condition.Wait: %w, and the lock is not held: it was not free again within %v", ctx.Err(), reacquireTime)
		}
	}
	if o.err != nil {
		return objectError(ctx, c, o.err)
	}
	err = whenAbandoned(c, o.LockGot)
	if o.Ended && ctx.Err() != nil {
		return both(ctx.Err(), err)
	}
	return err
}

const reacquireTime = 5 * time.Second

// WaitFor waits until ready returns true. It calls ready with the lock held, at
// once and after each notice. It returns an error of ready, with the lock held,
// or of Wait; see there.
func (c *Condition) WaitFor(ctx context.Context, ready func() (bool, error)) error {
	if ctx == nil || ready == nil {
		return errNilFunc(ctx, "WaitFor")
	}
	for {
		if ok, err := ready(); ok || err != nil {
			return err
		}
		if err := c.Wait(ctx); err != nil {
			return err
		}
	}
}

// Notify wakes n waiting calls of Wait, the longest waiting first, or all if
// there are fewer. They go on when the lock is released. It is an error if this
// proxy does not hold the lock.
func (c *Condition) Notify(ctx context.Context, n int) error {
	if used(c) == nil {
		return errEmpty("Condition")
	}
	if n < 1 {
		return fmt.Errorf("fiber: Condition.Notify(%d): the number must be at least 1", n)
	}
	return c.notify(ctx, n)
}

// NotifyAll wakes all waiting calls of Wait; see Notify.
func (c *Condition) NotifyAll(ctx context.Context) error {
	return c.notify(ctx, 0)
}

func (c *Condition) notify(ctx context.Context, n int) error {
	if used(c) == nil {
		return errEmpty("Condition")
	}
	return do(ctx, c, builtin.LockNotify, builtin.LockNotice{Owner: owner(c), Condition: c.number, N: n})
}

// Acquire waits until the condition's lock is free, or held by this proxy, and
// takes it; see Lock.Acquire.
func (c *Condition) Acquire(ctx context.Context) error { return acquire(ctx, c) }

// TryAcquire takes the condition's lock if it is free, or held by this proxy, and
// reports whether it did. With ErrAbandoned, it returns true.
func (c *Condition) TryAcquire(ctx context.Context) (bool, error) { return tryAcquire(ctx, c) }

// Release undoes one Acquire; see Lock.Release.
func (c *Condition) Release(ctx context.Context) error { return giveBack(ctx, c) }

// With runs fn while this proxy holds the condition's lock; see Lock.With.
func (c *Condition) With(ctx context.Context, fn func(context.Context) error) error {
	return with(ctx, c, fn)
}

// MarshalBinary encodes a reference to the condition, which does not keep it alive; see
// Proxy.MarshalBinary.
func (c *Condition) MarshalBinary() ([]byte, error) {
	if used(c) == nil {
		return nil, errEmpty("Condition")
	}
	return marshalProxy(c, wire.AppendUvarint(nil, c.number)...)
}

// UnmarshalBinary attaches to the condition that a reference names.
func (c *Condition) UnmarshalBinary(b []byte) error {
	more, err := unmarshalMore(c, b)
	if err != nil {
		return err
	}
	in := wire.Reader{B: more}
	c.number = in.Uvarint()
	return in.Err
}

func (c *Condition) held() (*proxy, string) {
	if c == nil {
		return nil, "Condition"
	}
	return &c.p, "Condition"
}
