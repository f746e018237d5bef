package engine

import (
	"fmt"
	"time"
)

// A worker that dies before youngAge, without having done a task, delays the
// start of its replacement.
const youngAge = time.Second

// lost removes a worker that has ended. Tasks that it had not started go back
// to their calls. Those that it may have started become suspects: each runs
// again on a worker that holds nothing else and announces every start. A loss
// counts as an attempt of a task only when that task was the only one running.
// A worker that ended because of the engine, its machine or this process's own
// end is not lost, and none of its tasks becomes a suspect.
func (e *Engine) lost(w *worker) {
	e.mu.Lock()
	lost := !w.ours && !w.leaving && !w.proc.Told()
	e.leave(w)
	if lost {
		e.stats.WorkersLost++
		if w.done == 0 && time.Since(w.since) < youngAge {
			e.young++
			e.notBefore = time.Now().Add(backoff(e.young))
		}
	}
	var suspects []suspect
	var known bool
	type loss struct {
		call *Call
		at   int
		n    int // which of its losses this is
		tell func()
	}
	var losses []loss
	again := 0 // tasks that run again elsewhere
	for i := len(w.batches) - 1; i >= 0; i-- {
		b := w.batches[i]
		delete(e.batches, b.id)
		if b.dead || b.call.finished {
			continue
		}
		left := b.left()
		if b.call.limit < left.hi {
			left = left.below(b.call.limit)
		}
		if left.len() == 0 {
			continue
		}
		e.stats.TasksRetried += left.len()
		again += left.len()
		started := b.run >= left.lo && b.run < left.hi
		switch exact := b.tell || started && left.len() == 1; {
		case (w.ours || w.leaving) && e.opts.MaxAttempts > 1, exact && !started && !b.solo:
			b.call.giveBack(left)
		case exact && !started: // a suspect that has not run yet
			suspects = append(suspects, suspect{b.call, left})
		case exact:
			b.call.giveBack(span{b.run + 1, left.hi})
			suspects = append(suspects, suspect{b.call, span{b.run, b.run + 1}})
			known = true
		default:
			suspects = append(suspects, suspect{b.call, left})
		}
		e.enqueue(b.call)
	}
	known = known && w.abandoned == 0 // an abandoned task may have ended the worker, too
	e.spare -= w.spare()
	w.load(-w.seconds)
	e.abandoned -= w.abandoned
	w.batches, w.held, w.abandoned = nil, 0, 0
	switch {
	case e.opts.MaxAttempts == 1:
		// A started task never runs again.
		for _, s := range suspects {
			losses = append(losses, loss{call: s.call, at: s.lo, n: 1})
		}
		suspects = nil
	case len(suspects) == 1 && known && suspects[0].len() == 1:
		s := suspects[0]
		if s.call.attempts == nil {
			s.call.attempts = map[int]int{}
		}
		s.call.attempts[s.lo]++
		if n := s.call.attempts[s.lo]; n >= e.opts.MaxAttempts {
			losses = append(losses, loss{call: s.call, at: s.lo, n: n})
			suspects = nil
		}
	}
	e.suspects = append(suspects, e.suspects...)
	for i := range losses {
		e.stats.TasksRetried--
		c, at := losses[i].call, losses[i].at
		c.delivering = append(c.delivering, span{at, at + 1})
		losses[i].tell = e.failedAt(c, at)
	}
	e.scale()
	batches := e.dispatch()
	e.broadcast()
	e.mu.Unlock()
	e.send(batches)
	// The worker's tasks run elsewhere by now. A container engine may take its
	// time to report how the process ended; only tasks that fail for the loss
	// wait for that report.
	<-w.proc.Done()
	switch {
	case lost:
		e.opts.Log.Warn("fiber: a worker was lost", append(w.proc.Describe(), "reason", w.proc.Ending(),
			"tasks", fate(again-len(losses), len(losses), e.opts.MaxAttempts))...)
	case w.leaving && !w.proc.Told():
		e.opts.Log.Info("fiber: a worker was told to end from outside; its tasks run elsewhere", w.proc.Describe()...)
	}
	for _, l := range losses {
		l.tell()
		err := w.proc.Lost(l.call.opts.Func, l.n, e.opts.MaxAttempts)
		e.delivered(l.call, span{l.at, l.at + 1}, nil, []Failure{{l.at, err}})
	}
}

// fate describes what becomes of a lost worker's tasks, for the log.
func fate(again, failed, attempts int) string {
	switch {
	case failed == 0 && again == 0:
		return "none"
	case failed == 0:
		return fmt.Sprintf("%d run again", again)
	}
	text := fmt.Sprintf("%d failed at attempt %d of %d", failed, attempts, attempts)
	if again > 0 {
		text += fmt.Sprintf(", %d run again", again)
	}
	return text
}

// leave removes a worker from the engine's tables, whatever its state.
func (e *Engine) leave(w *worker) {
	switch w.state {
	case starting:
		e.alive--
	case ready:
		e.alive--
		e.up--
	}
	w.state = gone
	e.reclass(w)
	delete(e.workers, w)
}

// backoff returns the pause before the next start after n failures in a row.
func backoff(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 10), 5*time.Second)
}
