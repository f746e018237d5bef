package fiber

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
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

// progress counts the tasks that have ended, for OnProgress. The user's
// function runs on a goroutine of its own, which lives as long as there is
// news: a slow function delays no results. After a panic the function is not
// called again, and the call fails.
type progress struct {
	fn func(done, total int)

	mu          sync.Mutex
	done, total int
	told        int // the done that fn was last called with
	telling     bool
	then        func(error) // called when fn knows of all tasks
	fail        func(error) // called when fn has panicked
	err         error       // fn's panic
}

// add counts n more tasks.
func (p *progress) add(n int) {
	if p.fn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if !p.telling && p.err == nil {
		p.telling = true
		go p.tell()
	}
}

// tell calls fn until it knows of all tasks that have ended.
func (p *progress) tell() {
	guard.Here(func() error {
		for {
			p.mu.Lock()
			done, total, more := p.done, p.total, p.told < p.done
			p.told = done
			p.mu.Unlock()
			if !more {
				return nil
			}
			p.fn(done, total)
		}
	}, p.rest)
}

// rest runs when tell has ended; err is set when fn has panicked, which ends
// the telling for good.
func (p *progress) rest(err error) {
	var stack []byte
	if panicked := (*guard.Panic)(nil); errors.As(err, &panicked) {
		stack = append([]byte("\n"), panicked.Stack...)
	}
	if err != nil {
		err = errorf("fiber: OnProgress: %w%s", err, stack)
	}
	p.mu.Lock()
	if err == nil && p.told < p.done { // counted just now
		go p.tell()
		p.mu.Unlock()
		return
	}
	p.telling, p.err = false, err
	fail, then := p.fail, p.then
	p.fail, p.then = nil, nil
	p.mu.Unlock()
	if err != nil && fail != nil {
		fail(err)
	}
	if then != nil {
		then(err)
	}
}

// whenTold calls then(nil) when fn has returned from the call with the last
// count, or then(err) when fn has panicked.
func (p *progress) whenTold(then func(error)) {
	p.mu.Lock()
	if p.telling {
		p.then = then
		p.mu.Unlock()
		return
	}
	err := p.err
	p.mu.Unlock()
	then(err)
}

// whenFailed calls fail as soon as fn has panicked.
func (p *progress) whenFailed(fail func(error)) {
	p.mu.Lock()
	err := p.err
	if err == nil {
		p.fail = fail
	}
	p.mu.Unlock()
	if err != nil {
		fail(err)
	}
}
