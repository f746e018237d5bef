package engine

import (
	"cmp"
	"slices"
)

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
