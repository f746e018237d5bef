package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// WorkerStats describes one worker in Stats.
type WorkerStats struct {
	Name    string
	ID      string // in its backend
	State   string
	Tasks   int         // tasks it holds
	Done    int         // tasks it has finished
	Memory  wire.Status // as last reported
	Running []RunningTask
}

// RunningTask is a task that a worker runs, or short ones that it runs one after another.
type RunningTask struct {
	Func     string
	Index    int
	Tasks    int
	Since    time.Time
	Unwanted bool
}

// CallStats describes a call that goes on.
type CallStats struct {
	Number uint64
	Func   string
	Tasks  int // -1 while more may come
	Kept   int // those that a checkpoint had finished
	Tally
}

// running returns what the worker runs, as far as it has said so.
func (w *worker) running() (all []RunningTask) {
	slots := w.engine.opts.Concurrency
	for b := range w.batches.all() {
		if slots--; slots < 0 {
			break
		}
		s := b.left()
		switch {
		case !b.sent:
			continue
		case b.run >= 0:
			s = span{b.run, b.run + 1}
		case b.tell && b.next == b.lo: // it has not begun
			continue
		case b.tell || b.dead:
			s.hi = min(s.hi, s.lo+1)
		}
		if s.len() > 0 {
			all = append(all, RunningTask{b.call.opts.Func, s.lo, s.len(), b.heard, b.dead})
		}
	}
	return all
}

// Stats is a snapshot of an engine.
type Stats struct {
	Counters
	Target, Starting, Ready, Idle int
	Queued, Held                  int // tasks
	Failure                       error
	Workers                       []WorkerStats // by name
}

// Processes returns how many workers are coming, are up, and were lost so far.
func (e *Engine) Processes() (coming, up, lost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.in(starting), e.in(ready), e.stats.WorkersLost
}

// Stats returns a snapshot of the engine.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Counters: e.stats, Target: e.target, Starting: e.in(starting), Ready: e.in(ready), Idle: e.survey().count[idle], Failure: e.failure}
	for c := range e.calls {
		s.Queued += c.waiting() + len(c.paused)
	}
	for _, x := range e.suspects {
		s.Queued += x.len()
	}
	for _, w := range e.workers {
		s.Held += w.holds.tasks
		if w.proc != nil {
			s.Workers = append(s.Workers, WorkerStats{w.name, w.proc.ID(), w.state.String(), w.holds.tasks, w.done, w.proc.Memory(), w.running()})
		}
	}
	slices.SortFunc(s.Workers, func(a, b WorkerStats) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return s
}

// Calls returns the calls of more than one task that go on, and whether there can be no more.
func (e *Engine) Calls() (calls []CallStats, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.calls {
		switch {
		case c.open:
			calls = append(calls, CallStats{c.number, c.opts.Func, -1, c.kept, c.came})
		case c.total > 1:
			calls = append(calls, CallStats{c.number, c.opts.Func, c.total, c.kept, c.came})
		}
	}
	return calls, e.ended
}
