package engine

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// waiter is a caller that waits until met returns true or an error.
type waiter struct {
	met  func() (bool, error) // called under the lock, after each event
	over chan error
}

// told tells the caller if it need not wait any longer, and reports whether.
func (w *waiter) told() bool {
	ok, err := w.met()
	if ok || err != nil {
		w.over <- err
		return true
	}
	return false
}

// tell tells the callers that need not wait any longer.
func (e *Engine) tell() { e.waiters = slices.DeleteFunc(e.waiters, (*waiter).told) }

// wait releases the lock, and blocks until met returns true or an error, or
// until ctx ends.
func (e *Engine) wait(ctx context.Context, met func() (bool, error)) error {
	w := &waiter{met, make(chan error, 1)}
	e.waiters = append(e.waiters, w)
	e.releaseFor(hurried)
	select {
	case err := <-w.over:
		return err
	case <-ctx.Done():
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters = slices.DeleteFunc(e.waiters, func(other *waiter) bool { return other == w })
	return ctx.Err()
}

// Up starts the workers and blocks until as many are ready as are wanted. It
// fails when ctx ends, the engine is closed, or no worker can be started.
func (e *Engine) Up(ctx context.Context) error {
	return e.settled(ctx, func() { e.started = true })
}

// Resize sets the number of workers. If the pool has started, Resize blocks
// until that many are ready.
func (e *Engine) Resize(ctx context.Context, n int) error {
	return e.settled(ctx, func() {
		e.target = n
		if e.opts.Max > 0 {
			e.opts.Min, e.opts.Max = min(e.opts.Min, n), max(e.opts.Max, n)
		}
	})
}

// settled calls change under the lock, and then blocks until as many workers
// are ready as are wanted and surplus ones have gone.
func (e *Engine) settled(ctx context.Context, change func()) error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return e.opts.Closed
	}
	change()
	if e.failures >= startTries {
		e.failures = 0
	}
	return e.wait(ctx, func() (bool, error) {
		up := e.in(ready)
		switch {
		case e.ended:
			return false, e.opts.Closed
		case e.hopeless():
			return false, e.failure
		}
		return !e.started || up >= e.target && len(e.workers) <= max(e.target, up), nil
	})
}

// Renew replaces every worker. The old ones finish what they hold and get no
// more tasks. The new ones are started from another goroutine.
func (e *Engine) Renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	for _, w := range e.workers {
		e.drain(w)
	}
	e.wake(time.Now())
}

// Close refuses new calls, waits for complete calls to finish and for the
// running tasks of open ones, and ends the workers. Tasks of open calls that
// have not begun are given up. When this process is told to end, Close becomes
// Terminate.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closing = true
	for c := range e.calls {
		if c.open {
			e.cut(c)
		}
	}
	if e.wait(e.opts.Ending, func() (bool, error) { return len(e.calls) == 0 || e.ended, nil }) != nil {
		e.Terminate()
		return
	}
	e.end(func(w *worker) { w.proc.Stop() })
}

// Terminate fails all calls with ErrClosed, ends the workers, busy or not, and
// blocks until they have gone.
func (e *Engine) Terminate() {
	e.mu.Lock()
	e.closing = true
	e.fail(e.opts.Closed)
	e.releaseFor(hurried)
	e.end(func(w *worker) { w.proc.Terminate() })
}

// end asks every worker to end, kills those left after the grace, and returns
// when all have gone.
func (e *Engine) end(gently func(*worker)) {
	e.mu.Lock()
	e.ended = true
	if e.timer != nil {
		e.timer.Stop()
	}
	var up []*worker
	for _, w := range e.workers {
		w.ours = true
		w.stop()
		if w.proc != nil {
			up = append(up, w)
		}
	}
	e.releaseFor(hurried)
	for _, w := range up {
		gently(w)
	}
	late := time.AfterFunc(e.opts.ShutdownGrace, func() {
		for _, w := range up {
			w.proc.Kill("its pool is closed")
		}
	})
	defer late.Stop()
	e.running.Wait()
}

// WorkerStats describes one worker in Stats.
type WorkerStats struct {
	Name     string
	ID       string // in its backend
	State    string
	Tasks    int   // tasks it holds
	Done     int   // tasks it has finished
	Resident int64 // bytes in memory, as last reported
}

// Stats is a snapshot of an engine.
type Stats struct {
	Counters
	Target, Starting, Ready, Idle int
	Queued, Held                  int // tasks
	Failure                       error
	Workers                       []WorkerStats // by name
}

// Stats returns a snapshot of the engine.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Counters: e.stats, Target: e.target, Starting: e.in(starting), Ready: e.in(ready), Idle: e.survey().count[idle], Failure: e.failure}
	for c := range e.calls {
		s.Queued += c.waiting()
	}
	for _, x := range e.suspects {
		s.Queued += x.len()
	}
	for _, w := range e.workers {
		s.Held += w.held
		if w.proc != nil {
			s.Workers = append(s.Workers, WorkerStats{w.name, w.proc.ID(), w.state.String(), w.held, w.done, w.proc.Resident()})
		}
	}
	slices.SortFunc(s.Workers, func(a, b WorkerStats) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return s
}
