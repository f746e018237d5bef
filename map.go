package fiber

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/checkpoint"
	"github.com/fiber-go/fiber/internal/object"
	"github.com/fiber-go/fiber/internal/pool/engine"
	"github.com/fiber-go/fiber/internal/self"
)

// mapping is the source of a Map or an Apply, whose result is a Result.
type mapping[In, Out, Result any] struct {
	Future[Result]
	ctx    context.Context
	call   *engine.Call
	count  *progress // nil unless somebody follows it
	outs   []Out
	result func(outs []Out) Result
	single bool // an Apply: there is no need to say which task has failed
	fn     string
	kept   *kept[In, Out] // nil for none
	keys   []string       // of ins, for kept; nil if they have none
	had    int            // results that kept had

	submitted chan struct{} // closed when call is set, if Deliver, or OnProgress, may need it

	reading sync.Mutex
	ins     []In     // nil once the caller may change them
	frames  [][]byte // ins, if they were encoded before
	readers int      // goroutines that encode ins
	then    []func() // called when readers is 0

	failing sync.Mutex
	failed  *TaskError // the one with the lowest index
}

func (m *mapping[In, Out, Result]) Encode(lo, hi int) ([][]byte, error) {
	m.reading.Lock()
	ins, frames := m.ins, m.frames
	if ins != nil && frames == nil {
		m.readers++
	}
	m.reading.Unlock()
	switch {
	case ins == nil:
		return nil, ErrClosed
	case frames != nil:
		return frames, nil
	}
	defer m.read()
	return encodeInputs(m.ctx, ins[lo:hi], lo)
}

// refs returns references in an input.
func (m *mapping[In, Out, Result]) refs(task int) []object.Ref {
	m.reading.Lock()
	defer m.reading.Unlock()
	if m.ins == nil {
		return nil
	}
	return refsIn(&m.ins[task])
}

// brief is an input in words, "" once the caller may change it.
func (m *mapping[In, Out, Result]) brief(task int) string {
	m.reading.Lock()
	defer m.reading.Unlock()
	if m.ins == nil {
		return ""
	}
	return brief(m.ins[task])
}

// read notes that a goroutine has encoded its part of ins.
func (m *mapping[In, Out, Result]) read() {
	m.reading.Lock()
	var then []func()
	if m.readers--; m.readers == 0 {
		then, m.then = m.then, nil
	}
	m.reading.Unlock()
	for _, f := range then {
		f()
	}
}

// whenRead withdraws ins, and calls f when the goroutines that encode them have
// ended. It reports whether f was called at once.
func (m *mapping[In, Out, Result]) whenRead(f func()) bool {
	m.reading.Lock()
	m.ins, m.frames = nil, nil
	now := m.readers == 0
	if !now {
		m.then = append(m.then, f)
	}
	m.reading.Unlock()
	if now {
		f()
	}
	return now
}

// fails ends the call with an error, after encodingWait at the latest.
func (m *mapping[In, Out, Result]) fails(err error) {
	var none Result
	m.failsAfter(none, err)
}

// failsAfter is fails, with the results before the error.
func (m *mapping[In, Out, Result]) failsAfter(before Result, err error) {
	if !m.whenRead(func() { m.resolve(before, err) }) {
		self.AfterFunc(encodingWait, func() { m.resolve(before, err) })
	}
}

// encodingWait is how long a call that has failed waits for the encoders of its
// inputs.
const encodingWait = time.Second

func (m *mapping[In, Out, Result]) Deliver(o engine.Outcome) []int {
	var listed func(any) bool
	if m.kept != nil {
		listed = names
	}
	outs, named, unread := decodeOutputs[Out](m.fn, o, m.single, listed, m.fail)
	if m.kept != nil {
		if err := m.keep(o, named, unread); err != nil {
			m.abortSoon(err)
			return unread
		}
	}
	copy(m.outs[o.Lo:], outs)
	m.count.add(o.N-len(o.Again), len(o.Failures)+len(unread))
	return unread
}

// keep writes the results of an outcome to the checkpoint.
func (m *mapping[In, Out, Result]) keep(o engine.Outcome, named bool, unread []int) error {
	m.reading.Lock()
	ins := m.ins
	if ins != nil {
		m.readers++
	}
	m.reading.Unlock()
	if ins == nil {
		return nil // the call has failed
	}
	defer m.read()
	var keys []string
	if m.keys != nil {
		keys = m.keys[o.Lo : o.Lo+o.N]
	}
	return m.kept.add(o, ins[o.Lo:o.Lo+o.N], keys, named, unread)
}

func (m *mapping[In, Out, Result]) fail(e *TaskError) {
	m.failing.Lock()
	defer m.failing.Unlock()
	if m.failed == nil || e.Index < m.failed.Index {
		m.failed = e
	}
}

// Finish resolves the future last of all: otherwise the caller's next call would
// have to wait for the engine's lock.
func (m *mapping[In, Out, Result]) Finish(err error, t engine.Tally) {
	m.failing.Lock()
	failed := m.failed
	m.failing.Unlock()
	if failed != nil {
		failed.fate = &fate{tasks: len(m.outs), kept: m.had, tally: t, input: m.brief(failed.Index), checkpoint: m.kept.where()}
	}
	if m.kept != nil { // the disk may take its time
		go func() {
			if failed == nil && err == nil {
				err = m.kept.over(m.ctx)
			}
			m.kept.release()
			m.conclude(failed, err)
		}()
		return
	}
	m.conclude(failed, err)
}

// conclude ends the call for the reason that the engine has given, or for the task that has failed.
func (m *mapping[In, Out, Result]) conclude(failed *TaskError, err error) {
	if failed != nil && m.ctx.Err() != nil && errors.Is(failed, m.ctx.Err()) {
		m.fails(m.ctx.Err()) // the worker was faster
		return
	}
	if m.count == nil {
		m.settle(failed, err)
		return
	}
	m.count.end(func() { m.settle(failed, err) })
}

// settle resolves the future.
func (m *mapping[In, Out, Result]) settle(failed *TaskError, err error) {
	switch {
	case failed != nil && (m.single || err != nil):
		m.fails(failed)
	case failed != nil:
		m.failsAfter(m.result(m.outs[:failed.Index:failed.Index]), failed)
	case err != nil:
		m.fails(fromEngine(err))
	default:
		m.whenRead(func() { m.resolve(m.result(m.outs), nil) })
	}
}

// abort cancels the call, which fails with err.
func (m *mapping[In, Out, Result]) abort(err error) {
	m.call.Cancel(err)
	if m.kept == nil {
		m.fails(err)
		return
	}
	go func() {
		m.kept.release()
		m.fails(err)
	}()
}

// submit starts the call. If ctx ends before the result is there, the call is
// aborted; if it is awaited, by the caller.
func (m *mapping[In, Out, Result]) submit(ctx context.Context, pool *Pool, o callOptions) {
	m.ctx, m.fn = ctx, o.Func
	o.Encoded, o.Single = m.frames != nil, m.single
	if !o.Encoded {
		o.near(pool, m.refs)
	}
	o.retry()
	if o.progress != nil && m.submitted == nil {
		m.submitted = make(chan struct{})
	}
	if m.submitted != nil {
		defer close(m.submitted)
	}
	if m.kept == nil {
		m.follow(&o, pool, m.abortSoon)
	}
	call, err := pool.engine.Submit(m, len(m.outs), false, o.CallOptions)
	m.call = call
	switch {
	case err != nil && m.kept != nil:
		m.reject(cmp.Or(err, m.kept.close()))
	case err != nil:
		m.reject(err)
	case !o.Awaited:
		m.cancels(ctx, m.abort)
	}
}

// follow begins to count for OnProgress, until the result is there. fail is called when that has panicked.
func (m *mapping[In, Out, Result]) follow(o *callOptions, pool *Pool, fail func(error)) {
	if o.progress != nil {
		m.count = &progress{fail: fail}
		m.count.of(o, pool, len(m.outs))
		m.Future.then(func() { m.count.end(nil) })
	}
}

// Map runs a function on each of ins in the pool's workers and returns the
// results in the order of ins. It blocks until all results are there or ctx
// ends.
//
// When tasks fail, Map returns the error of the failed task with the lowest
// index, a *TaskError, and the results of the tasks before it: it cancels the tasks
// behind a failed one and waits for those before it. When ctx ends or the pool is
// closed, there are no results. The errors are those of Apply; an input that cannot be
// encoded is an *EncodeError with its index.
//
// Inputs are encoded on their way, in several goroutines at a time. An input is
// encoded more than once if its task runs again, or if its encoding takes long and
// another worker takes the task over. Do not change ins until Map returns. When Map
// returns early, with an error, large slices of numbers in ins may be read for a
// moment longer, on their way to a worker. So may an input that is still being
// encoded a second after that error.
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
		m.nothing(ctx, pool, o)
	default:
		o.StopOnError = true
		m.resume(ctx, pool, o)
	}
	return &m.Future
}

// resume is submit for what the call's checkpoint does not have.
func (m *mapping[In, Out, Result]) resume(ctx context.Context, pool *Pool, o callOptions) {
	if !o.checkpoint.given() {
		m.submit(ctx, pool, o)
		return
	}
	done := make([]byte, len(m.ins))
	var by map[string]int
	var err error
	m.kept, err = openCheckpoint(ctx, pool.proc, &o, len(m.ins), func(c *kept[In, Out]) (err error) {
		m.keys = c.keys(m.ins)
		if by, err = byKey(m.keys); err == nil {
			err = c.check(m.ins)
		}
		return err
	}, func(c *kept[In, Out], k *checkpoint.Record, _ int64, frames [][]byte) error {
		return c.fill(k, frames, m.ins, by, m.outs, done)
	})
	if err != nil {
		m.reject(err)
		return
	}
	if m.keys != nil {
		o.Keys = func(lo, hi int) []uint64 { return seedsOf(m.keys[lo:hi]) }
	}
	n := bytes.Count(done, []byte{1})
	o.Finished = spansOf(done)
	m.ctx, m.fn = ctx, o.Func
	if n == len(m.outs) {
		m.nothing(ctx, pool, o)
		return
	}
	m.submitted = make(chan struct{})
	m.follow(&o, pool, m.abortSoon)
	if m.had = n; n > 0 {
		m.count.had(n)
	}
	m.submit(ctx, pool, o)
}

// nothing is submit for a call with nothing left to do.
func (m *mapping[In, Out, Result]) nothing(ctx context.Context, pool *Pool, o callOptions) {
	m.follow(&o, pool, m.fails)
	m.count.had(len(m.outs))
	pool.engine.Nothing(o.CallOptions, len(m.outs))
	if o.progress != nil {
		m.cancels(ctx, m.fails)
	}
	m.Finish(nil, engine.Tally{})
}

// abortSoon is abort, once the call is submitted.
func (m *mapping[In, Out, Result]) abortSoon(err error) {
	<-m.submitted
	m.abort(err)
}
