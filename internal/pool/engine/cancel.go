package engine

import (
	"math"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// Cancel ends the call: further results are dropped, and the contexts of
// running tasks are cancelled. Cancel does not block and does not call Finish.
func (c *Call) Cancel() {
	e := c.engine
	e.mu.Lock()
	if c.finished {
		e.mu.Unlock()
		return
	}
	notify := e.drop(c)
	batches := e.dispatch()
	e.mu.Unlock()
	for _, w := range notify {
		w.cancel(c.id, 0)
	}
	e.send(batches)
}

// settle ends a call if all its tasks are delivered. The caller calls the
// returned function after releasing the lock.
func (e *Engine) settle(c *Call) func() {
	if c.finished || c.open && c.limit == math.MaxInt || c.unresolved > 0 {
		return func() {}
	}
	notify, ending := e.drop(c), c.ending
	return func() {
		for _, w := range notify {
			w.cancel(c.id, 0)
		}
		c.source.Finish(ending)
	}
}

// drop forgets a call and returns the workers that still hold tasks of it.
func (e *Engine) drop(c *Call) []*worker {
	c.finished = true
	e.dequeue(c)
	delete(e.calls, c)
	c.back = nil
	kept := e.suspects[:0]
	for _, s := range e.suspects {
		if s.call != c {
			kept = append(kept, s)
		}
	}
	clear(e.suspects[len(kept):])
	if len(kept) != len(e.suspects) {
		e.suspects = kept
		e.unreserve()
	}
	notify := e.abandonFrom(c, 0)
	if len(e.calls) == 0 {
		e.broadcast()
	}
	return notify
}

// abandonFrom abandons the batches that reach beyond an index of a call and
// returns their workers.
func (e *Engine) abandonFrom(c *Call, from int) []*worker {
	var notify []*worker
	if c.unresolved == 0 && !c.open && c.limit == math.MaxInt {
		return nil // all is delivered: no worker holds anything
	}
	for w := range e.workers {
		hit := false
		for _, b := range w.batches {
			if b.call != c || b.dead || b.hi <= from {
				continue
			}
			hit = true
			if b.next >= from {
				w.abandon(b)
			}
		}
		if hit {
			notify = append(notify, w)
			e.reclass(w)
		}
	}
	return notify
}

// fail ends every call with an error. The caller calls the returned function
// after releasing the lock.
func (e *Engine) fail(err error) func() {
	var failed []*Call
	var notify [][]*worker
	for c := range e.calls {
		failed = append(failed, c)
		notify = append(notify, e.drop(c))
	}
	return func() {
		for i, c := range failed {
			for _, w := range notify[i] {
				w.cancel(c.id, 0)
			}
			c.source.Finish(err)
		}
	}
}

// cut lets the running tasks of an open call finish, gives up the others, and
// has the call end with ErrClosed. It returns the workers to recall from, those
// that hold tasks of the call.
func (e *Engine) cut(c *Call) (recall []*worker) {
	c.open, c.cut, c.ending = false, true, ErrClosed
	if n := c.waiting(); n > 0 {
		c.unresolved -= n
		c.refused = true
		c.back, c.fresh = nil, c.total
		e.dequeue(c)
	}
	for w := range e.workers {
		for _, b := range w.batches {
			if b.call == c && !b.dead && !w.recalling {
				w.recalling, w.late = true, true
				e.reclass(w)
				recall = append(recall, w)
				break
			}
		}
	}
	return recall
}

// cancel tells the worker that a call's tasks from an index on are unwanted.
func (w *worker) cancel(call uint64, from int) {
	<-w.up
	if w.proc != nil {
		w.proc.Post(wire.MustPack(wire.KindCancel, wire.Cancel{Call: call, From: from})...)
	}
}

// abandon marks a batch as unwanted. The batch keeps its place in the worker
// until the worker reports its end.
func (w *worker) abandon(b *batch) {
	if b.dead {
		return
	}
	w.reduce(b, b.left().len())
	b.dead = true
	b.at = time.Now()
	w.giveUp(1)
	w.engine.wake(b.at.Add(w.engine.opts.CancelGrace))
}

// giveUp adds n to the count of unwanted batches that the worker runs.
func (w *worker) giveUp(n int) {
	before := w.spare()
	w.abandoned += n
	w.engine.abandoned += n
	w.engine.spare += w.spare() - before
}
