package fiber

import (
	"context"
	"fmt"
	"math"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// Barrier is where a number of parties in any processes wait for each
// other, again and again. It lives in a manager. Create it with NewBarrier. It
// travels as (part of) an argument, a result, or a value of another managed
// object. Any goroutine may use it. (The ranks of a ring have [RingNode.Barrier].)
//
// A barrier breaks when a process that has it dies, when the context of a Wait
// ends, and at Abort. All calls of Wait, waiting and later ones, then return
// ErrBrokenBarrier until Reset.
//
// Methods return ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type Barrier struct{ p proxy }

// NewBarrier makes a barrier in a manager, for a number of parties that is at
// least 1.
func NewBarrier(ctx context.Context, m *Manager, parties int) (*Barrier, error) {
	if parties < 1 || parties > math.MaxInt32 {
		return nil, fmt.Errorf("fiber: NewBarrier(%d): the number of parties must be from 1 to %d", parties, math.MaxInt32)
	}
	return newObject[Barrier](ctx, m, builtin.Making{Kind: builtin.KindBarrier, N: parties})
}

// Wait waits until all parties do. It returns a different index to each of
// them, from 0 to the number of parties minus 1, in the order in which they
// came. If ctx ends, even before the call, the barrier breaks.
func (b *Barrier) Wait(ctx context.Context) (index int, err error) {
	index, sent, err := tryAsk(ctx, b, builtin.BarrierWait, object.None{}, nil)
	if !sent && ctx != nil && err == ctx.Err() { // the other parties must not wait for this one
		err = both(ctx.Err(), release(ctx, b, builtin.BarrierAbort, true))
	}
	return index, err
}

// Reset makes the barrier whole again. Calls of Wait that are waiting at the
// time return ErrBrokenBarrier.
func (b *Barrier) Reset(ctx context.Context) error {
	return do(ctx, b, builtin.BarrierReset, object.None{})
}

// Abort breaks the barrier.
func (b *Barrier) Abort(ctx context.Context) error {
	return do(ctx, b, builtin.BarrierAbort, false)
}

// Parties returns the number of parties.
func (b *Barrier) Parties(ctx context.Context) (int, error) {
	s, err := b.state(ctx)
	return s.Parties, err
}

// Waiting returns the number of parties that are waiting now.
func (b *Barrier) Waiting(ctx context.Context) (int, error) {
	s, err := b.state(ctx)
	return s.Waiting, err
}

// Broken reports whether the barrier is broken.
func (b *Barrier) Broken(ctx context.Context) (bool, error) {
	s, err := b.state(ctx)
	return s.Broken, err
}

func (b *Barrier) state(ctx context.Context) (builtin.BarrierSays, error) {
	return read(ctx, b, builtin.BarrierState, object.None{})
}

// MarshalBinary encodes a reference to the barrier, which does not keep it alive; see
// Proxy.MarshalBinary.
func (b *Barrier) MarshalBinary() ([]byte, error) { return marshalProxy(b) }

// UnmarshalBinary attaches to the barrier that a reference names.
func (b *Barrier) UnmarshalBinary(ref []byte) error { return unmarshalProxy(b, ref) }

func (b *Barrier) held() (*proxy, string) {
	if b == nil {
		return nil, "Barrier"
	}
	return &b.p, "Barrier"
}
