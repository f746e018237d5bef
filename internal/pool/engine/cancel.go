package engine

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// Cancel ends the call, for a reason that is nil if nothing is wrong: further results are dropped, and the contexts of
// running tasks are cancelled. Cancel does not block and does not call Finish.
func (c *Call) Cancel(why error) {
	e := c.engine
	e.mu.Lock()
	if !c.finished {
		e.drop(c)
		e.callOver(c, why)
	}
	e.releaseFor(hurried)
}

// settle ends a call if all its tasks are delivered.
func (e *Engine) settle(c *Call) {
	if c.finished || c.open && c.limit == math.MaxInt || c.unresolved() {
		return
	}
	e.finish(c, c.ending)
}

// finish ends a call. Its source is told when the lock is released.
func (e *Engine) finish(c *Call, err error) {
	e.drop(c)
	e.callOver(c, err)
	t := c.came
	e.after = append(e.after, func() { c.source.Finish(err, t) })
}

// fail ends every call with an error.
func (e *Engine) fail(err error) {
	for c := range e.calls {
		e.finish(c, err)
	}
}

// drop forgets a call and gives up what is left of it.
func (e *Engine) drop(c *Call) {
	c.finished = true
	delete(e.calls, c)
	if c.own.seconds >= 0 {
		c.stats.learn(c.own.seconds)
	}
	e.giveUp(c, 0)
	if !c.queued {
		return
	}
	// Many calls may be dropped: the queue is looked through when half of it is.
	if e.dropped++; 2*e.dropped >= len(e.queue) {
		e.dropped = 0
		e.queue = slices.DeleteFunc(e.queue, func(c *Call) bool {
			c.queued = !c.finished
			return c.finished
		})
	}
}

// giveUp gives up the tasks of a call from an index on. Batches of nothing else
// are abandoned, and the workers that hold any of the tasks are told.
func (e *Engine) giveUp(c *Call, from int) {
	if from >= c.limit {
		return
	}
	c.limit = from
	c.back.giveUp(from)
	c.again.heaped = slices.DeleteFunc(c.again.heaped, func(f failed) bool { return f.task >= from })
	heap.Init(&c.again)
	paused := len(c.paused)
	maps.DeleteFunc(c.paused, func(task int, _ bool) bool { return task >= from })
	e.forget(paused - len(c.paused))
	for i, s := range e.suspects {
		if s.call == c {
			e.suspects[i].span = s.below(from)
		}
	}
	e.suspects = slices.DeleteFunc(e.suspects, func(s suspect) bool { return s.len() == 0 })
	var told []*worker
	for b := range c.held.all() {
		if b.hi <= from {
			continue
		}
		if b.next >= from {
			b.abandon()
		}
		if !slices.Contains(told, b.w) {
			told = append(told, b.w)
			b.w.cancel(c)
		}
	}
}

// cut lets the running tasks of an open call finish, gives up the others, and
// has the call end with ErrClosed.
func (e *Engine) cut(c *Call) {
	c.open, c.cut, c.ending = false, true, e.opts.Closed
	paused := len(c.paused)
	c.back, c.again, c.paused, c.total = spans{}, byIndex{}, nil, c.fresh
	e.forget(paused)
	e.cuts = append(e.cuts, c)
	for b := range c.held.all() {
		if !b.w.recalling {
			b.w.recall()
		}
	}
}

// recall asks the worker to give back what it has not begun.
func (w *worker) recall() {
	w.recalling, w.late = true, true
	w.changed()
	w.proc.Post(wire.MustPack(wire.KindRecall, nil)...)
}

// cancel tells the worker which tasks of a call are unwanted.
func (w *worker) cancel(c *Call) {
	w.proc.Post(wire.MustPack(wire.KindCancel, wire.Cancel{Call: c.id, From: c.limit})...)
}

// abandon marks the batch as unwanted. Once it is sent, it keeps its place in the
// worker until the worker reports its end.
func (b *batch) abandon() {
	if b.dead {
		return
	}
	b.dead = true
	if !b.sent {
		b.takeBack()
		return
	}
	b.at = time.Now()
	b.call.held.remove(b)
	b.tally()
}

// takeBack takes back from its worker a batch that was not sent. If it is being
// encoded, others send the worker what follows.
func (b *batch) takeBack() {
	w, e := b.w, b.call.engine
	w.remove(b)
	w.unsent.remove(b)
	if w.sending == b {
		if w.send(nil); w.unsent.n > 0 {
			e.outgoing = append(e.outgoing, w.unsent.first)
		}
	}
	w.given -= b.left().len()
	e.freed(w)
}
