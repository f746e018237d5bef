package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fiber-go/fiber/internal/guard"
	"github.com/fiber-go/fiber/internal/lock"
	"github.com/fiber-go/fiber/internal/registry"
	"github.com/fiber-go/fiber/internal/self"
	"github.com/fiber-go/fiber/internal/wire"
)

// timeoutGrace is how long after its timeout a task may still return by itself,
// which saves giving back the rest of its batch. It has failed by then.
const timeoutGrace = 20 * time.Millisecond

// batch is the worker's view of tasks that the pool has handed to it together.
type batch struct {
	wire.Batch
	worker *Worker
	value  [][]byte
	ctx    context.Context
	task   taskContext // what its functions get
	cancel context.CancelFunc

	returned bool // the rest was given back; under the worker's lock

	// The upper half is how many tasks may be started, the lower half how many
	// were. A lock would cost as much as a short task.
	counts atomic.Uint64
	calls  atomic.Uint64 // the same for the calls that the task in the upper half has made; see Task.Call

	longest atomic.Int64 // nanoseconds of the longest task that is not in times, of those that were not sent

	mu     lock.Lock // guards what follows, and the order of this batch's messages: it is held over a send
	tasks  registry.Tasks
	sent   int // tasks whose results were sent
	errors []wire.TaskError
	mark   time.Time // when sent was last raised
	stuck  bool      // the running task has timed out and was given up
	times  []lap     // of tasks that were long, if the pool wants to know
	told   bool      // the only task was announced late
}

func (b *batch) lock() { _ = b.mu.Lock(context.Background()) }

// announced reports whether each start is announced.
func (b *batch) announced() bool { return b.Flags&wire.Announce != 0 }

// reports reports whether it reports what its parent should know before its end, every now and then.
func (b *batch) reports() bool { return b.Flags&(wire.Announce|wire.Begun) == 0 }

// index is the index of the first task in errors, -1 if they name none.
func (b *batch) index() int {
	if b.Flags&wire.Single != 0 {
		return -1
	}
	return b.Lo
}

// next starts the next task and returns its index; ok is false when none may be
// started.
func (b *batch) next() (i int, ok bool) {
	for {
		counts := b.counts.Load()
		begun, limit := int(uint32(counts)), int(counts>>32)
		if begun >= limit {
			return 0, false
		}
		if b.counts.CompareAndSwap(counts, counts+1) {
			return begun, true
		}
	}
}

// started returns how many tasks were begun.
func (b *batch) started() int { return int(uint32(b.counts.Load())) }

// stopAt keeps tasks from index n on from being started and returns the index
// of the first that will not be.
func (b *batch) stopAt(n int) int {
	for {
		counts := b.counts.Load()
		begun := uint64(uint32(counts))
		limit := min(counts>>32, max(begun, uint64(n)))
		if b.counts.CompareAndSwap(counts, limit<<32|begun) {
			return int(limit)
		}
	}
}

// run runs the tasks and sends their results.
func (b *batch) run() {
	b.lock()
	b.mark = time.Now()
	b.mu.Unlock()
	if i, ok := b.begin(); ok { // before decoding, which may end the process as well
		b.lock()
		tasks, err := b.decode()
		b.value = nil
		b.tasks, b.mark = tasks, time.Now()
		b.mu.Unlock()
		if err != nil {
			b.refuse(err)
			return
		}
		b.some(i)
	}
	b.rest()
}

// begin starts the next task, and announces it if that is wanted. When no more
// messages are to be sent, no more tasks are started.
func (b *batch) begin() (i int, ok bool) {
	i, ok = b.next()
	if ok && b.announced() && !b.announce(i) {
		b.stopAt(0)
		return i, false
	}
	return i, ok
}

// rest runs the tasks that may still be started, and reports the batch's end.
func (b *batch) rest() {
	for i, ok := b.begin(); ok; i, ok = b.begin() {
		b.some(i)
	}
	b.lock()
	done := b.started()
	if b.stuck {
		done = b.sent
	}
	b.send(wire.Results{Started: -1, Ended: true}, done)
	b.mu.Unlock()
	b.worker.finished(b)
}

// refuse fails all tasks of a batch that cannot be run.
func (b *batch) refuse(err error) {
	for i, ok := 0, true; ok; i, ok = b.next() {
		b.fail(i, err)
	}
	b.rest()
}

// report sends the results of a batch that runs, or announces a single task
// that was thought to be short and has run for announceAfter. It reports whether
// there may be more to report.
func (b *batch) report() (more bool) {
	b.lock()
	defer b.mu.Unlock()
	switch started := b.started(); {
	case b.tasks == nil:
	case b.Count > 1:
		if started-1 > b.sent {
			b.send(wire.Results{Started: -1}, started-1)
		}
	case time.Since(b.mark) > announceAfter:
		if b.sent == 0 && !b.stuck && !b.told {
			b.told = true
			b.send(wire.Results{Started: 0}, 0)
		}
		return false
	}
	return true
}

// some runs task i and those behind it, until one panics or none is left. If one
// ends this goroutine, another takes its place.
func (b *batch) some(i int) {
	var watch *stopwatch // nil if nobody wants to know
	if b.Flags&wire.Timed != 0 {
		watch = newStopwatch(b)
	}
	guard.Here(func() error {
		for ok := true; ok; {
			var err error
			if b.Timeout == 0 {
				err = b.tasks.Run(&b.task, i)
			} else {
				err = b.timed(i)
			}
			if err != nil {
				b.fail(i, err)
			}
			if watch != nil {
				watch.lap(i)
			}
			if b.announced() {
				i, ok = b.begin()
			} else {
				i, ok = b.next() // inlined, since a task may be this short
			}
		}
		if watch != nil {
			watch.stop()
		}
		return nil
	}, func(err error) {
		if err != nil {
			b.fail(i, err)
		}
		if err == guard.ErrGoexit {
			go func() {
				b.rest()
				b.worker.work(b.worker.waiting())
			}()
		}
	})
}

// fail records the failure of task i. If the call stops at an error, no more
// tasks are started.
func (b *batch) fail(i int, err error) {
	e := b.worker.opts.Error(string(b.Func), err)
	if e.Replace {
		b.worker.replace()
	} else if b.Flags&wire.StopOnError != 0 {
		b.stopAt(0)
	}
	b.lock()
	defer b.mu.Unlock()
	if b.stuck {
		return
	}
	b.errors = append(b.errors, wire.TaskError{Index: i, Err: *e})
	if b.tasks != nil && b.Flags&wire.KeepFailed == 0 {
		b.tasks.Clear(i)
	}
}

// announce announces the start of task i and returns when the message is in the
// socket: only then may the task begin. It returns false when no more messages
// are to be sent.
func (b *batch) announce(i int) bool {
	b.lock()
	defer b.mu.Unlock()
	return !b.stuck && b.send(wire.Results{Started: i}, i)
}

// timed calls the function for task i, with a deadline. A task that returns later
// fails, and if it does not return, the rest of the batch is given back, too.
func (b *batch) timed(i int) error {
	timeout := time.Duration(b.Timeout)
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(&b.task, deadline)
	defer cancel()
	late := self.AfterFunc(timeout+timeoutGrace, func() { b.overdue(i, timeout) })
	defer late.Stop()
	err := b.tasks.Run(ctx, i)
	if b.ctx.Err() == nil && !time.Now().Before(deadline) {
		err = timedOut(timeout, false, err)
	}
	return err
}

// timedOut is the error of a task whose time was up, and whose function has returned
// err, or goes on.
func timedOut(timeout time.Duration, goesOn bool, err error) error {
	switch {
	case goesOn:
		return fmt.Errorf("timed out after %v, and its function goes on: %w", timeout, err)
	case err == nil:
		return fmt.Errorf("timed out after %v, before its function returned: %w", timeout, context.DeadlineExceeded)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("timed out after %v, and its function returned: %w", timeout, err)
	}
	return fmt.Errorf("timed out after %v, and its function returned: %w (%w)", timeout, err, context.DeadlineExceeded)
}

// overdue gives up task i, which still runs.
func (b *batch) overdue(i int, timeout time.Duration) {
	b.lock()
	defer b.mu.Unlock()
	if b.stuck || b.sent > i || b.started() != i+1 || b.ctx.Err() != nil {
		return
	}
	b.worker.mu.Lock()
	_, running := b.worker.running[b]
	from := b.stopAt(0)
	running = running && from == i+1 // else the next task has begun meanwhile
	tell := running && !b.returned && from < b.Count
	b.returned = b.returned || tell
	b.worker.mu.Unlock()
	if !running {
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
	e := b.worker.opts.Error(string(b.Func), timedOut(timeout, true, context.DeadlineExceeded))
	b.errors = append(b.errors, wire.TaskError{Index: i, Err: *e})
	b.send(wire.Results{Started: -1, Stuck: true}, i+1)
}

// decode looks the function up and decodes the inputs.
func (b *batch) decode() (registry.Tasks, error) {
	f, ok := registry.Find(registry.Function, string(b.Func)).(*registry.Func)
	if !ok {
		return nil, fmt.Errorf("fiber: function %q is not registered in the worker", b.Func)
	}
	tasks, err := f.Decode(b.value, b.index())
	if err != nil {
		return nil, err
	}
	if tasks.Len() != b.Count {
		return nil, fmt.Errorf("%w: %d inputs for %d tasks", wire.ErrMalformed, tasks.Len(), b.Count)
	}
	return tasks, nil
}
