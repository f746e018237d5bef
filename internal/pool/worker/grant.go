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

// grant is tasks that the pool has handed to this worker.
type grant struct {
	wire.Grant
	worker *Worker
	value  [][]byte
	ctx    context.Context
	cancel context.CancelFunc

	// state is in its upper half how many tasks may be started, in its lower
	// half how many were: one atomic addition starts a task or learns that it
	// may not be, and a recall lowers the one without losing the other.
	state    atomic.Uint64
	returned bool // the rest was given back; under the worker's lock

	mu     sync.Mutex // what follows, and the order of this grant's messages
	batch  registry.Batch
	sent   int // tasks whose results were sent
	errors []wire.TaskError
	mark   time.Time // when sent was last raised
	stuck  bool      // the task that runs was given up for its time
	told   bool      // the only task was announced late
	begun  bool      // the first task was announced before it was decoded; of the goroutine that runs
}

// flushed says that the grant's results are sent from time to time.
func (g *grant) flushed() bool { return g.Count > 1 && g.Flags&wire.Announce == 0 }

// unannounced says that the grant is one task which was thought to be short.
func (g *grant) unannounced() bool { return g.Count == 1 && g.Flags&wire.Announce == 0 }

// next starts a task and says which, or that none is to be started.
func (g *grant) next() (i int, ok bool) {
	s := g.state.Add(1)
	started, limit := int(uint32(s)), int(s>>32)
	return started - 1, started <= limit
}

// started is how many tasks were begun, one more when all allowed ones ended.
func (g *grant) started() int { return int(uint32(g.state.Load())) }

// stopAt lets no task from index n on be started and returns the first that
// will not be.
func (g *grant) stopAt(n int) int {
	for {
		s := g.state.Load()
		started, limit := int(uint32(s)), int(s>>32)
		if started > limit {
			return limit
		}
		stop := min(limit, max(started, n))
		if g.state.CompareAndSwap(s, uint64(stop)<<32|uint64(uint32(started))) {
			return stop
		}
	}
}

// run runs the tasks and sends what they give.
func (g *grant) run() {
	g.mu.Lock()
	g.mark = time.Now()
	g.mu.Unlock()
	if g.Flags&wire.Announce != 0 {
		// Before anything is decoded: that may end the process as well.
		if _, ok := g.next(); !ok || !g.announce(0) {
			g.end()
			return
		}
		g.begun = true
	}
	g.mu.Lock()
	batch, err := g.decode()
	g.value = nil
	g.batch, g.mark = batch, time.Now()
	g.mu.Unlock()
	if err != nil {
		g.refuse(err)
		return
	}
	for g.some() {
	}
	g.end()
}

// end sends what is left to send.
func (g *grant) end() {
	g.mu.Lock()
	done := min(g.started(), g.Count)
	if s := g.state.Load(); int(uint32(s)) > int(s>>32) {
		done = int(s >> 32)
	}
	if g.stuck {
		done = g.sent
	}
	g.send(wire.Results{Started: -1, Ended: true}, done)
	g.mu.Unlock()
	g.worker.finished(g)
}

// refuse fails all tasks, which cannot be run.
func (g *grant) refuse(err error) {
	n := g.stopAt(g.Count)
	e := g.worker.opts.Error(string(g.Func), err)
	g.mu.Lock()
	for i := range n {
		g.errors = append(g.errors, wire.TaskError{Index: i, Err: *e})
	}
	g.send(wire.Results{Started: -1, Ended: true}, n)
	g.mu.Unlock()
	g.worker.finished(g)
}

// announceLate announces a task that was thought to be short and has been running
// for patience. It says whether the task may yet do so.
func (g *grant) announceLate() (later bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mark.IsZero() || time.Since(g.mark) < patience/2 {
		return true
	}
	if g.sent == 0 && g.started() == 1 && !g.stuck && !g.told {
		g.told = true
		g.send(wire.Results{Started: 0}, 0)
	}
	return false
}

// some runs tasks until one panics or none is left; it says whether to go on.
func (g *grant) some() (more bool) {
	i := -1
	guard.Here(func() error {
		g.each(&i)
		return nil
	}, func(err error) {
		switch {
		case err == nil:
			return
		case i < 0:
			panic(err) // not the user's
		}
		g.fail(i, g.worker.opts.Error(string(g.Func), err))
		if err != guard.ErrGoexit {
			more = g.goesOn()
			return
		}
		go func() { // in this goroutine's place
			for g.goesOn() && g.some() {
			}
			g.end()
			g.worker.work(g.worker.waiting())
		}()
	})
	return more
}

// each runs tasks until none is left, or one fails that was to be the last; i
// is the one that runs, -1 when none does.
func (g *grant) each(i *int) {
	tell, timeout := g.Flags&wire.Announce != 0, time.Duration(g.Timeout)
	for {
		n, ok := 0, g.begun // the first one may be announced already
		if g.begun = false; !ok {
			n, ok = g.next()
			ok = ok && (!tell || g.announce(n))
		}
		if !ok {
			return
		}
		*i = n
		var err error
		if timeout > 0 {
			err = g.timed(n, timeout)
		} else {
			err = g.batch.Run(g.ctx, n)
		}
		if err != nil {
			g.fail(n, g.worker.opts.Error(string(g.Func), err))
		}
		*i = -1
		if err != nil && !g.goesOn() {
			return
		}
	}
}

// goesOn says after a failure whether further tasks are wanted; those that
// are not wanted are never started.
func (g *grant) goesOn() bool {
	if g.Flags&wire.StopOnError != 0 {
		g.stopAt(0)
		return false
	}
	return true
}

// fail notes that task i has failed.
func (g *grant) fail(i int, err *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck {
		return
	}
	g.errors = append(g.errors, wire.TaskError{Index: i, Err: *err})
	g.batch.Clear(i)
}

// announce says that task i begins, which it may not do before the word is in
// the socket; it is false when nothing is said any more.
func (g *grant) announce(i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.stuck && g.send(wire.Results{Started: i}, i)
}

// timed runs task i with a deadline; when the function does not heed it, the
// task fails all the same and the rest is given back.
func (g *grant) timed(i int, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(g.ctx, timeout)
	defer cancel()
	late := time.AfterFunc(timeout+timeoutGrace, func() { g.overdue(i, timeout) })
	defer late.Stop()
	err := g.batch.Run(ctx, i)
	if err != nil && ctx.Err() == context.DeadlineExceeded && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (%w after %v)", err, context.DeadlineExceeded, timeout)
	}
	return err
}

// overdue gives task i up, which still runs.
func (g *grant) overdue(i int, timeout time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck || g.started() != i+1 || g.ctx.Err() != nil {
		return
	}
	g.worker.mu.Lock()
	_, running := g.worker.running[g]
	from := g.stopAt(0)
	tell := running && !g.returned && from < g.Count
	g.returned = g.returned || tell
	g.worker.mu.Unlock()
	if !running || g.started() != i+1 {
		return
	}
	// The time until now is task i's, not that of those before it.
	began := time.Now().Add(-timeout)
	if began.Before(g.mark) {
		began = g.mark
	}
	g.send(wire.Results{Started: -1}, i)
	g.mark = began
	if tell {
		g.worker.link.Post(wire.MustPack(wire.KindReturned, wire.Returned{Grants: []wire.Remainder{{Grant: g.ID, From: from}}})...)
	}
	g.stuck = true
	e := g.worker.opts.Error(string(g.Func), fmt.Errorf("timed out after %v: %w", timeout, context.DeadlineExceeded))
	g.errors = append(g.errors, wire.TaskError{Index: i, Err: *e})
	g.send(wire.Results{Started: -1, Stuck: true}, i+1)
}

// send sends the results of the tasks below done that were not sent yet, with
// what else r says; mu is held. It is false when nothing is said any more.
func (g *grant) send(r wire.Results, done int) bool {
	if g.worker.muted.Load() {
		return false
	}
	now := time.Now()
	r.Grant, r.From, r.Count, r.Nanos = g.ID, g.sent, done-g.sent, int64(now.Sub(g.mark))
	n := 0
	for n < len(g.errors) && g.errors[n].Index < done {
		n++
	}
	r.Errors = g.errors[:n]
	g.errors = g.errors[n:]
	var value [][]byte
	var named any
	if n < r.Count && g.batch != nil {
		var err error
		if value, named, err = g.batch.Results(g.sent, done); err != nil {
			r.Errors = g.unencodable(r.Errors, done)
			if value, named, err = g.batch.Results(g.sent, done); err != nil {
				value = nil // zero values always encode
			}
		}
	}
	g.sent, g.mark = done, now
	return g.transmit(r, value, named)
}

// transmit sends a message: large values, which are not copied, and what must
// be said before something happens, wait until they are in the socket. What the
// values name lives until the pool says that it holds it.
func (g *grant) transmit(r wire.Results, value [][]byte, named any) bool {
	r.Parcel = g.worker.keep(named)
	frames, err := r.Pack(value)
	if err != nil {
		panic(err) // numbers and texts
	}
	if len(value) > 1 || r.Started >= 0 {
		err = g.worker.link.Send(context.Background(), frames...)
	} else {
		err = g.worker.link.Post(frames...)
	}
	if size := (*transport.SizeError)(nil); errors.As(err, &size) {
		g.worker.taken(r.Parcel)
		return g.divide(r, err)
	}
	return err == nil
}

// divide sends results that are too large for one message in two, or fails
// the task whose result alone is too large.
func (g *grant) divide(r wire.Results, cause error) bool {
	if r.Count == 1 {
		e := g.worker.opts.Error(string(g.Func), fmt.Errorf("the result: %w", cause))
		r.Errors = []wire.TaskError{{Index: r.From, Err: *e}}
		return g.transmit(r, nil, nil)
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
			value, named, _ = g.batch.Results(half.From, half.From+half.Count) // it was encoded before
		}
		if !g.transmit(half, value, named) {
			return false
		}
	}
	return true
}

// unencodable finds the outputs that cannot be encoded, makes them zero and
// adds their errors to errs, in the order of their index.
func (g *grant) unencodable(errs []wire.TaskError, done int) []wire.TaskError {
	failed := map[int]wire.TaskError{}
	for _, e := range errs {
		failed[e.Index] = e
	}
	var all []wire.TaskError
	for i := g.sent; i < done; i++ {
		if _, ok := failed[i]; !ok {
			if _, _, err := g.batch.Results(i, i+1); err != nil {
				g.batch.Clear(i)
				if at := (*codec.Error)(nil); errors.As(err, &at) && at.Index >= 0 {
					at.Index = g.Lo + i
				}
				e := g.worker.opts.Error(string(g.Func), fmt.Errorf("the result: %w", err))
				failed[i] = wire.TaskError{Index: i, Err: *e}
			}
		}
		if e, ok := failed[i]; ok {
			all = append(all, e)
		}
	}
	return all
}
