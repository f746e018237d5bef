package fiber

import (
	"context"
	"errors"

	"github.com/fiber-go/fiber/internal/object"
)

// Apply runs a function once in a worker and waits for the result. When ctx
// ends, the task is cancelled and Apply returns at once.
//
// When the task fails, the error is a *TaskError around a *RemoteError if the function
// failed, a *WorkerLostError if its workers died, or an *EncodeError if the argument or
// the result cannot travel. Otherwise it is a *LaunchError when no worker can start,
// ErrClosed when the pool is closed, or ctx.Err(). Do not change the argument until Apply returns; when it
// returns early, with an error, large slices of numbers in the argument may be read for a moment longer, on their
// way to a worker. Apply encodes the argument first, and looks at ctx when that is done.
func Apply[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], in In, opts ...CallOption) (Out, error) {
	m := apply(ctx, pool, fn, in, true, opts)
	if m.call != nil {
		if err := m.call.Wait(ctx, m.done); err != nil {
			m.abort(err)
		}
	}
	return m.Get(context.Background())
}

// ApplyAsync is Apply without the wait: it returns a future of the result. When
// ctx ends before the result is there, the task is cancelled and the future
// resolves to ctx.Err(). All errors come from the future, including those that
// Apply would return at once.
func ApplyAsync[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], in In, opts ...CallOption) *Future[Out] {
	return &apply(ctx, pool, fn, in, false, opts).Future
}

func apply[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], in In, waits bool, opts []CallOption) *mapping[In, Out, Out] {
	m := &mapping[In, Out, Out]{ins: []In{in}, outs: make([]Out, 1), single: true, result: func(outs []Out) Out { return outs[0] }}
	m.done = make(chan struct{})
	o, err := prepare(ctx, pool, fn, opts)
	if err != nil {
		m.reject(err)
		return m
	}
	if o.checkpoint.given() {
		m.reject(errors.New("fiber: Checkpoint is for Map, IMap, IMapUnordered and Results; keep a single result with SaveState"))
		return m
	}
	if m.frames, err = marshalLingering(ctx, m.ins); err == nil {
		err = pool.proc.fits(m.frames)
	}
	if err != nil {
		m.reject(taskError(fn.Name(), 0, 0, true, errorf("fiber: the argument of %s: %w", fn.Name(), oneValue(err))))
		return m
	}
	if err := ctx.Err(); err != nil { // the encoding took its time
		m.reject(err)
		return m
	}
	if !o.Plain {
		refs := refsIn(&m.ins[0]) // which the caller may change from now on
		o.near(pool, func(int) []object.Ref { return refs })
	}
	o.Awaited = waits && o.progress == nil // with OnProgress, another goroutine brings the result
	m.submit(ctx, pool, o)
	return m
}
