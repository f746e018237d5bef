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
