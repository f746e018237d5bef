package fiber

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

// apply is the source of an Apply's task. It resolves its future last of all:
// otherwise the caller's next call would have to wait for the engine's lock.
type apply[Out any] struct {
	Future[Out]
	frames atomic.Pointer[[][]byte]
	in     any // keeps its shared values until the end
	out    Out
	failed error
	count  progress
}

func (a *apply[Out]) Encode(int, int) ([][]byte, error) {
	if frames := a.frames.Load(); frames != nil {
		return *frames, nil
	}
	return nil, ErrClosed // the call has ended
}

func (a *apply[Out]) Deliver(_, _ int, value [][]byte, failures []engine.Failure) {
	a.count.add(1)
	if len(failures) > 0 {
		a.failed = failures[0].Err
		return
	}
	outs, err := decodeOutputs[Out](value, 1)
	if err != nil {
		a.failed = err
		return
	}
	a.out = outs[0]
}

func (a *apply[Out]) Finish(err error) {
	a.frames.Store(nil)
	runtime.KeepAlive(a.in)
	if err != nil { // may come in the middle of a Deliver
		var zero Out
		a.resolve(zero, fromEngine(err))
		return
	}
	if a.count.fn != nil { // without it, no closure is allocated
		a.count.whenTold(a.arrive)
		return
	}
	a.arrive(nil)
}

// arrive resolves the future. err comes from OnProgress.
func (a *apply[Out]) arrive(err error) {
	if err != nil {
		var zero Out
		a.resolve(zero, err)
		return
	}
	a.resolve(a.out, fromEngine(a.failed))
}

func submitApply[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], in In, leads bool, opts []CallOption) (*apply[Out], *engine.Call, error) {
	o, err := prepare(ctx, pool, fn, opts)
	if err != nil {
		return nil, nil, err
	}
	a := &apply[Out]{Future: Future[Out]{done: make(chan struct{})}}
	a.count.fn, a.count.total = o.progress, 1
	frames, err := marshalLingering([]In{in})
	if err != nil {
		if e := (*codec.Error)(nil); errors.As(err, &e) {
			e.Index = -1
		}
		return nil, nil, errorf("fiber: the argument of %s: %w", fn.Name(), err)
	}
	a.frames.Store(&frames)
	a.in = in
	if err := pool.fits(frames); err != nil {
		return nil, nil, errorf("fiber: the argument of %s: %w", fn.Name(), err)
	}
	eo := o.engine(fn.Name(), false)
	eo.Leads = leads && o.progress == nil // with OnProgress, another goroutine brings the result
	call, err := pool.engine.Submit(a, 1, false, eo)
	return a, call, err
}

// Apply runs a function once in a worker and waits for the result. When ctx
// ends, the task is cancelled and Apply returns at once.
//
// The error is a *RemoteError when the function failed, a *WorkerLostError when
// its workers died, a *LaunchError when no worker can start, an *EncodeError
// when the argument or the result cannot travel, ErrClosed when the pool is
// closed, or ctx.Err(). Do not change the argument until Apply returns.
func Apply[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], in In, opts ...CallOption) (Out, error) {
	var zero Out
	a, call, err := submitApply(ctx, pool, fn, in, true, opts)
	if err != nil {
		return zero, err
	}
	call.Lead(a.done)
	if ctx.Done() == nil {
		<-a.done
		return a.value, a.err
	}
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		call.Cancel()
		return zero, ctx.Err()
	}
}

// ApplyAsync is Apply without the wait: it returns a future of the result. When
// ctx ends before the result is there, the task is cancelled and the future
// resolves to ctx.Err(). All errors come from the future, including those that
// Apply would return at once.
func ApplyAsync[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], in In, opts ...CallOption) *Future[Out] {
	var zero Out
	a, call, err := submitApply(ctx, pool, fn, in, false, opts)
	if err != nil {
		f := newFuture[Out]()
		f.resolve(zero, err)
		return f
	}
	follow(ctx, &a.Future, call, func() {})
	return &a.Future
}
