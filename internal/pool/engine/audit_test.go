package engine

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Audit counts again everything that the engine keeps a count of, and returns
// an error where the two differ, where an idle worker lets tasks wait, or where
// a call has not ended and has nothing to wait for.
func (e *Engine) Audit() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	suspects := map[*Call]int{}
	for _, s := range e.suspects {
		suspects[s.call] += s.below(s.call.limit).len()
	}
	held := map[*Call]int{}
	for _, w := range e.workers {
		if w.state == gone || w.state == starting && len(w.batches) > 0 {
			return fmt.Errorf("%s, %v, holds %d batches", w.name, w.state, len(w.batches))
		}
		for _, b := range w.batches {
			if b.w != w || b.dead == slices.Contains(b.call.held, b) {
				return fmt.Errorf("%s holds batch %d of call %d, dead: %v, of which %s and the call know %v", w.name, b.id, b.call.id, b.dead, b.w.name, b.call.held)
			}
			if !b.dead {
				held[b.call]++
			}
		}
		counted := *w
		w.tally()
		if math.Abs(counted.seconds-w.seconds) > 1e-6 || counted.held != w.held || counted.abandoned != w.abandoned || counted.bytes != w.bytes || counted.alone != w.alone {
			return fmt.Errorf("%s holds %d tasks, %d abandoned batches, %d bytes, a suspect: %v; counted: %d, %d, %d, %v",
				w.name, w.held, w.abandoned, w.bytes, w.alone, counted.held, counted.abandoned, counted.bytes, counted.alone)
		}
		next := e.next()
		held := next != nil && time.Now().Before(next.due()) && !e.timerAt.IsZero()
		if w.class() == idle && (len(e.suspects) > 0 || next != nil && !held) && !e.ended {
			return fmt.Errorf("%s is idle, and tasks wait", w.name)
		}
	}
	for c := range e.calls {
		if held[c] != len(c.held) {
			return fmt.Errorf("call %d: workers hold %d of its batches, it knows of %d", c.id, held[c], len(c.held))
		}
		if c.hasWork() != (c.waiting() > 0) || c.hasWork() && !(c.queued && slices.Contains(e.queue, c)) {
			return fmt.Errorf("call %d has %d tasks to give, it is queued: %v", c.id, c.waiting(), c.queued)
		}
		// Wanted tasks are where they will be delivered from, and while there
		// are any the call does not end.
		left := c.waiting() + suspects[c]
		for _, b := range c.held {
			left += b.left().below(c.limit).len()
		}
		for _, s := range c.delivering {
			left += s.below(c.limit).len()
		}
		if c.unresolved() != (left > 0) || left == 0 && (!c.open || c.limit < math.MaxInt) {
			return fmt.Errorf("call %d, open: %v, has %d tasks that are not delivered, and has not ended", c.id, c.open, left)
		}
	}
	return nil
}
