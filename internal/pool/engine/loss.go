package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fiber-go/fiber/event"
)

// A worker that dies before youngAge, without having done a task, delays the
// start of its replacement.
const youngAge = time.Second

// lost removes a worker that has ended. Tasks that it had not started go back
// where they came from. Those that it may have started become suspects: each
// runs, until it is delivered, on a worker that holds nothing else and announces
// every start. A loss counts as an attempt of a task only when no other can have
// run. A worker that ended because of the engine, its machine or this process's
// own end is not lost, and none of its tasks becomes a suspect.
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
	alone := w.holds.abandoned == 0 // else an abandoned task may have ended the worker, too
	var again, moved int            // tasks that may have run and run again, and others, which run elsewhere
	ran := w.ran()
	w.unsent, w.sending = row{kind: toSend}, nil
	for b := range w.batches.backward() {
		w.remove(b)
		left := b.left().below(b.call.limit)
		if b.dead || left.len() == 0 {
			continue
		}
		may := b.mayRun().below(b.call.limit)
		again += may.len()
		b.call.retried(may)
		moved += left.len() - may.len()
		if !lost && e.opts.MaxAttempts > 1 {
			may.hi = may.lo
		}
		b.giveBack(span{max(left.lo, may.hi), left.hi})
		if may.len() > 0 {
			suspects = append(suspects, suspect{b.call, may})
		}
	}
	e.stats.TasksRetried += again
	failing := e.attempted(suspects, alone)
	if len(failing) == 0 {
		e.suspects = append(suspects, e.suspects...)
	}
	e.stats.TasksRetried -= len(failing)
	var attempts []int // of the failing
	for _, f := range failing {
		f.call.came.Retried--
		if n := f.call.opts.Retried; n != nil {
			n.Add(-1)
		}
		e.claim(f.call, Outcome{Lo: f.lo, N: 1, Failures: []Failure{{Index: f.lo}}})
		attempts = append(attempts, f.call.reruns[f.lo])
	}
	e.release()
	// The worker's tasks run elsewhere by now. A container engine may take its
	// time to report how the process ended; only tasks that fail for the loss
	// wait for that report.
	<-w.proc.Done()
	ended := event.WorkerEnded{Lost: lost, Ready: true, Reason: w.proc.Ending()}
	if lost {
		ended.Tasks = fate(again-len(failing), moved, len(failing), e.opts.MaxAttempts)
		if len(ran) > 0 {
			ended.Ran = ran[1].(string)
		}
	}
	e.workerEnded(w, ended)
	switch {
	case lost:
		e.opts.Log.Warn("fiber: a worker was lost", slices.Concat(w.proc.Describe(), []any{"reason", w.proc.Ending(),
			"tasks", fate(again-len(failing), moved, len(failing), e.opts.MaxAttempts)}, ran)...)
	case w.broken:
		e.opts.Log.Info("fiber: a worker was replaced, as the error of a task demanded", w.proc.Describe()...)
	case w.leaving && !w.proc.Told():
		e.opts.Log.Info("fiber: a worker was told to end from outside; its tasks run elsewhere", w.proc.Describe()...)
	}
	for i, f := range failing {
		e.deliver(f.call, Outcome{Lo: f.lo, N: 1, Worker: w.name, Reruns: map[int]int{f.lo: attempts[i] - 1},
			Failures: []Failure{{Index: f.lo, Attempt: attempts[i], Err: w.proc.Lost(f.call.opts.Func, e.opts.MaxAttempts)}}})
	}
}

// retried notes tasks that run again.
func (c *Call) retried(s span) {
	c.came.Retried += s.len()
	if c.opts.Retried != nil {
		c.opts.Retried.Add(int64(s.len()))
	}
	if c.reruns == nil {
		c.reruns = map[int]int{}
	}
	for task := s.lo; task < s.hi; task++ {
		c.reruns[task]++
	}
}

// attempted counts a loss as an attempt of a suspect that was alone, and returns
// the suspects that have no attempt left.
func (e *Engine) attempted(suspects []suspect, alone bool) []suspect {
	if e.opts.MaxAttempts == 1 {
		return suspects // a started task never runs again
	}
	if !alone || len(suspects) != 1 || suspects[0].len() > 1 {
		return nil
	}
	s := suspects[0]
	if s.call.attempts == nil {
		s.call.attempts = map[int]int{}
	}
	s.call.attempts[s.lo]++
	if s.call.attempts[s.lo] < e.opts.MaxAttempts {
		return nil
	}
	return suspects
}

// fate describes what becomes of a lost worker's tasks, for the log.
func fate(again, moved, failed, attempts int) string {
	var parts []string
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed at attempt %d of %d", failed, attempts, attempts))
	}
	if again > 0 {
		parts = append(parts, fmt.Sprintf("%d run again", again))
	}
	if moved > 0 {
		parts = append(parts, fmt.Sprintf("%d run elsewhere", moved))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// mayRun returns the tasks of which one may be running now: none, or one, if
// starts are announced. One that was sent to a slot that is free has begun, as
// far as is known here.
func (b *batch) mayRun() span {
	switch {
	case b.run >= 0:
		return span{b.run, b.run + 1}
	case b.tell || !b.sent:
		return span{b.next, b.next}
	}
	return b.left()
}

// ran returns attributes for a log that say what the worker runs.
func (w *worker) ran() []any {
	var all []string
	for b := range w.batches.all() {
		s := b.mayRun()
		if b.dead && s.len() > 1 { // it begins no other
			s.hi = s.lo + 1
		}
		switch {
		case len(all) == ranMost && s.len() > 0:
			all = append(all, "and more")
		case len(all) > ranMost || s.len() == 0:
		case s.len() == 1:
			all = append(all, fmt.Sprintf("task %d of %s", s.lo, b.call.opts.Func))
		default:
			all = append(all, fmt.Sprintf("one of tasks %d to %d of %s", s.lo, s.hi-1, b.call.opts.Func))
		}
	}
	if all == nil {
		return nil
	}
	return []any{"ran", strings.Join(all, ", ")}
}

// ranMost is how many running tasks a log names.
const ranMost = 8

// leave removes a worker from the engine's tables, whatever its state.
func (e *Engine) leave(w *worker) {
	w.state = gone
	w.changed()
	is := func(other *worker) bool { return other == w }
	e.workers = slices.DeleteFunc(e.workers, is)
	if w.sends { // else it stays until tick runs, which may be never
		w.sends = false
		e.senders = slices.DeleteFunc(e.senders, is)
	}
}

// backoff returns the pause before the next start after n failures in a row.
func backoff(n int) time.Duration {
	return min(10*time.Millisecond<<min(n, 10), 5*time.Second)
}
