package engine

import (
	"fmt"
	"time"
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
		e.timer = time.AfterFunc(d, e.tick)
	} else {
		e.timer.Reset(d)
	}
}

// plan schedules tick for whatever the last event has made due later.
func (e *Engine) plan() {
	waits := e.ring != nil || len(e.suspects) > 0
	if e.spare > 0 && e.abandoned > 0 {
		e.wake(time.Now().Add(balanceInterval))
	}
	if !waits {
		e.starved = time.Time{}
		if e.spare > 0 && e.count[idle]+e.count[slot] > 0 {
			e.wake(time.Now().Add(balanceInterval))
		}
		if e.opts.Max > 0 && e.count[idle] > 0 && e.alive > e.opts.Min {
			e.wake(e.lists[idle].last.since.Add(e.opts.IdleTimeout))
		}
		return
	}
	if e.opts.Max > 0 && e.alive < e.opts.Max {
		e.scale()
	}
	if e.starved.IsZero() && e.abandoned > 0 {
		e.starved = time.Now()
		e.wake(e.starved.Add(e.opts.CancelGrace))
	}
}

// tick does whatever is due: it rebalances, ends stuck and idle workers, and
// starts missing ones.
func (e *Engine) tick() {
	e.mu.Lock()
	e.timerAt = time.Time{}
	if e.ended {
		e.mu.Unlock()
		return
	}
	now := time.Now()
	again, recall := e.rebalance(now)
	if !again.IsZero() {
		e.wake(again)
	}
	kill := e.endStuck(now)
	e.stopIdle(now)
	e.scale()
	batches := e.dispatch()
	e.mu.Unlock()
	e.send(batches)
	for _, w := range recall {
		w.recall()
	}
	for _, w := range kill {
		e.opts.Log.Warn("fiber: a worker is killed", append(w.proc.Describe(),
			"reason", fmt.Sprintf("a task that was cancelled or timed out still ran after %v (cancel_grace)", e.opts.CancelGrace))...)
		w.proc.Kill("a task that was cancelled or timed out did not end")
	}
}

// endStuck returns the workers to kill: those that have run nothing but
// unwanted tasks for longer than the grace and are either draining or keep
// other work waiting. In the latter case the grace counts from when that work
// began to wait, if that was later.
func (e *Engine) endStuck(now time.Time) (kill []*worker) {
	if e.abandoned == 0 {
		return nil
	}
	for w := range e.workers {
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
		w.ours = true
		kill = append(kill, w)
	}
	return kill
}

// stopIdle drains autoscaled workers that have been idle for IdleTimeout.
func (e *Engine) stopIdle(now time.Time) {
	if e.opts.Max == 0 {
		return
	}
	for e.alive > e.opts.Min {
		w := e.lists[idle].last
		if w == nil {
			return
		}
		if due := w.since.Add(e.opts.IdleTimeout); now.Before(due) {
			e.wake(due)
			return
		}
		e.target = max(e.opts.Min, e.alive-1)
		e.drain(w)
	}
}
