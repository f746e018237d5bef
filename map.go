package fiber

import (
	"context"
	"fmt"
	"sync"

	"github.com/fiber-go/fiber/internal/pool/engine"
)

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
