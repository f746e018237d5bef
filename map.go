package fiber

import (
	"context"
	"fmt"
	"sync"

	"github.com/fiber-go/fiber/internal/pool/engine"
)

// mapping is the source of a Map or an Apply, whose result is a Result.
type mapping[In, Out, Result any] struct {
	Future[Result]
	ctx    context.Context
	call   *engine.Call
	count  progress
	outs   []Out
	result func(outs []Out) Result
	single bool // an Apply: there is no need to say which task has failed

	reading sync.RWMutex // held while ins is encoded
	ins     []In         // nil when they must not be read: the caller may have changed them
	frames  [][]byte     // ins, if they were encoded before

	failing sync.Mutex
	index   int // the lowest of a failed task
	failed  error
}

func (m *mapping[In, Out, Result]) Encode(lo, hi int) ([][]byte, error) {
	m.reading.RLock()
	defer m.reading.RUnlock()
	switch {
	case m.ins == nil:
		return nil, ErrClosed
	case m.frames != nil:
		return m.frames, nil
	}
	return encodeInputs(m.ctx, m.ins[lo:hi], lo)
}

// end stops the reading of ins: when it has returned, they are not read any
// more.
func (m *mapping[In, Out, Result]) end() {
	m.reading.Lock()
	defer m.reading.Unlock()
	m.ins, m.frames = nil, nil
}

func (m *mapping[In, Out, Result]) Deliver(lo, n int, value [][]byte, failures []engine.Failure) {
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

func (m *mapping[In, Out, Result]) fail(i int, err error) {
	m.failing.Lock()
	defer m.failing.Unlock()
	if m.failed == nil || i < m.index {
		m.index, m.failed = i, err
	}
}

// Finish resolves the future last of all: otherwise the caller's next call would
// have to wait for the engine's lock.
func (m *mapping[In, Out, Result]) Finish(err error) {
	m.end()
	m.failing.Lock()
	if m.failed != nil {
		if err = m.failed; !m.single {
			err = fmt.Errorf("task %d: %w", m.index, m.failed)
		}
	}
	m.failing.Unlock()
	if err != nil {
		m.reject(fromEngine(err))
		return
	}
	m.count.whenTold(func() { m.resolve(m.result(m.outs), nil) })
}

// abort ends the call with an error.
func (m *mapping[In, Out, Result]) abort(err error) {
	m.call.Cancel()
	m.end()
	m.reject(err)
}

// submit starts the call. If ctx ends before the result is there, the call is
// aborted.
func (m *mapping[In, Out, Result]) submit(ctx context.Context, pool *Pool, o callOptions) {
	m.ctx = ctx
	submitted := make(chan struct{})
	m.count.fn, m.count.total = o.progress, len(m.outs)
	m.count.fail = func(err error) {
		<-submitted
		m.abort(err)
	}
	call, err := pool.engine.Submit(m, len(m.outs), false, o.CallOptions)
	m.call = call
	close(submitted)
	if err != nil {
		m.reject(err)
		return
	}
	m.until(ctx, func() { m.abort(ctx.Err()) })
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
	return MapAsync(ctx, pool, fn, ins, opts...).Get(context.Background())
}

// MapAsync is Map without the wait: it returns a future of the results; see
// ApplyAsync.
func MapAsync[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], ins []In, opts ...CallOption) *Future[[]Out] {
	m := &mapping[In, Out, []Out]{ins: ins, outs: make([]Out, len(ins)), result: func(outs []Out) []Out { return outs }}
	m.done = make(chan struct{})
	o, err := prepare(ctx, pool, fn, opts)
	switch {
	case err != nil:
		m.reject(err)
	case len(ins) == 0:
		m.resolve(m.outs, nil)
	default:
		o.StopOnError = true
		m.submit(ctx, pool, o)
	}
	return &m.Future
}
