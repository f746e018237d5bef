package engine

import (
	"context"
	"sort"
	"time"
)

// wait blocks until met returns true or an error, or until ctx ends. It calls
// met under the lock, after each change.
func (e *Engine) wait(ctx context.Context, met func() (bool, error)) error {
	for {
		e.mu.Lock()
		ok, err := met()
		changed := e.changed
		e.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Up starts the workers and blocks until as many are ready as are wanted. It
// fails when ctx ends, the engine is closed, or no worker can be started.
func (e *Engine) Up(ctx context.Context) error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return ErrClosed
	}
	e.started = true
	e.awaited++
	defer e.unawait()
	if e.failures >= startTries {
		e.failures = 0
	}
	e.scale()
	e.mu.Unlock()
	return e.settled(ctx)
}

// settled blocks until as many workers are ready as are wanted and surplus ones
// have gone.
func (e *Engine) settled(ctx context.Context) error {
	return e.wait(ctx, func() (bool, error) {
		switch {
		case e.ended:
			return false, ErrClosed
		case e.failures >= startTries && e.up == 0:
			return false, e.failure
		}
		return e.up >= e.target && len(e.workers) <= max(e.target, e.up), nil
	})
}

// Renew replaces every worker. The old ones finish what they hold and get no
// more tasks.
func (e *Engine) Renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	for w := range e.workers {
		e.drain(w)
	}
	e.scale()
	e.broadcast()
}

func (e *Engine) unawait() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.awaited--
}

// Resize sets the number of workers. If the pool has started, Resize blocks
// until that many are ready.
func (e *Engine) Resize(ctx context.Context, n int) error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return ErrClosed
	}
	e.target = n
	if e.failures >= startTries {
		e.failures = 0
	}
	if e.opts.Max > 0 {
		e.opts.Min, e.opts.Max = min(e.opts.Min, n), max(e.opts.Max, n)
	}
	e.scale()
	batches := e.dispatch()
	begun := e.started
	e.awaited++
	defer e.unawait()
	e.mu.Unlock()
	e.send(batches)
	if !begun {
		return nil
	}
	return e.settled(ctx)
}

// Close refuses new calls, waits for complete calls to finish and for the
// running tasks of open ones, and ends the workers. Tasks of open calls that
// have not begun are given up.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closing = true
	var recall []*worker
	for c := range e.calls {
		if c.open {
			recall = append(recall, e.cut(c)...)
		}
	}
	e.mu.Unlock()
	for _, w := range recall {
		w.recall()
	}
	for over := false; !over; {
		var finish []func()
		e.wait(context.Background(), func() (bool, error) {
			for c := range e.calls {
				if c.cut && c.unresolved == 0 {
					finish = append(finish, e.settle(c))
				}
			}
			over = len(e.calls) == 0 || e.ended
			return over || len(finish) > 0, nil
		})
		for _, f := range finish {
			f()
		}
	}
	e.end(func(w *worker) { w.proc.Stop() })
}

// Terminate fails all calls with ErrClosed, ends the workers, busy or not, and
// blocks until they have gone.
func (e *Engine) Terminate() {
	e.mu.Lock()
	e.closing = true
	finish := e.fail(ErrClosed)
	e.mu.Unlock()
	finish()
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
	for w := range e.workers {
		w.ours = true
		w.stop()
		if w.proc != nil {
			up = append(up, w)
		}
	}
	e.broadcast()
	e.mu.Unlock()
	for _, w := range up {
		gently(w)
	}
	gone := make(chan struct{})
	go func() { e.running.Wait(); close(gone) }()
	grace := time.NewTimer(e.opts.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-gone:
		return
	case <-grace.C:
	}
	for _, w := range up {
		w.proc.Kill("its pool is closed")
	}
	<-gone
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
	s := Stats{Counters: e.stats, Target: e.target, Starting: e.alive - e.up, Ready: e.up, Idle: e.count[idle], Failure: e.failure}
	for c := range e.calls {
		s.Queued += c.waiting()
	}
	for _, x := range e.suspects {
		s.Queued += x.len()
	}
	for w := range e.workers {
		s.Held += w.held
		if w.proc != nil {
			s.Workers = append(s.Workers, WorkerStats{w.name, w.proc.ID(), w.state.String(), w.held, w.done, w.proc.Resident()})
		}
	}
	sort.Slice(s.Workers, func(i, j int) bool {
		a, b := s.Workers[i].Name, s.Workers[j].Name
		if len(a) != len(b) {
			return len(a) < len(b)
		}
		return a < b
	})
	return s
}
