package scheduler

import (
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// balanceInterval is how long work may lie with a busy worker while another
// is idle before it is recalled.
const balanceInterval = 2 * time.Millisecond

// wake has tick called at a time, or earlier.
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

// plan looks after each event whether something is due later on.
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

// tick does what is due.
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
	kill := append(e.replaceStuck(now), e.endStuck(now)...)
	e.stopIdle(now)
	e.scale()
	grants := e.dispatch()
	e.mu.Unlock()
	e.send(grants)
	for _, w := range recall {
		w.proc.Post(wire.MustPack(wire.KindRecall, nil)...)
	}
	for _, w := range kill {
		w.proc.Kill("a task that nobody waits for did not end")
	}
}

// replaceStuck lists the workers to end because others' work waits for them
// and they run only what nobody wants, for longer than the grace.
func (e *Engine) replaceStuck(now time.Time) (kill []*worker) {
	if e.starved.IsZero() {
		return nil
	}
	if now.Sub(e.starved) < e.opts.CancelGrace {
		e.wake(e.starved.Add(e.opts.CancelGrace))
		return nil
	}
	e.starved = time.Time{}
	for w := range e.workers {
		if w.abandoned == 0 || w.abandoned < len(w.grants) || w.ours {
			continue
		}
		if due := w.grants[0].at.Add(e.opts.CancelGrace); now.Before(due) {
			e.starved = now
			e.wake(due)
			continue
		}
		w.ours = true
		kill = append(kill, w)
	}
	return kill
}

// endStuck lists the draining workers to end because they run only what nobody
// wants, for longer than the grace.
func (e *Engine) endStuck(now time.Time) (kill []*worker) {
	if e.abandoned == 0 {
		return nil
	}
	for w := range e.workers {
		if w.state != draining || w.ours || w.abandoned == 0 || w.abandoned < len(w.grants) {
			continue
		}
		if due := w.grants[0].at.Add(e.opts.CancelGrace); now.Before(due) {
			e.wake(due)
			continue
		}
		w.ours = true
		kill = append(kill, w)
	}
	return kill
}

// stopIdle ends autoscaled workers that have been idle for long.
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
