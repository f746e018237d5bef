package engine

import (
	"errors"
	"math"
	"time"

	"github.com/fiber-go/fiber/internal/wire"
	"github.com/fiber-go/fiber/transport"
)

// slots returns how many tasks all the pool's workers could run at a time.
func (e *Engine) slots() int {
	return max(1, e.target, e.alive) * e.opts.Concurrency
}

// dispatch hands out all the tasks that workers have room for. The batches are
// in the pending table; the caller sends them after releasing the lock.
func (e *Engine) dispatch() []*batch {
	var batches []*batch
	for len(e.suspects) > 0 {
		w := e.lists[idle].first
		if w == nil {
			e.reserve()
			break
		}
		s := &e.suspects[0]
		n := min(e.piece(s), e.remaining(w))
		w.reserved = false
		batches = append(batches, e.batch(w, s.call, span{s.lo, s.lo + n}, true))
		if s.lo += n; s.len() == 0 {
			e.suspects = e.suspects[1:]
		}
		if len(e.suspects) == 0 {
			e.unreserve()
		}
	}
	for e.ring != nil {
		c := e.ring
		w := e.pick(c)
		if w == nil {
			break
		}
		n := e.size(c, e.remaining(w))
		b := e.batch(w, c, c.take(n), false)
		e.ring = c.next
		if !c.hasWork() {
			e.dequeue(c)
		}
		batches = append(batches, b)
	}
	e.plan()
	return batches
}

// pick chooses a worker for a call's next tasks: an idle one, one with a free
// slot, or, for tasks known to be short, one that is busy with short ones. Very
// short tasks stay with the busy workers until there is enough work for more. A
// call of several tasks must first show that its own are short.
func (e *Engine) pick(c *Call) *worker {
	seconds := c.seconds()
	short := seconds >= 0 && seconds <= pipelineTask && e.opts.MaxAttempts > 1 &&
		(c.own.seconds >= 0 || c.total == 1 && !c.open)
	if w := e.lists[room].first; w != nil && short && seconds < wakeSeconds &&
		e.load+seconds*float64(c.waiting()) < spreadSeconds*float64(e.up-e.count[idle]) {
		return w
	}
	for _, class := range []class{idle, slot} {
		if w := e.lists[class].first; w != nil {
			return w
		}
	}
	if !short {
		return nil
	}
	return e.lists[room].first
}

// remaining returns how many tasks a worker may still be given.
func (e *Engine) remaining(w *worker) int {
	if e.opts.MaxTasks == 0 {
		return math.MaxInt
	}
	return e.opts.MaxTasks - w.given
}

// size returns how many of a call's tasks to put in the next batch.
func (e *Engine) size(c *Call, most int) int {
	unit := max(1, c.opts.Chunk)
	n := unit
	if seconds := c.own.seconds; seconds >= 0 {
		if c.opts.Chunk > 0 {
			n = unit * min(max(1, int(chunkSeconds/(seconds*float64(unit)))), max(1, chunkTasks/unit))
		} else {
			n = min(int(batchSeconds/seconds), growth*max(1, c.largest))
		}
		// Half of an even share at most, so that all end at about the same
		// time, among as many workers as the work is worth.
		waiting := c.waiting()
		worth := int(seconds * float64(waiting) / spreadSeconds)
		n = min(n, max(unit, waiting/(2*max(1, min(worth, e.slots())))))
	}
	if c.cap > 0 {
		n = min(n, c.cap)
	}
	if c.perTask > 0 && c.opts.Chunk == 0 {
		n = min(n, int(batchBytes/c.perTask))
	}
	return max(1, min(n, most))
}

// piece returns how many tasks of a suspect run together: one, or several if
// they are so short that together they take batchSeconds at most, but never so
// many that a worker would be left out.
func (e *Engine) piece(s *suspect) int {
	seconds := s.call.own.seconds
	if seconds < 0 {
		return 1
	}
	return max(1, min(int(batchSeconds/seconds), s.len()/(2*e.slots())))
}

// batch makes a batch of a call's tasks and enters it in a worker's row of the
// pending table.
func (e *Engine) batch(w *worker, c *Call, s span, solo bool) *batch {
	e.lastID++
	seconds := c.seconds()
	b := &batch{id: e.lastID, w: w, call: c, lo: s.lo, n: s.len(), next: s.lo, hi: s.hi, run: -1, solo: solo, cost: max(0, seconds),
		tell: solo || e.opts.MaxAttempts == 1 || seconds < 0 || seconds >= announceSeconds}
	b.at = time.Now()
	b.heard = b.at
	b.size = int(c.perTask * float64(s.len()))
	c.largest = max(c.largest, s.len())
	w.alone = w.alone || solo
	e.batches[b.id] = b
	w.unsent = append(w.unsent, b)
	w.add(b)
	w.bytes += b.size
	if e.opts.MaxTasks > 0 && w.given >= e.opts.MaxTasks {
		e.drain(w)
	}
	e.reclass(w)
	return b
}

// send sends batches. Each worker's batches are sent in the order in which they
// were handed out, whichever goroutines call send: a later batch may take hours
// and must not run first.
func (e *Engine) send(batches []*batch) {
	for _, b := range batches {
		w := b.w
		e.mu.Lock()
		for !w.sending && len(w.unsent) > 0 {
			next := w.unsent[0]
			w.unsent[0] = nil
			w.unsent = w.unsent[1:]
			w.sending = true
			e.mu.Unlock()
			e.post(next)
			e.mu.Lock()
			w.sending = false
		}
		e.mu.Unlock()
	}
}

// post encodes a batch and posts it. If the worker dies meanwhile, lost takes
// the batch back.
func (e *Engine) post(b *batch) {
	// A batch that is abandoned before it is sent is still sent, followed by
	// its cancellation, so that the worker reports its end.
	value, err := b.call.source.Encode(b.lo, b.lo+b.n)
	if err != nil {
		e.unsendable(b, err)
		return
	}
	var flags wire.Flags
	if b.tell {
		flags |= wire.Announce
	}
	if b.brisk() {
		flags |= wire.Inline
	}
	if b.call.opts.StopOnError {
		flags |= wire.StopOnError
	}
	msg := wire.Batch{ID: b.id, Call: b.call.id, Lo: b.lo, Count: b.n, Func: b.call.name,
		Timeout: int64(b.call.opts.Timeout), Flags: flags}
	frames := msg.Pack(value)
	if err := b.w.proc.Post(frames...); err != nil {
		if size := (*transport.SizeError)(nil); errors.As(err, &size) {
			e.unsendable(b, err)
		}
		return
	}
	if b.call.leads != b.w {
		b.w.proc.Attend()
	}
	e.sent(b, value)
}

// average updates the average size of one value with the size of n more.
func average(each float64, value [][]byte, n int) float64 {
	bytes := 0
	for _, f := range value {
		bytes += len(f)
	}
	now := float64(bytes) / float64(n)
	if each == 0 {
		return now
	}
	return (each + now) / 2
}

// sent records how large a batch was. A cancellation or a recall that was sent
// meanwhile may have overtaken the batch, and is sent again.
func (e *Engine) sent(b *batch, value [][]byte) {
	e.mu.Lock()
	c := b.call
	c.perTask = average(c.perTask, value, b.n)
	dead, cut, from := b.dead, c.cut, c.limit
	if c.finished {
		from = 0
	}
	e.mu.Unlock()
	if dead {
		b.w.cancel(c.id, from)
	}
	if cut {
		b.w.recall()
	}
}

// unsendable takes back a batch that could not be encoded or is too large. A
// single task fails; several are tried again in smaller batches.
func (e *Engine) unsendable(b *batch, cause error) {
	var input *InputError
	e.mu.Lock()
	c, w := b.call, b.w
	if _, ok := e.batches[b.id]; !ok {
		e.mu.Unlock()
		return
	}
	bad := -1
	switch {
	case b.dead: // it is unwanted
	case errors.As(cause, &input) && input.Index >= b.next && input.Index < b.hi:
		bad, cause = input.Index, input.Err
	case b.left().len() == 1:
		bad = b.next
	default:
		c.cap = max(1, b.left().len()/2)
	}
	left := b.left()
	w.remove(b)
	w.given -= left.len()
	tell := func() {}
	switch {
	case b.dead:
	case bad >= 0:
		c.giveBack(span{bad + 1, left.hi})
		c.giveBack(span{left.lo, bad})
		c.delivering = append(c.delivering, span{bad, bad + 1})
		tell = e.failedAt(c, bad)
	default:
		c.giveBack(left)
	}
	e.enqueue(c)
	e.freed(w)
	batches := e.dispatch()
	e.mu.Unlock()
	tell()
	if bad >= 0 {
		e.delivered(c, span{bad, bad + 1}, nil, []Failure{{bad, cause}})
	}
	e.send(batches)
}

// reserve keeps workers free for suspects, which run only on workers that hold
// nothing else.
func (e *Engine) reserve() {
	kept, wanted := 0, 0
	for w := range e.workers {
		if w.reserved || w.alone {
			kept++
		}
	}
	for _, s := range e.suspects {
		wanted += s.len()
	}
	for kept < wanted {
		var best *worker
		for w := range e.workers {
			if w.state == ready && !w.reserved && !w.alone && w.abandoned == 0 && (best == nil || w.held < best.held) {
				best = w
			}
		}
		if best == nil {
			return
		}
		best.reserved = true
		e.reclass(best)
		kept++
	}
}

// unreserve releases the reserved workers once no suspects are left.
func (e *Engine) unreserve() {
	if len(e.suspects) > 0 {
		return
	}
	for w := range e.workers {
		if w.reserved {
			w.reserved = false
		}
		e.reclass(w)
	}
}
