package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/wire"
)

// timeoutGrace is how long after its timeout a task may still return by itself.
const timeoutGrace = 20 * time.Millisecond

// batch is the worker's view of tasks that the pool has handed to it together.
type batch struct {
	wire.Batch
	worker *Worker
	value  [][]byte
	ctx    context.Context
	cancel context.CancelFunc

	// The upper half of state is how many tasks may be started, the lower half
	// how many were. One atomic addition starts a task, or finds that none is
	// left; a recall lowers the upper half and keeps the lower.
	state    atomic.Uint64
	returned bool // the rest was given back; under the worker's lock

	mu     sync.Mutex // guards what follows, and the order of this batch's messages
	tasks  registry.Tasks
	sent   int // tasks whose results were sent
	errors []wire.TaskError
	mark   time.Time // when sent was last raised
	stuck  bool      // the running task has timed out and was given up
	told   bool      // the only task was announced late
	begun  bool      // the first task was announced before decoding; only for the goroutine that runs the batch
}

// flushed reports whether the batch's results are sent from time to time.
func (b *batch) flushed() bool { return b.Count > 1 && b.Flags&wire.Announce == 0 }

// unannounced reports whether the batch is a single task that was thought to be
// short.
func (b *batch) unannounced() bool { return b.Count == 1 && b.Flags&wire.Announce == 0 }

// next starts the next task and returns its index; ok is false when none may be
// started.
func (b *batch) next() (i int, ok bool) {
	s := b.state.Add(1)
	started, limit := int(uint32(s)), int(s>>32)
	return started - 1, started <= limit
}

// started returns how many tasks were begun, plus one when next has found none
// left.
func (b *batch) started() int { return int(uint32(b.state.Load())) }

// stopAt keeps tasks from index n on from being started and returns the index
// of the first that will not be.
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

// run runs the tasks and sends their results.
func (b *batch) run() {
	b.mu.Lock()
	b.mark = time.Now()
	b.mu.Unlock()
	if b.Flags&wire.Announce != 0 {
		// Announce before decoding, which may end the process as well.
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

// end sends the remaining results and reports the batch's end.
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

// refuse fails all tasks of a batch that cannot be run.
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

// announceLate announces a task that was thought to be short and has run for
// about announceAfter. It reports whether the task is too young to tell.
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

// some runs tasks until one panics or none is left. It reports whether to call
// it again.
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
			panic(err) // not in the user's function
		}
		b.fail(i, b.worker.opts.Error(string(b.Func), err))
		if err != guard.ErrGoexit {
			more = b.goesOn()
			return
		}
		go func() { // takes the place of this goroutine, which ends
			for b.goesOn() && b.some() {
			}
			b.end()
			b.worker.work(b.worker.waiting())
		}()
	})
	return more
}

// each runs tasks until none is left, or one fails and goesOn is false. It
// keeps *i at the index of the running task, -1 when none runs.
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

// goesOn reports, after a failure, whether further tasks are wanted. If not, it
// keeps them from being started.
func (b *batch) goesOn() bool {
	if b.Flags&wire.StopOnError != 0 {
		b.stopAt(0)
		return false
	}
	return true
}

// fail records the failure of task i.
func (b *batch) fail(i int, err *wire.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stuck {
		return
	}
	b.errors = append(b.errors, wire.TaskError{Index: i, Err: *err})
	b.tasks.Clear(i)
}

// announce announces the start of task i and returns when the message is in the
// socket: only then may the task begin. It returns false when no more messages
// are to be sent.
func (b *batch) announce(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.stuck && b.send(wire.Results{Started: i}, i)
}

// timed runs task i with a deadline. If the function ignores it, the task still
// fails and the rest of the batch is given back.
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

// overdue gives up task i, which still runs.
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
	// The time until now counts for task i, not for those before it.
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

// decode looks the function up and decodes the inputs.
func (b *batch) decode() (registry.Tasks, error) {
	f, ok := registry.LookupBytes(b.Func)
	if !ok {
		return nil, fmt.Errorf("fiber: function %q is not registered in the worker", b.Func)
	}
	tasks, err := f.Decode(b.value)
	if err != nil {
		return nil, err
	}
	if tasks.Len() != b.Count {
		return nil, fmt.Errorf("%w: %d inputs for %d tasks", wire.ErrMalformed, tasks.Len(), b.Count)
	}
	return tasks, nil
}
