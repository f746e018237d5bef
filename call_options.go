package fiber

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
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
	Call    uint64    // a number that no other call of this process has
	Done    int       // tasks that have ended
	Failed  int       // those of them that have failed
	Retried int       // how often tasks that ran, or may have run, were started again: their workers were lost, or see Retries
	Total   int       // all tasks; -1 while an IMap's input goes on
	Began   time.Time // when the call was made

	Rate float64       // tasks that end in a second, of late: over some 15 seconds, or ten tasks if those take longer; without what a checkpoint had
	Left time.Duration // how long the rest takes at that rate; -1 while that isn't known

	Starting int // the pool's workers that are on their way
	Ready    int // its workers that are up
	Lost     int // its workers that were lost since the call was made

	Over bool // the call has ended, however it did; fn is not called again
}

// OnProgress calls fn with the progress of the call: after each batch of results,
// when an IMap's input ends, and once a second if anything else has changed, say the
// rate, or a worker was lost. What happens while fn runs is counted together in its
// next call. The last call has Over set, however the call ends: it comes when the
// tasks are done, and also when one has failed, ctx has ended, the loop was left or the
// pool closed. Of a call whose arguments are refused, fn learns nothing. The calls of
// fn come one after another on a goroutine of their own, so fn may take its time and
// may use the pool.
//
// The results and errors of Map and Apply, and the end of a loop that is not left
// early, wait for the last call of fn. When ctx ends, a future is cancelled, or a loop
// is left, nothing waits for it: it may come a moment later. Pool.Close does not wait
// for fn.
//
// If fn panics or calls runtime.Goexit, it is not called again: the call fails with an
// error that says so, and its other tasks are cancelled. If a call has several
// functions, each of their calls is one of all of them, in the order of the options.
func OnProgress(fn func(Progress)) CallOption {
	return callOption(func(o *callOptions) error {
		each := fn
		if before := o.progress; before != nil && fn != nil {
			each = func(p Progress) {
				before(p)
				fn(p)
			}
		}
		o.progress = each
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
