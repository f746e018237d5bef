package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

// CallOption configures a call of Apply, Map, IMap and their variants.
type CallOption interface{ applyCall(*callOptions) error }

type callOptions struct {
	chunk    int
	timeout  time.Duration
	progress func(done, total int)
}

type callOption func(*callOptions) error

func (f callOption) applyCall(o *callOptions) error { return f(o) }

// ChunkSize hands a worker n tasks at a time. 0, the default, adapts: chunks
// are small at first, then as large as runs for some milliseconds. Tasks of a
// chunk that have not started may move to an idle worker. Chunks of tasks known
// to be short may share a message.
func ChunkSize(n int) CallOption {
	return callOption(func(o *callOptions) error {
		if n < 0 {
			return fmt.Errorf("fiber: ChunkSize(%d): want a number of tasks, or 0 to adapt", n)
		}
		o.chunk = n
		return nil
	})
}

// Timeout limits the running time of each task, from its start in a worker. At
// the limit the function's context ends and the task fails with an error that
// is context.DeadlineExceeded, whether or not the function returns.
func Timeout(d time.Duration) CallOption {
	return callOption(func(o *callOptions) error {
		if d <= 0 {
			return fmt.Errorf("fiber: Timeout(%v): the time must be more than 0; leave the option out for no limit", d)
		}
		o.timeout = d
		return nil
	})
}

// OnProgress calls fn with the number of tasks that have ended and the number
// of all tasks, which is -1 while an IMap's input goes on. fn is called after
// each batch of results; batches that arrive while fn runs are counted together
// in its next call. The calls of fn come one after another on a goroutine of
// their own, so fn may take its time and may use the pool.
//
// Map's and Apply's results, and the end of an IMap's loop, wait for the last
// call of fn. If the call fails, its context ends, or the loop is left, a call
// of fn may still be running. Pool.Close does not wait for it.
//
// If fn panics or calls runtime.Goexit, the call fails with an error that says
// so, and its other tasks are cancelled.
func OnProgress(fn func(done, total int)) CallOption {
	return callOption(func(o *callOptions) error {
		o.progress = fn
		return nil
	})
}

// prepare checks a call and returns its options.
func prepare[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], opts []CallOption) (o callOptions, err error) {
	if fn == nil {
		return o, errors.New("fiber: the function is nil; register it in a package variable with fiber.Register")
	}
	if pool == nil {
		return o, errors.New("fiber: the pool is nil; create one with fiber.NewPool")
	}
	for _, opt := range opts {
		if err := opt.applyCall(&o); err != nil {
			return o, err
		}
	}
	if err := ctx.Err(); err != nil {
		return o, err
	}
	return o, pool.admit(fn.entry)
}

func (o callOptions) engine(fn string, stop bool) engine.CallOptions {
	return engine.CallOptions{Func: fn, Chunk: o.chunk, Timeout: o.timeout, StopOnError: stop}
}

// encodeInputs encodes inputs of a call, the first of which has index lo.
func encodeInputs[In any](ins []In, lo int) ([][]byte, error) {
	frames, err := marshalLingering(ins)
	if err == nil {
		return frames, nil
	}
	var e *codec.Error
	if errors.As(err, &e) && e.Index >= 0 {
		i := lo + e.Index
		at := *e
		at.Index = i
		return nil, &engine.InputError{Index: i, Err: errorf("fiber: the argument: %w", &at)}
	}
	return nil, errorf("fiber: the argument: %w", err)
}

// decodeOutputs decodes the outputs of n tasks.
func decodeOutputs[Out any](value [][]byte, n int) ([]Out, error) {
	var outs []Out
	if err := codec.Unmarshal(value, &outs); err != nil {
		return nil, errorf("fiber: the result: %w", err)
	}
	if len(outs) != n {
		return nil, fmt.Errorf("fiber: %d results for %d tasks", len(outs), n)
	}
	return outs, nil
}

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

// follow cancels a call and calls end when ctx ends before the future has its
// result.
func follow[T any](ctx context.Context, f *Future[T], call *engine.Call, end func()) {
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		call.Cancel()
		end()
		var zero T
		f.resolve(zero, ctx.Err())
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Ready() {
		stop()
		return
	}
	f.waiting = append(f.waiting, func(T, error) { stop() })
}

// mapping is the source of a Map.
type mapping[In, Out any] struct {
	Future[[]Out]
	ins   []In
	outs  []Out
	count progress

	reading sync.RWMutex // held while ins is encoded
	over    bool         // ins must not be read: the caller may have changed them

	failing sync.Mutex
	index   int // the lowest of a failed task
	failed  error
}

func (m *mapping[In, Out]) Encode(lo, hi int) ([][]byte, error) {
	m.reading.RLock()
	defer m.reading.RUnlock()
	if m.over {
		return nil, ErrClosed
	}
	return encodeInputs(m.ins[lo:hi], lo)
}

// end stops the reading of ins: when it has returned, they are not read any
// more.
func (m *mapping[In, Out]) end() {
	m.reading.Lock()
	defer m.reading.Unlock()
	m.over = true
}

func (m *mapping[In, Out]) Deliver(lo, n int, value [][]byte, failures []engine.Failure) {
	if len(failures) > 0 {
		m.fail(failures[0].Index, fromEngine(failures[0].Err))
	}
	if value != nil {
		if outs, err := decodeOutputs[Out](value, n); err != nil {
			m.fail(lo, err)
		} else {
			copy(m.outs[lo:], outs)
		}
	}
	m.count.add(n)
}

func (m *mapping[In, Out]) fail(i int, err error) {
	m.failing.Lock()
	defer m.failing.Unlock()
	if m.failed == nil || i < m.index {
		m.index, m.failed = i, err
	}
}

func (m *mapping[In, Out]) Finish(err error) {
	m.end()
	m.failing.Lock()
	if m.failed != nil {
		err = fmt.Errorf("task %d: %w", m.index, m.failed)
	}
	m.failing.Unlock()
	if err != nil {
		m.resolve(nil, fromEngine(err))
		return
	}
	m.count.whenTold(func(err error) {
		if err != nil {
			m.resolve(nil, err)
			return
		}
		m.resolve(m.outs, nil)
	})
}

// Map runs a function on each of ins in the pool's workers and returns the
// results in the order of ins. It blocks until all results are there or ctx
// ends.
//
// When tasks fail, Map returns the error of the failed task with the lowest
// index: it cancels the tasks behind a failed one and waits for those before
// it. The errors are those of Apply; an input that cannot be encoded is an
// *EncodeError with its index.
//
// Do not change ins until Map returns. When Map returns early, with an error,
// large slices of numbers in ins may be read for a moment longer, on their way
// to a worker.
func Map[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins []In, opts ...CallOption) ([]Out, error) {
	m, call, err := submitMap(ctx, pool, fn, ins, opts)
	if err != nil {
		return nil, err
	}
	select {
	case <-m.done:
		return m.value, m.err
	case <-ctx.Done():
		if call != nil {
			call.Cancel()
			m.end()
		}
		return nil, ctx.Err()
	}
}

// MapAsync is Map without the wait: it returns a future of the results; see
// ApplyAsync.
func MapAsync[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins []In, opts ...CallOption) *Future[[]Out] {
	m, call, err := submitMap(ctx, pool, fn, ins, opts)
	if err != nil {
		f := newFuture[[]Out]()
		f.resolve(nil, err)
		return f
	}
	if call != nil {
		follow(ctx, &m.Future, call, m.end)
	}
	return &m.Future
}

func submitMap[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins []In, opts []CallOption) (*mapping[In, Out], *engine.Call, error) {
	o, err := prepare(ctx, pool, fn, opts)
	if err != nil {
		return nil, nil, err
	}
	m := &mapping[In, Out]{Future: Future[[]Out]{done: make(chan struct{})}, ins: ins, outs: make([]Out, len(ins))}
	m.count.fn, m.count.total = o.progress, len(ins)
	if len(ins) == 0 {
		m.resolve(m.outs, nil)
		return m, nil, nil
	}
	call, err := pool.engine.Submit(m, len(ins), false, o.engine(fn.Name(), true))
	if err == nil {
		m.count.whenFailed(func(err error) {
			call.Cancel()
			m.end()
			m.resolve(nil, err)
		})
	}
	return m, call, err
}
