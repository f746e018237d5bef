package fiber

import (
	"context"

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

func (lockType) objectType() (string, byte) { return "lock", 'X' }

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

func (rlockType) objectType() (string, byte) { return "lock", 'R' }

// NewRLock makes a reentrant lock in a manager.
func NewRLock(ctx context.Context, m *Manager) (*RLock, error) {
	o, err := makeObject[rlockType](ctx, m, builtin.Making{Kind: builtin.KindRLock})
	if err != nil {
		return nil, err
	}
	return &RLock{mutex[rlockType]{o}}, nil
}
