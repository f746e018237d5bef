package fiber

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fiber-go/fiber/internal/object"
)

// Reduce combines shared values until one is left: in the pool's workers, fn gets two neighbours, that of the lower
// index first, and returns what becomes of them. Which values are combined depends on their number alone, so that
// the result is always the same if fn's is. Reduce blocks until the last value is there or ctx ends. The values do
// not pass through this process: a worker gets them from where they lie, and what it returns stays with it; of several
// idle workers, one comes first that has both, or one of the two. A single value is returned as it is.
//
// fn returns one of its two arguments, which it must not change, or a value that it has shared for this call (see
// Share), which does not refer to its arguments: Reduce closes what fn has shared, but for the last one, when it has
// been used. Close xs when they are not
// needed any more. The last value lives in the worker that made it, as long as that lives: Get it before the pool is
// closed. A pool that is closed meanwhile ends Reduce with ErrClosed.
//
// When a task fails, Reduce cancels the others and returns a *TaskError with the index of the first input that went
// into that task. A value of fn's that is lost with its worker is made again from what it was made of, down to the
// inputs, until there have been WithMaxAttempts losses for each of these. An input that is lost, or was closed, is a
// *TaskError with its index, around the error of its Get. The other errors, and the options, are those of Map, without
// Checkpoint; Progress counts the combinations, and as Retried those that were made again.
func Reduce[T any](ctx context.Context, pool *Pool, fn *Func[[2]*Shared[T], *Shared[T]], xs []*Shared[T], opts ...CallOption) (*Shared[T], error) {
	o, err := prepare(ctx, pool, fn, opts)
	if err == nil && len(xs) == 0 {
		err = errors.New("fiber: Reduce needs one value at least")
	}
	if err == nil && o.checkpoint.given() {
		err = errors.New("fiber: Checkpoint is for Map, IMap, IMapUnordered and Results; a shared value ends with its process")
	}
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &reduction[T]{ctx: running, fail: cancel, pool: pool, fn: fn, xs: xs, opts: opts, seed: o.Seed,
		inputs: map[object.Ref]int{}, made: map[int]bool{}}
	for i, x := range xs {
		h := used(x)
		if h == nil {
			return nil, taskError(fn.Name(), i, 0, false, errEmpty("Shared"))
		}
		if _, known := r.inputs[h.ref]; !known {
			r.inputs[h.ref] = i
		}
	}
	r.again.Store(int64(pool.opts.MaxAttempts-1) * int64(len(xs)))
	r.beside.Store(int64(besidePerTask * max(pool.opts.Workers, pool.opts.Max, 1) * pool.opts.Concurrency))
	r.count.fail = cancel
	r.count.of(&o, pool, len(xs)-1)
	defer r.count.end(nil)
	if out := r.whole(); out != nil {
		told := make(chan struct{})
		r.count.end(func() { close(told) })
		select {
		case <-told:
			return out, nil
		case <-running.Done():
			r.discard(out)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, context.Cause(running)
}

// reduction is a call of Reduce.
type reduction[T any] struct {
	ctx    context.Context // ends when the call has failed
	fail   func(error)
	pool   *Pool
	fn     *Func[[2]*Shared[T], *Shared[T]]
	xs     []*Shared[T]
	opts   []CallOption
	seed   uint64
	inputs map[object.Ref]int
	count  progress
	again  atomic.Int64 // how many values may still be made again
	beside atomic.Int64 // how many more may be made beside others

	mu   sync.Mutex
	made map[int]bool // by where its second half begins, whether a value has been made
}

// besidePerTask is how many values are made at a time for each task that the pool can run. What is made by the same goroutine is
// made one after the other, so that few values wait for their neighbours.
const besidePerTask = 4

// whole returns the value of all inputs, which was there a moment ago, or nil when the call has failed.
func (r *reduction[T]) whole() *Shared[T] {
	for {
		out := r.value(0, len(r.xs))
		switch lost := out != nil && r.lost(out, 0); {
		case r.ctx.Err() != nil:
			r.discard(out)
			return nil
		case !lost:
			return out
		}
	}
}

// value returns the value of some neighbours, or nil when the call has failed.
func (r *reduction[T]) value(lo, hi int) *Shared[T] {
	switch {
	case r.ctx.Err() != nil:
		return nil
	case hi-lo == 1:
		return r.xs[lo]
	}
	bounds := [3]int{lo, lo + 1<<(bits.Len(uint(hi-lo-1))-1), hi} // a power of two, and the rest
	var pair [2]*Shared[T]
	defer func() {
		for _, x := range pair {
			r.discard(x)
		}
	}()
	for {
		var left sync.WaitGroup
		switch {
		case pair[0] == nil && pair[1] == nil && hi-bounds[1] > 1 && r.fork():
			left.Go(func() {
				defer r.beside.Add(1)
				pair[0] = r.value(lo, bounds[1])
			})
		case pair[0] == nil:
			pair[0] = r.value(lo, bounds[1])
		}
		if pair[1] == nil {
			pair[1] = r.value(bounds[1], hi)
		}
		left.Wait()
		if pair[0] == nil || pair[1] == nil {
			return nil
		}
		out, err := r.combine(pair, lo, hi)
		if err == nil {
			for i, x := range pair {
				if used(x).ref == used(out).ref {
					pair[i] = nil // it is still needed
				}
			}
			r.counted(bounds[1])
			return out
		}
		for i, x := range pair {
			if r.lost(x, bounds[i]) {
				pair[i], err = nil, nil
			}
		}
		if err != nil {
			r.fail(err)
		}
		if r.ctx.Err() != nil {
			return nil
		}
	}
}

// fork reports whether one more value may be made beside others.
func (r *reduction[T]) fork() bool {
	if r.beside.Add(-1) >= 0 {
		return true
	}
	r.beside.Add(1)
	return false
}

// counted counts a value that has been made, once.
func (r *reduction[T]) counted(half int) {
	r.mu.Lock()
	again := r.made[half]
	r.made[half] = true
	r.mu.Unlock()
	if again {
		r.count.retried.Add(1)
	} else {
		r.count.add(1, 0)
	}
}

// combine runs the task of a pair.
func (r *reduction[T]) combine(pair [2]*Shared[T], lo, hi int) (*Shared[T], error) {
	node := callOption(func(o *callOptions) error {
		o.Seed, _ = derived(r.seed, uint64(lo), uint64(hi))
		o.seeded, o.progress, o.Retried = true, nil, &r.count.retried
		return nil
	})
	out, err := ApplyAsync(r.ctx, r.pool, r.fn, pair, append(slices.Clip(r.opts), node)...).Get(context.Background())
	if err == nil && used(out) == nil {
		err = taskError(r.fn.Name(), lo, 0, false, fmt.Errorf("fiber: %s has returned no shared value", r.fn.Name()))
	}
	if e, ok := err.(*TaskError); ok {
		e.Index, e.single = lo, false
	}
	return out, err
}

// lost reports whether a value is gone, unless the call has failed. The first of its inputs has index lo. If it cannot be made
// again, the call fails.
func (r *reduction[T]) lost(x *Shared[T], lo int) bool {
	h := used(x)
	_, err := patiently(r.ctx, h.proc, func() (none struct{}, err error) { return none, h.proc.objects.Look(r.ctx, h.ref) })
	err = objectError(r.ctx, x, err)
	if err == nil || r.ctx.Err() != nil {
		return false
	}
	i, input := r.inputs[h.ref]
	if input {
		lo = i
	}
	if !input && r.again.Add(-1) < 0 {
		err = errorf("fiber: too many of the values that %s has made were lost: %w", r.fn.Name(), err)
		input = true
	}
	if input {
		r.fail(taskError(r.fn.Name(), lo, 0, false, err))
	}
	return true
}

// discard has a value closed that fn has shared, if there is one.
func (r *reduction[T]) discard(x *Shared[T]) {
	if h := used(x); h != nil {
		if _, input := r.inputs[h.ref]; !input {
			x.Close()
		}
	}
}
