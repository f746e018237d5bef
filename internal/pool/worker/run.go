package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/codec"
	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// timeoutGrace is how long after its time a task may still return by itself.
const timeoutGrace = 20 * time.Millisecond

// batch is tasks that the pool has handed to this worker.
type batch struct {
	wire.Batch
	worker *Worker
	value  [][]byte
	ctx    context.Context
	cancel context.CancelFunc

	// state is in its upper half how many tasks may be started, in its lower
	// half how many were: one atomic addition starts a task or learns that it
	// may not be, and a recall lowers the one without losing the other.
	state    atomic.Uint64
	returned bool // the rest was given back; under the worker's lock

	mu     sync.Mutex // what follows, and the order of this batch's messages
	tasks  registry.Tasks
	sent   int // tasks whose results were sent
	errors []wire.TaskError
	mark   time.Time // when sent was last raised
	stuck  bool      // the task that runs was given up for its time
	told   bool      // the only task was announced late
	begun  bool      // the first task was announced before it was decoded; of the goroutine that runs
}

// flushed says that the batch's results are sent from time to time.
func (b *batch) flushed() bool { return b.Count > 1 && b.Flags&wire.Announce == 0 }

// unannounced says that the batch is one task which was thought to be short.
func (b *batch) unannounced() bool { return b.Count == 1 && b.Flags&wire.Announce == 0 }

// next starts a task and says which, or that none is to be started.
func (b *batch) next() (i int, ok bool) {
	s := b.state.Add(1)
	started, limit := int(uint32(s)), int(s>>32)
	return started - 1, started <= limit
}

// started is how many tasks were begun, one more when all allowed ones ended.
func (b *batch) started() int { return int(uint32(b.state.Load())) }

// stopAt lets no task from index n on be started and returns the first that
// will not be.
func (b *batch) stopAt(n int) int {
	for {
		s := b.state.Load()
		started, limit := int(uint32(s)), int(s>>32)
		if started > limit {
			return limit
		}
		stop := min(limit, max(started, n))
		if b.state.CompareAndSwap(s, uint64(stop)<<32|uint64(uint32(started))) {
			return stop
		}
	}
}

// run runs the tasks and sends what they give.
func (b *batch) run() {
	b.mu.Lock()
	b.mark = time.Now()
	b.mu.Unlock()
	if b.Flags&wire.Announce != 0 {
		// Before anything is decoded: that may end the process as well.
		if _, ok := b.next(); !ok || !b.announce(0) {
			b.end()
			return
		}
		b.begun = true
	}
	b.mu.Lock()
	tasks, err := b.decode()
	b.value = nil
	b.tasks, b.mark = tasks, time.Now()
	b.mu.Unlock()
	if err != nil {
		b.refuse(err)
		return
	}
	for b.some() {
	}
	b.end()
}

// end sends what is left to send.
func (b *batch) end() {
	b.mu.Lock()
	done := min(b.started(), b.Count)
	if s := b.state.Load(); int(uint32(s)) > int(s>>32) {
		done = int(s >> 32)
	}
	if b.stuck {
		done = b.sent
	}
	b.send(wire.Results{Started: -1, Ended: true}, done)
	b.mu.Unlock()
	b.worker.finished(b)
}

// refuse fails all tasks, which cannot be run.
func (b *batch) refuse(err error) {
	n := b.stopAt(b.Count)
	e := b.worker.opts.Error(string(b.Func), err)
	b.mu.Lock()
	for i := range n {
		b.errors = append(b.errors, wire.TaskError{Index: i, Err: *e})
	}
	b.send(wire.Results{Started: -1, Ended: true}, n)
	b.mu.Unlock()
	b.worker.finished(b)
}

// announceLate announces a task that was thought to be short and has been running
// for patience. It says whether the task may yet do so.
func (b *batch) announceLate() (later bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mark.IsZero() || time.Since(b.mark) < announceAfter/2 {
		return true
	}
	if b.sent == 0 && b.started() == 1 && !b.stuck && !b.told {
		b.told = true
		b.send(wire.Results{Started: 0}, 0)
	}
	return false
}

// some runs tasks until one panics or none is left; it says whether to go on.
func (b *batch) some() (more bool) {
	i := -1
	guard.Here(func() error {
		b.each(&i)
		return nil
	}, func(err error) {
		switch {
		case err == nil:
			return
		case i < 0:
			panic(err) // not the user's
		}
		b.fail(i, b.worker.opts.Error(string(b.Func), err))
		if err != guard.ErrGoexit {
			more = b.goesOn()
			return
		}
		go func() { // in this goroutine's place
			for b.goesOn() && b.some() {
			}
			b.end()
			b.worker.work(b.worker.waiting())
		}()
	})
	return more
}

// each runs tasks until none is left, or one fails that was to be the last; i
// is the one that runs, -1 when none does.
func (b *batch) each(i *int) {
	tell, timeout := b.Flags&wire.Announce != 0, time.Duration(b.Timeout)
	for {
		n, ok := 0, b.begun // the first one may be announced already
		if b.begun = false; !ok {
			n, ok = b.next()
			ok = ok && (!tell || b.announce(n))
		}
		if !ok {
			return
		}
		*i = n
		var err error
		if timeout > 0 {
			err = b.timed(n, timeout)
		} else {
			err = b.tasks.Run(b.ctx, n)
		}
		if err != nil {
			b.fail(n, b.worker.opts.Error(string(b.Func), err))
		}
		*i = -1
		if err != nil && !b.goesOn() {
			return
		}
	}
}

// goesOn says after a failure whether further tasks are wanted; those that
// are not wanted are never started.
func (b *batch) goesOn() bool {
	if b.Flags&wire.StopOnError != 0 {
		b.stopAt(0)
		return false
	}
	return true
}

// fail notes that task i has failed.
func (b *batch) fail(i int, err *wire.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck {
		return
	}
	b.errors = append(b.errors, wire.TaskError{Index: i, Err: *err})
	b.tasks.Clear(i)
}

// announce says that task i begins, which it may not do before the word is in
// the socket; it is false when nothing is said any more.
func (b *batch) announce(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.stuck && b.send(wire.Results{Started: i}, i)
}

// timed runs task i with a deadline; when the function does not heed it, the
// task fails all the same and the rest is given back.
func (b *batch) timed(i int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	late := time.AfterFunc(timeout+timeoutGrace, func() { b.overdue(i, timeout) })
	defer late.Stop()
	err := b.tasks.Run(ctx, i)
	if err != nil && ctx.Err() == context.DeadlineExceeded && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (%w after %v)", err, context.DeadlineExceeded, timeout)
	}
	return err
}

// overdue gives task i up, which still runs.
func (b *batch) overdue(i int, timeout time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck || b.started() != i+1 || b.ctx.Err() != nil {
		return
	}
	b.worker.mu.Lock()
	_, running := b.worker.running[b]
	from := b.stopAt(0)
	tell := running && !b.returned && from < b.Count
	b.returned = b.returned || tell
	b.worker.mu.Unlock()
	if !running || b.started() != i+1 {
		return
	}
	// The time until now is task i's, not that of those before it.
	began := time.Now().Add(-timeout)
	if began.Before(b.mark) {
		began = b.mark
	}
	b.send(wire.Results{Started: -1}, i)
	b.mark = began
	if tell {
		b.worker.link.Post(wire.MustPack(wire.KindReturned, wire.Returned{Batches: []wire.Remainder{{Batch: b.ID, From: from}}})...)
	}
	b.stuck = true
	e := b.worker.opts.Error(string(b.Func), fmt.Errorf("timed out after %v: %w", timeout, context.DeadlineExceeded))
	b.errors = append(b.errors, wire.TaskError{Index: i, Err: *e})
	b.send(wire.Results{Started: -1, Stuck: true}, i+1)
}

// send sends the results of the tasks below done that were not sent yet, with
// what else r says; mu is held. It is false when nothing is said any more.
func (b *batch) send(r wire.Results, done int) bool {
	if b.worker.muted.Load() {
		return false
	}
	now := time.Now()
	r.Batch, r.From, r.Count, r.Nanos = b.ID, b.sent, done-b.sent, int64(now.Sub(b.mark))
	n := 0
	for n < len(b.errors) && b.errors[n].Index < done {
		n++
	}
	r.Errors = b.errors[:n]
	b.errors = b.errors[n:]
	var value [][]byte
	var named any
	if n < r.Count && b.tasks != nil {
		var err error
		if value, named, err = b.tasks.Results(b.sent, done); err != nil {
			r.Errors = b.unencodable(r.Errors, done)
			if value, named, err = b.tasks.Results(b.sent, done); err != nil {
				value = nil // zero values always encode
			}
		}
	}
	b.sent, b.mark = done, now
	return b.transmit(r, value, named)
}

// transmit sends a message: large values, which are not copied, and what must
// be said before something happens, wait until they are in the socket. What the
// values name lives until the pool says that it holds it.
func (b *batch) transmit(r wire.Results, value [][]byte, named any) bool {
	r.Parcel = b.worker.keep(named)
	frames, err := r.Pack(value)
	if err != nil {
		panic(err) // numbers and texts
	}
	if len(value) > 1 || r.Started >= 0 {
		err = b.worker.link.Send(context.Background(), frames...)
	} else {
		err = b.worker.link.Post(frames...)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) {
		b.worker.taken(r.Parcel)
		return b.divide(r, err)
	}
	return err == nil
}

// divide sends results that are too large for one message in two, or fails
// the task whose result alone is too large.
func (b *batch) divide(r wire.Results, cause error) bool {
	if r.Count == 1 {
		e := b.worker.opts.Error(string(b.Func), fmt.Errorf("the result: %w", cause))
		r.Errors = []wire.TaskError{{Index: r.From, Err: *e}}
		return b.transmit(r, nil, nil)
	}
	first, second := r, r
	first.Count = r.Count / 2
	first.Started, first.Ended, first.Stuck, first.Nanos = -1, false, false, r.Nanos*int64(first.Count)/int64(r.Count)
	second.From, second.Count, second.Nanos = r.From+first.Count, r.Count-first.Count, r.Nanos-first.Nanos
	n := 0
	for n < len(r.Errors) && r.Errors[n].Index < second.From {
		n++
	}
	first.Errors, second.Errors = r.Errors[:n], r.Errors[n:]
	for _, half := range []wire.Results{first, second} {
		var value [][]byte
		var named any
		if len(half.Errors) < half.Count {
			value, named, _ = b.tasks.Results(half.From, half.From+half.Count) // it was encoded before
		}
		if !b.transmit(half, value, named) {
			return false
		}
	}
	return true
}

// unencodable finds the outputs that cannot be encoded, makes them zero and
// adds their errors to errs, in the order of their index.
func (b *batch) unencodable(errs []wire.TaskError, done int) []wire.TaskError {
	failed := map[int]wire.TaskError{}
	for _, e := range errs {
		failed[e.Index] = e
	}
	var all []wire.TaskError
	for i := b.sent; i < done; i++ {
		if _, ok := failed[i]; !ok {
			if _, _, err := b.tasks.Results(i, i+1); err != nil {
				b.tasks.Clear(i)
				if at := (*codec.Error)(nil); errors.As(err, &at) && at.Index >= 0 {
					at.Index = b.Lo + i
				}
				e := b.worker.opts.Error(string(b.Func), fmt.Errorf("the result: %w", err))
				failed[i] = wire.TaskError{Index: i, Err: *e}
			}
		}
		if e, ok := failed[i]; ok {
			all = append(all, e)
		}
	}
	return all
}
