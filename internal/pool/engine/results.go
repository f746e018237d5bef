package engine

import (
	"fmt"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// handle handles a worker's message.
func (e *Engine) handle(w *worker, kind wire.Kind, frames [][]byte) {
	<-w.up
	if w.proc == nil {
		return // it did not start after all
	}
	var err error
	switch kind {
	case wire.KindReady:
		e.ready(w)
	case wire.KindResults:
		err = e.results(w, frames)
	case wire.KindReturned:
		err = e.returned(w, frames)
	case wire.KindDone:
		err = e.initFailed(w, frames)
	default:
		err = fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind)
	}
	if err != nil {
		w.proc.Kill("it sent an invalid message: " + err.Error())
	}
}

func (e *Engine) results(w *worker, frames [][]byte) error {
	var r wire.Results
	if err := r.Unpack(frames); err != nil {
		return err
	}
	if r.Parcel > 0 && w.proc != nil { // wanted or not
		defer e.opts.WhenHeld(func() { w.proc.Post(wire.MustPack(wire.KindTaken, wire.Taken{Parcel: r.Parcel})...) })
	}
	e.mu.Lock()
	b := e.batches[r.Batch]
	if b == nil || b.w != w {
		e.mu.Unlock()
		return nil // no longer this worker's
	}
	lo, hi := b.lo+r.From, b.lo+r.From+r.Count
	if lo != b.next || hi > b.hi && !b.dead {
		e.mu.Unlock()
		return fmt.Errorf("%w: results %d to %d of a batch %d to %d", wire.ErrMalformed, lo, hi, b.next, b.hi)
	}
	c := b.call
	wanted := !b.dead && r.Count > 0
	if !b.dead {
		w.reduce(b, r.Count)
	}
	b.next = hi
	b.heard = time.Now()
	w.late = false
	b.run = -1
	if r.Started >= 0 {
		b.run = b.lo + r.Started
	}
	if r.Count > 0 {
		c.stats.learn(r.Count, time.Duration(r.Nanos))
		c.own.learn(r.Count, time.Duration(r.Nanos))
		c.perResult = average(c.perResult, frames[1:], r.Count)
		w.done += r.Count
		e.young = 0
	}
	if wanted {
		c.delivering = append(c.delivering, span{lo, hi})
	}
	tell := func() {}
	if wanted && len(r.Errors) > 0 {
		tell = e.failedAt(c, b.lo+r.Errors[0].Index)
	}
	if (r.Stuck || r.Ended) && !b.dead && b.left().len() > 0 {
		// The batch stopped before its end: at an error, or for a recall whose
		// answer is still to come.
		rest := b.left()
		b.hi = b.next
		w.reduce(b, rest.len())
		c.giveBack(rest)
		e.enqueue(c)
	}
	if r.Stuck {
		w.abandon(b)
	}
	if r.Ended {
		w.remove(b)
	}
	e.freed(w)
	batches := e.dispatch()
	if c.opts.Leads && b.brisk() && len(w.batches) == 0 {
		w.proc.StepAside()
	}
	e.mu.Unlock()
	e.send(batches)
	tell()
	if wanted {
		var failures []Failure
		for i := range r.Errors {
			failures = append(failures, Failure{b.lo + r.Errors[i].Index, &r.Errors[i].Err})
		}
		var value [][]byte
		if len(failures) < r.Count {
			value = frames[1:]
		}
		e.delivered(c, span{lo, hi}, value, failures)
	}
	return nil
}

// failedAt records that task i of a call has failed. If the call stops at an
// error, the tasks behind i become unwanted. The caller calls the returned
// function after releasing the lock.
func (e *Engine) failedAt(c *Call, i int) (tell func()) {
	limit := i + 1
	if !c.opts.StopOnError || c.finished || limit >= c.limit {
		return func() {}
	}
	c.limit = limit
	c.unresolved = max(0, min(c.total, limit)-c.fresh)
	back := c.back[:0]
	for _, s := range c.back {
		if s = s.below(limit); s.len() > 0 {
			back = append(back, s)
			c.unresolved += s.len()
		}
	}
	c.back = back
	suspects := e.suspects[:0]
	for _, s := range e.suspects {
		if s.call == c {
			if s.span = s.below(limit); s.len() == 0 {
				continue
			}
			c.unresolved += s.len()
		}
		suspects = append(suspects, s)
	}
	clear(e.suspects[len(suspects):])
	if len(suspects) != len(e.suspects) {
		e.suspects = suspects
		e.unreserve()
	}
	for _, s := range c.delivering {
		c.unresolved += s.below(limit).len()
	}
	notify := e.abandonFrom(c, limit)
	for w := range e.workers {
		for _, b := range w.batches {
			if b.call == c && !b.dead {
				c.unresolved += b.left().below(limit).len()
			}
		}
	}
	if !c.hasWork() {
		e.dequeue(c)
	}
	return func() {
		for _, w := range notify {
			w.cancel(c.id, limit)
		}
	}
}

// delivered hands an outcome, whose span is in the call's delivering, to the
// source. The last outcome ends the call.
func (e *Engine) delivered(c *Call, s span, value [][]byte, failures []Failure) {
	c.source.Deliver(s.lo, s.len(), value, failures)
	e.mu.Lock()
	for i, d := range c.delivering {
		if d == s {
			c.delivering = append(c.delivering[:i], c.delivering[i+1:]...)
			break
		}
	}
	e.stats.TasksDone += s.len() - len(failures)
	e.stats.TasksFailed += len(failures)
	if c.finished {
		e.mu.Unlock()
		return
	}
	c.unresolved -= s.below(c.limit).len()
	finish := e.settle(c)
	e.mu.Unlock()
	finish()
}

// returned takes back the tasks that a worker had not started.
func (e *Engine) returned(w *worker, frames [][]byte) error {
	var r wire.Returned
	if err := wire.Unpack(frames, &r); err != nil {
		return err
	}
	e.mu.Lock()
	w.recalling = false
	for i := len(r.Batches) - 1; i >= 0; i-- {
		b := e.batches[r.Batches[i].Batch]
		if b == nil || b.w != w {
			continue
		}
		from := b.lo + r.Batches[i].From
		if !b.dead {
			if from < b.next || from > b.hi {
				e.mu.Unlock()
				return fmt.Errorf("%w: %d returned of a batch %d to %d", wire.ErrMalformed, from, b.next, b.hi)
			}
			rest := span{from, b.hi}
			w.reduce(b, rest.len())
			w.given -= rest.len()
			b.hi = from
			b.call.giveBack(rest)
			e.enqueue(b.call)
		}
		if r.Batches[i].From == 0 { // the worker holds nothing of the batch any more
			w.remove(b)
		}
	}
	if r.Leaving && !w.ours { // else the engine has ended it meanwhile
		w.leaving = true
		e.drain(w)
	}
	e.freed(w)
	batches := e.dispatch()
	e.mu.Unlock()
	e.send(batches)
	return nil
}

// rebalance recalls tasks for idle workers that busy ones have not started, and
// tasks that wait behind an unwanted one that does not end. It returns when to
// look again, and the workers to recall from.
func (e *Engine) rebalance(now time.Time) (again time.Time, recall []*worker) {
	free := 0
	if e.ring == nil {
		free = e.count[idle] + e.count[slot]
	}
	if e.spare == 0 || free == 0 && e.abandoned == 0 {
		return time.Time{}, nil
	}
	if free > 0 {
		again = now.Add(balanceInterval)
	}
	for w := range e.workers {
		if w.state == gone || w.recalling || w.alone || w.spare() == 0 {
			continue
		}
		switch {
		case w.blocked():
			if now.Sub(w.batches[0].at) < balanceInterval {
				again = now.Add(balanceInterval)
				continue
			}
		case free == 0:
			continue
		default:
			// Tasks that came just now, or are known to be short, will be done
			// before they could be moved.
			age := now.Sub(w.batches[len(w.batches)-1].at)
			if age < balanceInterval || w.seconds > age.Seconds() && w.seconds < 2*balanceInterval.Seconds() {
				continue
			}
			free--
		}
		if b := w.batches[0]; !b.dead {
			// The running task has taken this long already, however short the
			// estimate.
			for _, stats := range []*funcStats{b.call.stats, &b.call.own} {
				stats.seconds = max(stats.seconds, min(now.Sub(b.heard).Seconds(), 2*announceSeconds))
			}
		}
		w.recalling, w.late = true, true
		e.reclass(w)
		recall = append(recall, w)
	}
	return again, recall
}
