package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/fiber-go/fiber/internal/self"
)

// balanceInterval is how long a task may wait at a busy worker while another is
// idle before the task is recalled.
const balanceInterval = 2 * time.Millisecond

// wake schedules tick at the given time or earlier.
func (e *Engine) wake(at time.Time) {
	if e.ended || !e.timerAt.IsZero() && !at.Before(e.timerAt) {
		return
	}
	e.timerAt = at
	d := max(0, time.Until(at))
	if e.timer == nil {
		e.timer = self.AfterFunc(d, e.tick)
	} else {
		e.timer.Reset(d)
	}
}

// tick rebalances, relieves, and has everything else that is due decided.
func (e *Engine) tick() {
	e.mu.Lock()
	e.timerAt = time.Time{}
	now := time.Now()
	e.rebalance(now)
	e.relieve(now)
	e.release()
}

// endStuck kills workers that have run nothing but unwanted tasks for longer
// than the grace and are either draining or keep other work waiting. In the
// latter case the grace counts from when that work began to wait, if that was
// later.
func (e *Engine) endStuck(now time.Time) {
	for _, w := range e.workers {
		since, stuck := w.stuckSince()
		if !stuck || w.ours || w.state != draining && e.starved.IsZero() {
			continue
		}
		if w.state != draining && since.Before(e.starved) {
			since = e.starved
		}
		if due := since.Add(e.opts.CancelGrace); now.Before(due) {
			e.wake(due)
			continue
		}
		w.ours = true // so it is given nothing more
		w.changed()
		e.stats.WorkersKilled++
		ran := w.ran()
		e.after = append(e.after, func() {
			e.opts.Log.Warn("fiber: a worker is killed", slices.Concat(w.proc.Describe(), []any{
				"reason", fmt.Sprintf("a task that was cancelled or timed out still ran after %v (cancel_grace)", e.opts.CancelGrace)}, ran)...)
			w.proc.Kill("a task that was cancelled or timed out did not end")
		})
	}
}

// stopIdle drains autoscaled workers that have been idle for IdleTimeout.
func (e *Engine) stopIdle() {
	if e.opts.Max == 0 || e.survey().count[idle] == 0 {
		return
	}
	now, alive := time.Now(), e.in(starting, ready)
	for _, w := range e.workers {
		if w.class() != idle || alive <= e.opts.Min {
			continue
		}
		if due := w.since.Add(e.opts.IdleTimeout); now.Before(due) {
			e.wake(due)
			continue
		}
		alive--
		e.target = max(e.opts.Min, alive)
		e.drain(w)
	}
}
