package fiber

import (
	"context"
	"fmt"
	"math"

	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/object/builtin"
)

// CyclicBarrier is where a number of parties in any processes wait for each
// other, again and again. It lives in a manager, is made by NewBarrier, and
// travels as (part of) an argument, a result, or a value of another managed
// object. Any goroutine may use it. (The function Barrier is for the ranks of a
// ring.)
//
// A barrier breaks when a process that has it dies, when somebody's Wait ends
// with its context, and by Abort: all who wait, and all who do so later, get
// ErrBrokenBarrier, until Reset.
//
// Methods give ErrClosed when the manager was closed, and a *WorkerLostError
// when its process was lost.
type CyclicBarrier struct{ builtinObject[barrierType] }

type barrierType struct{}

func (barrierType) objectType() (string, string, byte) { return "barrier", "CyclicBarrier", 'G' }

// NewBarrier makes a barrier in a manager, for a number of parties, one at
// least.
func NewBarrier(ctx context.Context, m *Manager, parties int) (*CyclicBarrier, error) {
	if parties < 1 || parties > math.MaxInt32 {
		return nil, fmt.Errorf("fiber: NewBarrier(%d): the number of parties is from 1 to %d", parties, math.MaxInt32)
	}
	o, err := makeObject[barrierType](ctx, m, builtin.Making{Kind: builtin.KindBarrier, N: parties})
	if err != nil {
		return nil, err
	}
	return &CyclicBarrier{o}, nil
}

// Wait waits until all parties do. It gives each of them another index, from
// 0 to the number of parties minus 1, in the order in which they came. When ctx
// ends, also before the call, the barrier is broken.
func (b *CyclicBarrier) Wait(ctx context.Context) (index int, err error) {
	if err := ctx.Err(); err != nil { // the others are not to wait for this one
		return 0, both(err, release(ctx, b, builtin.BarrierAbort, object.None{}))
	}
	return settle(ctx, b, builtin.BarrierWait, object.None{})
}

// Reset makes the barrier whole again. Who waits at the time gets
// ErrBrokenBarrier.
func (b *CyclicBarrier) Reset(ctx context.Context) error {
	return do(ctx, b, builtin.BarrierReset, object.None{})
}

// Abort breaks the barrier.
func (b *CyclicBarrier) Abort(ctx context.Context) error {
	return do(ctx, b, builtin.BarrierAbort, object.None{})
}

// Parties is the number of those who wait for each other.
func (b *CyclicBarrier) Parties(ctx context.Context) (int, error) {
	s, err := b.state(ctx)
	return s.Parties, err
}

// Waiting is the number of those who wait now.
func (b *CyclicBarrier) Waiting(ctx context.Context) (int, error) {
	s, err := b.state(ctx)
	return s.Waiting, err
}

// Broken says whether the barrier is broken.
func (b *CyclicBarrier) Broken(ctx context.Context) (bool, error) {
	s, err := b.state(ctx)
	return s.Broken, err
}

func (b *CyclicBarrier) state(ctx context.Context) (builtin.BarrierSays, error) {
	return settle(ctx, b, builtin.BarrierState, object.None{})
}
