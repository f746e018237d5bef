package engine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
)

// Handle handles a message of the worker's.
func (w *worker) Handle(kind wire.Kind, frames [][]byte) {
	e := w.engine
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
	case wire.KindDone: // its initializer has failed, which Lost says
	default:
		err = fmt.Errorf("%w: an unexpected %v", wire.ErrMalformed, kind)
	}
	if err != nil {
		w.proc.Kill("it sent an invalid message: " + err.Error())
	}
}

// Handled decides what follows from results, and delivers them.
func (w *worker) Handled() {
	if !w.heard {
		return
	}
	w.heard = false
	w.engine.mu.Lock()
	w.engine.release()
	came := w.came
	if w.came = nil; came == nil {
		return
	}
	for _, a := range *came {
		w.engine.arrive(a)
	}
	clear(*came)
	*came = (*came)[:0]
	arrivals.Put(came)
}

// arrivals are used by one worker after another: most have none.
var arrivals = sync.Pool{New: func() any { return new([]arrival) }}

// comes adds an outcome to those that Handled delivers. A report of a start alone has none.
func (w *worker) comes(a arrival) {
	if a.call == nil && a.parcel == 0 {
		return
	}
	if w.came == nil {
		w.came = arrivals.Get().(*[]arrival)
	}
	*w.came = append(*w.came, a)
}

// arrival is an outcome that has come, and the objects that it refers to.
type arrival struct {
	call   *Call // nil if the outcome is unwanted
	o      Outcome
	by     *worker
	parcel uint64 // 0 for no objects
}

func (e *Engine) results(w *worker, frames [][]byte) error {
	var r wire.Results
	if err := r.Unpack(frames); err != nil {
		return err
	}
	w.heard = true
	e.mu.Lock()
	defer e.mu.Unlock()
	b := w.find(r.Batch)
	if b == nil { // no longer this worker's
		w.comes(arrival{by: w, parcel: r.Parcel})
		return nil
	}
	if !b.sent {
		return fmt.Errorf("%w: results of a batch that it was not sent", wire.ErrMalformed)
	}
	lo, hi := b.lo+r.From, b.lo+r.From+r.Count
	if lo != b.next || hi > b.hi && !b.dead {
		return fmt.Errorf("%w: results %d to %d of a batch %d to %d", wire.ErrMalformed, lo, hi, b.next, b.hi)
	}
	for _, failed := range r.Errors {
		if failed.Index < r.From || failed.Index >= r.From+r.Count {
			return fmt.Errorf("%w: task %d failed, of results %d to %d", wire.ErrMalformed, failed.Index, r.From, r.From+r.Count)
		}
	}
	for i, x := range r.Times {
		if x.Index < r.From || x.Index >= r.From+r.Count || i > 0 && x.Index <= r.Times[i-1].Index {
			return fmt.Errorf("%w: the time of task %d, of results %d to %d", wire.ErrMalformed, x.Index, r.From, r.From+r.Count)
		}
	}
	c := b.call
	b.next, b.heard, b.run = hi, time.Now(), -1
	if r.Started >= 0 {
		b.run = b.lo + r.Started
	}
	w.late = false
	if r.Count > 0 {
		c.own.learn(max(1, float64(r.Nanos)) / 1e9 / float64(r.Count))
		c.perResult = average(c.perResult, frames[1:], r.Count)
		w.done += r.Count
		e.young = 0
	}
	a := arrival{by: w, parcel: r.Parcel}
	if !b.dead && r.Count > 0 {
		var failures []Failure
		for i := range r.Errors {
			failed := b.lo + r.Errors[i].Index
			failures = append(failures, Failure{failed, 1 + c.reruns[failed], &r.Errors[i].Err, c.mayFail(failed)})
		}
		o := Outcome{from: w, Lo: lo, N: r.Count, Failures: failures, Worker: w.name, Each: time.Duration(r.Nanos / int64(r.Count)), Reruns: c.rerunsOf(lo, hi)}
		if len(failures) < r.Count || c.opts.KeepFailed && len(frames) > 1 {
			o.Outputs = frames[1:]
		}
		o.timing = e.timed(b, &r, frames[1:])
		a.call, a.o = c, o
		e.claim(c, o)
	}
	w.comes(a)
	if (r.Stuck || r.Ended) && !b.dead {
		// The batch may have stopped before its end: at an error, or for a
		// recall whose answer is still to come.
		b.giveBack(b.left())
		b.hi = b.next
	}
	b.tally()
	if r.Stuck {
		b.run = hi - 1
		b.abandon()
	}
	if r.Ended {
		w.remove(b)
	}
	e.freed(w)
	return nil
}

// arrive delivers an outcome, wanted or not. If the caller is to say which of its failures are final, another goroutine does:
// that may take its time.
func (e *Engine) arrive(a arrival) {
	if a.o.undecided() {
		go e.take(a)
		return
	}
	e.take(a)
}

func (e *Engine) take(a arrival) {
	if a.call != nil {
		e.deliver(a.call, a.o)
	}
	if a.parcel > 0 {
		e.opts.WhenHeld(func() { a.by.proc.Post(wire.MustPack(wire.KindTaken, wire.Taken{Parcel: a.parcel})...) })
	}
}

// undecided reports whether some of the failures may not be final.
func (o *Outcome) undecided() bool {
	return slices.ContainsFunc(o.Failures, func(f Failure) bool { return f.may })
}

func (o Outcome) span() span { return span{o.Lo, o.Lo + o.N} }

// rerunsOf returns how often the tasks lo to hi-1 were lost, nil if none was.
func (c *Call) rerunsOf(lo, hi int) (some map[int]int) {
	for task := lo; task < hi && len(c.reruns) > 0; task++ {
		if n := c.reruns[task]; n > 0 {
			if some == nil {
				some = map[int]int{}
			}
			some[task] = n
		}
	}
	return some
}

// claim notes that an outcome is on its way to the source. If the call stops at
// an error, the tasks behind a failed one become unwanted.
func (e *Engine) claim(c *Call, o Outcome) {
	c.delivering = append(c.delivering, o.span())
	if len(o.Failures) > 0 && c.opts.StopOnError && !o.undecided() {
		e.giveUp(c, o.Failures[0].Index+1)
	}
}

// deliver hands an outcome to the source. The last outcome ends the call.
func (e *Engine) deliver(c *Call, o Outcome) {
	c.judge(&o)
	unread := c.source.Deliver(o)
	e.tasksEnded(c, &o, unread)
	s, failed := o.span(), len(o.Failures)+len(unread)
	e.mu.Lock()
	c.came.Done += s.len() - failed - len(o.Again)
	if c.came.Failed += failed; c.came.why == "" && e.opts.Events.On() {
		switch {
		case len(o.Failures) > 0:
			c.came.why = cut(o.Failures[0].Err)
		case len(unread) > 0:
			c.came.why = unreadable
		}
	}
	if len(unread) > 0 && c.opts.StopOnError {
		e.giveUp(c, unread[0]+1)
	}
	if len(o.Failures) > 0 && c.opts.StopOnError {
		e.giveUp(c, o.Failures[0].Index+1)
	}
	i := slices.Index(c.delivering, s)
	c.delivering = slices.Delete(c.delivering, i, i+1)
	if len(c.reruns)+len(c.failures) > 0 {
		for lo, hi := range o.Delivered() {
			for task := lo; task < hi; task++ {
				delete(c.reruns, task)
				delete(c.failures, task)
			}
		}
	}
	for _, task := range o.Again {
		e.postpone(c, task, o.from)
	}
	e.stats.TasksDone += s.len() - failed - len(o.Again)
	e.stats.TasksFailed += failed
	held := c.held.n
	e.settle(c)
	if failed+len(o.Again) > 0 || c.finished && held > 0 { // tasks may have become unwanted, or run again
		e.release()
		return
	}
	e.tell() // nothing else follows from it
	e.unlock(busy)
}

// returned takes back the tasks that a worker had not started.
func (e *Engine) returned(w *worker, frames [][]byte) error {
	var r wire.Returned
	if err := wire.Unpack(frames, &r); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.release()
	w.recalling = false
	w.changed()
	for _, back := range slices.Backward(r.Batches) {
		b := w.find(back.Batch)
		if b == nil {
			continue
		}
		if !b.sent {
			return fmt.Errorf("%w: a batch returned that it was not sent", wire.ErrMalformed)
		}
		if !b.dead {
			rest := span{b.lo + back.From, b.hi}
			if rest.lo < b.next || rest.lo > b.hi {
				return fmt.Errorf("%w: %d returned of a batch %d to %d", wire.ErrMalformed, rest.lo, b.next, b.hi)
			}
			w.given -= rest.len()
			b.hi = rest.lo
			b.tally()
			b.giveBack(rest)
		}
		if back.From == 0 { // the worker holds nothing of the batch any more
			w.remove(b)
		}
	}
	if r.Leaving && !w.ours { // else the engine has ended it meanwhile
		w.leaving, w.broken = true, w.broken || r.Broken
		e.drain(w)
	}
	e.freed(w)
	return nil
}

// rebalance recalls tasks for idle workers that busy ones have not started, and
// tasks that wait behind an unwanted one that does not end.
func (e *Engine) rebalance(now time.Time) {
	s := e.survey()
	if s.spare == 0 {
		return
	}
	free := 0
	if !slices.ContainsFunc(e.queue, (*Call).hasOthers) { // tasks that have failed may wait for another worker
		free = s.free()
	}
	for _, w := range e.workers {
		if w.recalling || w.holds.suspects > 0 || w.spare() == 0 {
			continue
		}
		switch {
		case w.blocked():
			if now.Sub(w.batches.first.at) < balanceInterval {
				continue
			}
		case free == 0:
			continue
		default:
			// Tasks that came just now, or are known to be short, will be done
			// before they could be moved.
			age := now.Sub(w.batches.last.at)
			if age < balanceInterval || w.holds.time > age && w.holds.time < 2*balanceInterval {
				continue
			}
			free--
		}
		if b := w.batches.first; !b.dead {
			// The running task has taken this long already, however short the
			// estimate.
			own := &b.call.own
			own.seconds = max(own.seconds, min(now.Sub(b.heard).Seconds(), 2*announceSeconds))
		}
		w.recall()
	}
}
