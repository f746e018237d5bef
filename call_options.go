package fiber

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/pool/engine"
)

type callOptions struct {
	engine.CallOptions
	progress func(Progress)
	retries  int
	retrying bool // Retries was given
	retryIf  func(error) bool
	paused   bool             // by Backoff
	pauses   [2]time.Duration // its first, and its longest
	seeded   bool

	checkpoint checkpointOptions
}

// ChunkSize hands a worker n tasks at a time. By default the size adapts: chunks
// are small at first, then as large as runs for some milliseconds. Tasks of a
// chunk that have not started may move to an idle worker. Chunks of tasks known
// to be short may share a message.
func ChunkSize(n int) CallOption {
	return callOption(func(o *callOptions) error {
		if n < 1 {
			return fmt.Errorf("fiber: ChunkSize(%d): the number must be at least 1; leave the option out for a size that adapts", n)
		}
		o.Chunk = n
		return nil
	})
}

// Timeout limits the running time of each task, from its start in a worker. At
// the limit the function's context ends and the task fails with an error that
// is context.DeadlineExceeded, whether or not the function returns. The deadline of
// that context is this limit, or the caller's deadline if that is earlier.
func Timeout(d time.Duration) CallOption {
	return callOption(func(o *callOptions) error {
		if d <= 0 {
			return fmt.Errorf("fiber: Timeout(%v): the time must be more than 0; leave the option out for no limit", d)
		}
		o.Timeout = d
		return nil
	})
}

// Priority has the tasks of a call run before those of calls with a lower one, on
// every worker that becomes free; a running task is not interrupted. Calls of the same
// priority, which is 0 without this option, take turns. It may be negative.
func Priority(n int) CallOption {
	return callOption(func(o *callOptions) error {
		o.Priority = n
		return nil
	})
}

// Progress says how far a call has come.
type Progress struct {
	Done    int       // tasks that have ended
	Failed  int       // those of them that have failed
	Retried int       // how often tasks that ran, or may have run, were started again: their workers were lost, or see Retries
	Total   int       // all tasks; -1 while an IMap's input goes on
	Began   time.Time // when the call was made
}

// OnProgress calls fn with the progress of the call: after each batch of results, and
// when an IMap's input ends; what happens while fn runs is counted together in its
// next call. The last call of a loop that comes to its end has the true total. The
// calls of fn come one after another on a goroutine of their own, so fn may take its
// time and may use the pool.
//
// Map's and Apply's results, and the end of an IMap's loop, wait for the last
// call of fn. If the call fails, its context ends, or the loop is left, a call
// of fn may still be running. Pool.Close does not wait for it.
//
// If fn panics or calls runtime.Goexit, the call fails with an error that says
// so, and its other tasks are cancelled.
func OnProgress(fn func(Progress)) CallOption {
	return callOption(func(o *callOptions) error {
		o.progress = fn
		return nil
	})
}

// prepare checks a call and returns its options.
func prepare[In, Out any](ctx context.Context, pool *Pool, fn *Func[In, Out], opts []CallOption) (o callOptions, err error) {
	if err := fn.usable(); err != nil {
		return o, err
	}
	if !pool.made() {
		return o, errEmpty("Pool")
	}
	if err := configured("the call of "+fn.Name(), &o, opts, CallOption.call); err != nil {
		return o, err
	}
	if err := ended(ctx); err != nil {
		return o, err
	}
	if err := o.checkRetries(); err != nil {
		return o, err
	}
	if !o.seeded {
		o.Seed = callSeed(ctx)
	}
	o.Func, o.Plain = fn.Name(), fn.plain
	o.Deadline, _ = ctx.Deadline()
	return o, pool.admit(fn.entry)
}

// encodeInputs encodes inputs of a call, the first of which has index lo. For ctx,
// see marshalHere.
func encodeInputs[In any](ctx context.Context, ins []In, lo int) ([][]byte, error) {
	frames, err := marshalLingering(ctx, ins)
	if err == nil {
		return frames, nil
	}
	var e *codec.Error
	if errors.As(err, &e) && e.Index >= 0 {
		e.Index += lo
		return nil, &engine.InputError{Index: e.Index, Err: errorf("fiber: the argument: %w", err)}
	}
	return nil, errorf("fiber: the argument: %w", err)
}

// decodeOutputs decodes the outputs of a function's tasks. It calls fail for each task
// that has failed, and returns the indices of those whose output cannot be decoded.
// The errors of a single value name no element. named says that outputs hold something for which listed, unless it is nil,
// returned true.
func decodeOutputs[Out any](fn string, o engine.Outcome, single bool, listed func(any) bool, fail func(*TaskError)) (outs []Out, named bool, unread []int) {
	var failed map[int]bool
	for _, f := range o.Failures {
		if failed == nil {
			failed = make(map[int]bool, len(o.Failures))
		}
		failed[f.Index] = true
		err := fromEngine(f.Err)
		if large := tooLarge(err); large != nil {
			if !single {
				large.Index = f.Index
			}
			err = errorf("fiber: the argument: %w", large)
		}
		fail(taskError(fn, f.Index, f.Attempt, single, err))
	}
	if o.Outputs == nil {
		return nil, false, nil
	}
	for _, i := range o.Again {
		if failed == nil {
			failed = make(map[int]bool, len(o.Again))
		}
		failed[i] = true
	}
	list, bad, err := codec.UnmarshalEach(o.Outputs, &outs, listed)
	named = len(list) > 0
	if err == nil && len(outs) != o.N {
		err = fmt.Errorf("%d results for %d tasks", len(outs), o.N)
	}
	refuse := func(i int, err error) {
		if !failed[i] { // else its output is the zero value, which may have no encoding
			unread = append(unread, i)
			fail(taskError(fn, i, 0, single, errorf("fiber: the result: %w", err)))
		}
	}
	for _, e := range bad {
		i := o.Lo + e.Index
		if e.Index = i; single {
			e.Index = -1
		}
		refuse(i, e)
	}
	if err == nil {
		return outs, named, unread
	}
	for i := range o.N {
		refuse(o.Lo+i, err)
	}
	return nil, named, unread
}

// progress counts the tasks that have ended, for OnProgress. The user's
// function runs on a goroutine of its own, which lives as long as there is
// news: a slow function delays no results. A panic of the function ends its calls,
// and the whole call fails.
type progress struct {
	fn      func(Progress)
	fail    func(error) // called when fn has panicked
	retried atomic.Int64

	mu      sync.Mutex
	now     Progress // but Retried
	told    Progress // what fn was last called with
	telling bool     // for good when fn has panicked
	then    func()   // called when fn knows of all tasks
}

// of begins to count for a call, whose total is -1 while it is not known.
func (p *progress) of(o *callOptions, total int) {
	if o.progress != nil {
		p.fn, p.now = o.progress, Progress{Total: total, Began: time.Now()}
		o.Retried = &p.retried
	}
}

// add counts n more tasks, of which some have failed.
func (p *progress) add(n, failed int) {
	if p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Done += n
	p.now.Failed += failed
	p.news()
}

// all sets the number of all tasks.
func (p *progress) all(n int) {
	if p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Total = n
	p.news()
}

// news has fn told; mu is held.
func (p *progress) news() {
	if !p.telling {
		p.telling = true
		go p.tell()
	}
}

// tell calls fn until it knows the last counts.
func (p *progress) tell() {
	var then func()
	guard.Here(func() error {
		for {
			p.mu.Lock()
			p.now.Retried = int(p.retried.Load())
			now := p.now
			if p.told == now {
				p.telling, then = false, p.then
				p.mu.Unlock()
				return nil
			}
			p.told = now
			p.mu.Unlock()
			p.fn(now)
		}
	}, func(err error) {
		switch {
		case err != nil:
			p.fail(errorf("fiber: OnProgress: %w", err))
		case then != nil:
			then()
		}
	})
}

// whenTold calls then when fn has returned from the call with the last count.
// If fn has panicked, then is not called.
func (p *progress) whenTold(then func()) {
	p.mu.Lock()
	if p.telling {
		p.then = then
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	then()
}
